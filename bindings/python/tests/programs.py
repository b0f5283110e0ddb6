# SPDX-License-Identifier: MIT
"""Programs that count, for the tests of faults: each runs in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

SCRAPE = """
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
registry = CollectorRegistry()
MultiProcessCollector(registry)
print(generate_latest(registry).decode(), end="")
"""

# What a user of the drop-in has: it is imported first.
START = """
import percpu_prometheus
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
"""

Ran = subprocess.CompletedProcess[str]


def run(program: str, directory: Path, *, before: list[str] | None = None, status: int = 0) -> Ran:
    """Run a program of Python that counts in a directory; it must end with that status."""
    environment = dict(os.environ, PROMETHEUS_MULTIPROC_DIR=str(directory))
    ran = subprocess.run(
        [*(before or []), sys.executable, "-c", START + program],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == status, f"{ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran


def samples_of(page: str) -> dict[str, float]:
    """Return the samples of a page in the text format, by name and labels."""
    lines = [line.rpartition(" ") for line in page.splitlines() if line and line[0] != "#"]
    return {name: float(value) for name, _, value in lines}


def scrape(directory: Path) -> dict[str, float]:
    """Scrape a directory from a process of its own."""
    return samples_of(run(SCRAPE, directory).stdout)


def scrape_if_readable(directory: Path) -> dict[str, float] | None:
    """Scrape a directory; None if that ends with the error of a file that cannot be read."""
    program = f"""
import percpu
try:
    exec({SCRAPE!r})
except percpu.Error as e:
    print("unreadable", e.errno)
"""
    page = run(program, directory).stdout
    return None if page.startswith("unreadable") else samples_of(page)


def said(ran: Ran) -> list[str]:
    """Return the lines that a program printed as errors; no traceback is among them."""
    assert not re.search("Traceback|Error:|Exception", ran.stderr), ran.stderr
    return ran.stderr.splitlines()
