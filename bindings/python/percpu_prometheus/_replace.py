# SPDX-License-Identifier: MIT
"""Replaces what prometheus_client has for its multi-process mode."""

from __future__ import annotations

import errno
import logging  # noqa: F401, later there may be no descriptor to load it by
import os
from typing import Any

from prometheus_client import REGISTRY, multiprocess, values

from percpu import _core

from . import _collector, _metrics, _place, _values
from ._directory import absolute, directory
from ._say import say_once

_done: dict[str, bool] = {}


def replace() -> None:
    """Replace classes and functions, once. Metrics count as before until the drop-in is on."""
    if "replaced" in _done:
        return
    _core.on_loss(_say_lost)
    values.MultiProcessValue = _values.MultiProcessValue
    collector: Any = multiprocess.MultiProcessCollector
    collector.collect = _collector.collect_of(collector.collect)
    upstream: Any = multiprocess.mark_process_dead

    def mark_process_dead(pid: object, path: str | None = None) -> None:
        """Forget the live gauges of a process that has ended: the kernel tells which have."""
        folder = directory() if path is None else absolute(path)
        if folder is not None:
            _place.leave(folder, str(pid))
        upstream(pid, path)

    multiprocess.mark_process_dead = mark_process_dead
    _metrics.install()
    _done["replaced"] = True


def switch_on(*, methods: bool) -> None:
    """Let metrics that are made from now on count in a segment."""
    if not issubclass(values.ValueClass, _values.PercpuValue):
        _tell_of_former_metrics()
        values.ValueClass = _values.MultiProcessValue()
    if methods and "methods" not in _done:
        _done["methods"] = _metrics.install_in_c()


def state() -> tuple[bool, bool, tuple[str, ...], int]:
    """Return whether the drop-in is on, and by methods in C; private metrics; lost updates."""
    if "replaced" not in _done:
        return False, False, (), 0
    active = issubclass(values.ValueClass, _values.PercpuValue)
    return active, _done.get("methods", False), tuple(_values.private), _core.lost()


def _tell_of_former_metrics() -> None:
    """Say which metrics were made too early, and count in files that no scrape reads."""
    former = sorted(
        collector._name
        for collector in list(getattr(REGISTRY, "_collector_to_names", ()))
        if any(
            getattr(value, "_multiprocess", False)
            for value in vars(collector).values()
            if not isinstance(value, _core.Value)
        )
    )
    if former:
        say_once(
            f"{', '.join(former)}: made before percpu_prometheus was imported, and in no scrape: "
            "import it first"
        )


_WHAT = {
    errno.EDOM: "it was infinite, not a number, or too large",
    errno.ERANGE: "it or the sum was too large",
    errno.ENOTSUP: "parts of a histogram or summary cannot be set",
}


def _say_lost(number: int, name: bytes) -> None:
    why = _WHAT.get(number, os.strerror(number))
    say_once(
        f"an update of {name.decode(errors='replace')} was not counted: {why}. "
        "percpu_prometheus.status().lost tells how many were not"
    )
