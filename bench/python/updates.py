# SPDX-License-Identifier: MIT
"""updates.py VARIANT DIRECTORY: update metrics in the way of one variant, as it is told.

A process of its own for each variant, since each changes the client for all of its process. Each
line of the input is "ROW THREADS N"; the answer is how many nanoseconds one of N operations of
each thread took. The input's end is answered with a line of JSON: what each row's sum lacks.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

Loop = Callable[[int], None]
SINGLE, MULTI, VALUES, WHOLE, PLAIN = VARIANTS = (
    "prometheus_client",
    "prometheus_client, multi-process",
    "percpu_prometheus, values alone",
    "percpu_prometheus",
    "percpu",
)
LABELS = ("GET", "/orders")
AMOUNT = 0.3  # of what is observed: in the middle of the default buckets
ROWS = (
    "Counter.inc()",
    "Counter.labels().inc()",
    "Counter.inc() of a child",
    "Histogram.observe()",
    "Summary.observe()",
    "Gauge.set()",
    "Gauge.inc()",
)


class Client:
    """The metrics of prometheus_client, as it is in this process."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary

        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.counter = Counter("counter", "A counter.", **own)
        self.family = Counter("family", "Counters.", ["method", "path"], **own)
        self.children = Counter("children", "Counters.", ["method", "path"], **own)
        self.histogram = Histogram("histogram", "A histogram.", **own)
        self.summary = Summary("summary", "A summary.", **own)
        self.set = Gauge("set", "A gauge.", multiprocess_mode="livesum", **own)
        self.gauge = Gauge("gauge", "A gauge.", multiprocess_mode="livesum", **own)

    def loops(self) -> tuple[Loop, ...]:
        """Return what each row runs, so many times."""
        counter, family, child = self.counter, self.family, self.children.labels(*LABELS)
        histogram, summary, gauge, set_gauge = self.histogram, self.summary, self.gauge, self.set

        def counter_inc(n: int) -> None:
            for _ in repeat(None, n):
                counter.inc()

        def labels_inc(n: int) -> None:
            for _ in repeat(None, n):
                family.labels("GET", "/orders").inc()

        def child_inc(n: int) -> None:
            for _ in repeat(None, n):
                child.inc()

        def histogram_observe(n: int) -> None:
            for _ in repeat(None, n):
                histogram.observe(AMOUNT)

        def summary_observe(n: int) -> None:
            for _ in repeat(None, n):
                summary.observe(AMOUNT)

        def gauge_set(n: int) -> None:
            for _ in repeat(None, n):
                set_gauge.set(AMOUNT)

        def gauge_inc(n: int) -> None:
            for _ in repeat(None, n):
                gauge.inc()

        loops = (counter_inc, labels_inc, child_inc, histogram_observe, summary_observe)
        return (*loops, gauge_set, gauge_inc)

    def sums(self) -> tuple[float | None, ...]:
        """Return what was counted of each row; None where nothing shows it."""
        of = self.registry.get_sample_value
        labels = dict(zip(("method", "path"), LABELS, strict=True))
        return (
            of("counter_total"),
            of("family_total", labels),
            of("children_total", labels),
            of("histogram_count"),
            of("summary_count"),
            None,
            of("gauge"),
        )


class Plain:
    """The metrics of the module percpu."""

    def __init__(self, directory: str) -> None:
        import percpu
        from prometheus_client import Histogram

        bounds = Histogram.DEFAULT_BUCKETS[:-1]
        segment = percpu.Segment(f"{directory}/plain.percpu", create=True)
        segment.join("benchmark")
        self.counter = segment.counter("counter")
        self.family = segment.family("counter", "family", ["method", "path"])
        self.children = segment.family("counter", "children", ["method", "path"])
        self.histogram = segment.histogram("histogram", bounds=bounds)
        self.summary = segment.histogram("summary", summary=True)
        self.set = segment.gauge("set", owned="sum")
        self.gauge = segment.gauge("gauge", owned="sum")

    def loops(self) -> tuple[Loop, ...]:
        """Return what each row runs, so many times."""
        counter, family, child = self.counter, self.family, self.children.labels(*LABELS)
        histogram, summary, gauge, set_gauge = self.histogram, self.summary, self.gauge, self.set

        def counter_inc(n: int) -> None:
            for _ in repeat(None, n):
                counter.inc()

        def labels_inc(n: int) -> None:
            for _ in repeat(None, n):
                family.labels("GET", "/orders").inc()

        def child_inc(n: int) -> None:
            for _ in repeat(None, n):
                child.inc()

        def histogram_record(n: int) -> None:
            for _ in repeat(None, n):
                histogram.record(AMOUNT)

        def summary_record(n: int) -> None:
            for _ in repeat(None, n):
                summary.record(AMOUNT)

        def gauge_set(n: int) -> None:
            for _ in repeat(None, n):
                set_gauge.set(AMOUNT)

        def gauge_add(n: int) -> None:
            for _ in repeat(None, n):
                gauge.add(1)

        loops = (counter_inc, labels_inc, child_inc, histogram_record, summary_record)
        return (*loops, gauge_set, gauge_add)

    def sums(self) -> tuple[float | None, ...]:
        """Return what was counted of each row; None where nothing shows it."""
        return (
            self.counter.value,
            self.family.labels(*LABELS).value,
            self.children.labels(*LABELS).value,
            self.histogram.snapshot().count,
            self.summary.snapshot().count,
            None,
            self.gauge.value,
        )


def prepared(variant: str, directory: str) -> Client | Plain:
    """Bring this process into the state of a variant, and return its metrics."""
    if variant not in VARIANTS:
        sys.exit(f"{variant}: not one of {', '.join(VARIANTS)}")
    if variant == PLAIN:
        return Plain(directory)
    if variant in (VALUES, WHOLE):
        import percpu_prometheus
        import prometheus_client  # noqa: F401, first, as in a program that switches on later

        percpu_prometheus.activate(methods=variant == WHOLE)
    if variant != SINGLE:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
    return Client()


def elapsed(loop: Loop, threads: int, n: int) -> float:
    """Return how long one of n operations took in each of so many threads, in ns."""
    ready = threading.Barrier(threads)
    times: list[tuple[int, int]] = []

    def run() -> None:
        """Run in each thread."""
        ready.wait()
        begin = time.perf_counter_ns()
        loop(n)
        times.append((begin, time.perf_counter_ns()))

    others = [threading.Thread(target=run) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    run()
    for thread in others:
        thread.join()
    return (max(end for _, end in times) - min(begin for begin, _ in times)) / n


def main() -> None:
    """Answer each line of the input."""
    metrics = prepared(*sys.argv[1:])
    loops = dict(zip(ROWS, metrics.loops(), strict=True))
    done = dict.fromkeys(ROWS, 0)
    for line in sys.stdin:
        row, threads, n = json.loads(line)
        done[row] += threads * n
        print(elapsed(loops[row], threads, n), flush=True)
    sums = dict(zip(ROWS, metrics.sums(), strict=True))
    print(json.dumps({row: None if s is None else done[row] - s for row, s in sums.items()}))


if __name__ == "__main__":
    main()
