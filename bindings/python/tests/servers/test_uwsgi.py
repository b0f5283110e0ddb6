# SPDX-License-Identifier: MIT
"""uWSGI: its workers are forked after the app is loaded, or load it each; they may be named."""

from collections.abc import Callable

import pytest

from . import load, samples, scenes
from .processes import WebServer

Serve = Callable[..., WebServer]
UWSGI = ("uwsgi", "--http-socket", "127.0.0.1:PORT", "--master", "--die-on-term", "-L")
PROCESSES = ("-p", "3", "--max-requests", "200", "--min-worker-lifetime", "1")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("-w", "plain:app"), id="prefork"),
        pytest.param(("-w", "plain:app", "--lazy-apps"), id="lazy"),
        pytest.param(("-w", "plain:app", "--enable-threads", "--threads", "4"), id="threads"),
    ],
)
def test_killed(serve: Serve, say: scenes.Say, options: tuple[str, ...]) -> None:
    scenes.killed(serve(*UWSGI, *PROCESSES, *options), say)


def test_numbered_workers(serve: Serve, say: scenes.Say) -> None:
    """Workers are named by their numbers, the master by 0: a new one has the name of the old."""
    server = serve(*UWSGI, *PROCESSES, "-w", "numbered:app")
    for _ in range(100):
        load.get(server.port, "/load?amount=1")
    names = samples.from_server(server).labels("latest", "pid")
    assert names and names <= {"0", "1", "2", "3"}, names
    scenes.in_flight(server)
    assert samples.from_server(server).value("requests_total", path="/load") == 100


def test_numbered_workers_are_killed(serve: Serve, say: scenes.Say) -> None:
    scenes.killed(serve(*UWSGI, *PROCESSES, "-w", "numbered:app"), say, numbered=True)


def test_reloaded(serve: Serve, say: scenes.Say) -> None:
    """uWSGI runs its own program again in the same process."""
    scenes.reloaded(serve(*UWSGI, *PROCESSES, "-w", "plain:app"), say)


def test_killed_in_flight(serve: Serve) -> None:
    assert scenes.in_flight(serve(*UWSGI, *PROCESSES, "-w", "plain:app")) == 0
