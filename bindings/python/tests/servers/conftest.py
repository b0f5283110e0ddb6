# SPDX-License-Identifier: MIT
"""What all tests of servers share: servers that end with their test, and a limit of time."""

import contextlib
import importlib.util
import pathlib
import signal
from collections.abc import Callable, Iterator

import pytest

from . import processes

# Their venv has the servers; the one of the other tests does not.
if importlib.util.find_spec("gunicorn") is None:
    collect_ignore_glob = ["test_*.py"]


def _too_long(_number: int, _frame: object) -> None:
    raise TimeoutError(f"the test takes longer than {processes.LIMIT} s")


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """End a test that hangs."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(processes.LIMIT)
    yield
    signal.alarm(0)


@pytest.fixture
def ending() -> Iterator[contextlib.ExitStack]:
    """What is to be ended with the test, even if it fails."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def serve(
    tmp_path: pathlib.Path, ending: contextlib.ExitStack
) -> Callable[..., processes.WebServer]:
    """Start a server and wait for its first answer."""

    def start(*command: str, upstream: bool = False) -> processes.WebServer:
        server = processes.WebServer(list(command), tmp_path, upstream=upstream)
        ending.callback(server.end)
        processes.wait_for(server.answers, "the server's first answer")
        return server

    return start


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a line that is shown of tests that pass, too."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\n    {text}", end="")

    return line
