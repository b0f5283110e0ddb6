# SPDX-License-Identifier: MIT
"""gunicorn: processes and threads, preloaded or not, with workers that are replaced and killed."""

from collections.abc import Callable

import pytest

from . import load, samples, scenes
from .processes import APPS, WebServer

Serve = Callable[..., WebServer]
GUNICORN = ("gunicorn", "--no-control-socket", "-b", "127.0.0.1:PORT", "-w", "3")
THREADS = ("-k", "gthread", "--threads", "4")
RELOADED = ("--max-requests", "50", "--max-requests-jitter", "20")
HOOK = ("-c", str(APPS / "hooks.py"))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("plain:app", "--preload", *RELOADED), id="sync-preload"),
        pytest.param(("plain:app",), id="sync"),
        pytest.param(("flasked:app", *THREADS, "--preload", *RELOADED), id="gthread-preload"),
        pytest.param(("flasked:app", *THREADS), id="gthread"),
        pytest.param(("plain:app", "--preload", *HOOK), id="hook"),
        pytest.param(("fast:app", "-k", "uvicorn_worker.UvicornWorker"), id="uvicorn"),
    ],
)
def test_killed(serve: Serve, say: scenes.Say, options: tuple[str, ...]) -> None:
    scenes.killed(serve(*GUNICORN, *options), say)


def test_hundreds_of_workers(serve: Serve, say: scenes.Say) -> None:
    options = ("plain:app", "--preload", "--max-requests", "2")
    scenes.replaced(serve(*GUNICORN, *options), say, 2400, 50)


def test_replaced_threads(serve: Serve, say: scenes.Say) -> None:
    options = ("flasked:app", "--preload", *THREADS, "--max-requests", "20")
    scenes.replaced(serve(*GUNICORN, *options), say, 2000, 20)


def test_reloaded(serve: Serve, say: scenes.Say) -> None:
    scenes.reloaded(serve(*GUNICORN, "plain:app"), say)


def test_started_again(serve: Serve) -> None:
    """A server that was killed counts on where it was."""
    for start in range(1, 4):
        server = serve(*GUNICORN, "plain:app", "--preload")
        for _ in range(10):
            load.get(server.port, "/count?amount=1")
        assert samples.from_server(server).value("requests_total", path="/count") == 10 * start
        server.kill(server.pid)
        server.end()


def test_killed_in_flight(serve: Serve) -> None:
    assert scenes.in_flight(serve(*GUNICORN, "plain:app")) == 0


def test_prometheus_client_alone_keeps_it_in_flight(serve: Serve) -> None:
    """The same test of prometheus_client alone, so that it is known to see the difference."""
    assert scenes.in_flight(serve(*GUNICORN, "plain:app", upstream=True)) == 1
