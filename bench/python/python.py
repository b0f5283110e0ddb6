# SPDX-License-Identifier: MIT
"""python.py [--quick] [--full] [--json FILE]: what metrics cost in Python, and a scrape of them.

prometheus_client in one process, its multi-process mode, percpu_prometheus by its class of values
alone, percpu_prometheus as it is, and the module percpu. A process of its own runs each; their
repetitions are interleaved at random, so that what else the machine does meets all of them alike.
pyperf and the like run one after the other, which is why none of them is used.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from figures import Ratio, Row, conditions, print_table, ratio_of, text, write_json
from updates import MULTI, ROWS, VARIANTS, WHOLE

HERE = Path(__file__).resolve().parent
THREADS = (1, 2)
PROCESSES = (1, 100, 10_000)
SERIES = (10, 1000, 10_000, 100_000)


class Worker:
    """A process that measures when it is told to."""

    def __init__(self, script: str, variant: str, *arguments: str) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="percpu-bench-", dir="/dev/shm")
        command = [sys.executable, str(HERE / script), variant, self.directory.name, *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args!r} has ended: {self.process.wait()}")
        return line

    def ask(self, question: object) -> float:
        """Return the figure that it answers with."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return float(self.answer())

    def no_more(self) -> None:
        """Say that nothing more will be asked."""
        assert self.process.stdin
        self.process.stdin.close()

    def end(self) -> None:
        """End the process, and remove what it made."""
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()


@contextlib.contextmanager
def workers(script: str, variants: tuple[str, ...], *arguments: str) -> Iterator[dict[str, Worker]]:
    """Run a process for each variant."""
    running: dict[str, Worker] = {}
    try:
        for variant in variants:
            running[variant] = Worker(script, variant, *arguments)
        yield running
    finally:
        for worker in running.values():
            worker.end()


def numbers(running: dict[str, Worker], ns: float) -> dict[tuple[str, str], int]:
    """Return how many operations of each row take so long."""
    found = {}
    for variant, worker in running.items():
        for row in ROWS:
            worker.ask([row, 1, 100])
            one = min(worker.ask([row, 1, 200]) for _ in range(3))
            found[variant, row] = max(10, int(ns / one))
    return found


def measure_updates(repetitions: int, ns: float) -> list[Row]:
    """Measure all rows of all variants, interleaved."""
    rows = {
        (variant, row, threads): Row(f"{row}, {variant}", threads)
        for variant in VARIANTS
        for row in ROWS
        for threads in THREADS
    }
    with workers("updates.py", VARIANTS) as running:
        n = numbers(running, ns)
        order = list(rows) * repetitions
        random.Random(0).shuffle(order)
        for variant, row, threads in order:
            measured = rows[variant, row, threads]
            measured.ns.append(running[variant].ask([row, threads, n[variant, row]]))
            measured.ops += threads * n[variant, row]
        for variant, worker in running.items():
            worker.no_more()
            for row, lost in json.loads(worker.answer()).items():
                for threads in THREADS:
                    rows[variant, row, threads].lost = None if lost is None else int(lost)
    return list(rows.values())


def counted(n: int, what: str, plural: str = "") -> str:
    """Return so many of these in words."""
    return f"{n} {what}{'' if n == 1 else plural}"


def measure_scrapes(most: int, repetitions: int) -> tuple[list[Row], dict[str, str]]:
    """Measure scrapes of at most so many series times processes. Returns what was left out, too."""
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    for processes in PROCESSES:
        for series in SERIES:
            what = f"scrape of {counted(series, 'series')}, {counted(processes, 'process', 'es')}"
            if series * processes > most:
                skipped[what] = f"more than {most} series of all processes; see --full"
                continue
            print(f"python: {what} ...", file=sys.stderr)
            with workers("scrapes.py", (MULTI, WHOLE), str(series), str(processes)) as running:
                both = {variant: Row(f"{what}, {variant}", 1) for variant in running}
                for worker in running.values():
                    worker.answer()
                for _ in range(repetitions):
                    for variant, worker in running.items():
                        both[variant].ns.append(worker.ask("scrape"))
                        both[variant].ops += 1
                rows += both.values()
    return rows, skipped


def ratios(rows: list[Row]) -> list[Ratio]:
    """Return how percpu_prometheus compares with the multi-process mode."""
    by_name = {(row.name, row.threads): row for row in rows}
    found = []
    for (name, threads), row in by_name.items():
        what, _, variant = name.rpartition(", ")
        if variant == WHOLE:
            other = by_name[f"{what}, {MULTI}", threads]
            found.append(
                ratio_of(
                    f"{what}, {counted(threads, 'thread', 's')}: {WHOLE} / {MULTI}", row, other
                )
            )
    return found


def show(rows: list[Row], found: list[Ratio]) -> None:
    """Print the figures."""
    lines = [["", "threads", "median", "best", "worst", "lost"]]
    for row in rows:
        j = row.as_json()
        times = [text(j[name]) for name in ("median_ns", "min_ns", "max_ns")]
        lines.append(
            [row.name, str(row.threads), *times, "-" if row.lost is None else str(row.lost)]
        )
    print_table(lines)
    print()
    print_table(
        [["ratio of medians", "", "95 %"]]
        + [[r.what, f"{r.value:.3f}", f"{r.low:.3f} to {r.high:.3f}"] for r in found]
    )


def main() -> int:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(prog="python", description=(__doc__ or "").partition("\n")[2])
    parser.add_argument("--quick", action="store_true", help="no more than shows that it runs")
    parser.add_argument("--full", action="store_true", help="also scrapes that take minutes")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    given = parser.parse_args()
    load = os.getloadavg()
    repetitions, ns, most, scrapes = 21, 20e6, 10**6, 7
    if given.quick:
        repetitions, ns, most, scrapes = 3, 1e6, 10**4, 2
    elif given.full:
        most = 10**7
    rows = measure_updates(repetitions, ns)
    scraped, skipped = measure_scrapes(most, scrapes)
    rows += scraped
    found = ratios(rows)
    show(rows, found)
    facts = conditions() | {
        "repetitions": f"{repetitions}, interleaved; scrapes {scrapes}",
        "load average": " ".join(f"{x:.2f}" for x in load),
    }
    if given.json:
        write_json(given.json, facts, skipped, [r.as_json(1) for r in found], rows)
    lost = [row.name for row in rows if row.lost]
    if lost:
        print(f"python: lost: {', '.join(lost)}", file=sys.stderr)
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
