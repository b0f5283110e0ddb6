#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_prefork.py PREFORK LOAD LATENCY [OTHER] - the server of the example, and all its counts.

Its answers, byte by byte and in parts; kills of its processes; and load by wrk, which counts, too.
OTHER is the same server, which counts by another language in the same segment: then only what depends
on that is tried. Speaks TAP.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import tap

PREFORK, LOAD, LATENCY = map(os.path.abspath, sys.argv[1:4])
OTHER = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 else None
GET = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
HELLO = b"Hello from a worker.\n"
LARGE = 4 << 20
LARGE_ANSWER = LARGE + 94


class Server:
    """prefork with few workers, and a segment in that directory."""

    def __init__(self, directory, workers=2, *more, program=PREFORK):
        self.segment = os.path.join(directory, "segment")
        command = [program, "-p", "0", "-w", str(workers), *more, self.segment]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.terminate()
        equal(self.process.wait(30), 0)

    def connect(self, room=None):
        """Return a client's connection; with room, its kernel takes so many bytes."""
        c = socket.socket()
        if room:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        c.settimeout(30)
        c.connect(("127.0.0.1", self.port))
        return c

    def workers(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(child) for child in f.read().split()]

    def counts(self):
        """Return counts: classes of status, bytes, timed answers, in flight, restarts, starts."""
        command = [PREFORK, "-r", self.segment]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = dict(re.findall(r"(.*) (\S+)\n", text))
        names = [f"requests {n}xx" for n in (2, 3, 4, 5)]
        names += ["bytes", "observations", "in flight", "restarts", "starts"]
        return [int(found[name]) for name in names]

    def await_counts(self, want):
        """Wait for these counts: a worker may count after the client has the answer."""
        for _ in range(1000):
            if (got := self.counts()) == want:
                return
            time.sleep(0.01)
        equal(got, want)


def lives(pid):
    """Return whether the process is alive: a zombie is not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def equal(got, want):
    assert got == want, f"got {got}, not {want}"


def receive(connection, head_only=False):
    """Read an answer; return its status, its head, its body, and how many bytes it had."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte and len(head) < 1000, f"no head, but {head!r}"
        head += byte
    assert head.startswith(b"HTTP/1.1 "), head
    size = int(re.search(rb"Content-Length: (\d+)\r\n", head).group(1))
    body = b""
    while not head_only and len(body) < size:
        part = connection.recv(size - len(body))
        assert part, "the connection ended in a body"
        body += part
    return int(head.split()[1]), head, body, len(head) + len(body)


def answers(directory):
    """One connection requests every page; each answer is counted."""
    with Server(directory) as server, server.connect() as c:
        total = 0
        for request, status, body in (
            (GET, 200, HELLO),
            (b"GET /?a=b HTTP/1.1\r\n\r\n", 200, HELLO),
            (b"HEAD / HTTP/1.1\r\n\r\n", 200, b""),
            (b"GET /old HTTP/1.1\r\n\r\n", 301, b"It is at / now.\n"),
            (b"GET /missing HTTP/1.1\r\n\r\n", 404, b"Not found.\n"),
            (b"GET /%s HTTP/1.1\r\n\r\n" % (b"x" * 9000), 414, b""),
            (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 501, b""),
            (GET, 200, HELLO),
            (b"nonsense\r\n\r\n", 400, b""),
        ):
            c.sendall(request)
            got = receive(c, request.startswith(b"HEAD"))
            equal((got[0], got[2]), (status, body))
            equal(b"Connection: keep-alive" in got[1], status != 400)
            total += got[3]
        equal(c.recv(1), b"")
        server.await_counts([4, 1, 3, 1, total, 9, 0, 0, 1])
        server.end()
        equal(server.counts(), [4, 1, 3, 1, total, 9, 0, 0, 1])


def answers_that_are_not_counted(directory):
    """With -n the answers are the same, and no request is counted."""
    with Server(directory, 1, "-n") as server, server.connect() as c:
        for _ in range(3):
            c.sendall(GET)
            equal(receive(c)[2], HELLO)
        server.end()
        equal(server.counts(), [0, 0, 0, 0, 0, 0, 0, 0, 1])


