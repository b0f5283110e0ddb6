#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_prometheus.py PERCPU PREFORK - Prometheus scrapes `percpu serve`, while clients load the
server of the example and its workers are killed. What it stores is what the clients were answered,
and what `percpu show` prints: by native histograms, and without them. What docs/tool/prometheus.md
has to copy is checked by promtool, and finds something. Speaks TAP.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("../cli", "../../examples/prefork"):
    sys.path.insert(0, os.path.join(HERE, folder))

import demo
import load
import prometheus
import tap

PERCPU, PREFORK = map(os.path.abspath, sys.argv[1:3])
PAGE = pathlib.Path(HERE, "../../docs/tool/prometheus.md")
SECONDS, WAIT = 6, 60


def under_load(server):
    """Load the server and kill its workers. Return what wrk counted, and how many were killed."""
    options = argparse.Namespace(seconds=SECONDS, large=False)
    wrk = load.start_wrk(server, options)
    try:
        kills = demo.disturb(server, wrk, SECONDS)
        said = wrk.communicate(timeout=WAIT)[0]
    finally:
        wrk.kill()
    load.await_restarts(server, kills.all())
    assert kills.all() > 0
    found = re.findall(r"(answers|bytes|refused) (\d+)\n", said)
    return {name: int(n) for name, n in found}, kills.all()


def show(segment):
    out = subprocess.run([PERCPU, "show", segment, "--json"], check=True, capture_output=True)
    return json.loads(out.stdout)["series"]


def value(series, name, **labels):
    return next(s for s in series if s["name"] == name and s["labels"] == labels)["value"]


def check_totals(server, clients, killed, series):
    """The totals are those of the clients, to the last one."""
    for name, want in (
        ("sum(prefork_requests_total)", clients["answers"]),
        ('sum(prefork_requests_total{code=~"4xx|5xx"})', clients["refused"]),
        ("prefork_answer_bytes_total", clients["bytes"]),
        ("prefork_worker_restarts_total", killed),
    ):
        assert server.number(name) == want, (name, server.number(name), want)
    for labels, number in server.query("prefork_requests_total"):
        assert number == value(series, "prefork_requests_total", code=labels["code"]), labels


def end_of_rank(buckets, rank):
    """Return the bucket with the observation of that rank."""
    below = 0
    for bucket in buckets:
        below += bucket["count"]
        if below >= rank:
            return bucket
    raise AssertionError(f"{rank} of {below}")


def check_native(prom, series):
    histogram = next(s for s in series if s["name"] == "prefork_request_seconds")["histogram"]
    count = histogram["count"]
    assert prom.number("histogram_count(prefork_request_seconds)") == count
    ratio = prom.number("histogram_sum(prefork_request_seconds)") / histogram["sum"]
    assert abs(ratio - 1) < 1e-12
    for q in (0.01, 0.5, 0.9, 0.99, 0.999):
        found = prom.number(f"histogram_quantile({q}, prefork_request_seconds)")
        bucket = end_of_rank(histogram["buckets"], q * count)
        low, high = bucket["lower"], bucket["upper"]
        assert low * (1 - 1e-9) <= found <= high * (1 + 1e-9), (q, found, bucket)
    # All buckets are there: each octave has the share of its buckets.
    edges = [2.0**-k for k in range(20, 5, -1)]
    for edge in edges:
        below = sum(b["count"] for b in histogram["buckets"] if b["upper"] <= edge)
        part = prom.number(f"histogram_fraction(-Inf, {edge!r}, prefork_request_seconds)")
        assert abs(part * count - below) < 0.001, (edge, part * count, below)


def check_classic(prom, series):
    histogram = next(s for s in series if s["name"] == "prefork_request_seconds")["histogram"]
    assert prom.number("prefork_request_seconds_count") == histogram["count"]
    for labels, number in prom.query("prefork_request_seconds_bucket"):
        end = float(labels["le"].replace("Inf", "inf"))
        uppers = (
            (float(str(b["upper"]).replace("Inf", "inf")), b["count"]) for b in histogram["buckets"]
        )
        assert number == sum(n for upper, n in uppers if upper <= end), labels


def check_text(target):
    with urllib.request.urlopen(f"http://{target}/metrics", timeout=WAIT) as answer:
        text = answer.read()
    lint = ["promtool", "check", "metrics"]
    out = subprocess.run(lint, input=text, check=False, capture_output=True)
    assert out.returncode == 0 and not out.stdout and not out.stderr, out
    return text.decode()


def check_documented(native, classic):
    """Ask the queries and the alerts of the documentation, each with its kind of histograms."""
    page = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| .* \| `(.*)` \| (?:`(.*)`|the same) \|$", page, re.MULTILINE)
    assert len(rows) > 3, rows
    for one, other in rows:
        assert native.query(one), one
        assert classic.query(other or one), other or one
    alerts = re.findall("expr: (.*)", page)
    found = {alert for alert in alerts if native.query(alert)}
    assert len(alerts) == 3, alerts
    assert found == {alerts[-1]}, found  # workers have died, and all else is well


def documented_files_are_valid(directory):
    if not prometheus.is_there():
        return "prometheus is not there"
    blocks = re.findall("```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 3, blocks
    for number, block in enumerate(blocks):
        kind = ["rules"] if block.startswith("groups:") else ["config", "--syntax-only"]
        file = pathlib.Path(directory, f"{number}.yml")
        file.write_text(block, "utf-8")
        out = subprocess.run(["promtool", "check", *kind, file], check=False, capture_output=True)
        assert out.returncode == 0, out
    return None


def prometheus_has_the_totals(directory):
    if not prometheus.is_there():
        return "prometheus is not there"
    segment = os.path.join(directory, "segment")
    server = load.Server(PREFORK, 4, segment)
    serve = [PERCPU, "serve", segment, "--listen", "127.0.0.1:0"]
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        server.start()
        stack.callback(server.stop)
        served = enter(demo.running(*serve, stderr=subprocess.PIPE))
        target = re.search("http://(.*)/metrics", served.stderr.readline()).group(1)
        flag = "--enable-feature=native-histograms"
        native = enter(prometheus.Server(f"{directory}/native", [target], flag))
        classic = enter(prometheus.Server(f"{directory}/classic", [target]))
        native.scraped_after(0)
        clients, killed = under_load(server)
        end = time.time()
        series = show(segment)
        for one in (native, classic):
            one.scraped_after(end)
            check_totals(one, clients, killed, series)
            one.check_log()
        check_native(native, series)
        check_classic(classic, series)
        check_documented(native, classic)
        text = check_text(target)
        requests = value(series, "prefork_requests_total", code="2xx")
        assert f'code="2xx"}} {requests:.0f}\n' in text, text
    return None


if __name__ == "__main__":
    tap.run([prometheus_has_the_totals, documented_files_are_valid])
