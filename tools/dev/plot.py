#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""plot.py BENCH PICTURES: draw what benchmarks have measured.

BENCH has the benchmarks' JSON, NAME.json, and PICTURES the figures of each plot as they are
drawn. Where a benchmark's JSON is there, its figures replace those of the plot. Then each plot
is drawn from its figures, so the picture is the same wherever that is done.
"""

import io
import json
import pathlib
import statistics
import sys
from typing import Any

import matplotlib
from plot_draw import PLOTS, Figures, Plot

# Of a benchmark's conditions: no date, and nothing that differs from boot to boot.
CONDITIONS = ("CPU", "CPUs usable", "kernel", "libc", "compiler", "priority", "repetitions")
FEWEST = 21  # repetitions


class Wrong(Exception):
    """What is wrong with a file, and what to do."""


def parsed(path: pathlib.Path, command: str) -> Any:
    """Return what is in a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise Wrong(f"{path} cannot be read ({e}): {command}") from e


def kept(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a plot keeps of a benchmark's row."""
    lost, median = row["lost"], statistics.median(row["repetitions_ns"])
    if median <= 0:
        raise ValueError(f"{row['name']}: {median} ns")
    return {
        "name": row["name"],
        "threads": row["threads"],
        "median_ns": round(median, 4),
        "best_ns": round(min(row["repetitions_ns"]), 4),
        "lost_percent": None if lost is None else round(100 * lost / row["ops"], 2),
    }


def conditions_of(measured: dict[str, str]) -> dict[str, str]:
    """Return the conditions of a run; those of a run that shows nothing are wrong."""
    some = {name: measured[name] for name in CONDITIONS}
    some["kernel"] = ".".join(some["kernel"].split(".")[:2])
    if "WARNING" in measured:
        raise ValueError(measured["WARNING"])
    if int(some["repetitions"].split(",")[0]) < FEWEST:
        raise ValueError(f"repetitions: {some['repetitions']}")
    return some


def figures_of(plot: Plot, path: pathlib.Path) -> Figures:
    """Return the figures of a plot from a benchmark's JSON."""
    measured = parsed(path, plot.command)
    try:
        rows = {(row["name"], row["threads"]): kept(row) for row in measured["rows"]}
        conditions = conditions_of(measured["conditions"])
    except (KeyError, TypeError, AttributeError, ValueError, ZeroDivisionError) as e:
        raise Wrong(f"{path} has no such figures as are drawn ({e!r}): {plot.command}") from e
    lacking = [f"{name} ({threads})" for name, threads in plot.rows if (name, threads) not in rows]
    if lacking:
        raise Wrong(f"{path} lacks {'; '.join(lacking)}: {plot.command}")
    return {
        "command": plot.command,
        "conditions": conditions,
        "unit": plot.unit,
        "rows": [rows[row] for row in plot.rows],
    }


def is_old(measured: pathlib.Path) -> bool:
    """Return whether the program that writes a JSON was built after it was written."""
    program = measured.parents[1] / "release" / "bench" / measured.stem
    return program.exists() and program.stat().st_mtime > measured.stat().st_mtime


def newest(plot: Plot, bench: pathlib.Path, path: pathlib.Path) -> tuple[Figures, pathlib.Path]:
    """Return the figures of the benchmark if it has been run here, or those that were kept."""
    measured = bench / f"{plot.benchmark}.json"
    if not measured.exists() and not path.exists():
        raise Wrong(f"neither {measured} nor {path} is there: {plot.command}")
    if not measured.exists():
        return parsed(path, plot.command), path
    if is_old(measured):
        raise Wrong(
            f"{measured} is older than the program that writes it: {plot.command}, "
            f"or remove it to draw {path} as it is"
        )
    return figures_of(plot, measured), measured


def svg_of(plot: Plot, figures: Figures, source: pathlib.Path) -> str:
    """Return the picture of a plot, with nothing in it but the figures."""
    text = io.StringIO()
    try:
        figure = plot.draw(figures)
    except (KeyError, TypeError, ValueError, IndexError) as e:
        raise Wrong(f"{source} lacks figures ({e!r}): {plot.command}") from e
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def main() -> None:
    """Write figures and pictures, of all plots or of none."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    bench, pictures = map(pathlib.Path, sys.argv[1:])
    matplotlib.rcParams["svg.hashsalt"] = "percpu"
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["font.size"] = 10
    files = {}
    sources = []
    try:
        for plot in PLOTS:
            path = pictures / f"{plot.name}.json"
            figures, source = newest(plot, bench, path)
            files[path.with_suffix(".svg")] = svg_of(plot, figures, source)
            files[path] = json.dumps(figures, indent="\t", ensure_ascii=False) + "\n"
            sources.append(f"{path.with_suffix('.svg')}: from {source} ({plot.command})")
    except Wrong as e:
        sys.exit(f"plot: {e}")
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    print(*sources, sep="\n")


if __name__ == "__main__":
    main()
