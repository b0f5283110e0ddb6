# SPDX-License-Identifier: MIT
"""uvicorn with worker processes, which it spawns anew when they end or are killed."""

from collections.abc import Callable

from . import scenes
from .processes import WebServer

Serve = Callable[..., WebServer]
UVICORN = ("uvicorn", "--no-access-log", "--port", "PORT", "--workers", "2", "fast:app")


def test_killed(serve: Serve, say: scenes.Say) -> None:
    scenes.killed(serve(*UVICORN), say, pause=1.0)


def test_replaced(serve: Serve, say: scenes.Say) -> None:
    scenes.replaced(serve(*UVICORN, "--limit-max-requests", "200"), say, 2000, 4)


def test_killed_in_flight(serve: Serve) -> None:
    assert scenes.in_flight(serve(*UVICORN)) == 0
