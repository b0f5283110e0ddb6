#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_page.py PERCPU [--pictures DIRECTORY] - the page of `percpu serve` in a real browser.

A headless Chromium looks at it while a program counts, which is the example `counting` of the tool.
With --pictures the pictures of docs/tool/page.md are made instead. Speaks TAP.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cli")]

import chromium
import tap
from counting import Program, Server, children, cpu_seconds, resident

PERCPU = os.path.abspath(sys.argv[1])
WIDE, NARROW = (1280, 640), (360, 640)
LIVE = "document.getElementById('state').dataset.state === 'live'"
ROWS = "[...document.querySelectorAll('#rows .row:not([hidden])')]"
NAMES = f"{ROWS}.map((r) => r.querySelector('.name').title)"
NUMBERS = "const r = {}; for (const e of document.querySelectorAll('#rows .row:not([hidden])'))"
NUMBERS = f"(() => {{ {NUMBERS} r[e.querySelector('.name').title] = e.querySelector('.value').title; return r; }})()"
MANY = 10_000


@contextlib.contextmanager
def world(directory: str, *arguments: str) -> Iterator[tuple[str, Program, Server]]:
    """A program that counts in a segment, and a server."""
    segment = os.path.join(directory, "shop")
    program = Program(segment, *arguments)
    server = Server(segment)
    try:
        yield segment, program, server
    finally:
        server.stop()
        program.kill()


@contextlib.contextmanager
def tab(
    url: str, size: tuple[int, int] = WIDE, scheme: str = "light", quiet: bool = True
) -> Iterator[chromium.Tab]:
    """A tab with the page, which asks nobody else and says nothing on the console."""
    with chromium.browser() as pipe:
        page = chromium.Tab(pipe, *size, scheme)
        page.go(url)
        page.until(LIVE)
        page.until(f"{ROWS}.length > 0")
        yield page
        said = page.said()
        assert not (quiet and said), f"on the console: {said}"
        others = [u for u in page.asked() if not u.startswith((url, "about:"))]
        assert not others, f"it asked for {others}"


def show(segment: str) -> list[dict[str, Any]]:
    out = subprocess.run(
        [PERCPU, "show", segment, "--json"], capture_output=True, timeout=60, check=True
    )
    series: list[dict[str, Any]] = json.loads(out.stdout)["series"]
    return series


def full(series: dict[str, Any]) -> str:
    labels = ", ".join(f'{n}="{v}"' for n, v in series["labels"].items())
    return f"{series['name']}{{{labels}}}" if labels else str(series["name"])


def counts(segment: str) -> dict[str, int]:
    """Return the whole numbers of a segment, by name and labels."""
    out = {}
    for s in show(segment):
        value = s["histogram"]["count"] if "histogram" in s else s.get("value")
        if isinstance(value, int):
            out[full(s)] = value
    return out


def shown(page: chromium.Tab) -> dict[str, int]:
    """Return the whole numbers of the page."""
    texts = page.js(NUMBERS)
    pairs = ((name, text.split()[0].replace(",", "")) for name, text in texts.items())
    return {name: int(n) for name, n in pairs if re.fullmatch(r"-?\d+", n)}


def await_counts(page: chromium.Tab, segment: str) -> None:
    """Wait until the page has the numbers of the segment, in which nobody counts."""
    want = counts(segment)
    got: dict[str, int] = {}
    for _ in range(100):
        got = shown(page)
        if got == want:
            return
        time.sleep(0.1)
    wrong = {k: (got.get(k), want.get(k)) for k in {*got, *want} if got.get(k) != want.get(k)}
    raise AssertionError(f"shown, and there: {wrong}")


