#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""collector.py SERIES PROCESSES SECONDS: the cost of a scrape in the multi-process mode of
prometheus_client. Before it, so many processes, one after the other, have each added to so many
series of a counter and ended. Prints the CPU time of each of 3 collections, in ns, a line each;
fewer after so many seconds of CPU time. Exits with 77 if the package is not installed.
"""

import os
import shutil
import sys
import tempfile
import time


def count(counter, series):
    """Run as each process: declare the series, and add to them."""
    for i in range(series):
        counter.labels(str(i)).inc()


def collect(collector):
    """Returns the sum of all series, and the CPU time that it took to get them."""
    begin = time.process_time_ns()
    total = 0.0
    for metric in collector.collect():
        for sample in metric.samples:
            total += sample.value
    return total, time.process_time_ns() - begin


def measure(series, processes, seconds):
    """Prints the figures."""
    # The package reads the variable when it is imported.
    from prometheus_client import CollectorRegistry, Counter, multiprocess

    counter = Counter("requests", "Requests.", ["n"], registry=CollectorRegistry())
    for _ in range(processes):
        pid = os.fork()
        if pid == 0:
            count(counter, series)
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit("a process that counts has failed")
    collector = multiprocess.MultiProcessCollector(CollectorRegistry())
    for _ in range(3):
        total, ns = collect(collector)
        if total != series * processes:
            sys.exit(f"{total} of {series * processes} were counted")
        print(ns)
        if time.process_time() > seconds:
            break


def main():
    """Measure in a new directory, in memory."""
    series, processes, seconds = map(int, sys.argv[1:])
    directory = tempfile.mkdtemp(prefix="percpu-bench-", dir="/dev/shm")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
    try:
        measure(series, processes, seconds)
    except ImportError:
        sys.exit(77)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
