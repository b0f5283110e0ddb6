# SPDX-License-Identifier: MIT
"""scrapes.py VARIANT DIRECTORY SERIES PROCESSES: scrape what ended processes have counted.

Each process is forked, adds to each series of a family of counters, sets a gauge, and ends; then
its end is noted as a server's hook does. Each line of the input asks for one scrape; the answer is
how long it took, in nanoseconds. The first answer, before any line, is the bytes of a scrape.
"""

import os
import sys
import time

from updates import MULTI, WHOLE


def count(series: int, processes: int) -> None:
    """Run the processes, one after the other."""
    from prometheus_client import Counter, Gauge
    from prometheus_client.multiprocess import mark_process_dead

    family = Counter("requests", "Requests.", ["path"], registry=None)
    gauge = Gauge("busy", "Requests in flight.", registry=None, multiprocess_mode="livesum")
    for _ in range(processes):
        pid = os.fork()
        if pid == 0:
            for i in range(series):
                family.labels(f"/{i}").inc()
            gauge.set(1)
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit("a process that counts has failed")
        mark_process_dead(pid)  # type: ignore[no-untyped-call]


def main() -> None:
    """Answer each line of the input."""
    variant, directory, series, processes = sys.argv[1:]
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
    if variant == WHOLE:
        import percpu_prometheus  # noqa: F401
    elif variant != MULTI:
        sys.exit(f"{variant}: neither {MULTI} nor {WHOLE}")
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    count(int(series), int(processes))
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    page = generate_latest(registry)
    counted = sum(float(line.split()[-1]) for line in page.splitlines() if b"_total{" in line)
    if counted != int(series) * int(processes):
        sys.exit(f"{counted:.0f} of {int(series) * int(processes)} were counted")
    print(len(page), flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter_ns()
        generate_latest(registry)
        print(time.perf_counter_ns() - begin, flush=True)


if __name__ == "__main__":
    main()
