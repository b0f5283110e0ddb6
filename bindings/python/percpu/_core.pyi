# SPDX-License-Identifier: MIT
"""libpercpu for Python: see the module percpu."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias, TracebackType
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    final,
    overload,
)

from _typeshed import structseq
from typing_extensions import Self, disjoint_base

_Name: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Float: TypeAlias = SupportsFloat | SupportsIndex
_Rule: TypeAlias = Literal["sum", "min", "max", "recent"]
_Labels: TypeAlias = Mapping[str, str]
_Kind = TypeVar("_Kind", Counter, FCounter, Gauge, OwnedGauge, Histogram)

class Error(OSError):
    """A call failed: errno, and a sentence."""

@final
class Segment:
    """A segment that is open to count: of that name, or of that path."""

    def __new__(
        cls,
        name: _Name,
        *,
        create: bool = False,
        anew: bool = False,
        foreign: bool = False,
        fallback: bool = False,
        mode: int = 0,
        program: str | None = None,
    ) -> Self: ...
    @property
    def fallback(self) -> str | None:
        """Why the segment is private, as a sentence. None: it is in its file."""

    @overload
    def counter(
        self,
        name: str,
        help: str = "",
        *,
        unit: str = "",
        labels: _Labels | None = None,
        floats: Literal[False] = False,
    ) -> Counter: ...
    @overload
    def counter(
        self,
        name: str,
        help: str = "",
        *,
        unit: str = "",
        labels: _Labels | None = None,
        floats: Literal[True],
    ) -> FCounter: ...
    @overload
    def gauge(
        self,
        name: str,
        help: str = "",
        *,
        unit: str = "",
        labels: _Labels | None = None,
        owned: None = None,
    ) -> Gauge: ...
    @overload
    def gauge(
        self,
        name: str,
        help: str = "",
        *,
        unit: str = "",
        labels: _Labels | None = None,
        owned: _Rule,
    ) -> OwnedGauge: ...
    def histogram(
        self,
        name: str,
        help: str = "",
        *,
        unit: str = "",
        labels: _Labels | None = None,
        bounds: Sequence[float] | None = None,
        min: float = 0.0,
        max: float = 0.0,
        buckets_per_octave: int = 0,
        summary: bool = False,
    ) -> Histogram:
        """Find or create a histogram."""

    def stats(
        self,
        name: str,
        fields: Sequence[str],
        label: str = "field",
        help: str = "",
        *,
        unit: str = "",
        labels: _Labels | None = None,
    ) -> Stats:
        """Find or create statistics: counters that are updated and read together."""

    def info(self, name: str, labels: _Labels, help: str = "") -> None:
        """Declare a metric that tells by its labels alone, such as a version."""

    @overload
    def family(
        self,
        kind: Literal["counter"],
        name: str,
        label_names: Sequence[str],
        cap: int = 10000,
        *,
        help: str = "",
        unit: str = "",
        floats: Literal[False] = False,
    ) -> Family[Counter]: ...
    @overload
    def family(
        self,
        kind: Literal["counter"],
        name: str,
        label_names: Sequence[str],
        cap: int = 10000,
        *,
        help: str = "",
        unit: str = "",
        floats: Literal[True],
    ) -> Family[FCounter]: ...
    @overload
    def family(
        self,
        kind: Literal["gauge"],
        name: str,
        label_names: Sequence[str],
        cap: int = 10000,
        *,
        help: str = "",
        unit: str = "",
        owned: None = None,
    ) -> Family[Gauge]: ...
    @overload
    def family(
        self,
        kind: Literal["gauge"],
        name: str,
        label_names: Sequence[str],
        cap: int = 10000,
        *,
        help: str = "",
        unit: str = "",
        owned: _Rule,
    ) -> Family[OwnedGauge]: ...
    @overload
    def family(
        self,
        kind: Literal["histogram"],
        name: str,
        label_names: Sequence[str],
        cap: int = 10000,
        *,
        help: str = "",
        unit: str = "",
        bounds: Sequence[float] | None = None,
        min: float = 0.0,
        max: float = 0.0,
        buckets_per_octave: int = 0,
        summary: bool = False,
    ) -> Family[Histogram]: ...
    def join(self, name: str, resume: bool = False) -> None:
        """Be an owner of this name."""

    def leave(self) -> None:
        """Be no owner any more."""

    def close(self) -> None:
        """Close the segment. Objects of it go on counting."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

