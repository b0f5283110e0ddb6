# SPDX-License-Identifier: MIT
"""otlp.py - a receiver of OpenTelemetry's metrics for demo.py: it keeps the latest ones.

It reads as much of the messages as it needs for numbers by names and labels. A program that needs
more uses the package opentelemetry-proto.
"""

import collections
import gzip
import http.server
import struct
import threading

Point = collections.namedtuple("Point", "name labels value")


def varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        at += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, at
        shift += 7


def fields(data):
    """Yield the number and the value of each field: bytes, or a number for a varint."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = (8 if tag & 7 == 1 else 4, at) if tag & 7 in (1, 5) else varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def inside(data, *path):
    """Yield the fields of these numbers, one in the other."""
    for number, value in fields(data):
        if number == path[0]:
            if len(path) == 1:
                yield value
            else:
                yield from inside(value, *path[1:])


def text(data, number):
    return next(inside(data, number), b"").decode()


def labels_of(point, number):
    return {text(a, 1): next(inside(a, 2, 1), b"").decode() for a in inside(point, number)}


def points(request):
    """Yield a point for each number and for each histogram's count."""
    for metric in inside(request, 2, 2) if request else ():
        for data in (5, 7):  # a gauge, a sum
            for point in inside(metric, data, 1):
                (value,) = [struct.unpack("<d", v)[0] for v in inside(point, 4)] or [
                    struct.unpack("<q", v)[0] for v in inside(point, 6)
                ]
                yield Point(text(metric, 1), labels_of(point, 7), value)
        for data, number in ((9, 9), (10, 1)):  # a histogram, an exponential one
            for point in inside(metric, data, 1):
                count = struct.unpack("<Q", next(inside(point, 4), bytes(8)))[0]
                yield Point(text(metric, 1), labels_of(point, number), count)


class Receiver:
    """Takes requests at a free port, as long as it is used as a context."""

    def __init__(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """Keeps the body."""

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()
                receiver.keep(b"".join(inside(body, 1)))

            def log_message(self, format, *args):  # pylint: disable=redefined-builtin
                pass

        self.changed = threading.Condition()
        self.count, self.resource = 0, b""
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def keep(self, resource):
        with self.changed:
            self.count, self.resource = self.count + 1, resource
            self.changed.notify_all()

    def await_newer(self):
        """Wait for metrics that were read after this call."""
        with self.changed:
            count = self.count
            if not self.changed.wait_for(lambda: self.count >= count + 2, 60):
                raise TimeoutError("no metrics were pushed for a minute")

    def latest(self):
        return self.resource
