# SPDX-License-Identifier: MIT
"""prometheus.py - a Prometheus that scrapes these targets each second, for tests."""

import json
import pathlib
import re
import shutil
import subprocess
import time
import urllib.parse

from ports import free_port

SECONDS = 60
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: percpu
    static_configs: [{{targets: {targets}}}]
"""


def is_there():
    return shutil.which("prometheus") is not None


def until(condition, what):
    """Return the first result that is true, or fail."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.1)
    raise AssertionError(f"not in {SECONDS} s: {what}")


class Server:
    """Its storage and its log are in a directory, which it makes; it runs while it is used as a
    context. In a network namespace, its own address is one of that."""

    def __init__(self, directory, targets, *options, netns=None):
        self.home, self.options = pathlib.Path(directory), options
        self.inside = ["ip", "netns", "exec", netns] if netns else []
        self.home.mkdir(exist_ok=True)
        (self.home / "config.yml").write_text(CONFIG.format(targets=json.dumps(targets)), "utf-8")
        self.port = self.process = None

    def start(self):
        self.port = free_port()
        command = [
            *self.inside,
            "prometheus",
            f"--config.file={self.home}/config.yml",
            f"--storage.tsdb.path={self.home}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
            *self.options,
        ]
        with (self.home / "log").open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: self.process.poll() is not None or self.is_ready(), "a start")
        return self.process.poll() is None

    def is_ready(self):
        return self.get("/-/ready") is not None

    def __enter__(self):
        # Another program may take the port in between.
        if not any(self.start() for _ in range(5)):
            raise AssertionError(self.said())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(SECONDS)

    def said(self):
        return (self.home / "log").read_text("utf-8")

    def check_log(self):
        """It had nothing to say of what it scraped."""
        said = self.said()
        assert not re.search("append|scrape|duplicate", said, re.IGNORECASE), said

    def get(self, path):
        """Return the answer, or None if there is none. curl runs in the namespace."""
        url = f"http://127.0.0.1:{self.port}{path}"
        command = [*self.inside, "curl", "-sf", "--max-time", "10", url]
        answer = subprocess.run(command, check=False, capture_output=True)
        return answer.stdout.decode() if answer.returncode == 0 else None

    def query(self, expression):
        """Return the labels and the value of each series of an instant query."""
        answer = self.get("/api/v1/query?query=" + urllib.parse.quote(expression))
        assert answer is not None, f"Prometheus refuses {expression}"
        found = json.loads(answer)["data"]["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def number(self, expression):
        found = self.query(expression)
        assert len(found) == 1, f"{expression}: {found}"
        return found[0][1]

    def scraped_after(self, moment):
        """Wait for a scrape that began later."""
        begun = f"timestamp(percpu_segment_up) > {moment:f}"
        until(lambda: self.query(begun), "a scrape")
        assert self.number("percpu_segment_up") == 1
        assert self.number("up") == 1
