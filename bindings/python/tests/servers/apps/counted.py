# SPDX-License-Identifier: MIT
"""What all apps here count: one request adds 1 to each metric, before its answer is sent."""

import logging
import os
import threading
import time

# Tests that compare run without the drop-in.
if os.environ.get("SERVERS_WITH") != "upstream":
    import percpu_prometheus  # noqa: F401

# A test fails if the drop-in logs something.
logging.basicConfig(format="%(name)s: %(message)s")

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

REQUESTS = Counter("served_requests", "Requests, by their path.", ["path"])
AMOUNTS = Histogram("served_amounts", "Amounts of requests.", buckets=(100, 300, 600, 900))
UNITS = Summary("served_units", "Amounts of requests, again.")
IN_FLIGHT = Gauge("served_in_flight", "Requests without an answer.", multiprocess_mode="livesum")
LARGEST = Gauge("served_largest", "The largest amount of all.", multiprocess_mode="max")
LATEST = Gauge("served_latest", "The latest amount of each process.", multiprocess_mode="liveall")

_lock = threading.Lock()
_largest = 0


def _keep_largest(amount: int) -> None:
    global _largest
    with _lock:
        _largest = max(_largest, amount)
        LARGEST.set(_largest)


def count(path: str, amount: int) -> str:
    """Count a request and return its answer."""
    with IN_FLIGHT.track_inprogress():
        AMOUNTS.observe(amount)
        UNITS.observe(amount)
        _keep_largest(amount)
        LATEST.set(amount)
        REQUESTS.labels(path).inc()
    return str(amount)


@IN_FLIGHT.track_inprogress()
def hold() -> str:
    """Stay in flight until the process is killed."""
    time.sleep(600)
    return "held"


def registry() -> CollectorRegistry:
    """Return a registry whose metrics are the sums of all processes."""
    made = CollectorRegistry()
    MultiProcessCollector(made)
    return made


def scrape() -> bytes:
    """Return the metrics of all processes as text."""
    return generate_latest(registry())