@final
class Counter:
    """A counter of integers."""

    def inc(self) -> None:
        """Add 1."""

    def add(self, n: SupportsIndex, /) -> None:
        """Add n, which is not negative."""

    def reset(self) -> None:
        """Begin anew at 0."""

    def exemplar(self, labels: _Labels, value: _Float, /) -> None:
        """Store an event: what it added, and labels such as a trace's id."""

    @property
    def value(self) -> int:
        """What was added."""

@final
class FCounter:
    """A counter of doubles."""

    def inc(self) -> None:
        """Add 1."""

    def add(self, n: _Float, /) -> None:
        """Add n, which is not negative."""

    def reset(self) -> None:
        """Begin anew at 0."""

    def exemplar(self, labels: _Labels, value: _Float, /) -> None:
        """Store an event: what it added, and labels such as a trace's id."""

    @property
    def value(self) -> float:
        """What was added."""

@final
class Gauge:
    """A level that all processes add to, and set."""

    def add(self, n: _Float, /) -> None:
        """Add n, which may be negative."""

    def set(self, v: _Float, /) -> None:
        """Set the level to v."""

    @property
    def value(self) -> float:
        """The level."""

@final
class OwnedGauge:
    """A gauge in which each process has a value, which ends with the process."""

    def add(self, n: _Float, /) -> None:
        """Add n, which may be negative, to what this process has."""

    def set(self, v: _Float, /) -> None:
        """Set what this process has to v."""

    @property
    def value(self) -> float | None:
        """What the living processes have, by the rule of the gauge. None: nothing yet."""

    @property
    def own(self) -> float | None:
        """What this process has. None: nothing yet."""

@final
class Histogram:
    """A histogram."""

    def record(self, v: _Float, /) -> None:
        """Record v. One that cannot be recorded is counted as refused."""

    def snapshot(self) -> HistogramSnapshot:
        """Return what was recorded."""

    def exemplar(self, labels: _Labels, value: _Float, /) -> None:
        """Store an event: what was recorded, and labels such as a trace's id."""

@final
class HistogramSnapshot:
    """What a histogram had when it was read."""

    @property
    def count(self) -> int:
        """How many values were recorded."""

    @property
    def sum(self) -> float:
        """Their sum."""

    @property
    def bounds(self) -> tuple[float, ...]:
        """The upper ends of the buckets but the last."""

    @property
    def counts(self) -> tuple[int, ...]:
        """How many values each bucket has."""

    @property
    def refused(self) -> int:
        """How many values could not be recorded."""

    def quantile(self, q: _Float, /) -> float | None:
        """Estimate a quantile, q from 0 to 1. None: nothing was recorded, or it is a summary."""

@final
class Stats:
    """Counters that are updated and read together."""

    def add(self, **fields: SupportsIndex) -> None:
        """Add to these fields, with one commit."""

    def add_all(self, amounts: Sequence[SupportsIndex], /) -> None:
        """Add to all fields, in their order, with one commit."""

    def snapshot(self) -> dict[str, int]:
        """Return all fields as they were at one moment."""

@final
class Family(Generic[_Kind]):
    """Series whose label values are not known in advance."""

    def labels(self, *values: str) -> _Kind:
        """Find or create the series with these values."""

    def remove(self, *values: str) -> None:
        """Remove the series with these values. labels() lets it begin anew."""

    @property
    def overflows(self) -> int:
        """How often a call, in any process, got the overflow because there was no room."""

    @property
    def invalid(self) -> int:
        """How often a call, in any process, got the overflow because of a value."""

    def __class_getitem__(cls, kind: Any, /) -> GenericAlias: ...

@final
class ReaderInfo(structseq[Any], tuple[int, float, float, int, int, int, str]):
    """Facts about a segment and a picture."""

    __match_args__: Final = ("generation", "since", "read", "cpus", "pending", "missing", "program")
    @property
    def generation(self) -> int: ...
    @property
    def since(self) -> float: ...
    @property
    def read(self) -> float: ...
    @property
    def cpus(self) -> int: ...
    @property
    def pending(self) -> int: ...
    @property
    def missing(self) -> int: ...
    @property
    def program(self) -> str: ...

@final
class OwnedValue(structseq[Any], tuple[str, int, bool, float, float]):
    """What one owner has in an owned gauge."""

    __match_args__: Final = ("name", "pid", "alive", "value", "when")
    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def alive(self) -> bool: ...
    @property
    def value(self) -> float: ...
    @property
    def when(self) -> float: ...

