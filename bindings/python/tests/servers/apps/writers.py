# SPDX-License-Identifier: MIT
"""writers.py METHOD SECONDS - processes that count, tell it by a byte, and are killed at random.
Prints as JSON how many bytes came and how many processes there were."""

import json
import multiprocessing
import os
import random
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import counted


def write(told: Connection) -> None:
    """Count and tell it until killed."""
    with counted.IN_FLIGHT.track_inprogress():
        while True:
            counted.count("/write", 1)
            os.write(told.fileno(), b"x")


def read(told: Connection, total: list[int]) -> None:
    """Read until all of the processes that write are dead."""
    while got := os.read(told.fileno(), 65536):
        total[0] += len(got)


def kill_all(context: Any, told: Connection, seconds: float) -> int:
    """Replace one random process after the other; return how many there were."""
    processes = [context.Process(target=write, args=(told,)) for _ in range(4)]
    for process in processes:
        process.start()
    started, until = len(processes), time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(random.random() / 10)
        at = random.randrange(4)
        processes[at].kill()
        processes[at].join()
        processes[at] = context.Process(target=write, args=(told,))
        processes[at].start()
        started += 1
    for process in processes:
        process.kill()
        process.join()
    return started


def main() -> None:
    """Run one scene."""
    context = multiprocessing.get_context(sys.argv[1])
    reads, told = context.Pipe(duplex=False)
    total = [0]
    reader = threading.Thread(target=read, args=(reads, total), daemon=True)
    reader.start()
    started = kill_all(context, told, float(sys.argv[2]))
    told.close()
    reader.join(5)
    print(json.dumps({"told": total[0], "started": started}))


if __name__ == "__main__":
    main()
