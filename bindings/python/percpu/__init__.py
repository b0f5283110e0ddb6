"""Per-CPU data: counts of all processes in one file, read from outside."""

from percpu._core import Error, Segment

__all__ = ["Error", "Segment"]
