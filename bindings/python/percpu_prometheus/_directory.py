# SPDX-License-Identifier: MIT
"""The directory that the environment names."""

from __future__ import annotations

import os


def directory() -> str | None:
    """Return the directory that the environment names, as prometheus_client does."""
    name = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if name is None:
        name = os.environ.get("prometheus_multiproc_dir")
    return absolute(name) if name else None


_absolute: dict[str, str] = {}


def absolute(folder: str | os.PathLike[str]) -> str:
    """Return the path of the folder: that of a relative name is what it was at first."""
    name = os.fspath(folder)
    return _absolute.setdefault(name, os.path.abspath(name))
