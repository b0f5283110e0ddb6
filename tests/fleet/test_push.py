#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_push.py PERCPU PREFORK LOAD [COLLECTOR] - what other people's receivers get of a server
under load.

wrk asks the prefork server, workers are killed with SIGKILL, and `percpu push` sends the totals to
a receiver. The last push has the counts that the clients saw. COLLECTOR is a collector of
OpenTelemetry with the receiver otlp and the exporter debug. Speaks TAP.
"""

import asyncio
import contextlib
import http.server
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

import tap
import test_percpu as cli
from ports import free_port

try:
    import grpc
    import oteltap
    from oteltest import sink as oteltest
except ImportError:
    oteltest = None

# The two receivers of Python packages cannot read gzip by HTTP.
PLAIN = {"OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
COLLECTOR = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 else None


def await_port(port):
    """Wait until a program listens there."""
    for _ in range(600):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 1),
        ):
            return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens to {port}")


def has_grpc():
    """Whether the program was built with the feature."""
    command = [cli.PERCPU, "push", "--otlp", "grpc://127.0.0.1:1", "--once", "no.such"]
    said = subprocess.run(command, check=False, capture_output=True, timeout=60).stderr
    return b"built without gRPC" not in said


def points_of(metric):
    """Return the points of a total, and what is their number; none for gauges."""
    for form in ("sum", "histogram", "exponential_histogram"):
        if metric.HasField(form):
            points = getattr(metric, form).data_points
            return [(p, p.as_int if form == "sum" else p.count) for p in points]
    return []


class Totals:
    """The latest totals. They never fall, and never get another start."""

    def __init__(self):
        self.counts, self.starts, self.faults = {}, {}, []

    def add(self, metric):
        for point, n in points_of(metric):
            key = metric.name + "".join(a.value.string_value for a in point.attributes)
            start = self.starts.setdefault(key, point.start_time_unix_nano)
            if start != point.start_time_unix_nano or start >= point.time_unix_nano:
                self.faults.append(f"{key} of {start}: {point}")
            if n < self.counts.get(key, 0):
                self.faults.append(f"{key} fell to {n}")
            self.counts[key] = n

    def handle_metrics(self, request, _):
        """Take a request of oteltest's sinks."""
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self.add(metric)

    def last(self):
        assert not self.faults, self.faults[:3]
        return self.counts


class LoopbackServer(http.server.HTTPServer):
    """A server that others do not reach, and that logs nothing."""

    def __init__(self, address, handler):
        handler.log_message = lambda *_: None
        super().__init__(("127.0.0.1", address[1]), handler)


@contextlib.contextmanager
def sink_http(_):
    """The HTTP sink of oteltest."""
    totals = Totals()
    oteltest.HTTPServer = LoopbackServer
    sink = oteltest.HttpSink(totals, logging.getLogger(), port=free_port())
    sink.start()
    await_port(sink.port)
    try:
        yield f"http://127.0.0.1:{sink.port}", totals
    finally:
        sink.stop()


@contextlib.contextmanager
def sink_grpc(_):
    """The gRPC sink of oteltest."""
    make = grpc.server

    def on_loopback(*arguments):
        server = make(*arguments)
        add = server.add_insecure_port
        server.add_insecure_port = lambda a: add(a.replace("0.0.0.0", "127.0.0.1"))
        return server

    totals = Totals()
    totals.handle_trace = totals.handle_logs = None
    oteltest.grpc.server = on_loopback
    try:
        sink = oteltest.GrpcSink(totals, logging.getLogger(), port=free_port())
    finally:
        oteltest.grpc.server = make
    sink.start()
    try:
        yield f"grpc://127.0.0.1:{sink.port}", totals
    finally:
        sink.stop()


@contextlib.contextmanager
def tap_http(_):
    """The receiver of oteltap, in a thread of its own."""
    totals, port, end = Totals(), free_port(), threading.Event()

    async def collect(receiver):
        async for metric in receiver.stream_metrics():
            totals.add(metric)

    async def receive():
        settings = oteltap.OtelTapHttpProtobufReceiverSettings(http_port=port)
        async with oteltap.OtelTapHttpProtobufReceiver(settings) as receiver:
            task = asyncio.create_task(collect(receiver))
            while not end.is_set():
                await asyncio.sleep(0.05)
            task.cancel()

    thread = threading.Thread(target=asyncio.run, args=(receive(),))
    thread.start()
    try:
        await_port(port)
        yield f"http://127.0.0.1:{port}", totals
    finally:
        end.set()
        thread.join(30)


