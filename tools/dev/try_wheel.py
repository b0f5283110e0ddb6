# SPDX-License-Identifier: MIT
"""Try what is installed: count in two processes, by both modules, and read it."""

import os
import subprocess
import sys
import tempfile

COUNT = """
from prometheus_client import Counter
Counter("hits", "Hits.", ["path"]).labels("/").inc(2)
import sys
assert "percpu_prometheus" in sys.modules, "nothing was loaded by itself"
import percpu_prometheus
assert percpu_prometheus.status().active, percpu_prometheus.status()
"""
SCRAPE = """
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
registry = CollectorRegistry()
MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


def run(program: str, directory: str) -> str:
    """Run a program that counts in the directory, and return what it prints."""
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": directory}
    command = [sys.executable, "-c", program]
    if "arm64" in sys.executable and os.uname().machine == "aarch64":
        command = ["qemu-aarch64", "-L", sys.executable.partition("/usr/bin")[0], *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"try_wheel.py: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Try each module."""
    import percpu

    with tempfile.TemporaryDirectory() as directory:
        with percpu.Segment(f"{directory}/plain", create=True) as segment:
            segment.counter("c").add(5)
            assert segment.counter("c").value == 5
        run(COUNT, directory)
        run(COUNT, directory)
        page = run(SCRAPE, directory)
        assert 'hits_total{path="/"} 4.0' in page, page
        assert "metrics.percpu" in os.listdir(directory)
    print(f"{sys.version.split()[0]}: {percpu._core.__file__}")


if __name__ == "__main__":
    main()