def requests_in_parts_and_at_once(directory):
    """Requests byte by byte, many in one send, and one that never ends."""
    with Server(directory) as server:
        with server.connect() as c:
            for byte in GET:
                c.sendall(bytes([byte]))
            size = receive(c)[3]
            c.sendall(GET * 500)
            for _ in range(500):
                equal(receive(c)[2:], (HELLO, size))
        with server.connect() as c:
            c.sendall(b"GET / HTTP/1.0\r\n\r\n")
            last = receive(c)[3]
            equal(c.recv(1), b"")
        with server.connect() as c:
            c.sendall(GET[:-1])
        server.await_counts([502, 0, 0, 0, 501 * size + last, 502, 0, 0, 1])


def large_answers(directory):
    """An answer is in flight until the kernel has taken all of it; other requests go on."""
    with Server(directory, 1) as server, server.connect(65536) as slow, server.connect() as c:
        slow.sendall(b"GET /large HTTP/1.1\r\n\r\n" + GET)
        server.await_counts([1, 0, 0, 0, LARGE_ANSWER, 1, 1, 0, 1])
        c.sendall(GET)
        size = receive(c)[3]
        server.await_counts([2, 0, 0, 0, LARGE_ANSWER + size, 2, 1, 0, 1])
        equal(receive(slow)[2:], (bytes(LARGE), LARGE_ANSWER))
        equal(receive(slow)[2:], (HELLO, size))
        server.await_counts([3, 0, 0, 0, LARGE_ANSWER + 2 * size, 3, 0, 0, 1])
        slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        server.await_counts([4, 0, 0, 0, 2 * (LARGE_ANSWER + size), 4, 1, 0, 1])
        slow.close()  # and then nothing is in flight
        server.await_counts([4, 0, 0, 0, 2 * (LARGE_ANSWER + size), 4, 0, 0, 1])


def what_a_killed_worker_had_in_flight_goes(directory):
    with Server(directory, 1) as server, server.connect(65536) as c:
        c.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        server.await_counts([1, 0, 0, 0, LARGE_ANSWER, 1, 1, 0, 1])
        os.kill(server.workers()[0], signal.SIGKILL)
        server.await_counts([1, 0, 0, 0, LARGE_ANSWER, 1, 0, 1, 1])


def all_that_are_killed_are_replaced(directory):
    """Also if they die at once: the kernel sends the master one signal for all."""
    with Server(directory, 4) as server:
        end = time.monotonic() + 30
        while len(workers := server.workers()) < 4:
            assert time.monotonic() < end, "too few workers"
            time.sleep(0.01)
        os.kill(server.process.pid, signal.SIGSTOP)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        while any(map(lives, workers)):
            assert time.monotonic() < end, "workers that were killed"
            time.sleep(0.01)
        os.kill(server.process.pid, signal.SIGCONT)
        server.await_counts([0, 0, 0, 0, 0, 0, 0, 4, 1])
        new = server.workers()
        equal((len(new), sum(map(lives, new))), (4, 4))
        assert not set(new) & set(workers), "the killed"
        with server.connect() as c:
            c.sendall(GET)
            equal(receive(c)[2], HELLO)
        server.end()


def a_killed_master_takes_its_workers_along(directory):
    """The next master continues the counts."""
    with Server(directory) as server, server.connect() as c:
        c.sendall(GET)
        size = receive(c)[3]
        workers = server.workers()
        server.process.kill()
        end = time.monotonic() + 30
        while any(map(lives, workers)):
            assert time.monotonic() < end, "workers without a master"
            time.sleep(0.01)
    with Server(directory) as server, server.connect() as c:
        c.sendall(GET)
        receive(c)
        server.await_counts([2, 0, 0, 0, 2 * size, 2, 0, 0, 2])


def both_count_in_one_segment(directory):
    """The server and the other one go on with each other's counts, and read them."""
    total = 0
    for n, program in enumerate((PREFORK, OTHER, PREFORK), 1):
        with Server(directory, program=program) as server, server.connect() as c:
            c.sendall(GET)
            total += receive(c)[3]
            server.await_counts([n, 0, 0, 0, total, n, 0, 0, n])
            server.end()
            for reader in (PREFORK, OTHER):
                command = [reader, "-r", server.segment]
                text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                assert f"observations {n}\n" in text and f"bytes {total}\n" in text, text
    with Server(directory) as server, Server(directory, program=OTHER) as other:
        for one in (server, other):
            with one.connect() as c:
                c.sendall(GET)
                total += receive(c)[3]
        server.await_counts([5, 0, 0, 0, total, 5, 0, 0, 5])


