#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Show what the counts of a server under load are worth: wrk asks it while its workers are killed,
`percpu top` shows it, Prometheus's way and OpenTelemetry's way carry the counts out, and in the end
the clients, the segment, the scrape and the push have the same totals.

A worker that is amid a request goes on, and another one is killed: so the clients got every answer
that is counted. load.py kills them there, too.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import load
import otlp

NAME = "demo"
WORKERS, FRAMES = 4, 3


class Kills(load.Kills):
    """Kills of workers that have no request in flight, or are just sending an answer."""

    def one(self):
        pid = random.choice(self.server.pids())
        os.kill(pid, signal.SIGSTOP)
        load.await_state(pid, "T")
        idle = self.server.read(pid)[f"in flight of {pid}"] == 0
        if not idle and load.system_call_of(pid) != load.SENDMSG:
            os.kill(pid, signal.SIGCONT)
            return
        self.idle += idle
        self.sent += not idle
        os.kill(pid, signal.SIGKILL)
        load.await_state(pid, "ZX")


@contextlib.contextmanager
def running(*command, **pipes):
    """A program, which is ended."""
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def free_port(wanted):
    """Return that port of 127.0.0.1, or another one if it is in use."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", wanted))
        except OSError:
            s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_page(url, server):
    for _ in range(200):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(url, timeout=10).close()
        if server.poll() is not None:
            break
        time.sleep(0.05)
    sys.exit("demo.py: percpu serve does not answer")


def watch(percpu, seconds):
    """Show the screen for so long: frames of it where this is no terminal."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        command = [percpu, "top", "-n", "0.5", NAME]
    else:
        command = [
            percpu,
            "top",
            "-n",
            str(seconds / (FRAMES + 1)),
            "--frames",
            str(FRAMES),
            NAME,
        ]
    return running(*command)


def disturb(server, wrk, seconds):
    """Kill about four workers a second while wrk sends. Return the kills."""
    kills = Kills(server, False)
    begin = time.monotonic()
    while time.monotonic() - begin < seconds - 1.2 and wrk.poll() is None:
        kills.one()
        time.sleep(random.random() / 2)
    return kills


def key(name, labels):
    """A metric's name, and a code if it has one."""
    return (name, labels.get("code", ""))


def in_segment(percpu):
    text = subprocess.run([percpu, "show", NAME, "--json"], check=True, capture_output=True).stdout
    return {
        key(s["name"], s["labels"]): s["histogram"]["count"] if "histogram" in s else s["value"]
        for s in json.loads(text)["series"]
        if "histogram" in s or s.get("value") is not None
    }


def in_scrape(url):
    with urllib.request.urlopen(url + "metrics", timeout=10) as answer:
        text = answer.read().decode()
    lines = re.findall(r"^(\w+?)(?:_count)?(?:\{(.*)\})? (\S+)$", text, re.MULTILINE)
    return {
        key(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))): float(n)
        for name, labels, n in lines
    }


def in_push(receiver):
    return {key(p.name, p.labels): p.value for p in otlp.points(receiver.latest())}


def row(name, clients, *columns):
    """Print a row; return whether all numbers are equal."""
    equal = len({clients, *columns}) == 1
    numbers = "".join(f"{n:12.0f}" for n in (clients, *columns))
    print(f"{name:20}{numbers}  {'equal' if equal else 'DIFFERENT'}")
    return equal


def compare(clients, kills, columns):
    """Print the totals that each way has; return whether they are equal."""

    def of(name, code=""):
        return [column.get((f"prefork_{name}", code), float("nan")) for column in columns]

    codes = [of("requests_total", f"{n}xx") for n in (2, 3, 4, 5)]
    print(f"\n{'':20}{'clients':>12}{'segment':>12}{'scrape':>12}{'push':>12}")
    rows = [
        row("answers", clients["answers"], *map(sum, zip(*codes))),
        row("  of them 4xx, 5xx", clients["refused"], *map(sum, zip(*codes[2:]))),
        row("bytes", clients["bytes"], *of("answer_bytes_total")),
        row("answers timed", clients["answers"], *of("request_seconds")),
        row("in flight", 0, *of("requests_in_flight")),
        row("workers replaced", kills.all(), *of("worker_restarts_total")),
    ]
    return all(rows) and clients["answers"] > 0 and kills.all() > 0


def show(options, server, url, receiver):
    """Load the server, and show it. Return whether all totals are equal."""
    print(f"\n    {url}    the page; {url}metrics is for Prometheus\n")
    print(
        f"wrk asks for {options.seconds} s, and about {WORKERS} workers a second are killed."
        " percpu top shows it:\n",
        flush=True,
    )
    with tempfile.TemporaryFile("w+") as out:
        wrk = load.start_wrk(server, argparse.Namespace(seconds=options.seconds, large=False))
        try:
            with watch(options.percpu, options.seconds):
                kills = disturb(server, wrk, options.seconds)
            out.write(wrk.communicate(timeout=60)[0])
        finally:
            wrk.kill()
        out.seek(0)
        counted = re.findall(r"(answers|bytes|refused) (\d+)\n", out.read())
    clients = {name: int(n) for name, n in counted}
    load.await_restarts(server, kills.all())
    print(
        f"\n{kills.all()} workers were killed with SIGKILL: {kills.idle} with no request in flight,"
        f" and {kills.sent} just when\nan answer was sent."
    )
    receiver.await_newer()
    columns = in_segment(options.percpu), in_scrape(url), in_push(receiver)
    return compare(clients, kills, columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("percpu", help="the tool")
    parser.add_argument("program", help="prefork")
    parser.add_argument("--seconds", type=int, default=12, help="so long requests come")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("demo.py: wrk is not installed")
    segment = f"/dev/shm/percpu.{NAME}"
    if os.path.exists(segment):
        sys.exit(f"demo.py: {segment} is there already: is a demo running? If not, remove it")
    port = free_port(9180)
    url = f"http://127.0.0.1:{port}/"
    server = load.Server(os.path.abspath(options.program), WORKERS, segment)
    try:
        server.start()
        print(f"A server of {WORKERS} processes answers, and counts in the segment {NAME!r}.")
        serve = [options.percpu, "serve", NAME, "--listen", f"127.0.0.1:{port}"]
        with (
            otlp.Receiver() as receiver,
            running(*serve, stderr=subprocess.DEVNULL) as served,
            running(options.percpu, "push", "--otlp", receiver.url, "-n", "1", NAME),
        ):
            await_page(url + "metrics", served)
            good = show(options, server, url, receiver)
            if sys.stdin.isatty() and sys.stdout.isatty():
                input(f"\n{url} is served until you press Enter.")
        return 0 if good and server.stop() == 0 else 1
    finally:
        if server.master:
            server.master.kill()
        with contextlib.suppress(FileNotFoundError):
            os.remove(segment)


if __name__ == "__main__":
    sys.exit(main())
