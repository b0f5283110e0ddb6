# SPDX-License-Identifier: MIT
"""The plots: the benchmark that each is of, the rows that it needs, and how it is drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Okabe and Ito's colors, which all readers can tell apart.
OURS, OTHERS, GREY, INK = "#0072b2", "#d55e00", "#8c8c8c", "#222222"
ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1}

ADD = "percpu_counter_add"
ATOMIC = "global atomic inc"
# The names of rows, and what a reader sees.
CONTENDERS = {
    ADD: "per-CPU add (this library)",
    "global volatile inc": "one word, plain",
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

# Rows of the scrape, by processes.
PASS = "a pass, 100 series, {} processes"
COUNTING = PASS + " that count"
COLLECTOR = "prometheus_client collect(), 100 series, {} processes"
COUNT_NOW, HAVE_ENDED = (1, 4, 16, 64), (1, 100, 10000)
FILES = (1, 4, 16, 64, 100, 10000)
LABELED = (1, 4, 16, 64, 10000)  # 100 is too near to 64

Figures = dict[str, Any]


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


def row(figures: Figures, name: str, threads: int) -> dict[str, Any]:
    """Return a row of a plot's figures."""
    for found in figures["rows"]:
        if (found["name"], found["threads"]) == (name, threads):
            return found
    raise KeyError(name)


def ns(figures: Figures, name: str, threads: int = 1) -> float:
    """Return the median of a row."""
    return float(row(figures, name, threads)["median_ns"])


def lost(figures: Figures, name: str, threads: int) -> float:
    """Return the share of counts that a row has lost, in percent."""
    return float(row(figures, name, threads)["lost_percent"] or 0)


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


def label(
    axes: Axes, text: str, point: tuple[float, float], away: tuple[float, float], **style: Any
) -> None:
    """Write a text so many points away from a point."""
    axes.annotate(text, point, xytext=away, textcoords="offset points", color=INK, **style)


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
        label(axes, text, (max(one, two), y), (12, 0), va="center", fontsize=9.5, bbox=ON_WHITE)
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
        one = ns(figures, name)
        text = f"{short(one)} ns" + ("" if name == ADD else f" = {one / add:.1f} adds")
        label(axes, text, (one, y), (5, 0), va="center", fontsize=9, bbox=ON_WHITE)
    axes.set_yticks(range(len(names)), [KINDS[name] for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlim(0, ns(figures, names[0]) * 1.35)
    axes.set_xlabel("CPU time per update, ns")
    axes.grid(axis="x", color="#dddddd")
    return figure


def draw_line(axes: Axes, points: list[tuple[int, float]], **style: Any) -> None:
    """Draw a line through points of processes and microseconds, and say what some of them are."""
    axes.plot([n for n, _ in points], [us for _, us in points], linewidth=2, **style)
    for n, us in points:
        if n in LABELED:
            away = (0, -16) if style["color"] == OURS else (-6, 9)
            label(axes, time_of(us), (n, us), away, ha="center", fontsize=9)


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
    axes.set_xlim(0.5, 20000)
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
