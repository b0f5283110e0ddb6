#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_percpu.py PERCPU PREFORK LOAD - what `percpu` says of a server under load, beside its clients.

wrk asks the prefork server and counts answers and bytes, while workers are killed with SIGKILL. The
totals of show, watch and diff must be those of the server, and those of wrk but for the requests
that kills interrupted. Speaks TAP.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time

import tap

PERCPU, PREFORK, LOAD = map(os.path.abspath, sys.argv[1:4])
SECONDS, WORKERS = 4, 4
REQUESTS, BYTES = "prefork_requests_total", "prefork_answer_bytes_total"
TIMES, RESTARTS = "prefork_request_seconds", "prefork_worker_restarts_total"


def module_of(path):
    spec = importlib.util.spec_from_file_location("load", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


load = module_of(LOAD)


def percpu(*arguments):
    r = subprocess.run([PERCPU, *arguments], check=False, capture_output=True, timeout=60)
    assert (r.returncode, r.stderr) == (0, b""), f"{arguments}: {r.returncode} {r.stderr}"
    return r.stdout.decode()


def key(series):
    return series["name"] + "".join(series["labels"].values())


def count_of(series):
    """Return the value of a counter, or how many observations a histogram has."""
    return series["histogram"]["count"] if "histogram" in series else series.get("value")


def totals(snapshot):
    """Return the counts of a snapshot, by name and labels."""
    kinds = ("counter", "histogram")
    return {key(s): count_of(s) for s in snapshot["series"] if s["kind"] in kinds}


@contextlib.contextmanager
def watch(segment, path):
    """Write a line to that path for each look at the segment."""
    command = [PERCPU, "watch", segment, "--json", "-n", "0.05"]
    with open(path, "w", encoding="utf-8") as out, subprocess.Popen(command, stdout=out) as process:
        try:
            yield
            assert process.poll() is None, "watch has ended"
        finally:
            process.kill()


def looks(path):
    """Return the looks whose lines are whole."""
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.endswith("\n")]


def watched(path):
    """Return what the first look had, plus all that was said to change, and the least rate."""
    sums, least = {}, 0
    for i, look in enumerate(looks(path)):
        assert look["event"] is None, look["event"]
        for s in look["series"]:
            if s["kind"] not in ("counter", "histogram"):
                continue
            assert s["event"] is None, s
            sums[key(s)] = s["value"] if i == 0 else sums[key(s)] + s["delta"]
            assert sums[key(s)] == s["value"], s
            least = min(least, s["rate"] or 0)
    return sums, least


def await_watched(path, want):
    """Wait until the watch has seen all."""
    for _ in range(600):
        sums, least = watched(path)
        if sums == want:
            assert least == 0, f"a counter had the rate {least}"
            return
        time.sleep(0.05)
    raise AssertionError(f"watch says {sums}, not {want}")


def under_load(server):
    """Load the server and kill workers. Return what wrk counted, and the kills."""
    options = argparse.Namespace(seconds=SECONDS, kills=8, large=False, restart=False)
    wrk = load.start_wrk(server, options)
    try:
        kills = load.disturb(server, options, wrk)
        said = wrk.communicate(timeout=60)[0]
        load.await_restarts(server, kills.all())
    finally:
        wrk.kill()
    found = re.findall(r"(answers|bytes|refused) (\d+)\n", said)
    return {name: int(n) for name, n in found}, kills


def compare_with_clients(counts, clients, kills):
    """The counts are those of the clients, but for answers that kills have kept from them."""
    requests = {name: n for name, n in counts.items() if name.startswith(REQUESTS)}
    refused = sum(n for name, n in requests.items() if name.endswith(("4xx", "5xx")))
    for name, ours, theirs, allowed in (
        ("answers", sum(requests.values()), clients["answers"], kills.lost),
        ("refused", refused, clients["refused"], kills.lost),
        ("bytes", counts[BYTES], clients["bytes"], kills.lost * load.SMALL),
        ("times", counts[TIMES], clients["answers"], kills.lost),
        ("restarts", counts[RESTARTS], kills.all(), 0),
    ):
        assert 0 <= ours - theirs <= allowed, f"{name}: {ours} here, {theirs} there, {allowed}"
    assert clients["answers"] > 0 and kills.all() > 0, f"{clients}, {kills.all()} kills"


def compare_with_text(segment, counts):
    """Columns and text for Prometheus have the same numbers."""
    text = percpu("show", segment, "--text")
    for name in (BYTES, RESTARTS, f"{TIMES}_count"):
        n = int(re.search(rf"^{name} (\d+)$", text, re.MULTILINE).group(1))
        assert n == counts[name.removesuffix("_count")], f"{name}: {n}"
    columns = percpu("show", segment, REQUESTS)
    for code, n in re.findall(r'^\S+\{code="(...)"\} +(\d+)', columns, re.MULTILINE):
        assert int(n) == counts[REQUESTS + code], columns


def counts_are_those_of_the_clients(directory):
    if not shutil.which("wrk"):
        return "wrk is not installed"
    segment = os.path.join(directory, "segment")
    lines, before = os.path.join(directory, "watch"), os.path.join(directory, "before.json")
    server = load.Server(PREFORK, WORKERS, segment)
    server.start()
    try:
        server.pids()
        with open(before, "w", encoding="utf-8") as f:
            f.write(percpu("show", segment, "--json"))
        with watch(segment, lines):
            clients, kills = under_load(server)
            after = json.loads(percpu("show", segment, "--json"))
            counts = totals(after)
            await_watched(lines, counts)
        listed = json.loads(percpu("ls", segment, "--json"))["segments"][0]
        assert listed["writers"]["seen"] == WORKERS + 1, listed
        difference = json.loads(percpu("diff", before, segment, "--json"))
    finally:
        stopped = server.stop()
    assert stopped == 0, f"the server ended with {stopped}"
    compare_with_clients(counts, clients, kills)
    compare_with_text(segment, counts)
    grown = {key(s): s["delta"] for s in difference["series"]}
    with open(before, encoding="utf-8") as f:
        old = totals(json.load(f))
    want = {name: n - old[name] for name, n in counts.items() if n != old[name]}
    assert grown == want, f"diff says {grown}, not {want}"
    flying = next(s for s in after["series"] if s["name"] == "prefork_requests_in_flight")
    assert flying["value"] == 0, flying
    assert sum(o["alive"] for o in flying["owners"]) == WORKERS, flying
    return None


if __name__ == "__main__":
    tap.run([counts_are_those_of_the_clients])
