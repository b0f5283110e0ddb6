# SPDX-License-Identifier: MIT
"""What a scrape says, and whether it agrees with what the clients saw."""

import os
import pathlib
import re
import subprocess
import sys
import time

from prometheus_client.parser import text_string_to_metric_families

from . import load, processes

BOUNDS = (100, 300, 600, 900)


class Samples:
    """The samples of one scrape by name and labels."""

    def __init__(self, text: str):
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = dict(sample.labels)
                if "le" in labels:  # 100 and 100.0 are one bound
                    labels["le"] = str(float(labels["le"]))
                key = sample.name, frozenset(labels.items())
                assert key not in self.values, f"twice in one scrape: {key}"
                self.values[key] = sample.value

    def __len__(self) -> int:
        return len(self.values)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a sample, or 0 if there is none."""
        return self.values.get((f"served_{name}", frozenset(labels.items())), 0.0)

    def labels(self, name: str, label: str) -> set[str]:
        """Return the values that a label has in all samples of this name."""
        return {dict(key[1])[label] for key in self.values if key[0] == f"served_{name}"}


def from_server(server: processes.WebServer) -> Samples:
    """Scrape a server."""
    return Samples(load.get(server.port, "/metrics/", timeout=30).decode())


def from_directory(server: processes.Server) -> Samples:
    """Scrape the directory of a server in a process that counts nothing itself."""
    return Samples(_scrape(server))


def timed_read(server: processes.Server) -> float:
    """Return the shortest of some scrapes of the directory in milliseconds."""
    return float(_scrape(server, "--time"))


def _scrape(server: processes.Server, *options: str) -> str:
    command = [sys.executable, str(processes.APPS / "scrape.py"), *options]
    done = subprocess.run(command, env=server.env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def from_tool(server: processes.Server) -> Samples:
    """Read the file with `percpu show`."""
    command = [os.environ["PERCPU"], "show", "--text", str(segment_of(server))]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    return Samples(done.stdout.decode())


def from_serve(server: processes.Server) -> Samples:
    """Read the file with `percpu serve`."""
    port = processes.free_port()
    command = [os.environ["PERCPU"], "serve", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen([*command, str(segment_of(server))], stderr=subprocess.DEVNULL) as tool:
        try:
            processes.wait_for(lambda: _listens(port), "percpu serve listens")
            text = load.get(port, "/metrics").decode()
        finally:
            tool.terminate()
    return Samples(re.sub(r'segment="[^"]*"(, )?', "", text))


def _listens(port: int) -> bool:
    try:
        load.get(port, "/metrics")
    except OSError:
        return False
    return True


def segment_of(server: processes.Server) -> pathlib.Path:
    """Return the only file of the directory."""
    files = sorted(server.metrics.iterdir())
    assert [file.name for file in files] == ["metrics.percpu"], files
    return files[0]


def _between(low: float, value: float, high: float, what: str) -> None:
    assert low <= value <= high, f"{what}: {value} is not in [{low}, {high}]"


def check(
    samples: Samples,
    tally: load.Tally,
    path: str = "/count",
    *,
    extra: int = 0,
    numbered: bool = False,
) -> None:
    """Compare sums with the clients' tally: answers <= counted <= sent. Others sent up to `extra`
    of the amount 1. The gauge of a numbered worker begins again with the next one."""
    sent, answered = tally.sent, tally.answered
    counted = samples.value("requests_total", path=path)
    _between(answered.total(), counted, sent.total(), "requests")
    _check_sums(samples, tally, extra)
    for bound in BOUNDS:
        got = sum(number for amount, number in answered.items() if amount <= bound)
        most = sum(number for amount, number in sent.items() if amount <= bound)
        inside = samples.value("amounts_bucket", le=f"{float(bound)}")
        _between(got, inside, most + extra, f"bucket {bound}")
    least = 1 if numbered else max(answered)
    _between(least, samples.value("largest"), max(sent), "largest")
    if not tally.lost and not extra:
        assert counted == samples.value("units_count") == answered.total()


def _check_sums(samples: Samples, tally: load.Tally, extra: int) -> None:
    sent, answered = tally.sent, tally.answered
    for name in ("amounts_count", "units_count"):
        _between(answered.total(), samples.value(name), sent.total() + extra, name)
    for name in ("amounts_sum", "units_sum"):
        low = sum(amount * number for amount, number in answered.items())
        high = sum(amount * number for amount, number in sent.items())
        _between(low, samples.value(name), high + extra, name)
    counts = samples.value("amounts_count"), samples.value("amounts_bucket", le="inf")
    assert counts[0] == counts[1], counts


def watch(server: processes.WebServer, clients: load.Clients, most_in_flight: int) -> int:
    """Scrape while the clients run; counters must not decrease. Return how many scrapes."""
    before, scrapes = 0.0, 0
    while clients.running():
        server.workers()
        try:
            samples = from_server(server)
        except load.LOST:
            continue
        now = samples.value("requests_total", path="/count")
        assert now >= before, f"a counter went from {before} to {now}"
        _between(0, samples.value("in_flight"), most_in_flight, "in flight")
        before, scrapes = now, scrapes + 1
        time.sleep(0.05)
    return scrapes
