"""libpercpu for Python: see the module percpu."""

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, final

from _typeshed import structseq
from typing_extensions import Self

class Error(OSError):
    """A call failed: errno, and a sentence."""

@final
class Segment:
    """A segment that is open to count."""

    def __new__(
        cls,
        name: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        create: bool = False,
        anew: bool = False,
        foreign: bool = False,
        fallback: bool = False,
        mode: int = 0,
        program: str | None = None,
    ) -> Self: ...
    def join(self, name: str, resume: bool = False) -> None:
        """Be an owner of this name."""

    def leave(self) -> None:
        """Be no owner any more: what it has in gauges is that of a dead one."""

@final
class ReaderInfo(structseq[Any], tuple[int, float, float, int, int, int, str]):
    """Facts about a segment and a picture."""

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

    def __new__(cls, name: str | bytes | os.PathLike[str] | os.PathLike[bytes] | int) -> Self: ...
    def read(self) -> list[Series]:
        """Take a picture of the segment, and return its series in the order of names."""

    def info(self) -> ReaderInfo:
        """Return facts about the segment and the picture."""

    def owners(self, series: Series | int, /) -> list[OwnedValue]:
        """Return the value of each owner of an owned gauge."""

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
    def remove(self) -> bool:
        """Remove the series for all processes. Return whether there was one in a family."""

    def store_exemplar(self, value: float, labels: dict[str, str], /) -> bool:
        """Store the exemplar of an event. Return whether it was stored."""

    def fetch_exemplar(self, slot: int, /) -> tuple[dict[str, str], float, float] | None:
        """Return labels, value and time of the exemplar in a slot."""

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
        identify: Callable[[], object] | None = None,
        binder: Callable[[Any], Handle | None] | None = None,
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

def on_loss(callable: Callable[[int], object], /) -> None:
    """Call this, with an errno, when something could not be counted for the first time."""

def install_methods(
    counter: type, gauge: type, histogram: type, summary: type, base: type, /
) -> bool:
    """Replace methods of prometheus_client's metrics. Return whether that was done."""