def numbers_are_those_of_the_segment(directory: str) -> None:
    with world(directory) as (segment, program, server), tab(server.url) as page:
        rate = f"{ROWS}.find((r) => r.querySelector('.name').title === 'shop_request_seconds')"
        page.until(f"parseFloat({rate}?.querySelector('.rate').textContent) > 0")
        before = shown(page)
        page.until(
            f"!{rate}.querySelector('.value').title.startsWith('{before['shop_request_seconds']:,}')"
        )
        program.stop()
        await_counts(page, segment)
        page.js(f"{rate}.click()")
        count = counts(segment)["shop_request_seconds"]
        page.until(f"document.getElementById('detail-value')?.textContent === '{count:,}'")
        page.until("document.querySelector('#detail canvas')")


def keys_search_and_themes(directory: str) -> None:
    with world(directory) as (_, _, server), tab(server.url) as page:
        every = page.js("document.getElementById('count').textContent")
        for text, found in (
            ("requests_TOTAL", 4),
            ("shop_*_total", 10),
            ('*{*code="5*"}', 1),
            ("[", 0),
        ):
            page.key("/")
            assert page.js("document.activeElement.id") == "search"
            page.keys(text)
            page.until(f"document.getElementById('count').textContent === '{found} of {every}'", 5)
            page.key("Escape")
            page.until(f"document.getElementById('count').textContent === '{every}'", 5)
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
            page.key(key)
        second = page.js(NAMES)[1]
        selected = "document.querySelector('[aria-selected=true] .name').title"
        active = "document.getElementById(document.getElementById('grid').getAttribute('aria-activedescendant'))"
        assert (
            page.js(selected) == second
            and page.js(f"{active}.querySelector('.name').title") == second
        )
        page.until("document.getElementById('detail-value')")
        page.key("Escape")
        assert page.js(
            "document.getElementById('detail').hidden && document.activeElement.id === 'grid'"
        )
        page.key(" ")
        page.until("document.getElementById('state').dataset.state === 'paused'", 5)
        frozen = shown(page)
        time.sleep(2.5)
        assert shown(page) == frozen, "a paused page changes"
        page.key(" ")
        page.until(LIVE)
        page.until(f"JSON.stringify({NUMBERS}) !== {json.dumps(json.dumps(page.js(NUMBERS)))}")
        color = "getComputedStyle(document.body).backgroundColor"
        colors = []
        for _ in range(3):
            page.js("document.getElementById('theme').click()")
            colors.append(page.js(color))
        light, dark, auto = colors
        assert light == auto != dark, colors
        page.js("document.querySelector('[data-sort=value]').click()")
        values = page.until(f"{ROWS}.map((r) => r.querySelector('.value').title)")
        sort = page.js("document.querySelector('[data-sort=value]').parentElement.ariaSort")
        assert sort == "descending" and "seconds" in values[0] + values[1], values


def a_lost_server_is_told_and_found_again(directory: str) -> None:
    with world(directory) as (segment, program, server), tab(server.url, quiet=False) as page:
        for key in ("/", *"request_seconds", "Enter", "Enter"):
            page.key(key)
        page.until("document.getElementById('detail-value')")
        server.stop()
        page.until("document.getElementById('state').dataset.state === 'lost'")
        text = page.js("document.getElementById('state-text').textContent")
        assert re.search(r"stale since \d\d:\d\d:\d\d", text), text
        page.key("Escape")
        again = Server(segment, port=server.port)
        try:
            page.until(LIVE)
            program.stop()
            page.key("Escape")
            await_counts(page, segment)
        finally:
            again.stop()
        errors = [e for e in page.said() if "ERR_" not in e]
        assert not errors, errors


def a_segment_is_replaced(directory: str) -> None:
    with world(directory) as (segment, program, server), tab(server.url) as page:
        program.kill()
        os.unlink(segment)
        other = Program(segment)
        try:
            page.until("/was replaced/.test(document.getElementById('said').textContent)")
            other.stop()
            await_counts(page, segment)
        finally:
            other.kill()


