# SPDX-License-Identifier: MIT
"""A WSGI app without a framework."""

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

import counted


def _answer(path: str, query: str) -> bytes:
    if path.startswith("/metrics"):
        return counted.scrape()
    if path == "/hold":
        return counted.hold().encode()
    return counted.count(path, int(parse_qs(query)["amount"][0])).encode()


def app(environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
    """Answer one request."""
    body = _answer(environ["PATH_INFO"], environ.get("QUERY_STRING", ""))
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
