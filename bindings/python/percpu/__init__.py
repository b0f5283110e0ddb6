"""Per-CPU data: counts of all processes in one file, read from outside."""

from percpu._core import Error, Exemplar, OwnedValue, Reader, ReaderInfo, Segment, Series

__all__ = ["Error", "Exemplar", "OwnedValue", "Reader", "ReaderInfo", "Segment", "Series"]
