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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Okabe and Ito's colors, which all readers can tell apart.
OURS, OTHERS, GREY, INK = "#0072b2", "#d55e00", "#8c8c8c", "#222222"
ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1}
# Of a benchmark's conditions: no date, and nothing that differs from boot to boot.
CONDITIONS = ("CPU", "CPUs usable", "kernel", "libc", "compiler", "priority", "repetitions")
FEWEST = 21  # repetitions

ADD = "percpu_counter_add"
PLAIN = "global volatile inc"
ATOMIC = "global atomic inc"
# Of the benchmark, and of the reader.
CONTENDERS = {
    ADD: "per-CPU add (this library)",
    PLAIN: "one word, plain",
    "per-CPU atomic inc": "one word per CPU, atomic",
    ATOMIC: "one word, atomic",
    "global pthread mutex": "one word, mutex",
}

ATOMIC_ADD = "std::atomic add"
KINDS = {
    ADD: "counter",
    "percpu_counter_array_add": "counter of an array",
    "percpu_stats_add": "stats, one field",
    "percpu_stats_update, 4 fields": "stats, 4 fields at once",
    "percpu_compact_add": "compact counter",
    "percpu_wbuf_add": "write buffer, flushes included",
    "percpu_fcounter_add": "fcounter, of doubles",
    "percpu_gauge_add": "gauge",
    "percpu_histogram_record": "histogram",
    "percpu_extrema_observe": "extrema, unchanged",
    "percpu_approx_add": "approx",
    "percpu_rate_check": "rate, let through",
    "percpu_owned_gauge_add": "owned gauge",
    ATOMIC_ADD: "one atomic word, 1 thread",
}

PASS = "a pass, 100 series, {} processes"
COUNTING = PASS + " that count"
COLLECTOR = "prometheus_client collect(), 100 series, {} processes"
COUNT_NOW, HAVE_ENDED = (1, 4, 16, 64), (1, 100, 10000)
FILES = (1, 4, 16, 64, 100, 10000)
LABELED = (1, 4, 16, 64, 10000)  # 100 is too near to 64

Figures = dict[str, Any]


class Wrong(Exception):
    """What is wrong with a file, and what to do."""


@dataclass
class Plot:
    """A plot: the benchmark it is of, the rows it needs, and how it is drawn."""

    name: str
    command: str
    unit: str
    rows: list[tuple[str, int]]
    draw: Callable[[Figures], Figure]

    @property
    def benchmark(self) -> str:
        """The name of the benchmark's program and of its JSON."""
        return self.command.split()[2]


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


def ns(figures: Figures, name: str, threads: int = 1) -> float:
    """Return the median of a row."""
    for row in figures["rows"]:
        if (row["name"], row["threads"]) == (name, threads):
            return float(row["median_ns"])
    raise KeyError(name)


def lost(figures: Figures, name: str, threads: int) -> float:
    """Return the share of counts that a row has lost, in percent."""
    for row in figures["rows"]:
        if (row["name"], row["threads"]) == (name, threads):
            return float(row["lost_percent"] or 0)
    raise KeyError(name)


