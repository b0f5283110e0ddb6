# SPDX-License-Identifier: MIT
"""Programs without a server: multiprocessing by each of its start methods, and 10 000 processes."""

import collections
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import Callable

import pytest

from . import load, processes, samples, scenes

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
Program = Callable[..., processes.Server]


@pytest.fixture
def program(tmp_path: pathlib.Path, ending: contextlib.ExitStack) -> Program:
    """Start a program of apps/, whose input and output are pipes."""

    def start(name: str, *arguments: str) -> processes.Server:
        command = [sys.executable, str(processes.APPS / name), *arguments]
        server = processes.Server(command, tmp_path, piped=True)
        ending.callback(server.end)
        return server

    return start


@METHODS
def test_pool(program: Program, method: str) -> None:
    """A pool whose processes do 20 tasks each counts all of them."""
    server = program("pools.py", method, "600")
    assert server.line() == "600"
    amounts = collections.Counter(range(1, 601))
    seen = samples.from_directory(server)
    samples.check(seen, load.Tally(amounts, amounts), path="/task")
    assert seen.value("in_flight") == 0
    scenes.ended(server, seen)


@METHODS
def test_killed(program: Program, say: scenes.Say, method: str) -> None:
    """Each process is killed: at most its last count was not told."""
    server = program("writers.py", method, "8")
    seen = json.loads(server.line())
    say(f"{method}: {seen['told']} counts told by {seen['started']} processes")
    counted = samples.from_directory(server)
    told, most = seen["told"], seen["told"] + seen["started"]
    for name in ("amounts_count", "amounts_sum", "units_count", "units_sum"):
        assert told <= counted.value(name) <= most, name
    assert told <= counted.value("requests_total", path="/write") <= most
    assert told > seen["started"] > 10
    assert counted.value("in_flight") == 0
    scenes.ended(server, counted)


def _disk(server: processes.Server) -> tuple[int, int]:
    status = samples.segment_of(server).stat()
    return status.st_size, status.st_blocks * 512


def test_ten_thousand_processes(program: Program, say: scenes.Say) -> None:
    """10 000 processes leave no more behind than 200."""
    first = program("short.py", "200")
    first.wait()
    before, few = _disk(first), samples.from_directory(first)
    begin = samples.timed_read(first)
    second = program("short.py", "9800")
    second.wait()
    after, many = _disk(second), samples.from_directory(second)
    say(
        f"size {before[0]} -> {after[0]} bytes, on disk {before[1]} -> {after[1]}, "
        f"scrape {begin:.1f} -> {samples.timed_read(second):.1f} ms"
    )
    assert many.value("requests_total", path="/short") == many.value("amounts_count") == 10_000
    assert many.value("in_flight") == 0 and not many.labels("latest", "pid")
    assert many.value("largest") == 1000
    assert len(many) == len(few), "series were left behind"
    assert after[0] <= 2 * before[0] and after[1] <= 2 * before[1], (before, after)
    assert os.listdir(second.metrics) == ["metrics.percpu"]
    scenes.ended(second, many)
