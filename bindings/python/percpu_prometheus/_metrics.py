# SPDX-License-Identifier: MIT
"""Methods of prometheus_client's metrics that its own multi-process mode refuses."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import metrics, values

from percpu import Reader, _core

from ._directory import directory
from ._place import place_of
from ._say import reason_of, say_once
from ._values import OVERFLOW

# Metrics of this process whose type a segment does not tell, by their names in it.
types: dict[str, str] = {}

_Metric = metrics.MetricWrapperBase


def _values_of(child: Any) -> Iterator[_core.Value]:
    for attribute in list(vars(child).values()):
        for value in attribute if isinstance(attribute, list) else (attribute,):
            if isinstance(value, _core.Value) and value.role != _core.ROLE_HISTOGRAM_BUCKET:
                yield value


def _remove_series(child: Any) -> None:
    """Remove the series of a child for all processes."""
    for value in _values_of(child):
        series = value.handle
        if series is None:
            continue
        try:
            if value.role in (_core.ROLE_GAUGE, _core.ROLE_RECENT):
                value.set(0)  # the share of this process, if the series begins anew
            series.remove()
        except OSError as e:
            if series.overflow is not None:
                continue  # it has no series of its own
            say_once(f"a series of {child} was not removed: {reason_of(e)}")


def _take_children(metric: Any, which: Callable[[tuple[str, ...]], bool]) -> list[Any]:
    with metric._lock:
        return [metric._metrics.pop(key) for key in list(metric._metrics) if which(key)]


def _is_counted(metric: Any) -> bool:
    """Tell whether the metric has children, which count in a segment."""
    return bool(metric._is_parent()) and issubclass(values.ValueClass, _core.Value)


def _series_in_file(metric: Any) -> list[tuple[str, ...]]:
    """Return the values of labels of all series that any process has made of the metric."""
    folder = directory()
    if folder is None:
        return []
    names, labels = {metric._name, metric._name + "_total"}, tuple(metric._labelnames)
    n = len(labels)  # an enum has one more, for its state
    try:
        with Reader(place_of(folder, values.ValueClass._identify).path) as reader:
            all_series = reader.read()
    except OSError as e:
        say_once(f"series of other processes stay in {metric}: {reason_of(e)}")
        return []
    found = (
        s.label_values[:n] for s in all_series if s.name in names and s.label_names[:n] == labels
    )
    return [key for key in dict.fromkeys(found) if key != (OVERFLOW,) * n]  # which stays


def _take_all(metric: Any, which: Callable[[tuple[str, ...]], bool]) -> list[Any]:
    """Take such children, among them those that only other processes have made."""
    for series in _series_in_file(metric):
        if which(series):
            metric.labels(*series)
    return _take_children(metric, which)


def _remove(original: Any) -> Any:
    def remove(self: Any, *labelvalues: Any) -> None:
        if not _is_counted(self) or len(labelvalues) != len(self._labelnames):
            original(self, *labelvalues)
            return
        wanted = tuple(str(v) for v in labelvalues)
        mine = _take_children(self, lambda key: key == wanted)
        for child in mine or _take_all(self, lambda key: key == wanted):
            _remove_series(child)

    return remove


def _remove_by_labels(original: Any) -> Any:
    def remove_by_labels(self: Any, labels: dict[str, str]) -> None:
        known = isinstance(labels, dict) and set(labels) <= set(self._labelnames)
        if not _is_counted(self) or not labels or not known:
            original(self, labels)
            return
        wanted = {self._labelnames.index(k): str(v) for k, v in labels.items()}
        for child in _take_all(self, lambda key: all(key[i] == v for i, v in wanted.items())):
            _remove_series(child)

    return remove_by_labels


def _clear(original: Any) -> Any:
    def clear(self: Any) -> None:
        if not _is_counted(self):
            original(self)
            return
        for child in _take_all(self, lambda key: True):
            _remove_series(child)

    return clear


def _show(metric: Any, name: str, labels: dict[str, str], mode: str) -> Any:
    """Return a gauge of this process with these labels beside those of the metric."""
    names = tuple(metric._labelnames) + tuple(labels)
    texts = tuple(metric._labelvalues) + tuple(str(v) for v in labels.values())
    doc = metric._documentation
    return values.ValueClass("gauge", name, name, names, texts, doc, multiprocess_mode=mode)


def _info(original: Any) -> Any:
    """An info is a gauge that is 1 while a process lives that has set it."""

    def info(self: Any, val: dict[str, str]) -> None:
        original(self, val)
        if not issubclass(values.ValueClass, _core.Value):
            return
        types[self._name + "_info"] = "info"
        texts = {str(k): v for k, v in val.items()}
        shown = _show(
            self,
            self._name + "_info",
            dict(sorted(texts.items(), key=lambda item: item[0])),
            "livemax",
        )
        former, self._percpu_shown = getattr(self, "_percpu_shown", None), shown
        if former is not None:
            former.set(0)
        shown.set(1)

    return info


def _tell_states(metric: Any) -> None:
    """The state that a living process has set last is 1, and all others are 0."""
    gauges = getattr(metric, "_percpu_states", None)
    if gauges is None:
        types[metric._name] = "stateset"
        gauges = metric._percpu_states = [
            _show(metric, metric._name, {metric._name: state}, "livemostrecent")
            for state in metric._states
        ]
    current = metric._value
    gauges[current].set(1)
    for i, gauge in enumerate(gauges):
        if i != current:
            gauge.set(0)


def _state(original: Any) -> Any:
    def state(self: Any, state: str) -> None:
        original(self, state)
        if issubclass(values.ValueClass, _core.Value):
            _tell_states(self)

    return state


def _enum_init(original: Any) -> Any:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self._is_observable() and issubclass(values.ValueClass, _core.Value):
            _tell_states(self)

    return init


_parents: dict[int, weakref.ref[Any]] = {}  # metrics that make children, by their id()


def _unlock_parents() -> None:
    """In a child of fork: another thread of the parent process may have been making a series."""
    for reference in list(_parents.values()):
        metric = reference()
        if metric is not None:
            metric._lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock_parents)


def _base_init(original: Any) -> Any:
    """A signal handler may make a series while the program is making one of the same metric."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self._is_parent():
            self._lock = threading.RLock()
            number = id(self)
            _parents[number] = weakref.ref(self, lambda _: _parents.pop(number, None))

    return init


def _replace(owner: type, name: str, make: Callable[[Any], Any]) -> None:
    original = vars(owner)[name]
    setattr(owner, name, functools.wraps(original)(make(original)))


def install() -> None:
    """Replace the methods."""
    for name, make in (
        ("remove", _remove),
        ("remove_by_labels", _remove_by_labels),
        ("clear", _clear),
    ):
        if hasattr(_Metric, name):
            _replace(_Metric, name, make)
    _replace(_Metric, "__init__", _base_init)
    _replace(metrics.Info, "info", _info)
    _replace(metrics.Enum, "state", _state)
    _replace(metrics.Enum, "__init__", _enum_init)


def install_in_c() -> bool:
    """Replace the methods that count by those in C. Returns False in a further interpreter."""
    return _core.install_methods(
        metrics.Counter, metrics.Gauge, metrics.Histogram, metrics.Summary, _Metric
    )
