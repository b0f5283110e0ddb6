# SPDX-License-Identifier: MIT
"""Values: what prometheus_client's metrics count in, as series of a segment."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

from prometheus_client.samples import Exemplar

from percpu import _core

from ._directory import directory
from ._place import NoFile, Place, place_of
from ._say import reason_of, say_once

HELP = 1023  # bytes of a help text in a segment
OVERFLOW = "_overflow"  # the value of all labels of that series
SLOTS = 128  # buckets that have a slot for exemplars each

_RULES = {
    "sum": _core.OWNED_SUM,
    "min": _core.OWNED_MIN,
    "max": _core.OWNED_MAX,
    "mostrecent": _core.OWNED_RECENT,
    "all": _core.OWNED_SUM | _core.OWNED_EACH,
}


class Declaration(NamedTuple):
    """What all series of a metric have in common."""

    kind: int
    name: str
    help: str
    label_names: tuple[str, ...]
    flags: int = 0
    bounds: tuple[float, ...] = ()

    def handle(self, segment: _core.Segment, values: tuple[str, ...]) -> _core.Handle:
        """Find or create the series with these values of labels."""
        handle = _core.Handle(
            segment,
            self.kind,
            self.name,
            self.help,
            self.label_names,
            values,
            self.flags,
            self.bounds,
        )
        if handle.overflow is not None:
            say_once(
                f"{self.name}: values of labels without a series of their own count in the series "
                f"{OVERFLOW}, such as these: {handle.overflow}",
                self.name,
            )
        return handle


def _help(text: object) -> str:
    """Return what the file has of a help text, which may be any object, as for prometheus_client."""
    whole = str(text).replace("\0", " ")
    return whole.encode("utf-8", "replace")[:HELP].decode("utf-8", "ignore")


def flags_of_mode(mode: str) -> int:
    """Return the rule and the flags of a gauge's multiprocess mode."""
    living = mode.startswith("live")
    return _RULES[mode[4:] if living else mode] | (0 if living else _core.OWNED_KEEP)


class Binder:
    """Finds the series of a gauge anew, in a child of fork or under another identity."""

    def __init__(self, place: Place, of: Declaration, values: tuple[str, ...]) -> None:
        self.place = place
        self.of = of
        self.values = values
        self.made: dict[_core.Segment, _core.Handle] = {}

    def handle(self) -> _core.Handle:
        """Return the series by which this process counts, or raise an OSError."""
        segment = self.place.segment()
        found = self.made.get(segment)
        if found is None:
            found = self.made.setdefault(segment, self.of.handle(segment, self.values))
        return found

    def __call__(self, value: _core.Value) -> _core.Handle | None:
        """Return that series, or None: the value keeps the former one."""
        try:
            return self.handle()
        except (OSError, NoFile) as e:
            say_once(f"{self.of.name} counts on as before: {reason_of(e)}")
            return None


class _Building(threading.local):
    """Histograms whose buckets are still being made by this thread, with the name and the labels.

    A signal handler may make the same one: it is then the later one in the list, and done first.
    """

    def __init__(self) -> None:
        self.all: list[tuple[str, tuple[str, ...], list[tuple[PercpuValue, float]]]] = []

    def find(self, name: str, values: tuple[str, ...]) -> int:
        """Return the number of the one that was begun last, or raise an error."""
        for i in reversed(range(len(self.all))):
            if self.all[i][:2] == (name, values):
                return i
        raise ValueError("it has a bucket without a sum")


_building = _Building()
private: dict[str, None] = {}  # metrics that this process counts for itself


