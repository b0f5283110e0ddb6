#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_fileserver.py FILESERVER - many slow clients at a time.

No client reads before all of them have got their first bytes. Speaks TAP.
"""

import concurrent.futures
import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys

import tap

SERVER = os.path.abspath(sys.argv[1])
PAGE = 16384
CLIENTS = 300
EACH = 8  # pages, more than the kernel holds for a client
KEPT = 64


def content(page, count=1):
    """Return the bytes of some pages."""
    return b"".join(struct.pack("=Q", p + 1) * (PAGE // 8) for p in range(page, page + count))


def make_file(directory, pages):
    """Return the path of a file with so many pages and a part of one."""
    path = os.path.join(directory, "file")
    with open(path, "wb") as f:
        f.write(content(0, pages) + b"tail")
    return path


@contextlib.contextmanager
def server(path, *more):
    """Start a server; yield its port and a dict, which has its figures at the end."""
    figures = {}
    command = [SERVER, path, *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline()), figures
            process.send_signal(signal.SIGTERM)
            for name, value in re.findall(r"pages (.*): (\d+)", process.stdout.read()):
                figures[name] = int(value)
            assert process.wait() == 0, process.returncode
        finally:
            process.kill()


def request(port, page, count):
    """Return a connection to which the server sends these pages."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    connection.connect(("127.0.0.1", port))
    connection.sendall(struct.pack("=QQ", page, count))
    return connection


def receive(connection):
    """Return all bytes until the server closes the connection."""
    parts = []
    with connection:
        while part := connection.recv(1 << 20):
            parts.append(part)
    return b"".join(parts)


def send_all(path, pages, *more):
    """One client for each of these pages, all at a time; return the server's figures."""
    with server(path, *more) as (port, figures):
        connections = [request(port, page, EACH) for page in pages]
        for connection in connections:
            assert len(connection.recv(1, socket.MSG_PEEK)) == 1
        with concurrent.futures.ThreadPoolExecutor(32) as readers:
            for page, sent in zip(pages, readers.map(receive, connections)):
                assert sent == content(page, EACH), page
    return figures


def nobody_waits(directory, *more):
    """Each transfer has pages of its own: as many are in use as there are transfers."""
    path = make_file(directory, CLIENTS * EACH)
    figures = send_all(path, range(0, CLIENTS * EACH, EACH), *more)
    assert figures["in use at a time, at most"] == CLIENTS, figures
    assert figures["mapped or read"] == CLIENTS * EACH, figures
    assert figures["mapped at the end"] == (KEPT if more else 0), figures


def nobody_waits_for_reads(directory):
    nobody_waits(directory)


def nobody_waits_for_mappings(directory):
    nobody_waits(directory, "keeps-size")


def pages_are_shared(directory):
    """All transfers have the same pages."""
    path = make_file(directory, EACH)
    figures = send_all(path, [0] * CLIENTS, "keeps-size")
    assert 0 < figures["in use at a time, at most"] <= EACH, figures
    assert figures["mapped or read"] == EACH, figures


def what_is_not_there_is_not_sent(directory):
    path = make_file(directory, EACH)
    with server(path) as (port, _):
        assert receive(request(port, EACH, 9)) == b"tail"
        for page in EACH + 1, 2**40, 2**64 - 1:
            assert receive(request(port, page, 9)) == b""
        assert receive(request(port, 3, 0)) == b""
        slow = request(port, 0, EACH)
        assert len(slow.recv(1, socket.MSG_PEEK)) == 1
        os.truncate(path, PAGE)
        assert receive(slow).startswith(content(0))
        assert receive(request(port, 0, 2)) == content(0)


def clients_may_go(directory):
    """A client that closes its connection amid a transfer leaves nothing behind."""
    path = make_file(directory, EACH)
    with server(path, "keeps-size") as (port, figures):
        for _ in range(20):
            connection = request(port, 0, EACH)
            assert len(connection.recv(1, socket.MSG_PEEK)) == 1
            connection.close()
        assert receive(request(port, 0, EACH)) == content(0, EACH)
    assert figures["mapped at the end"] <= EACH, figures


def main():
    tap.run(
        [
            nobody_waits_for_reads,
            nobody_waits_for_mappings,
            pages_are_shared,
            what_is_not_there_is_not_sent,
            clients_may_go,
        ]
    )


if __name__ == "__main__":
    main()
