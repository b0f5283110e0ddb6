#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""machine.py PERCPU PREFORK ADDRESS - a machine of test_machines.py, in namespaces of its own.

It runs the server of examples/prefork and percpu serve. Each line on its input is a step: a number
loads the server for so many seconds, while its workers are killed, and prints what the clients saw;
"crash" kills all of the server. It ends with its input.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/prefork"))

import demo
import load

SEGMENT = "/dev/shm/percpu.shop"
PORT = 9180


def load_for(server, seconds):
    """Return what the clients saw."""
    options = argparse.Namespace(seconds=seconds, large=False)
    wrk = load.start_wrk(server, options)
    try:
        kills = demo.disturb(server, wrk, seconds)
        said = wrk.communicate(timeout=60)[0]
    finally:
        wrk.kill()
    load.await_restarts(server, kills.all())
    seen = {name: int(n) for name, n in re.findall(r"(answers|bytes|refused) (\d+)\n", said)}
    return seen | {"kills": kills.all()}


def crash(server):
    """Kill the master and its workers, so that nothing of them is left but the segment."""
    workers = server.pids()
    server.master.kill()
    server.master.wait()
    for pid in workers:
        os.kill(pid, signal.SIGKILL)


def main():
    percpu, prefork, address = sys.argv[1:]
    for command in ("mount -t tmpfs none /dev/shm", "ip link set lo up"):
        subprocess.run(command.split(), check=True)
    server = load.Server(prefork, 2, SEGMENT)
    serve = subprocess.Popen([percpu, "serve", "--listen", f"{address}:{PORT}"])
    try:
        server.start()
        demo.await_page(f"http://{address}:{PORT}/metrics", serve)
        print("ready", flush=True)
        for line in sys.stdin:
            if line == "crash\n":
                crash(server)
                print("{}", flush=True)
            else:
                print(json.dumps(load_for(server, int(line))), flush=True)
    finally:
        server.master.kill()
        serve.terminate()
        serve.wait()


if __name__ == "__main__":
    main()
