#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_pageserver.py PAGESERVER - pages of a file that the server cannot map.

Clients request all pages, in several orders and at once, and compare each byte.
Speaks TAP.
"""

import contextlib
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time

import tap

SERVER = os.path.abspath(sys.argv[1])
PAGE = 65536
PAGES = 1024
TAIL = 777  # bytes of the last page
MIB = 48  # of address space; the file has 64


def make_file(path):
    """Return the bytes of the file."""
    data = random.Random(14).randbytes(PAGE * PAGES + TAIL)
    with open(path, "wb") as f:
        f.write(data)
    return data


@contextlib.contextmanager
def server(directory, *more):
    """Start a server; yield the path of its socket. Assert at the end that it still runs."""
    path = os.path.join(directory, "socket")
    command = [SERVER, os.path.join(directory, "file"), path, str(MIB), *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not os.path.exists(path) and process.poll() is None:
                time.sleep(0.01)
            time.sleep(0.05)
            yield path
            assert process.poll() is None, process.stderr.read()
        finally:
            process.kill()


def receive(connection, size):
    """Read so many bytes."""
    parts = []
    while size > 0:
        part = connection.recv(min(size, 1 << 20))
        assert part, "the server is gone"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def ask(connection, page):
    """Return the bytes of a page."""
    connection.sendall(struct.pack("=Q", page))
    (size,) = struct.unpack("=I", receive(connection, 4))
    return receive(connection, size)


def compare(path, data, pages, wrong):
    """Request pages, and note the ones with wrong bytes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        for page in pages:
            if ask(connection, page) != data[page * PAGE : (page + 1) * PAGE]:
                wrong.append(page)


def every_byte(directory, *more):
    """Three clients at once, in three orders, request some pages many times."""
    data = make_file(os.path.join(directory, "file"))
    orders = [list(range(PAGES + 1)), list(range(PAGES, -1, -1)), list(range(PAGES + 1))]
    random.Random(1).shuffle(orders[2])
    orders[2] += [*range(20)] * 20 + [PAGES + 1, 2**40, 2**64 - 1]
    wrong = []
    with server(directory, *more) as path:
        clients = [threading.Thread(target=compare, args=(path, data, o, wrong)) for o in orders]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    assert not wrong, wrong


def every_byte_is_read(directory):
    every_byte(directory)


def every_byte_is_mapped(directory):
    every_byte(directory, "keeps-size")


def a_file_may_shrink(directory):
    """Pages that were cut off have no bytes, and the server goes on."""
    data = make_file(os.path.join(directory, "file"))
    with server(directory) as path, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        assert ask(connection, 900) == data[900 * PAGE : 901 * PAGE]
        os.truncate(os.path.join(directory, "file"), 5 * PAGE + 3)
        assert ask(connection, 900) == b""
        assert ask(connection, 5) == data[5 * PAGE : 5 * PAGE + 3]
        assert ask(connection, 4) == data[4 * PAGE : 5 * PAGE]


def main():
    tests = [every_byte_is_read, every_byte_is_mapped, a_file_may_shrink]
    tap.run(tests)


if __name__ == "__main__":
    main()