def short(value: float) -> str:
    """Return a figure with 3 or so digits."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


def time_of(us: float) -> str:
    """Return a time in the unit that fits it."""
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1, "µs")):
        if us >= factor:
            return f"{us / factor:.{1 if us < 10 * factor else 0}f} {unit}"
    return f"{us:.2f} µs"


def begin(figures: Figures, height: float, title: str, caption: str) -> tuple[Figure, Axes]:
    """Return a figure with a title and the conditions below it."""
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)
    figure = Figure(figsize=(7.6, height), layout=layout)
    axes = figure.add_subplot()
    where = figures["conditions"]
    machine = (
        f"{where['CPU'].replace('(R)', '')}, a guest with {where['CPUs usable']} CPUs; "
        f"Linux {where['kernel']}; {where['libc']}; {where['compiler'].split(' (')[0]}; "
        f"priority {where['priority']}"
    )
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold", color=INK)
    figure.supxlabel(
        f"{caption}\n{figures['command']}\n{machine}",
        x=0.012,
        ha="left",
        fontsize=8,
        color="#555555",
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, labelcolor=INK)
    axes.set_axisbelow(True)
    return figure, axes


def draw_threads(figures: Figures) -> Figure:
    """Draw the cost of an add, by one thread and by two: points, for the axis has no zero."""
    figure, axes = begin(
        figures,
        3.9,
        f"With 2 threads an add takes {short(ns(figures, ADD, 2))} ns, "
        f"an atomic add to one word {short(ns(figures, ATOMIC, 2))} ns",
        "Medians of interleaved repetitions; threads are pinned to CPUs of their own.",
    )
    names = list(CONTENDERS)
    for y, name in enumerate(reversed(names)):
        color = OURS if name == ADD else OTHERS
        one, two = ns(figures, name, 1), ns(figures, name, 2)
        axes.plot([one, two], [y, y], color=color, linewidth=2, alpha=0.5, zorder=2)
        axes.plot(one, y, "o", markersize=11, markerfacecolor="white", color=color, zorder=3)
        axes.plot(two, y, "o", markersize=5.5, color=color, zorder=4)
        text = f"{short(one)} → {short(two)} ns"
        missing = lost(figures, name, 2)
        if missing > 0:
            text += f", loses {missing:.0f} % of the counts"
        axes.annotate(
            text,
            (max(one, two), y),
            xytext=(12, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=9.5,
            bbox=ON_WHITE,
        )
    axes.set_xscale("log")
    axes.set_xlim(min(ns(figures, name, 1) for name in names) / 1.6, 700)
    axes.set_xticks([0.3, 1, 3, 10, 30, 100], ["0.3", "1", "3", "10", "30", "100"])
    axes.minorticks_off()
    axes.set_ylim(-0.6, len(names) - 0.2)
    axes.set_yticks(range(len(names)), [CONTENDERS[name] for name in reversed(names)])
    axes.set_xlabel("CPU time per add and thread, ns (logarithmic)")
    axes.grid(axis="x", color="#dddddd")
    axes.plot([], [], "o", markersize=11, markerfacecolor="white", color=GREY, label="1 thread")
    axes.plot([], [], "o", markersize=5.5, color=GREY, label="2 threads")
    axes.legend(loc="upper right", frameon=False, fontsize=9.5)
    return figure


def draw_kinds(figures: Figures) -> Figure:
    """Draw the cost of an update of each kind, the least first."""
    add = ns(figures, ADD)
    names = sorted(KINDS, key=lambda name: ns(figures, name), reverse=True)
    most = ns(figures, names[0])
    below = [n for n in names if n != ATOMIC_ADD and ns(figures, n) < ns(figures, ATOMIC_ADD)]
    figure, axes = begin(
        figures,
        5.4,
        f"{len(below)} of {len(names) - 1} kinds of updates take less time than one atomic add",
        "One thread, one update after the other on one object. Medians of interleaved repetitions.",
    )
    colors = [GREY if name == ATOMIC_ADD else OURS for name in names]
    axes.barh(range(len(names)), [ns(figures, name) for name in names], color=colors, height=0.7)
    for y, name in enumerate(names):
        axes.annotate(
            f"{short(ns(figures, name))} ns"
            + ("" if name == ADD else f" = {ns(figures, name) / add:.1f} adds"),
            (ns(figures, name), y),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=9,
            bbox=ON_WHITE,
        )
    axes.set_yticks(range(len(names)), [KINDS[name] for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlim(0, most * 1.35)
    axes.set_xlabel("CPU time per update, ns")
    axes.grid(axis="x", color="#dddddd")
    return figure


def draw_line(axes: Axes, points: list[tuple[int, float]], **style: Any) -> None:
    """Draw a line through points of processes and microseconds, and say what some of them are."""
    axes.plot([n for n, _ in points], [us for _, us in points], linewidth=2, **style)
    for n, us in points:
        if n in LABELED:
            axes.annotate(
                time_of(us),
                (n, us),
                xytext=(0, -16) if style["color"] == OURS else (-6, 9),
                textcoords="offset points",
                ha="center",
                color=INK,
                fontsize=9,
            )


def draw_scrape(figures: Figures) -> Figure:
    """Draw what a scrape costs by processes that count, or have counted."""

    def points(name: str, processes: tuple[int, ...]) -> list[tuple[int, float]]:
        return [(n, ns(figures, name.format(n)) / 1e3) for n in processes]

    files, ended = points(COLLECTOR, FILES), points(PASS, HAVE_ENDED)
    figure, axes = begin(
        figures,
        4.6,
        f"After 10 000 processes a scrape takes {time_of(ended[-1][1])}; "
        f"with a file for each, {time_of(files[-1][1])}",
        "100 counters; CPU time of the process that reads them: medians, of the collector of 3. "
        "Processes that count\nadd to each about 1000 times a second. The collector finds the files of "
        "processes that have ended.",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    draw_line(axes, files, color=OTHERS, marker="s", linestyle="-")
    draw_line(axes, ended[1:], color=OURS, marker="o", markerfacecolor="white", linestyle="-")
    draw_line(axes, points(COUNTING, COUNT_NOW), color=OURS, marker="o", linestyle="--")
    axes.text(1, 1.2e5, "prometheus_client, multi-process mode", color=OTHERS)
    axes.text(1, 27, "this library: processes that count", color=OURS)
    axes.text(11000, 27, "processes that have ended", color=OURS, ha="right")
    axes.set_xlim(0.7, 20000)
    axes.set_ylim(1.5, 9e6)
    axes.set_xticks([1, 4, 16, 64, 1000, 10000], ["1", "4", "16", "64", "1000", "10 000"])
    axes.set_yticks([10, 1e3, 1e5, 1e6], ["10 µs", "1 ms", "100 ms", "1 s"])
    axes.minorticks_off()
    axes.set_xlabel("processes (logarithmic)")
    axes.set_ylabel("CPU time of a scrape (logarithmic)")
    axes.grid(axis="y", color="#dddddd")
    return figure


PLOTS = (
    Plot(
        "threads",
        "./dev bench slides",
        "ns of CPU time per add and thread",
        [(name, threads) for name in CONTENDERS for threads in (1, 2)],
        draw_threads,
    ),
    Plot(
        "kinds",
        "./dev bench which",
        "ns of CPU time per update",
        [(name, 1) for name in KINDS],
        draw_kinds,
    ),
    Plot(
        "scrape",
        "./dev bench segment --benchmark_filter=processes",
        "ns of CPU time of the reader per scrape",
        [(COUNTING.format(n), 1) for n in COUNT_NOW]
        + [(PASS.format(n), 1) for n in HAVE_ENDED]
        + [(COLLECTOR.format(n), 1) for n in FILES],
        draw_scrape,
    ),
)


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
