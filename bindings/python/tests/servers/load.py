# SPDX-License-Identifier: MIT
"""Clients that know which answers they got, and the load of wrk beside them."""

import collections
import http.client
import random
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field

# What a client sees of a worker that is killed.
LOST = (OSError, http.client.HTTPException)


@dataclass
class Tally:
    """The amounts that were sent, and those of them whose answers came back whole."""

    sent: collections.Counter[int] = field(default_factory=collections.Counter)
    answered: collections.Counter[int] = field(default_factory=collections.Counter)

    def add(self, other: "Tally") -> None:
        """Add the amounts of another client."""
        self.sent += other.sent
        self.answered += other.answered

    @property
    def lost(self) -> int:
        """How many requests got no answer."""
        return self.sent.total() - self.answered.total()


def get(port: int, path: str, timeout: float = 10) -> bytes:
    """Return the answer of one request by a connection of its own; raise if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise http.client.HTTPException(f"{response.status}: {body[:200]!r}")
        return body
    finally:
        connection.close()


class Clients:
    """Threads that send requests until their number or the time is used up."""

    def __init__(self, port: int, requests: int = 10**9, seconds: float = 20, threads: int = 4):
        self.tally = Tally()
        self._port, self._requests = port, requests // threads
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, seed: int) -> None:
        amounts, mine = random.Random(seed), Tally()
        for _ in range(self._requests):
            if time.monotonic() > self._until:
                break
            amount = amounts.randrange(1, 1001)
            mine.sent[amount] += 1
            try:
                body = get(self._port, f"/count?amount={amount}")
            except LOST:
                time.sleep(0.01)
                continue
            assert body.strip(b'"') == str(amount).encode(), body
            mine.answered[amount] += 1
        with self._lock:
            self.tally.add(mine)

    def running(self) -> bool:
        """Return whether a client still sends requests."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> Tally:
        """Wait for all of them and return what they saw."""
        for thread in self._threads:
            thread.join()
        return self.tally


class Wrk:
    """wrk, which sends requests of the amount 1 to /load."""

    connections = 8

    def __init__(self, port: int, seconds: int) -> None:
        command = ["wrk", "-t1", f"-c{self.connections}", f"-d{seconds}s"]
        self._process = subprocess.Popen(
            [*command, f"http://127.0.0.1:{port}/load?amount=1"], stdout=subprocess.PIPE, text=True
        )

    def join(self) -> tuple[int, int]:
        """Return the numbers of answers, and of requests that may have been sent."""
        text, _ = self._process.communicate(timeout=60)
        answers = int(_number(r"(\d+) requests in", text))
        refused = int(_number(r"Non-2xx or 3xx responses: (\d+)", text))
        errors = re.search(r"read (\d+), write (\d+), timeout (\d+)", text)
        lost = sum(map(int, errors.groups())) if errors else 0
        return answers - refused, answers + lost + self.connections

    def end(self) -> None:
        """Kill it if it still runs."""
        self._process.kill()
        self._process.wait()


def _number(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "0"
