# SPDX-License-Identifier: MIT
"""celery's processes, which end after some tasks, and are killed."""

import collections
import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from . import load, processes, samples, scenes
from .processes import Server, wait_for

CELERY = ("celery", "-A", "tasks", "worker", "-l", "WARNING", "-P", "prefork", "-c", "3")
Start = Callable[..., Server]


@pytest.fixture
def celery(tmp_path: pathlib.Path, ending: contextlib.ExitStack) -> Start:
    """Start a worker of celery, whose queue and results are folders."""

    def start(*options: str) -> Server:
        for name in ("queue", "control", "results"):
            (tmp_path / name).mkdir()
        server = Server([*CELERY, *options], tmp_path)
        ending.callback(server.end)
        return server

    return start


def _submit(server: Server, number: int, seconds: int) -> load.Tally:
    command = [sys.executable, str(processes.APPS / "submit.py"), str(number), str(seconds)]
    done = subprocess.run(command, env=server.env, capture_output=True, timeout=55, check=True)
    seen = json.loads(done.stdout)
    return load.Tally(collections.Counter(seen["sent"]), collections.Counter(seen["answered"]))


def _check(server: Server, tally: load.Tally) -> None:
    seen = samples.from_directory(server)
    samples.check(seen, tally, path="/task")
    scenes.ended(server, seen)


def test_replaced(celery: Start, say: scenes.Say) -> None:
    """Each process does 25 tasks: the sums are exact."""
    server = celery("--max-tasks-per-child", "25")
    tally = _submit(server, 500, 40)
    say(f"{tally.answered.total()} tasks done, {tally.lost} lost")
    assert tally.lost == 0
    _check(server, tally)


def test_killed(celery: Start, say: scenes.Say) -> None:
    """Processes are killed: what is done is counted, and no task twice."""
    server = celery("--max-tasks-per-child", "25")
    killer = processes.Killer(server, 1.5)
    try:
        tally = _submit(server, 3000, 30)
    finally:
        killer.stop()
    say(f"{tally.answered.total()} tasks done, {tally.lost} lost, {server.killed} kills")
    assert server.killed > 0 and tally.answered.total() > 0
    _check(server, tally)


def test_killed_in_flight(celery: Start) -> None:
    server = celery()
    hold = [sys.executable, "-c", "import tasks; tasks.hold.delay()"]
    subprocess.run(hold, env=server.env, timeout=30, check=True)
    wait_for(lambda: _in_flight(server) == 1, "a task in flight")
    for pid in server.workers():
        server.kill(pid)
    wait_for(lambda: _in_flight(server) == 0, "no task in flight")


def _in_flight(server: Server) -> float:
    return samples.from_directory(server).value("in_flight")
