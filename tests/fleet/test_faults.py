#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_faults.py PERCPU PREFORK - `percpu serve` while clients and files do their worst: a scrape
of others is exact and is answered, the log says a thing once, and memory has bounds."""

import contextlib
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path[0:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "cli")]

import tap
from faults import BOUND, Segment, serve, value, wait_for

PERCPU, PREFORK = map(os.path.abspath, sys.argv[1:3])
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
STARTS = "prefork_starts_total"


def at(directory, name):
    return os.path.join(directory, name)


def is_closed(connection):
    """Whether the server has closed it."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_ten_thousand_connections(directory):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    segment = Segment(PREFORK, directory).write(at(directory, "good"))
    with contextlib.ExitStack() as held, serve(PERCPU, directory, segment) as server:
        for i in range(count):
            held.enter_context(server.connect())
            if i % 1000 == 999:
                assert value(server.scrape(), STARTS, segment) == "1"
                assert server.descriptors() < 300, server.descriptors()
        assert server.memory("VmHWM") < 128, server.memory("VmHWM")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_heads_that_come_slowly(directory):
    segment = Segment(PREFORK, directory).write(at(directory, "good"))
    with contextlib.ExitStack() as held, serve(PERCPU, directory, segment) as server:
        slow = [held.enter_context(server.connect()) for _ in range(200)]
        until = time.monotonic() + BOUND
        for byte in (REQUEST[:-2] + b"X: y\r\n" * 1000).decode():
            for client in slow:
                with contextlib.suppress(OSError):
                    client.send(byte.encode())
            assert value(server.scrape(), STARTS, segment) == "1"
            if all(map(is_closed, slow)):
                return
            assert time.monotonic() < until, "slow heads are waited for"
            time.sleep(0.2)


