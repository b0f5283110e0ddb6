#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_textfile.py PERCPU PREFORK LOAD - node_exporter serves what `percpu textfile` writes.

wrk asks the prefork server, workers are killed with SIGKILL, and the file is written again and
again. node_exporter never finds a file that is wrong, and has in the end what the clients saw.
Speaks TAP.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

import tap
import test_percpu as cli
from ports import free_port

EXPORTER = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
LINE = re.compile(
    r'^(prefork_\w+)\{(?:code="(\w+)",)?segment="[^"]*"(?:,\w+="[^"]*")*\} (\S+)$',
    re.MULTILINE,
)


class Exporter:
    """node_exporter, with its textfile collector alone."""

    def __init__(self, folder):
        address = f"127.0.0.1:{free_port()}"
        command = [EXPORTER, "--collector.disable-defaults", "--collector.textfile"]
        command += [
            f"--collector.textfile.directory={folder}",
            f"--web.listen-address={address}",
        ]
        self.url, self.texts, self.end = (
            f"http://{address}/metrics",
            [],
            threading.Event(),
        )
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.thread = threading.Thread(target=self.scrape_often)

    def __enter__(self):
        for _ in range(600):
            with contextlib.suppress(OSError):
                self.scrape()
                break
            time.sleep(0.05)
        self.thread.start()
        return self

    def stop(self):
        """Scrape no more."""
        self.end.set()
        self.thread.join(60)

    def __exit__(self, *_):
        self.stop()
        self.process.terminate()
        self.process.wait(30)

    def scrape(self):
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            return answer.read().decode()

    def scrape_often(self):
        while not self.end.wait(0.02):
            self.texts.append(self.scrape())


def totals(text):
    """Return the totals of the segment in what node_exporter serves, as test_percpu has them."""
    return {
        name.removesuffix("_count") + code: int(float(value))
        for name, code, value in LINE.findall(text)
        if name.endswith(("_total", "_count"))
    }


def check(texts, want):
    """No scrape has an error, or a total that falls; the last one has what is wanted."""
    before = {}
    for text in texts:
        assert "node_textfile_scrape_error 0\n" in text, text[:2000]
        now = totals(text)
        assert all(now.get(name, 0) >= n for name, n in before.items()), f"{before} then {now}"
        before = now
    assert len(texts) > 10, len(texts)
    assert before == want, f"node_exporter has {before}, not {want}"


def lint(path):
    """promtool has nothing to say of the file."""
    with open(path, "rb") as f:
        r = subprocess.run(
            ["promtool", "check", "metrics"],
            stdin=f,
            capture_output=True,
            check=False,
            timeout=60,
        )
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b""), r


def node_exporter_serves_the_totals(directory):
    if not EXPORTER or not shutil.which("wrk"):
        return "node_exporter or wrk is not installed"
    folder = os.path.join(directory, "textfile")
    segment = os.path.join(directory, "segment")
    os.mkdir(folder)
    server = cli.load.Server(cli.PREFORK, cli.WORKERS, segment)
    server.start()
    try:
        server.pids()
        cli.percpu("textfile", folder, segment)
        with Exporter(folder) as exporter:
            command = [cli.PERCPU, "textfile", folder, segment, "-n", "0.01"]
            with subprocess.Popen(command, stderr=subprocess.PIPE) as writer:
                try:
                    clients, kills = cli.under_load(server)
                finally:
                    writer.kill()
                said = writer.stderr.read()
            cli.percpu("textfile", folder, segment)
            counts = cli.totals(json.loads(cli.percpu("show", segment, "--json")))
            exporter.stop()
            exporter.texts.append(exporter.scrape())
        check(exporter.texts, counts)
    finally:
        stopped = server.stop()
    assert (stopped, said) == (0, b""), f"the server ended with {stopped}; {said}"
    cli.compare_with_clients(counts, clients, kills)
    if shutil.which("promtool"):
        lint(os.path.join(folder, "percpu.prom"))
    return None


if __name__ == "__main__":
    tap.run([node_exporter_serves_the_totals])
