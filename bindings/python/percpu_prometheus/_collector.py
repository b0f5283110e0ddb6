# SPDX-License-Identifier: MIT
"""A scrape: the series of a directory's file as prometheus_client's metrics."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

from percpu import Error, Reader, Series, _core

from ._directory import absolute
from ._metrics import types
from ._place import FILE
from ._say import reason_of, say_once

_Labels = dict[str, str]
_Exemplars = dict[int, Exemplar]


class _File:
    """A reader that stays open, so that a scrape reads values and not all names anew."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.reader: Reader | None = None

    def read(self) -> tuple[Reader, list[Series]]:
        """Take a picture, of the file that has the path now."""
        try:
            return self._picture()
        except Error as e:
            if e.errno not in (errno.ESTALE, errno.EBADF, errno.ENOENT, errno.EBADMSG):
                raise
        self.reader = None
        return self._picture()

    def _picture(self) -> tuple[Reader, list[Series]]:
        if self.reader is None:
            self.reader = Reader(self.path)
        return self.reader, self.reader.read()


# Those of the paths that were read last. A scrape takes its file out meanwhile: another thread, or
# a signal handler that has interrupted the scrape, then opens one more.
_files: dict[str, _File] = {}
_FILES = 4
_le: Callable[[float], str] = floatToGoString


def samples_of_file(path: str) -> list[Metric]:
    """Return the metrics of a file."""
    file = _files.pop(path, None) or _File(path)
    reader, all_series = file.read()
    metrics = list(_metrics(reader, all_series))
    _files[path] = file
    for old in list(_files)[:-_FILES]:
        _files.pop(old, None)
    return metrics


def _metrics(reader: Reader, all_series: list[Series]) -> Iterator[Metric]:
    metric: Metric | None = None
    before = ""
    overflows: list[Series] = []
    for series in all_series:
        show = _SHOWN.get(series.kind)
        if show is None:
            continue
        if metric is None or series.name != before:
            if metric is not None and metric.samples:
                yield metric
            before = series.name
            metric = _metric_of(series)
            if series.overflows or series.invalid:
                overflows.append(series)
        show(metric, reader, series)
    if metric is not None and metric.samples:
        yield metric
    if overflows:
        yield _overflow_metric(overflows)


def _metric_of(series: Series) -> Metric:
    kind = types.get(series.name) or _TYPES[series.kind]
    name = series.name
    if kind == "histogram" and series.flags:
        kind = "summary"
    elif kind == "counter":
        name = name.removesuffix("_total")
    elif kind == "info":
        name = name.removesuffix("_info")
    return Metric(name, series.help, kind)


def _labels(series: Series) -> _Labels:
    return dict(zip(series.label_names, series.label_values))


def _exemplars(reader: Reader, series: Series) -> _Exemplars:
    return {
        e.slot: Exemplar(dict(e.labels), e.value, e.time) for e in reader.exemplars(series) or ()
    }


def _show_counter(metric: Metric, reader: Reader, series: Series) -> None:
    if series.value is None:
        return
    exemplar = _exemplars(reader, series).get(0)
    name = metric.name + "_total"
    metric.samples.append(Sample(name, _labels(series), float(series.value), None, exemplar))


def _show_stats(metric: Metric, reader: Reader, series: Series) -> None:
    for field, value in zip(series.fields, series.value or ()):
        labels = _labels(series) | {series.field: field}
        metric.samples.append(Sample(metric.name + "_total", labels, float(value)))


def _show_gauge(metric: Metric, reader: Reader, series: Series) -> None:
    if series.value is None:
        return
    if metric.type == "info" and not series.value:
        return  # a process that lives has replaced it
    metric.samples.append(Sample(series.name, _labels(series), float(series.value)))


def _show_owned(metric: Metric, reader: Reader, series: Series) -> None:
    if not series.flags & _core.OWNED_EACH:
        _show_gauge(metric, reader, series)
        return
    for owner in reader.shown(series):
        labels = _labels(series) | {"pid": owner.name}
        metric.samples.append(Sample(series.name, labels, float(owner.value)))


def _show_histogram(metric: Metric, reader: Reader, series: Series) -> None:
    if series.value is None:
        return
    bounds, counts, total = series.value
    labels, add = _labels(series), metric.samples.append
    if metric.type == "summary":
        add(Sample(series.name + "_count", labels, float(sum(counts))))
        add(Sample(series.name + "_sum", labels, total))
        return
    exemplars = _exemplars(reader, series)
    add(Sample(series.name + "_sum", labels, total))
    below = 0.0
    for i, (bound, count) in enumerate(zip((*bounds, inf), counts)):
        below += count
        le = labels | {"le": _le(bound)}
        add(Sample(series.name + "_bucket", le, below, None, exemplars.get(i)))
    add(Sample(series.name + "_count", labels, below))


def _overflow_metric(families: list[Series]) -> Metric:
    """Tell how often there was no series for values of labels, which got the overflow."""
    help_text = "How often values of labels had no series of their own."
    metric = Metric("percpu_family_overflows", help_text, "counter")
    for series in families:
        labels = {"family": series.name}
        count = float(series.overflows + series.invalid)
        metric.samples.append(Sample(metric.name + "_total", labels, count))
    return metric


_TYPES = {
    "counter": "counter",
    "fcounter": "counter",
    "stats": "counter",
    "gauge": "gauge",
    "fgauge": "gauge",
    "latest": "gauge",
    "owned_gauge": "gauge",
    "owned_fgauge": "gauge",
    "info": "gauge",
    "histogram": "histogram",
}
_SHOWN: dict[str, Callable[[Metric, Reader, Series], None]] = {
    "counter": _show_counter,
    "fcounter": _show_counter,
    "stats": _show_stats,
    "gauge": _show_gauge,
    "fgauge": _show_gauge,
    "latest": _show_gauge,
    "owned_gauge": _show_owned,
    "owned_fgauge": _show_owned,
    "info": _show_gauge,
    "histogram": _show_histogram,
}


def collect_of(original: Any) -> Any:
    """Return MultiProcessCollector.collect() for a directory with a segment.

    A directory without one is read as before: its processes may not have this module.
    """

    def collect(self: Any) -> Any:
        path = os.path.join(absolute(self._path), FILE)
        try:
            return samples_of_file(path)
        except FileNotFoundError:
            return original(self)
        except OSError as e:
            if e.errno != errno.ENOENT:
                say_once(f"{path} cannot be read: {reason_of(e)}")
                raise
            return original(self)

    return collect