def load(*options):
    if not shutil.which("wrk"):
        return "no wrk"
    r = subprocess.run(
        [LOAD, PREFORK, *options], capture_output=True, text=True, check=False, timeout=120
    )
    print("# " + r.stdout.strip().replace("\n", "\n# "), flush=True)
    assert r.returncode == 0, f"load.py: status {r.returncode} {r.stderr[-400:]}"
    return None


def counts_agree_with_those_of_wrk(_):
    return load("--seconds", "5", "--kills", "20")


def counts_go_on_when_it_is_started_again(_):
    return load("--seconds", "4", "--kills", "20", "--restart")


def large_answers_under_load(_):
    return load("--seconds", "3", "--kills", "20", "--large")


def latencies_with_and_without_counting(_):
    """The table has both servers, and ratios."""
    if not shutil.which("wrk"):
        return "no wrk"
    r = subprocess.run(
        [LATENCY, PREFORK, "--rounds", "2", "--seconds", "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    equal((r.returncode, r.stderr), (0, ""))
    for name in ("mean", "P99", "CPU"):
        row = re.search(
            rf"^{name} +([\d.]+) +([\d.]+) +([\d.]+) \[([\d.]+), ([\d.]+)\]", r.stdout, re.MULTILINE
        )
        assert row and all(float(n) > 0 for n in row.groups()), r.stdout
    return None


def bad_input(directory):
    """Each mistake has an error message."""
    text = os.path.join(directory, "text")
    with open(text, "w", encoding="ascii") as f:
        f.write("dear diary\n" * 1000)
    for arguments, status, words in (
        ((), 2, "usage"),
        (("-w", "0", text), 2, "usage"),
        ((text,), 1, text),
        (("-r", text), 1, text),
        (("-r", os.path.join(directory, "nothing")), 1, "there is no such file"),
    ):
        r = subprocess.run([PREFORK, *arguments], capture_output=True, text=True, check=False)
        equal((r.returncode, words in r.stderr), (status, True))


def bad_options_of_latency(_):
    """Each mistake has an error message, and no traceback."""
    if not shutil.which("wrk"):
        return "no wrk"
    for arguments, status, words in (
        ((), 2, "required"),
        ((PREFORK, "--rounds", "0"), 2, "--rounds"),
        ((PREFORK, "--seconds", "-1"), 2, "--seconds"),
        ((PREFORK, "--workers", "x"), 2, "--workers"),
        ((PREFORK, "--workers", "100000"), 1, "does not say"),
        (("/nonexistent",), 1, "No such file"),
    ):
        r = subprocess.run([LATENCY, *arguments], capture_output=True, text=True, check=False)
        equal((r.returncode, words in r.stderr.splitlines()[-1]), (status, True))
        equal("Traceback" in r.stderr, False)
    return None


def processes_with(text):
    """Return the processes that have a text in their arguments."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if text.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass  # it has ended
    return found


def ended_latency_leaves_no_server(directory):
    """It ends its servers if it is asked to end while wrk loads them."""
    if not shutil.which("wrk"):
        return "no wrk"
    with subprocess.Popen(
        [LATENCY, PREFORK, "--seconds", "60"], env={**os.environ, "TMPDIR": directory}
    ) as p:
        end = time.monotonic() + 30
        while len(processes_with(f"{directory}/")) < 6 and time.monotonic() < end:
            time.sleep(0.02)
        equal(len(processes_with(f"{directory}/")), 6)  # two servers, each with two workers
        p.terminate()
    equal(p.returncode, 1)
    while processes_with(f"{directory}/") and time.monotonic() < end:
        time.sleep(0.02)
    equal(processes_with(f"{directory}/"), [])
    return None


def main():
    if OTHER:
        tap.run(
            [
                answers,
                answers_that_are_not_counted,
                what_a_killed_worker_had_in_flight_goes,
                both_count_in_one_segment,
                bad_input,
                counts_go_on_when_it_is_started_again,
            ]
        )
    tests = [
        answers,
        answers_that_are_not_counted,
        requests_in_parts_and_at_once,
        large_answers,
        what_a_killed_worker_had_in_flight_goes,
        all_that_are_killed_are_replaced,
        a_killed_master_takes_its_workers_along,
        bad_input,
        bad_options_of_latency,
        ended_latency_leaves_no_server,
        counts_agree_with_those_of_wrk,
        counts_go_on_when_it_is_started_again,
        large_answers_under_load,
        latencies_with_and_without_counting,
    ]
    tap.run(tests)


if __name__ == "__main__":
    main()
