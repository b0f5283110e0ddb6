# SPDX-License-Identifier: MIT
"""The plain app in uWSGI, whose processes are named by the numbers of their workers."""

import os

if os.environ.get("SERVERS_WITH") != "upstream":
    import percpu_prometheus  # noqa: F401

import uwsgi  # type: ignore[import-untyped]
from prometheus_client import values

values.ValueClass = values.MultiProcessValue(process_identifier=uwsgi.worker_id)

from plain import app

__all__ = ["app"]