def hostile_names_are_texts(directory: str) -> None:
    with world(directory) as (_, program, server), tab(server.url) as page:
        program.tell("hostile")
        page.until(f"{NAMES}.some((n) => n.startsWith('long_total'))")
        for name in ("<script>", "hostile_total", "long_total"):
            page.js(
                f"{ROWS}.find((r) => r.querySelector('.name').title.includes({json.dumps(name)})).click()"
            )
            page.until("document.getElementById('detail-value')")
            for key in ("Escape", "/"):
                page.key(key)
            page.key("Escape")
        page.until(
            f"{NUMBERS}['hostile_total{{label=\"a\\\\u{{202e}}\\\\u{{2066}}b\\\\u{{200b}}\\\\u{{1b}}[31m\"}}']"
        )
        assert page.js("window.hacked") is None
        assert page.js("document.querySelectorAll('main script, main img').length") == 0
        text = page.js(
            "document.body.textContent + [...document.querySelectorAll('[title]')].map((e) => e.title).join()"
        )
        assert not set(text) & set("\u202e\u2066\u200b\x1b"), "a control character is shown"
        assert len(text) < 100_000, len(text)
        assert "1,152,921,504,606,846,977" in text
        for size in (WIDE, NARROW):
            page.look(*size, "light")
            page.until("document.documentElement.scrollWidth <= innerWidth", 5)


LANDMARKS = {"banner", "main", "search", "complementary", "grid", "status"}


def axe() -> str | None:
    """Return the source of axe-core, or None if it cannot be had."""
    folder = ROOT / "build/axe"
    source = folder / "node_modules/axe-core/axe.min.js"
    if not source.exists() and shutil.which("npm"):
        command = ["npm", "install", "--silent", "--prefix", str(folder), "axe-core"]
        with contextlib.suppress(subprocess.SubprocessError):
            subprocess.run(command, check=True, timeout=120, capture_output=True)
    return source.read_text(encoding="utf-8") if source.exists() else None


def all_can_read_it(directory: str) -> str | None:
    source = axe()
    with world(directory) as (segment, _, server), tab(server.url) as page:
        worker = Program(segment, "worker")
        worker.kill()
        page.until("document.querySelector('#segments .warn')")
        page.js(f"{ROWS}.find((r) => /in_flight/.test(r.textContent)).click()")
        page.until("document.querySelector('#detail .dead')")
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = {n["role"]["value"] for n in tree if not n.get("ignored")}
        assert roles >= LANDMARKS, LANDMARKS - roles
        named = [n for n in tree if n.get("role", {}).get("value") == "image"]
        assert all(n["name"]["value"] for n in named), "a graph has no text"
        if source is None:
            return "axe-core cannot be had"
        page.js(f"(() => {{ {source}\n; window.axe = axe; return 1; }})()")
        for size in (WIDE, NARROW):
            for scheme in ("light", "dark"):
                for name in ("in_flight", "request_seconds", "requests_total"):
                    page.look(*size, scheme)
                    page.js(f"{ROWS}.find((r) => r.textContent.includes('{name}')).click()")
                    page.until("document.getElementById('detail-value')")
                    graph = {"request_seconds": "canvas", "in_flight": ".dead"}.get(name, ".cpus")
                    page.until(f"document.querySelector('#detail {graph}')")
                    found = page.js(
                        "axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html)]))"
                    )
                    assert not found, f"{size} {scheme} {name}: {found}"
    return None


