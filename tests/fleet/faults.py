# SPDX-License-Identifier: MIT
"""faults.py - shared by tests of faults: `percpu serve` as a process, and segments that are copies
of one."""

import contextlib
import os
import re
import socket
import subprocess
import time
import urllib.request

BOUND = 60  # seconds: nothing is waited for longer


class Server:
    """`percpu serve` at a free port, and what it has logged."""

    def __init__(self, command, log):
        self.log = log
        with open(log, "wb") as stderr:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr)
        wait_for("an address", lambda: "/metrics\n" in self.said())
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", self.said())
        self.port = int(address[1])

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def connect(self, buffer=None):
        """Connect, with so many bytes of buffer for what comes."""
        client = socket.socket()
        client.settimeout(BOUND)
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.connect(("127.0.0.1", self.port))
        return client

    def scrape(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=BOUND) as got:
            return got.read().decode()

    def memory(self, what="VmRSS"):
        """In MiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return int(re.search(rf"{what}:\s+(\d+) kB", status.read())[1]) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def is_well(self):
        assert self.process.poll() is None, self.said()[-1000:]
        assert "panicked" not in self.said(), self.said()[-2000:]


@contextlib.contextmanager
def serve(percpu, directory, *arguments, by=()):
    """A server, run by another program if one is given, which is well in the end and ends when it
    is told to."""
    command = [*by, percpu, "serve", "--listen", "127.0.0.1:0", *arguments]
    server = Server(command, os.path.join(directory, "log"))
    try:
        yield server
        server.is_well()
        server.process.terminate()
        assert server.process.wait(BOUND) == 0, server.said()[-1000:]
    finally:
        server.process.kill()
        server.process.wait()


def wait_for(what, is_so):
    until = time.monotonic() + BOUND
    while not is_so():
        assert time.monotonic() < until, f"{what}: never"
        time.sleep(0.05)


class Segment:
    """The bytes of a segment in which nobody counts any more, without its holes."""

    def __init__(self, prefork, directory):
        path = os.path.join(directory, "template")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        server = subprocess.Popen([prefork, "-p", str(port), "-w", "1", path])
        try:
            wait_for("the prefork server", lambda: self.answers(port))
        finally:
            server.terminate()
            server.wait(BOUND)
        with open(path, "rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            self.parts = list(self.data(file.fileno()))
        os.unlink(path)

    @staticmethod
    def answers(port):
        url = f"http://127.0.0.1:{port}/"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=BOUND) as got:
            return got.status == 200
        return False

    @staticmethod
    def data(fd):
        end = 0
        while True:
            try:
                begin = os.lseek(fd, end, os.SEEK_DATA)
            except OSError:
                return
            end = os.lseek(fd, begin, os.SEEK_HOLE)
            yield begin, os.pread(fd, end - begin, begin)

    def write(self, path, mode=0o600, size=None):
        """Write the segment to a file that is not there under this name before it is whole."""
        new = path + ".new"
        with open(new, "wb") as file:
            file.truncate(size or self.size)
            for begin, data in self.parts:
                if size is None or begin + len(data) <= size:
                    os.pwrite(file.fileno(), data, begin)
        os.chmod(new, mode)
        os.rename(new, path)
        return path


def value(metrics, name, segment):
    """The value of a series without other labels; None if there is none."""
    line = rf'^{name}{{segment="{re.escape(segment)}"}} (\S+)$'
    found = re.search(line, metrics, re.MULTILINE)
    return found and found[1]