@final
class Exemplar(structseq[Any], tuple[int, float, float, Mapping[str, str]]):
    """One event of a counter or a histogram."""

    __match_args__: Final = ("slot", "value", "time", "labels")
    @property
    def slot(self) -> int: ...
    @property
    def value(self) -> float: ...
    @property
    def time(self) -> float: ...
    @property
    def labels(self) -> dict[str, str]: ...

@final
class Series:
    """A series of a picture, with its value."""

    @property
    def name(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def label_names(self) -> tuple[str, ...]: ...
    @property
    def label_values(self) -> tuple[str, ...]: ...
    @property
    def field(self) -> str: ...
    @property
    def fields(self) -> tuple[str, ...]: ...
    @property
    def value(self) -> Any: ...
    @property
    def since(self) -> float: ...
    @property
    def flags(self) -> int: ...
    @property
    def cap(self) -> int: ...
    @property
    def overflows(self) -> int: ...
    @property
    def invalid(self) -> int: ...

@final
class Reader:
    """Read the metrics of a segment."""

    def __new__(cls, name: _Name | int) -> Self: ...
    def read(self) -> list[Series]:
        """Take a picture of the segment, and return its series in the order of names."""

    def info(self) -> ReaderInfo:
        """Return facts about the segment and the picture."""

    def owners(self, series: Series | int, /) -> list[OwnedValue]:
        """Return the value of each owner of an owned gauge."""

    def shown(self, series: Series | int, /) -> list[OwnedValue]:
        """Return what formats show of an owned gauge that has a sample for each owner."""

    def exemplars(self, series: Series | int, /) -> list[Exemplar]:
        """Return the exemplars of a counter or a histogram, in the order of slots."""

    def close(self) -> None:
        """Free the picture, and close the file."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

# What percpu_prometheus uses.

FCOUNTER: int
HISTOGRAM: int
OWNED_FGAUGE: int
OWNED_SUM: int
OWNED_MIN: int
OWNED_MAX: int
OWNED_RECENT: int
OWNED_KEEP: int
OWNED_EACH: int
ROLE_COUNTER: int
ROLE_GAUGE: int
ROLE_RECENT: int
ROLE_HISTOGRAM_SUM: int
ROLE_HISTOGRAM_BUCKET: int
ROLE_SUMMARY_COUNT: int
ROLE_SUMMARY_SUM: int

@final
class Handle:
    """One series of a segment, to count in."""

    def __new__(
        cls,
        segment: Segment,
        kind: int,
        name: str,
        help: str | None,
        label_names: tuple[str, ...],
        label_values: tuple[str, ...],
        flags: int,
        bounds: tuple[float, ...],
        /,
    ) -> Self: ...
    @property
    def overflow(self) -> str | None: ...
    def remove(self) -> bool:
        """Remove the series for all processes. Return whether there was one in a family."""

    def store_exemplar(self, value: float, labels: dict[str, str], /) -> bool:
        """Store the exemplar of an event. Return whether it was stored."""

    def fetch_exemplar(self, slot: int, /) -> tuple[dict[str, str], float, float] | None:
        """Return labels, value and time of the exemplar in a slot."""

@disjoint_base
class Value:
    """A number of prometheus_client: a counter, a gauge, or a part of a histogram or summary."""

    @property
    def role(self) -> int: ...
    @property
    def cell(self) -> int: ...
    @property
    def handle(self) -> Handle | None: ...
    def bind(
        self,
        role: int,
        handle: Handle,
        cell: int = 0,
        binder: Callable[[Any], Handle | None] | None = None,
        always: bool = False,
        /,
    ) -> None:
        """Give the value a role and a handle: once, before it is used."""

    def inc(self, amount: float, /) -> None:
        """Add to the value."""

    def set(self, value: float, timestamp: float | None = None) -> None:
        """Set the value."""

    def get(self) -> float:
        """Return the value: of a gauge, what this process has."""

def forks() -> int:
    """Return how often this process and its ancestors were forked."""

def lost() -> int:
    """Return how often something could not be counted."""

def on_loss(callable: Callable[[int, bytes], object], /) -> None:
    """Call this, with an errno and the metric's name, when something could not be counted for the first time."""

def install_methods(
    counter: type, gauge: type, histogram: type, summary: type, base: type, /
) -> bool:
    """Replace methods of prometheus_client's metrics. Return whether that was done."""
