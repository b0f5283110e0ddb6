#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_prometheus.py PERCPU PREFORK - Prometheus scrapes `percpu serve`, while clients load the
server of the example and its workers are killed. What it stores is what the clients were answered,
and what `percpu show` prints: by native histograms, and without them. Speaks TAP.
"""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import tap

PERCPU, PREFORK = map(os.path.abspath, sys.argv[1:3])
CLIENTS, REQUESTS, KILLS = 4, 2000, 10
WAIT = 60  # seconds for whatever should happen soon
CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: percpu
    static_configs: [{targets: ['%s']}]
"""


def until(condition, what):
    """Return the first result that is true, or fail."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.1)
    raise AssertionError(f"not in {WAIT} s: {what}")


@contextlib.contextmanager
def process(command, **options):
    with subprocess.Popen(command, text=True, **options) as p:
        try:
            yield p
        finally:
            p.kill()


class Server:
    """prefork, loaded by clients that count their answers."""

    def __init__(self, p):
        self.pid = p.pid
        self.port = int(p.stdout.readline().rpartition(":")[2])
        self.answers = self.bytes = 0
        self.lost = 0  # requests without an answer
        self.lock = threading.Lock()

    def client(self):
        connection = None
        for _ in range(REQUESTS):
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
                connection.request("GET", "/")
                answer = connection.getresponse()
                answer.read()
                with self.lock:
                    self.answers += 1
            except (OSError, http.client.HTTPException):
                connection = None
                with self.lock:
                    self.lost += 1

    def load(self, kills):
        clients = [threading.Thread(target=self.client) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for _ in range(kills):
            time.sleep(random.uniform(0, 0.1))
            children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text("ascii")
            if children.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(random.choice(children.split())), signal.SIGKILL)
        for client in clients:
            client.join()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"

    def ready(self):
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=WAIT) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def query(self, expression):
        """Return what it gives: lists of labels and a number."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{query}", timeout=WAIT) as answer:
            found = json.load(answer)["data"]["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def number(self, expression):
        found = self.query(expression)
        assert len(found) == 1, f"{expression}: {found}"
        return found[0][1]

    def scraped_after(self, moment):
        """Wait for a scrape that began later."""
        begun = f"timestamp(percpu_segment_up) > {moment:f}"
        until(lambda: self.query(begun), "a scrape")
        assert self.number("percpu_segment_up") == 1
        assert self.number("up") == 1


@contextlib.contextmanager
def prometheus(directory, name, target, *options):
    home = pathlib.Path(directory, name)
    home.mkdir()
    config = home / "config.yml"
    config.write_text(CONFIG % target, "utf-8")
    for _ in range(5):  # another program may take the port in between
        port = free_port()
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={home}/data",
        ]
        command += [
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
            *options,
        ]
        with (
            (home / "log").open("w", encoding="utf-8") as log,
            process(command, stderr=log) as p,
        ):
            server = Prometheus(port)
            until(lambda p=p, s=server: p.poll() is not None or s.ready(), "a start")
            if p.poll() is None:
                yield server
                said = (home / "log").read_text("utf-8")
                assert not re.search("append|scrape|duplicate", said, re.IGNORECASE), said
                return
    raise AssertionError((home / "log").read_text("utf-8"))


def show(segment):
    out = subprocess.run([PERCPU, "show", segment, "--json"], check=True, capture_output=True)
    return json.loads(out.stdout)["series"]


def value(series, name, **labels):
    return next(s for s in series if s["name"] == name and s["labels"] == labels)["value"]


def check_totals(prom, server, series):
    requests = value(series, "prefork_requests_total", code="2xx")
    assert server.answers <= requests <= server.answers + server.lost
    for name in ("prefork_answer_bytes_total", "prefork_worker_restarts_total"):
        assert prom.number(name) == value(series, name), name
    for labels, number in prom.query("prefork_requests_total"):
        assert number == value(series, "prefork_requests_total", code=labels["code"]), labels
    return requests


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


def prometheus_has_the_totals(directory):
    if not shutil.which("prometheus"):
        return "prometheus is not there"
    segment = os.path.join(directory, "segment")
    pipe = subprocess.PIPE
    listen = ["--listen", "127.0.0.1:0"]
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        server = Server(enter(process([PREFORK, "-p", "0", "-w", "2", segment], stdout=pipe)))
        serve = enter(process([PERCPU, "serve", segment, *listen], stderr=pipe))
        target = re.search("http://(.*)/metrics", serve.stderr.readline()).group(1)
        flag = "--enable-feature=native-histograms"
        native = enter(prometheus(directory, "native", target, flag))
        classic = enter(prometheus(directory, "classic", target))
        server.load(0)
        assert server.answers == CLIENTS * REQUESTS
        assert value(show(segment), "prefork_requests_total", code="2xx") == server.answers
        server.load(KILLS)
        end = time.time()
        native.scraped_after(end)
        classic.scraped_after(end)
        series = show(segment)
        assert value(series, "prefork_worker_restarts_total") > 0
        requests = check_totals(native, server, series)
        check_totals(classic, server, series)
        check_native(native, series)
        check_classic(classic, series)
        text = check_text(target)
        assert f'code="2xx"}} {requests:.0f}\n' in text, text
    return None


tap.run([prometheus_has_the_totals])