def test_requests_of_random_bytes(directory):
    segment = Segment(PREFORK, directory).write(at(directory, "good"))
    rng = random.Random(1)
    words = [b"GET ", b"POST ", b"/metrics", b" HTTP/1.1\r\n", b"Host: localhost\r\n", b"\r\n"]
    words += [b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"]
    words += [b"Accept: */*\r\n", b"Range: bytes=0-\r\n", b"Upgrade: h2c\r\n", b"\0", b"\xff"]
    words += [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"999999999999999999999\r\n", b"-1\r\n"]
    with serve(PERCPU, directory, segment) as server:
        for _ in range(3000):
            request = b"".join(rng.choices([*words, rng.randbytes(8), REQUEST], k=8))
            with server.connect() as client, contextlib.suppress(OSError):
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
        assert value(server.scrape(), STARTS, segment) == "1"
        assert server.said().count("\n") == 1, server.said()
        assert server.memory("VmHWM") < 128, server.memory("VmHWM")


def read_slowly(client, server, size):
    """Read steadily, but too slowly. Return how much came until the server gave up."""
    got = 0
    until = time.monotonic() + 100
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(32768):
            got += len(part)
            if "did not take an answer within 60 s" not in server.said():
                assert time.monotonic() < until, "a slow client is never cut off"
                assert len(server.scrape()) == size
                time.sleep(0.25)
    return got


def test_answers_that_are_read_slowly(directory):
    """The label makes an answer larger than the buffers of the kernel."""
    segment = Segment(PREFORK, directory)
    paths = [segment.write(at(directory, f"good{i}")) for i in range(4)]
    label = "pad=" + "x" * 100_000
    with contextlib.ExitStack() as held:
        server = held.enter_context(serve(PERCPU, directory, *paths, "--label", label))
        size = len(server.scrape())
        assert size > 16 << 20, size
        before = server.memory()
        trickle, *slow = [held.enter_context(server.connect(65536)) for _ in range(3)]
        for client in (trickle, *slow):
            client.sendall(REQUEST)
        url = f"http://127.0.0.1:{server.port}/metrics"
        stopped = subprocess.Popen(["curl", "-s", "--limit-rate", "1M", "-o", os.devnull, url])
        time.sleep(0.5)
        stopped.send_signal(signal.SIGSTOP)
        got = read_slowly(trickle, server, size)
        assert got < size, (got, size)
        assert "did not take an answer within 60 s" in server.said(), server.said()
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(BOUND) != 0
        assert server.said().count("took nothing of an answer for 10 s") >= 1, server.said()
        assert server.said().count("\n") < 8, server.said()
        wait_for("memory", lambda: server.memory() < before + size / 2**20 * 3)


def corrupt(path, rng, segment):
    """Do something bad to a file while it is read."""
    kind = rng.randrange(7)
    with contextlib.suppress(FileNotFoundError):
        if os.path.isdir(path):
            os.rmdir(path)
        elif kind in (2, 3, 4):
            os.unlink(path)
    if kind == 0:
        segment.write(path)
    elif kind == 1 and os.path.isfile(path) and not os.path.islink(path):
        os.truncate(path, rng.randrange(300_000))
    elif kind == 2:
        os.mkfifo(path)
    elif kind == 3:
        os.mkdir(path)
    elif kind == 4:
        os.symlink("good", path)
    else:
        segment.write(path)
        begin, data = rng.choice(segment.parts)
        fd = os.open(path, os.O_WRONLY)
        for _ in range(rng.choice((1, 10, 1000))):
            os.pwrite(fd, rng.randbytes(1), begin + rng.randrange(len(data)))
        os.close(fd)


def test_files_that_change_while_they_are_read(directory):
    segment = Segment(PREFORK, directory)
    good = segment.write(at(directory, "good"))
    bad = [at(directory, f"bad{i}") for i in range(8)]
    end = threading.Event()
    wrong = []

    def damage():
        rng = random.Random(2)
        while not end.is_set():
            try:
                corrupt(rng.choice(bad), rng, segment)
            except OSError as e:
                wrong.append(e)

    thread = threading.Thread(target=damage)
    with serve(PERCPU, directory, good, *bad) as server:
        thread.start()
        try:
            for _ in range(400):
                metrics = server.scrape()
                assert value(metrics, STARTS, good) == "1", metrics[:2000]
                assert value(metrics, "percpu_segment_up", good) == "1"
        finally:
            end.set()
            thread.join()
        assert server.memory("VmHWM") < 512, server.memory("VmHWM")
        assert server.said().count("\n") < 200, server.said()[-1000:]
        for path in bad:
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            segment.write(path)
        metrics = server.scrape()
        assert all(value(metrics, STARTS, path) == "1" for path in bad), metrics[:2000]
        assert not wrong, wrong[0]


def test_files_that_are_bad_are_said_once(directory):
    segment = Segment(PREFORK, directory)
    good = segment.write(at(directory, "good"))
    short = segment.write(at(directory, "short"), size=100_000)
    none = at(directory, "none")
    with serve(PERCPU, directory, good, short, none) as server:
        for _ in range(5):
            metrics = server.scrape()
            ups = [value(metrics, "percpu_segment_up", path) for path in (good, short, none)]
            assert ups == ["1", "0", "0"], ups
        assert server.said().count("cannot be read") == 2, server.said()
        segment.write(short)
        server.scrape()
        assert server.said().count("can be read again") == 1, server.said()


def test_files_of_others(directory):
    if os.getuid() != 0:
        return "only root can run a program as another user"
    os.chmod(directory, 0o755)
    segment = Segment(PREFORK, directory)
    good = segment.write(at(directory, "good"), 0o644)
    secret = segment.write(at(directory, "secret"), 0o600)
    program = shutil.copy(PERCPU, at(directory, "percpu"))
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    with serve(program, directory, good, secret, by=user) as server:
        for mode, up in (0o600, "0"), (0o600, "0"), (0o644, "1"), (0o600, "0"):
            os.chmod(secret, mode)
            metrics = server.scrape()
            assert value(metrics, STARTS, good) == "1"
            assert value(metrics, "percpu_segment_up", secret) == up, (mode, metrics[:1000])
        assert server.said().count("permissions of the file") == 2, server.said()


def test_huge_files(directory):
    """Files of many GiB that take no memory, and more than one file has chunks for."""
    segment = Segment(PREFORK, directory)
    good = segment.write(at(directory, "good"))
    paths = [at(directory, name) for name in ("zeros", "grown", "chunks")]
    with open(paths[0], "wb") as file:
        file.truncate(64 << 30)
    segment.write(paths[1], size=64 << 30)
    head = bytearray(segment.parts[0][1])
    cpus = struct.unpack_from("<I", head, 32)[0]
    stride = struct.unpack_from("<Q", head, 24)[0]
    chunk = 65536 + -(-stride * (2 * cpus + 1) // 65536) * 65536  # docs/memory/format.md
    segment.write(paths[2], size=4096 * chunk)
    with open(paths[2], "r+b") as file:
        for i in range(1, 4096):
            struct.pack_into("<I", head, 12, i)
            os.pwrite(file.fileno(), head, i * chunk)
        os.pwrite(file.fileno(), struct.pack("<I", 4096), 36)
    with serve(PERCPU, directory, good, *paths) as server:
        for _ in range(3):
            metrics = server.scrape()
            assert value(metrics, STARTS, good) == "1", metrics[:1000]
        assert value(metrics, "percpu_segment_up", paths[0]) == "0"
        print(f"# {server.memory('VmHWM'):.0f} MiB", server.said().encode(), flush=True)
        assert server.memory("VmHWM") < 512, server.memory("VmHWM")


def test_odd_names_in_shared_memory(directory):
    segment = Segment(PREFORK, directory)
    names = [f"faults_{os.getpid()}_{what}" for what in ("good", "fifo", "folder", "link")]
    good, fifo, folder, link = (f"/dev/shm/percpu.{name}" for name in names)
    with contextlib.ExitStack() as stack:
        stack.callback(os.unlink, segment.write(good))
        os.mkfifo(fifo)
        stack.callback(os.unlink, fifo)
        os.mkdir(folder)
        stack.callback(os.rmdir, folder)
        os.symlink(good, link)
        stack.callback(os.unlink, link)
        with serve(PERCPU, directory) as server:
            metrics = server.scrape()
            assert value(metrics, STARTS, names[0]) == "1", metrics[:1000]
            assert not any(name in metrics for name in names[1:])


def test_many_segments(directory):
    segment = Segment(PREFORK, directory)
    paths = [segment.write(at(directory, f"s{i:04}")) for i in range(1000)]
    with serve(PERCPU, directory, *paths) as server:
        metrics = server.scrape()
        assert all(value(metrics, STARTS, path) == "1" for path in paths[::97])
        assert metrics.count(STARTS + "{") == 1000
    with serve(PERCPU, directory, *paths, by=["prlimit", "--nofile=64"]) as server:
        metrics = server.scrape()
        assert value(metrics, STARTS, paths[0]) == "1"
        assert metrics.count("percpu_segment_up{") == 1000
        assert server.said().count("\n") < 64, server.said()[:1000]


if __name__ == "__main__":
    tap.run([test for name, test in list(globals().items()) if name.startswith("test_")])
