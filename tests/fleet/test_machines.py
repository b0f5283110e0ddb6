#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_machines.py PERCPU PREFORK - a fleet: three machines, each with its server, its clients and
percpu serve, and one Prometheus.

A machine is a network namespace, with a /dev/shm of its own. Workers are killed on each, and one
server is killed whole. Prometheus's sum over the fleet is what all clients saw. Speaks TAP; needs
root.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../cli"))

import prometheus
import tap

SECONDS, MACHINES = 4, 3
HUB = f"percpu{os.getpid()}h"
NET = "10.89.7"


def run(command, **options):
    return subprocess.run(command.split(), check=True, **options)


@contextlib.contextmanager
def network():
    """A namespace with a bridge, and one for each machine. Yields the names of the machines."""
    names = [f"percpu{os.getpid()}m{i}" for i in range(1, MACHINES + 1)]
    try:
        run(f"ip netns add {HUB}")
        run(f"ip -n {HUB} link set lo up")
        run(f"ip -n {HUB} link add hub type bridge")
        run(f"ip -n {HUB} addr add {NET}.254/24 dev hub")
        run(f"ip -n {HUB} link set hub up")
        for i, name in enumerate(names, 1):
            run(f"ip netns add {name}")
            run(f"ip -n {HUB} link add to{i} type veth peer name eth0 netns {name}")
            run(f"ip -n {HUB} link set to{i} master hub up")
            run(f"ip -n {name} addr add {NET}.{i}/24 dev eth0")
            run(f"ip -n {name} link set eth0 up")
        yield names
    finally:
        for name in [HUB, *names]:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


class Machine:
    """A machine that runs machine.py."""

    def __init__(self, name, address, log):
        inside = [
            "ip",
            "netns",
            "exec",
            name,
            "unshare",
            "--mount",
            "--",
            sys.executable,
        ]
        command = [*inside, os.path.join(HERE, "machine.py"), *PROGRAMS, address]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        # In a session of its own: a crash kills the group of its server, not this test.
        self.process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "a machine has ended"
        return line

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def fleet(directory):
    if os.geteuid() != 0:
        return "needs root"
    if not prometheus.is_there():
        return "prometheus is not installed"
    log_path = os.path.join(directory, "log")
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(log_path, "w", encoding="utf-8"))
        names = stack.enter_context(network())
        machines = []
        for i, name in enumerate(names, 1):
            machines.append(Machine(name, f"{NET}.{i}", log))
            stack.callback(machines[-1].end)
        for machine in machines:
            assert machine.answer() == "ready\n"
        targets = [f"{NET}.{i}:9180" for i in range(1, MACHINES + 1)]
        server = prometheus.Server(f"{directory}/hub", targets, netns=HUB)
        stack.enter_context(server)
        compare(machines, server)
    return None


def load_all(machines, seconds):
    """Load machines at once. Return what all clients together saw."""
    for machine in machines:
        machine.say(str(seconds))
    seen = [json.loads(machine.answer()) for machine in machines]
    return {name: sum(s[name] for s in seen) for name in ("answers", "bytes", "kills")}


def compare(machines, server):
    """The sums are what the clients saw, also when one of the servers has been killed whole."""
    first = load_all(machines, SECONDS)
    await_sums(server, first)
    machines[0].say("crash")
    machines[0].answer()
    second = load_all(machines[1:], SECONDS)
    await_sums(server, {name: n + second[name] for name, n in first.items()})
    up = server.query("percpu_segment_up")
    assert [v for _, v in up] == [1.0] * MACHINES, up


def await_sums(server, sums):
    """Wait until Prometheus has scraped all machines once more."""
    queries = {
        "answers": "sum(prefork_requests_total)",
        "bytes": "sum(prefork_answer_bytes_total)",
        "kills": "sum(prefork_worker_restarts_total)",
    }
    for _ in range(100):
        got = {name: sum(v for _, v in server.query(q)) for name, q in queries.items()}
        if got == sums:
            return
        time.sleep(0.2)
    raise AssertionError(f"Prometheus has {got}, the clients saw {sums}")


if __name__ == "__main__":
    PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:3]]
    tap.run([fleet])
