# SPDX-License-Identifier: MIT
"""Servers as process groups: how they start, which workers they have, and how they end."""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from . import load

APPS = pathlib.Path(__file__).parent / "apps"
LIMIT = 180
BIN = pathlib.Path(sys.executable).parent


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait until the condition holds; fail if it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"this did not come to be in {seconds} s: {what}"
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Return the processes that the threads of this one started and that live."""
    found = []
    for threads in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in threads.read_text().split()]
    return found


def _command(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


class Server:
    """A program in a session of its own, which writes its log into a file. If it is piped, the
    test reads what it prints."""

    def __init__(
        self,
        command: list[str],
        folder: pathlib.Path,
        *,
        upstream: bool = False,
        piped: bool = False,
    ):
        self.metrics = folder / "metrics"
        self.metrics.mkdir(exist_ok=True)
        self.log = folder / "server.log"
        self.killed = 0
        self.replaced: set[int] = set()
        self.env = {
            **os.environ,
            "PROMETHEUS_MULTIPROC_DIR": str(self.metrics),
            "PYTHONPATH": str(APPS),
            "SERVERS_WITH": "upstream" if upstream else "",
            "SERVERS_QUEUE": str(folder),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                cwd=folder,
                env=self.env,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process that starts the others."""
        return self._process.pid

    def workers(self) -> list[int]:
        """Return the workers that live; helpers of multiprocessing are none."""
        found = [pid for pid in children(self.pid) if "resource_tracker" not in _command(pid)]
        self.replaced.update(found)
        return found

    def kill(self, pid: int) -> None:
        """Send SIGKILL to a worker, which may be gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.killed += 1

    def line(self) -> str:
        """Return the next line that a piped program prints."""
        assert self._process.stdout
        line = self._process.stdout.readline().decode().rstrip()
        assert line, self.log.read_text()
        return line

    def wait(self) -> None:
        """Wait for a program that ends by itself."""
        assert self._process.wait(LIMIT) == 0, self.log.read_text()

    def end(self) -> None:
        """End the server, and all of its group for certain."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            pipe.close()


class WebServer(Server):
    """A server that answers requests: the word PORT of its command is replaced by the port."""

    def __init__(self, command: list[str], folder: pathlib.Path, *, upstream: bool = False):
        self.port = free_port()
        full = [word.replace("PORT", str(self.port)) for word in command]
        super().__init__(full, folder, upstream=upstream)

    def answers(self) -> bool:
        """Return whether a scrape gets an answer."""
        assert self._process.poll() is None, self.log.read_text()
        try:
            load.get(self.port, "/metrics/")
        except load.LOST:
            return False
        return True


class Killer(threading.Thread):
    """A thread that kills one random worker after the other."""

    def __init__(self, server: Server, pause: float):
        super().__init__()
        self._server, self._pause, self._done = server, pause, threading.Event()
        self.start()

    def run(self) -> None:
        """Kill until stop() is called."""
        while not self._done.wait(self._pause):
            if workers := self._server.workers():
                self._server.kill(random.choice(workers))

    def stop(self) -> None:
        """End the thread."""
        self._done.set()
        self.join()
