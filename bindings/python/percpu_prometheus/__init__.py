# SPDX-License-Identifier: MIT
"""A drop-in for prometheus_client's multi-process mode.

Import this module before metrics are made. If PROMETHEUS_MULTIPROC_DIR is set, the processes of that
directory then count in one file, and a scrape reads it.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

from ._say import said, say_once

__all__ = ["Status", "activate", "status"]


class Status(NamedTuple):
    """What the drop-in does in this process."""

    active: bool  # metrics count in a segment
    methods: bool  # by methods in C
    private: tuple[str, ...]  # names of metrics that this process counts for itself
    lost: int  # updates that could not be counted
    said: tuple[str, ...]  # what was logged


_replaced = False
_methods = False


def _replace() -> None:
    """Replace what prometheus_client has for its multi-process mode."""
    global _replaced
    from prometheus_client import multiprocess, values

    from percpu import _core

    from . import _collector, _metrics, _place, _values

    if _replaced:
        return
    _replaced = True
    _core.on_loss(_say_lost)
    values.MultiProcessValue = _values.MultiProcessValue
    collector: Any = multiprocess.MultiProcessCollector
    collector.collect = _collector.collect_of(collector.collect)
    upstream: Any = multiprocess.mark_process_dead

    def mark_process_dead(pid: object, path: str | None = None) -> None:
        """Forget the live gauges of a process that has ended: the kernel tells which have."""
        folder = _place.directory() if path is None else _place.absolute(path)
        if folder is not None:
            _place.leave(folder, str(pid))
        upstream(pid, path)

    multiprocess.mark_process_dead = mark_process_dead
    _metrics.install()


def _say_lost(number: int) -> None:
    say_once(
        f"an update was not counted: {os.strerror(number)}; "
        "percpu_prometheus.status().lost tells how many were not"
    )


def activate(*, methods: bool = True) -> bool:
    """Let metrics that are made from now on count in the directory's file.

    Importing this module does so if PROMETHEUS_MULTIPROC_DIR is set. With methods, inc(), set(),
    observe() and labels() are in C. Returns False where the library is not to be had.
    """
    global _methods
    try:
        _replace()
    except ImportError as e:
        say_once(f"prometheus_client's own multi-process mode goes on: {e}")
        return False
    from prometheus_client import values

    from . import _metrics, _values

    if not issubclass(values.ValueClass, _values.PercpuValue):
        values.ValueClass = _values.MultiProcessValue()
    if methods and not _methods:
        _methods = _metrics.install_in_c()
    return True


def status() -> Status:
    """Tell what the drop-in does in this process."""
    if not _replaced:
        return Status(False, False, (), 0, said())
    from prometheus_client import values

    from percpu import _core

    from . import _values

    active = issubclass(values.ValueClass, _values.PercpuValue)
    return Status(active, _methods, tuple(_values.private), _core.lost(), said())


def _start() -> None:
    names = ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir")
    if any(name in os.environ for name in names):
        activate()
    elif sys.platform.startswith("linux"):
        _replace()


_start()
