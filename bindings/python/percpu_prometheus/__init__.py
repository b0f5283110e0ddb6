# SPDX-License-Identifier: MIT
"""A drop-in for prometheus_client's multi-process mode.

Import this module before metrics are made. If PROMETHEUS_MULTIPROC_DIR is set when prometheus_client
is imported, the processes of that directory count in one file, and a scrape reads it.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from ._directory import directory
from ._hook import wait_no_more, when_imported
from ._say import said, say_once

__all__ = ["Status", "activate", "status"]


class Status(NamedTuple):
    """What the drop-in does in this process."""

    active: bool  # metrics that are made now are to count in a segment
    methods: bool  # by methods in C
    private: tuple[str, ...]  # names of metrics that this process counts for itself
    lost: int  # updates that could not be counted
    said: tuple[str, ...]  # what was logged


def activate(*, methods: bool = True) -> bool:
    """Let metrics that are made from now on count in the directory's file.

    The import of prometheus_client does so if PROMETHEUS_MULTIPROC_DIR is set. With methods, inc(),
    set(), observe() and labels() are in C. Returns False where the library is not to be had.
    """
    wait_no_more()  # for an import, which the next line may be
    return _switch_on(on=True, methods=methods)


def status() -> Status:
    """Tell what the drop-in does in this process."""
    if f"{__name__}._replace" not in sys.modules:
        return Status(False, False, (), 0, said())
    from . import _replace

    return Status(*_replace.state(), said())


def _switch_on(*, on: bool, methods: bool) -> bool:
    try:
        from . import _replace
    except ImportError as e:
        say_once(f"prometheus_client's own multi-process mode goes on: {e}")
        return False
    _replace.replace()
    if on:
        _replace.switch_on(methods=methods)
    return True


def _start() -> None:
    """Do what the environment says, at the import of prometheus_client, which must not fail."""
    try:
        _switch_on(on=directory() is not None, methods=True)
    except Exception as e:  # noqa: BLE001
        say_once(f"prometheus_client's own multi-process mode goes on: {e!r}")


when_imported(_start)
