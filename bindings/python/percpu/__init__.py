# SPDX-License-Identifier: MIT
"""Per-CPU data: counts of all processes in one file, read from outside.

Segment opens a file to count in, and declares metrics in it; Reader reads all of them. Objects may be
used by any thread, and by children of fork.
"""

import sys

if not sys.platform.startswith("linux"):
    raise ImportError(f"percpu is for Linux: there is no percpu._core for {sys.platform}")

from percpu._core import (
    Counter,
    Error,
    Exemplar,
    Family,
    FCounter,
    Gauge,
    Histogram,
    HistogramSnapshot,
    OwnedGauge,
    OwnedValue,
    Reader,
    ReaderInfo,
    Segment,
    Series,
    Stats,
)

__all__ = [
    "Counter",
    "Error",
    "Exemplar",
    "FCounter",
    "Family",
    "Gauge",
    "Histogram",
    "HistogramSnapshot",
    "OwnedGauge",
    "OwnedValue",
    "Reader",
    "ReaderInfo",
    "Segment",
    "Series",
    "Stats",
]
