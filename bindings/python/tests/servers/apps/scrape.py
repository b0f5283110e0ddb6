# SPDX-License-Identifier: MIT
"""scrape.py [--time] - the metrics of the directory, by a process that has none of its own; or how
many milliseconds the shortest of some scrapes took."""

import os
import sys
import timeit

# Tests that compare run without the drop-in.
if os.environ.get("SERVERS_WITH") != "upstream":
    import percpu_prometheus  # noqa: F401

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector


def scrape() -> bytes:
    """Return the metrics of all processes as text."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)


if __name__ == "__main__":
    if sys.argv[1:] == ["--time"]:
        print(min(timeit.repeat(scrape, number=1, repeat=5)) * 1000)
    else:
        sys.stdout.buffer.write(scrape())