class Printed:
    """What the exporter debug of a collector has printed."""

    def __init__(self, path):
        self.path = path

    def last(self):
        counts, name, labels = {}, "", ""
        with open(self.path, encoding="utf-8") as f:
            for line in f:
                if m := re.match(r"\s+-> Name: (\S+)", line):
                    name, labels = m[1], ""
                elif re.match(r"\S*DataPoints #", line):
                    labels = ""
                elif m := re.match(r"\s+-> \S+: Str\((.*)\)", line):
                    labels += m[1]
                elif m := re.match(r"(?:Value|Count): (\d+)$", line):
                    counts[name + labels] = int(m[1])
        return counts


@contextlib.contextmanager
def collector(directory, scheme):
    """An OpenTelemetry collector."""
    port, printed = free_port(), os.path.join(directory, "printed")
    protocol = {"protocols": {scheme: {"endpoint": f"127.0.0.1:{port}"}}}
    pipeline = {"receivers": ["otlp"], "exporters": ["debug"]}
    config = {
        "receivers": {"otlp": protocol},
        "exporters": {"debug": {"verbosity": "detailed"}},
        "service": {
            "pipelines": {"metrics": pipeline},
            "telemetry": {
                "metrics": {"level": "none"},
                "logs": {"encoding": "console"},
            },
        },
    }
    path = os.path.join(directory, "collector.yaml")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)
    with open(printed, "w", encoding="utf-8") as out:
        process = subprocess.Popen([COLLECTOR, "--config", path], stdout=out, stderr=out)
    try:
        await_port(port)
        yield f"{scheme}://127.0.0.1:{port}", Printed(printed)
    finally:
        process.terminate()
        process.wait(30)


def await_counts(totals, want):
    """Wait until a receiver has all that was pushed."""
    for _ in range(200):
        last = totals.last()
        got = {name: last.get(name) for name in want}
        if got == want:
            return
        time.sleep(0.05)
    raise AssertionError(f"the receiver has {got}, not {want}")


def push_under_load(directory, receiver, environment, said=""):
    """Push while workers are killed. `said` is what the push says of a receiver that is sloppy."""
    if not shutil.which("wrk"):
        return "wrk is not installed"
    segment, log = (os.path.join(directory, name) for name in ("segment", "log"))
    server = cli.load.Server(cli.PREFORK, cli.WORKERS, segment)
    server.start()
    try:
        server.pids()
        with (
            receiver(directory) as (url, totals),
            open(log, "w", encoding="utf-8") as out,
        ):
            command = [cli.PERCPU, "push", "--otlp", url, segment, "-n", "0.2"]
            push = subprocess.Popen(command, stderr=out, env=os.environ | environment)
            try:
                clients, kills = cli.under_load(server)
                push.send_signal(signal.SIGTERM)
                assert push.wait(30) == 0
            finally:
                push.kill()
            counts = cli.totals(json.loads(cli.percpu("show", segment, "--json")))
            await_counts(totals, counts)
    finally:
        stopped = server.stop()
    assert stopped == 0, f"the server ended with {stopped}"
    cli.compare_with_clients(counts, clients, kills)
    with open(log, encoding="utf-8") as f:
        lines = f.read().splitlines()
    assert len(lines) == bool(said) and all(said in line for line in lines), lines
    return None


def oteltest_gets_all_by_http(directory):
    if oteltest is None:
        return "oteltest and oteltap are not installed"
    return push_under_load(directory, sink_http, PLAIN, "answers 200, but not as OTLP says")


def oteltest_gets_all_by_grpc(directory):
    if oteltest is None or not has_grpc():
        return "oteltest is not installed, or percpu has no gRPC"
    return push_under_load(directory, sink_grpc, {})


def oteltap_gets_all(directory):
    if oteltest is None:
        return "oteltest and oteltap are not installed"
    return push_under_load(directory, tap_http, PLAIN)


def a_collector_gets_all_by_http(directory):
    if COLLECTOR is None:
        return "there is no collector"
    return push_under_load(directory, lambda d: collector(d, "http"), {})


def a_collector_gets_all_by_grpc(directory):
    if COLLECTOR is None or not has_grpc():
        return "there is no collector, or percpu has no gRPC"
    return push_under_load(directory, lambda d: collector(d, "grpc"), {})


if __name__ == "__main__":
    tap.run(
        [
            oteltest_gets_all_by_http,
            oteltest_gets_all_by_grpc,
            oteltap_gets_all,
            a_collector_gets_all_by_http,
            a_collector_gets_all_by_grpc,
        ]
    )
