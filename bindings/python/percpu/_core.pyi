"""libpercpu for Python: see the module percpu."""

import os
from collections.abc import Mapping
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
