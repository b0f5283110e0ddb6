# SPDX-License-Identifier: MIT
"""What a benchmark of Python has measured: rows, ratios of medians, and the JSON of all benchmarks.

The JSON has the form that bench/report.cc writes.
"""

import json
import os
import pathlib
import platform
import random
import statistics
import sysconfig
from dataclasses import dataclass, field
from typing import Any

RESAMPLES = 2000


@dataclass
class Row:
    """One operation at one number of threads."""

    name: str
    threads: int
    ns: list[float] = field(default_factory=list)  # per operation, one figure per repetition
    ops: int = 0
    lost: int | None = None  # None if no sum shows it

    def as_json(self) -> dict[str, Any]:
        """Return what the JSON says of this row."""
        return {
            "name": self.name,
            "threads": self.threads,
            "n": len(self.ns),
            "min_ns": min(self.ns),
            "max_ns": max(self.ns),
            "median_ns": statistics.median(self.ns),
            "mean_ns": statistics.fmean(self.ns),
            "deviation_ns": statistics.stdev(self.ns) if len(self.ns) > 1 else None,
            "lost": self.lost,
            "ops": self.ops,
            "repetitions_ns": self.ns,
        }


@dataclass
class Ratio:
    """One median as a multiple of another, and the interval that has it with 95 %."""

    what: str
    value: float
    low: float
    high: float

    def as_json(self, at_most: float) -> dict[str, Any]:
        """Return it as an aim of the JSON."""
        return {
            "aim": self.what,
            "at_most": at_most,
            "ratio": self.value,
            "interval": [self.low, self.high],
            "verdict": "met" if self.value <= at_most else "missed",
        }


def ratio_of(what: str, ours: Row, others: Row) -> Ratio:
    """Return how the medians of two rows compare."""
    draw = random.Random(0)

    def median(ns: list[float]) -> float:
        """Return the median of as many figures, drawn with replacement."""
        return statistics.median(draw.choices(ns, k=len(ns)))

    drawn = sorted(median(ours.ns) / median(others.ns) for _ in range(RESAMPLES))
    tail = RESAMPLES // 40
    value = statistics.median(ours.ns) / statistics.median(others.ns)
    return Ratio(what, value, drawn[tail], drawn[-1 - tail])


def cpu_model() -> str:
    """Return the name of the CPU."""
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def libc() -> str:
    """Return the name and version of the C library."""
    name, version = os.confstr("CS_GNU_LIBC_VERSION"), platform.libc_ver()
    return name or " ".join(version).strip() or "unknown"


def conditions() -> dict[str, str]:
    """Return what the figures depend on."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return {
        "CPU": cpu_model(),
        "CPUs usable": str(len(os.sched_getaffinity(0))),
        "kernel": f"{platform.release()} {platform.machine()}",
        "libc": libc(),
        "compiler": platform.python_compiler(),
        "Python": platform.python_version() + (", free-threaded" if free_threaded else ""),
        "priority": str(os.getpriority(os.PRIO_PROCESS, 0)),
    }


def text(ns: float) -> str:
    """Return a time with about three digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def print_table(lines: list[list[str]]) -> None:
    """Print a table whose columns fit their contents; the first one is left-aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]))


def write_json(
    path: str, facts: dict[str, str], skipped: dict[str, str], aims: list[Any], rows: list[Row]
) -> None:
    """Write the figures as other benchmarks do."""
    whole = {
        "conditions": facts,
        "skipped": skipped,
        "aims": aims,
        "figures": [],
        "rows": [row.as_json() for row in rows],
    }
    pathlib.Path(path).write_text(json.dumps(whole, indent="\t") + "\n", encoding="utf-8")
