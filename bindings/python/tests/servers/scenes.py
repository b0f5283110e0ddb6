# SPDX-License-Identifier: MIT
"""What is done to each server: load with kills, load without any, and a worker killed in flight."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

from . import load, processes, samples
from .processes import WebServer, wait_for

KILL_SECONDS = 8
CLIENTS = 4

Say = Callable[[str], None]


def _is_quiet(server: WebServer) -> bool:
    try:
        return samples.from_server(server).value("in_flight") == 0
    except load.LOST:
        return False


def _latest_are_of_living(server: WebServer) -> bool:
    """Whether a series per process is of living ones alone."""
    try:
        pids = samples.from_server(server).labels("latest", "pid")
    except load.LOST:
        return False
    return pids <= {str(pid) for pid in [*server.workers(), server.pid]}


def killed(server: WebServer, say: Say, pause: float = 0.3, numbered: bool = False) -> None:
    """Kill workers under load: sums are within bounds, and nothing stays in flight."""
    clients = load.Clients(server.port, seconds=KILL_SECONDS, threads=CLIENTS)
    wrk = load.Wrk(server.port, KILL_SECONDS - 2)
    killer = processes.Killer(server, pause)
    try:
        scrapes = samples.watch(server, clients, CLIENTS + wrk.connections)
    finally:
        killer.stop()
        tally = clients.join()
        answers, sent = wrk.join()
    say(
        f"{tally.answered.total() + answers} answers, {tally.lost} lost, {server.killed} kills, "
        f"{len(server.replaced)} workers, {scrapes} scrapes"
    )
    wait_for(lambda: _is_quiet(server), "nothing is in flight")
    if not numbered:
        wait_for(lambda: _latest_are_of_living(server), "one series per living process")
    seen = samples.from_server(server)
    assert server.killed > 0 and tally.lost < tally.sent.total() / 2, tally.lost
    loaded = seen.value("requests_total", path="/load")
    assert answers <= loaded <= sent, (answers, loaded, sent)
    samples.check(seen, tally, extra=sent, numbered=numbered)
    ended(server, seen)


def replaced(server: WebServer, say: Say, requests: int, workers: int) -> None:
    """Let the server replace workers by itself: the sums are exact, and a scrape costs as much."""
    begin = samples.timed_read(server)
    clients = load.Clients(server.port, requests, seconds=30, threads=CLIENTS)
    samples.watch(server, clients, CLIENTS)
    tally = clients.join()
    seen = samples.from_server(server)
    say(
        f"{tally.answered.total()} answers, {tally.lost} lost, {len(server.replaced)} workers seen, "
        f"scrape {begin:.1f} -> {samples.timed_read(server):.1f} ms"
    )
    samples.check(seen, tally)
    assert len(server.replaced) >= workers, len(server.replaced)
    ended(server, seen)


def _reload(server: WebServer) -> None:
    before = set(server.workers())

    def is_done() -> bool:
        now = set(server.workers())
        return bool(now) and not now & before

    os.kill(server.pid, signal.SIGHUP)
    wait_for(is_done, "new workers alone")
    time.sleep(1)  # uWSGI has new workers before it handles the next SIGHUP


def reloaded(server: WebServer, say: Say) -> None:
    """Let the server replace all workers again and again: what is answered is counted."""
    clients = load.Clients(server.port, seconds=8, threads=CLIENTS)
    reloads = 0
    while clients.running():
        _reload(server)
        reloads += 1
    tally = clients.join()
    wait_for(lambda: _is_quiet(server), "nothing is in flight")
    seen = samples.from_server(server)
    say(f"{tally.answered.total()} answers, {tally.lost} lost, {reloads} reloads")
    assert len(server.replaced) > reloads
    samples.check(seen, tally)
    ended(server, seen)


def in_flight(server: WebServer) -> float:
    """Kill a worker with a request in flight; return what the gauge says then."""

    def hold() -> None:
        with contextlib.suppress(*load.LOST):
            load.get(server.port, "/hold", timeout=30)

    holder = threading.Thread(target=hold)
    holder.start()
    wait_for(lambda: _in_flight(server) == 1, "a request in flight")
    for pid in server.workers():
        server.kill(pid)
    holder.join()
    wait_for(server.answers, "an answer of the new workers")
    return _in_flight(server)


def _in_flight(server: WebServer) -> float:
    try:
        return samples.from_server(server).value("in_flight")
    except load.LOST:
        return -1


def ended(server: processes.Server, seen: samples.Samples) -> None:
    """End the server: the file alone says what it said."""
    server.end()
    assert "percpu_prometheus:" not in server.log.read_text(), "the drop-in had to say something"
    for name, again in (
        ("a scrape", samples.from_directory(server)),
        ("percpu show", samples.from_tool(server)),
        ("percpu serve", samples.from_serve(server)),
    ):
        _same(again, seen, name)
    again = samples.from_directory(server)
    assert again.value("in_flight") == 0
    assert not again.labels("latest", "pid"), "a series of a process that is dead"


def _same(again: samples.Samples, seen: samples.Samples, name: str) -> None:
    for key, value in seen.values.items():
        if key[0] not in ("served_in_flight", "served_latest") and "_created" not in key[0]:
            assert again.values.get(key) == value, f"{name}: {key}: {again.values.get(key)}"