def bytes_in(port: int, seconds: float) -> float:
    """Return how many bytes a second events have, behind the first."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        begin, n = time.monotonic(), 0
        while time.monotonic() < begin + seconds + 2:
            got = len(s.recv(1 << 20))
            n += got if time.monotonic() > begin + 2 else 0
    return n / seconds


def thousands_of_series_scroll(directory: str) -> None:
    with world(directory, str(MANY)) as (_, _, server), tab(server.url) as page:
        page.until(
            f"parseInt(document.getElementById('count').textContent.replace(',', '')) > {MANY}"
        )
        page.js("document.getElementById('grid').focus()")
        for key in ("End", "PageDown", "ArrowDown"):
            page.key(key)
        page.until(f"{NAMES}.includes('shop_start_time_seconds')", 5)
        rows = page.js("document.querySelectorAll('#rows .row').length")
        assert rows < 100, f"{rows} rows are in the document"
        browser = children(page.pipe.process.pid)
        both = ([server.process.pid], browser)
        before = [cpu_seconds(p) for p in both]
        time.sleep(8)
        ours, its = (cpu_seconds(p) - b for p, b in zip(both, before, strict=True))
        per_second = bytes_in(server.port, 5)
        print(
            f"# {MANY} series: {per_second / 1e3:.0f} kB/s, server {ours / 8:.1%}, browser"
            f" {its / 8:.1%} of a core, server {resident(server.process.pid)} KiB"
        )
        assert per_second < 1e6, per_second


def read_slowly(readers: list[socket.socket], seconds: int) -> None:
    """Each takes a tenth of what it is sent."""
    for _ in range(seconds):
        for s in readers:
            assert s.recv(20000), "a slow reader was cut off"
        time.sleep(1)


def slow_readers_cost_nothing(directory: str) -> None:
    with world(directory, str(MANY)) as (_, _, server):
        slow = []
        for _ in range(9):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
            s.connect(("127.0.0.1", server.port))
            s.settimeout(20)
            s.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            slow.append(s)
        # It reads nothing, and is cut off.
        silent = slow.pop()
        read_slowly(slow, 25)  # until each is behind, and is sent all series once more
        before = resident(server.process.pid)
        read_slowly(slow, 20)
        grown = resident(server.process.pid) - before
        # As many as 10 events of each would be 16 MB.
        assert grown < 8000, f"the server has grown by {grown} KiB"
        with contextlib.suppress(ConnectionResetError):
            while silent.recv(1 << 20):
                pass
        silent.close()
        s = slow[0]
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        text, end = bytearray(), time.monotonic() + 60
        while text.count(b'"whole":true') < 2:
            got = s.recv(1 << 20)
            in_time = len(text) < 50e6 and time.monotonic() < end
            assert got and in_time, f"not brought up to date after {len(text)} bytes"
            text += got
        numbers = [int(n) for n in re.findall(rb'"number":(\d+)', text)]
        assert numbers[-1] - numbers[-2] > 5, numbers
        for s in slow:
            s.close()


def pictures(_: str) -> None:
    """Make the pictures of docs/tool/page.md."""
    program, server = Program("shop"), Server("shop")
    workers = [Program("shop", "worker") for _ in range(3)]
    workers[0].kill()
    try:
        for name, size, scheme in (("page-light", WIDE, "light"), ("page-dark", NARROW, "dark")):
            with tab(server.url, size, scheme) as page:
                if size == WIDE:
                    row = f"{ROWS}.find((r) => r.textContent.includes('request_seconds'))"
                    page.js(f"{row}.click()")
                time.sleep(60 if size == WIDE else 20)
                page.picture(os.path.join(sys.argv[3], f"{name}.png"))
    finally:
        server.stop()
        for process in (program, *workers):
            process.kill()
        os.unlink("/dev/shm/percpu.shop")


TESTS: list[Callable[[str], str | None]] = [
    numbers_are_those_of_the_segment,
    keys_search_and_themes,
    a_lost_server_is_told_and_found_again,
    a_segment_is_replaced,
    hostile_names_are_texts,
    all_can_read_it,
    thousands_of_series_scroll,
    slow_readers_cost_nothing,
]

if __name__ == "__main__":
    if sys.argv[2:3] == ["--pictures"]:
        tap.run([pictures])
    elif not chromium.program():
        print("1..0 # SKIP chromium is not installed")
    else:
        tap.run(TESTS)