class PercpuValue(_core.Value):
    """A number in a segment. The signature is that of prometheus_client's values."""

    __slots__ = ()
    _multiprocess = True
    _identify: Callable[[], object] = staticmethod(os.getpid)

    def __new__(cls, *args: Any, **kwargs: Any) -> PercpuValue:  # noqa: PYI034
        return super().__new__(cls)

    def __init__(
        self,
        typ: str,
        metric_name: str,
        name: str,
        labelnames: Sequence[str],
        labelvalues: Sequence[str],
        help_text: str,
        multiprocess_mode: str = "",
        **kwargs: Any,
    ) -> None:
        take_lower_case()
        try:
            of = Declaration(0, metric_name, _help(help_text), tuple(labelnames))
            self._declare(typ, name, of, tuple(labelvalues), multiprocess_mode)
        except Exception as e:  # noqa: BLE001, a program goes on without its metrics
            private[metric_name] = None
            say_once(_why_private(metric_name, e))

    def _declare(
        self, typ: str, name: str, of: Declaration, values: tuple[str, ...], mode: str
    ) -> None:
        if typ == "histogram":
            self._build_histogram(name, of, values)
            return
        place = self._place()
        if typ == "counter":
            of = of._replace(kind=_core.FCOUNTER, name=name)
            self.bind(_core.ROLE_COUNTER, of.handle(place.segment(), values))
        elif typ == "summary":
            of = of._replace(kind=_core.HISTOGRAM)
            role = _core.ROLE_SUMMARY_SUM if name.endswith("_sum") else _core.ROLE_SUMMARY_COUNT
            self.bind(role, of.handle(place.segment(), values))
        elif typ == "gauge":
            flags = flags_of_mode(mode or "all")
            of = of._replace(kind=_core.OWNED_FGAUGE, name=name, flags=flags)
            self._bind_gauge(Binder(place, of, values), mode.endswith("mostrecent"))
        else:
            raise ValueError(f"{typ} is no type that has values")

    def _place(self) -> Place:
        folder = directory()
        if folder is None:
            raise ValueError("PROMETHEUS_MULTIPROC_DIR is not set")
        return place_of(folder, self._identify)

    def _bind_gauge(self, binder: Binder, recent: bool) -> None:
        role = _core.ROLE_RECENT if recent else _core.ROLE_GAUGE
        self.bind(role, binder.handle(), 0, binder, self._identify is not os.getpid)
        if not recent:
            self.inc(0)  # a process that declares a gauge has a value

    def _build_histogram(self, name: str, of: Declaration, values: tuple[str, ...]) -> None:
        """Note a part. The last one, the bucket of +Inf, declares the histogram."""
        if name.endswith("_sum"):
            _building.all.append((of.name, values, [(self, inf)]))
            return
        of = of._replace(kind=_core.HISTOGRAM, label_names=of.label_names[:-1])
        i = _building.find(of.name, values[:-1])
        parts = _building.all[i][2]
        parts.append((self, float(values[-1])))
        if values[-1] == "+Inf":
            del _building.all[i:]
            _bind_histogram(parts, of, self._place().segment(), values[:-1])

    def set_exemplar(self, exemplar: Exemplar) -> None:
        """Store the exemplar of the last update, unless it has texts that cannot be stored."""
        if self.handle is not None:
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                self.handle.store_exemplar(exemplar.value, dict(exemplar.labels))

    def get_exemplar(self) -> Exemplar | None:
        """Return the exemplar that was stored last."""
        series = self.handle
        if series is None or not 0 <= self.cell < SLOTS:
            return None
        got = series.fetch_exemplar(self.cell)
        return None if got is None else Exemplar(*got)

    @classmethod
    def close_all_files(cls) -> None:
        """Do nothing: the segment stays open for as long as a value is in it."""


def _bind_histogram(
    parts: list[tuple[PercpuValue, float]],
    of: Declaration,
    segment: _core.Segment,
    values: tuple[str, ...],
) -> None:
    """Bind the sum and the buckets. Of buckets with one bound, only the first has observations."""
    bounds = tuple(sorted({bound for _, bound in parts[1:] if -inf < bound < inf}))
    if not bounds:
        raise ValueError("it has no finite bound")
    cells = {bound: i for i, bound in enumerate((*bounds, inf))}
    series = of._replace(bounds=bounds).handle(segment, values)
    parts[0][0].bind(_core.ROLE_HISTOGRAM_SUM, series)
    for value, bound in parts[1:]:
        value.bind(_core.ROLE_HISTOGRAM_BUCKET, series, cells.pop(bound, -1))


def _why_private(name: str, e: Exception) -> str:
    """Say why a metric is counted in each process for itself, and what to do."""
    if isinstance(e, NoFile):
        return f"each process counts for itself, and no scrape shows it: {e}"
    sentence = f"each process counts {name} for itself: {reason_of(e)}"
    if isinstance(e, OSError) and e.errno == errno.EEXIST:
        sentence += (
            ". A scrape shows the former one, until the directory is emptied and all processes "
            "are started again"
        )
    return sentence


def take_lower_case() -> None:
    """Take the name of the variable that prometheus_client has deprecated, as it does."""
    lower = os.environ.get("prometheus_multiproc_dir")
    if lower is not None and "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = lower
        warnings.warn(
            "the variable prometheus_multiproc_dir is deprecated: name it PROMETHEUS_MULTIPROC_DIR",
            DeprecationWarning,
            stacklevel=3,
        )


def MultiProcessValue(
    process_identifier: Callable[[], object] = os.getpid,
) -> type[PercpuValue]:
    """Return a class of values, for processes that this function tells apart."""

    class Identified(PercpuValue):
        __slots__ = ()
        _identify = staticmethod(process_identifier)

    return Identified
