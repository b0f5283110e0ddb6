#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare the latency of prefork with that of a prefork that counts nothing.

Beside it stands the CPU time of the workers per request, which other work of the machine affects
less. wrk loads the two in turn. Medians of the rounds; a ratio is of a round and its neighbor, and has
the quartiles of all of them in brackets.
"""

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PUBLISHED = "1 to 2 % of the mean, 2 to 3 % of P99"


class Server:
    """A prefork that counts, or with -n does not."""

    def __init__(self, options, segment, *more):
        command = [os.path.abspath(options.program), "-p", "0", "-w", str(options.workers), *more]
        try:
            self.process = subprocess.Popen([*command, segment], stdout=subprocess.PIPE, text=True)
        except OSError as e:
            sys.exit(f"latency.py: {e}")
        port = self.process.stdout.readline().rpartition(":")[2]
        if not port.strip().isdecimal():
            sys.exit(f"latency.py: {options.program} does not say which port it listens on")
        self.port = int(port)

    def cpu_time(self):
        """Return the CPU time of all workers, in us."""
        pid, total = self.process.pid, 0
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            children = f.read().split()
        for child in children:
            with open(f"/proc/{child}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
        return total / 1000

    def load(self, options):
        """Return wrk's figures by name, and the CPU time of a request."""
        command = ["wrk", "-t", "1", "-c", str(options.connections), "-d", str(options.seconds)]
        command += ["-s", os.path.join(HERE, "latency.lua"), f"http://127.0.0.1:{self.port}/"]
        before = self.cpu_time()
        said = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        ).stdout
        found = {
            k: float(n)
            for k, n in re.findall(r"^(answers|failed|mean|P99) (.*)$", said, re.MULTILINE)
        }
        if found.get("answers", 0) == 0 or found["failed"] > 0:
            sys.exit(f"latency.py: requests failed:\n{said}")
        found["CPU"] = (self.cpu_time() - before) / found["answers"]
        return found


def positive(text):
    """Parse a number of an option."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"a number from 1 on, and not {text!r}")
    return int(text)


def quartiles(values):
    """Return the median and the quartiles."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def measure(options, servers):
    """Return the figures of both servers, a list of rounds each."""
    rounds = ([], [])
    for server in servers:  # to warm up
        server.load(options)
    for i in range(options.rounds):
        for k in (0, 1) if i % 2 == 0 else (1, 0):
            rounds[k].append(servers[k].load(options))
    return rounds


def print_table(options, without, counting):
    print(
        f"{options.workers} workers, {options.connections} connections, {options.rounds} rounds of"
        f" {options.seconds} s each in turn; us\n\n{'':6} {'without':>9} {'counting':>9}  ratio"
    )
    for name in ("mean", "P99", "CPU"):
        columns = [statistics.median(r[name] for r in rounds) for rounds in (without, counting)]
        ratios = [c[name] / w[name] for w, c in zip(without, counting)]
        middle, low, high = quartiles(ratios)
        print(f"{name:6} {columns[0]:9.1f} {columns[1]:9.1f}  {middle:.3f} [{low:.3f}, {high:.3f}]")
    print(f"\nPublished, what sequences gain for an allocator in production: {PUBLISHED}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="prefork")
    parser.add_argument("--seconds", type=positive, default=3, help="of a round")
    parser.add_argument("--rounds", type=positive, default=9)
    parser.add_argument("--workers", type=positive, default=2)
    parser.add_argument("--connections", type=positive, default=8)
    options = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("latency.py: wrk is not installed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and so end the servers
    with tempfile.TemporaryDirectory() as work:
        servers = []
        try:
            for more in (("-n",), ()):
                servers.append(Server(options, os.path.join(work, f"segment{len(servers)}"), *more))
            print_table(options, *measure(options, servers))
        finally:
            for server in servers:
                server.process.terminate()
                server.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
