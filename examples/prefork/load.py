#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Load prefork by wrk, kill its workers meanwhile, and compare the counts of both.

A worker is stopped before it is killed, to see where it is. If it has no request in flight, or is
in or behind the system call that sends, its counts and the bytes it sent agree. Elsewhere it is
amid a request, which may be counted, wholly or in part, and not be sent. README.md says more.
"""

import argparse
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SENDMSG = {"x86_64": 46, "aarch64": 211}.get(platform.machine())
QUIET = 3  # seconds in which wrk sends no request
SMALL, LARGE = 256, (4 << 20) + 256  # most bytes of an answer


class Server:
    """A master and its workers, which can be started again at the same port."""

    def __init__(self, program, workers, segment):
        self.program, self.workers, self.segment = program, workers, segment
        self.port = 0
        self.master = None

    def start(self):
        command = [self.program, "-p", str(self.port), "-w", str(self.workers), self.segment]
        self.master = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        found = re.search(r":(\d+)$", self.master.stdout.readline().strip())
        if not found:
            sys.exit("load.py: the server does not start")
        self.port = int(found.group(1))

    def stop(self):
        """End it by SIGTERM; return its exit status."""
        self.master.terminate()
        return self.master.wait(30)

    def pids(self):
        """Return the workers, when all are there."""
        pid = self.master.pid
        for _ in range(2000):
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                living = [int(child) for child in f.read().split() if state_of(child) not in "ZX"]
            if len(living) == self.workers:
                return living
            time.sleep(0.005)
        sys.exit(f"load.py: {len(living)} workers are there")

    def read(self, *pid):
        """Return the counts, by name; with a pid also the requests that process has in flight."""
        command = [self.program, "-r", self.segment, *map(str, pid)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return {name: float(n) for name, n in re.findall(r"(.*) (\S+)\n", text)}


class Kills:
    """Numbers of kills by place, and of requests that these may have lost."""

    def __init__(self, server, large):
        self.server, self.large = server, large
        self.idle = self.sent = self.amid = self.lost = 0

    def all(self):
        return self.idle + self.sent + self.amid

    def one(self):
        """Stop a worker, look where it is, kill it."""
        pid = random.choice(self.server.pids())
        os.kill(pid, signal.SIGSTOP)
        await_state(pid, "T")
        share = int(self.server.read(pid)[f"in flight of {pid}"])
        # The kernel may have taken a part of a large answer.
        if share == 0:
            self.idle += 1
        elif not self.large and system_call_of(pid) == SENDMSG:
            self.sent += 1
        else:
            self.amid += 1
            self.lost += share
        os.kill(pid, signal.SIGKILL)
        await_state(pid, "ZX")


def state_of(pid):
    """Return the process's state, like ps; X if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def await_state(pid, states):
    for _ in range(20000):
        if (state := state_of(pid)) in states:
            return
        time.sleep(0.0005)
    sys.exit(f"load.py: worker {pid} is in state {state}, not {states}")


def system_call_of(pid):
    """Return the number of the system call that a stopped process is in, or comes from; -1 if
    there is none, or if it is not known."""
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as f:
            return int(f.read().split()[0])
    except (OSError, ValueError):
        return -1


def start_wrk(server, options):
    command = ["wrk", "-t", "1", "-c", "32", "-d", str(options.seconds + QUIET), "-s"]
    command += [os.path.join(HERE, "load.lua"), f"http://127.0.0.1:{server.port}/"]
    command += ["--", str(options.seconds)] + ["large"] * options.large
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def disturb(server, options, wrk):
    """Kill workers while wrk sends; restart the server in the middle. Return the kills."""
    kills = Kills(server, options.large)
    begin = time.monotonic()
    # wrk counts in whole seconds, and the last of them may be short.
    while (now := time.monotonic() - begin) < options.seconds - 1.2 and wrk.poll() is None:
        if options.restart and now > options.seconds / 2:
            options.restart = False
            restart(server, kills)
        kills.one()
        time.sleep(random.random() * 2 / options.kills)
    if options.restart:  # a kill took long, on a busy machine
        restart(server, kills)
    return kills


def restart(server, kills):
    """End the server, and start it again on the same segment."""
    await_restarts(server, kills.all())
    if server.stop() != 0:
        sys.exit("load.py: the server did not end well")
    server.start()


def await_restarts(server, n):
    """Wait until the master has replaced the last worker."""
    for _ in range(500):
        if server.read()["restarts"] >= n:
            return
        time.sleep(0.02)


def check(ours, wrk, kills, starts):
    """Print a table; return whether all differences are allowed."""
    requests = sum(ours[f"requests {n}xx"] for n in (2, 3, 4, 5))
    refused = ours["requests 4xx"] + ours["requests 5xx"]
    lost, most = kills.lost, LARGE if kills.large else SMALL
    rows = [
        ("answers", requests, wrk["answers"], lost),
        ("  of them 4xx, 5xx", refused, wrk["refused"], lost),
        ("bytes", ours["bytes"], wrk["bytes"], lost * most),
        ("answers timed", ours["observations"], wrk["answers"], lost),
        ("in flight", ours["in flight"], 0, 0),
        ("workers replaced", ours["restarts"], kills.all(), 0),
        ("starts", ours["starts"], starts, 0),
    ]
    good = requests > 0 and kills.all() > 0 and ours["seconds"] > 0
    print(f"{'':20} {'in the segment':>14} {'by the client':>13} {'difference':>11} {'allowed':>9}")
    for name, here, there, allowed in rows:
        right = 0 <= here - there <= allowed
        good = good and right
        print(
            f"{name:20} {here:14.0f} {there:13.0f} {here - there:11.0f} {allowed:9.0f}"
            f"  {'ok' if right else 'WRONG'}"
        )
    print(f"All answers took {ours['seconds']:.6f} s to make.")
    return good


def load(options, segment):
    server = Server(os.path.abspath(options.program), options.workers, segment)
    starts = 2 if options.restart else 1
    server.start()
    print(
        f"wrk asks {options.workers} workers for {options.seconds} s,"
        " while one after the other is killed.",
        flush=True,
    )
    wrk = start_wrk(server, options)
    try:
        kills = disturb(server, options, wrk)
        said = wrk.communicate(timeout=60)[0]
        await_restarts(server, kills.all())
        ours = server.read()
        stopped = server.stop()
    finally:
        wrk.kill()
        server.master.kill()
    print(
        f"{kills.all()} workers were killed with SIGKILL: {kills.idle} with no request in flight,"
        f" {kills.sent} just when\nan answer was sent, and {kills.amid} amid one, which"
        " the client need not have got."
    )
    counted = {name: int(n) for name, n in re.findall(r"(answers|bytes|refused) (\d+)\n", said)}
    good = check(ours, counted, kills, starts)
    if stopped != 0 or server.read() != ours:
        print(f"Ending the server changed the counts, or failed: status {stopped}. WRONG")
        good = False
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="prefork")
    parser.add_argument("--seconds", type=int, default=10, help="so long requests come")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kills", type=float, default=10, help="in a second")
    parser.add_argument("--restart", action="store_true", help="of the server, in the middle")
    parser.add_argument("--large", action="store_true", help="some answers are large")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("load.py: wrk is not installed")
    with tempfile.TemporaryDirectory() as work:
        return 0 if load(options, os.path.join(work, "segment")) else 1


if __name__ == "__main__":
    sys.exit(main())
