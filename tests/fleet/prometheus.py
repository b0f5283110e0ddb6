# SPDX-License-Identifier: MIT
"""prometheus.py - a Prometheus that scrapes these targets each second, for tests."""

import json
import os
import shutil
import subprocess
import time
import urllib.parse

CONFIG = """
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: percpu
    static_configs:
      - targets: {targets}
"""


def is_there():
    return shutil.which("prometheus") is not None


class Server:
    """Its storage and its log are in the directory; it runs while it is used as a context.

    In a network namespace, its own address is the one that the namespace has.
    """

    def __init__(self, directory, targets, *options, netns=None, port=9090):
        self.directory, self.options, self.port = directory, options, port
        self.inside = ["ip", "netns", "exec", netns] if netns else []
        self.config = os.path.join(directory, "prometheus.yml")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(targets=json.dumps(targets)))
        self.process = self.log = None

    def __enter__(self):
        self.log = open(os.path.join(self.directory, "prometheus.log"), "w", encoding="utf-8")
        command = [
            *self.inside,
            "prometheus",
            f"--config.file={self.config}",
            f"--storage.tsdb.path={self.directory}/tsdb",
            f"--web.listen-address=127.0.0.1:{self.port}",
            *self.options,
        ]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(300):
            if self.get("/-/ready") is not None:
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.__exit__()
        with open(self.log.name, encoding="utf-8") as f:
            raise AssertionError(f"Prometheus does not start: {f.read()[-1000:]}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    def get(self, path):
        """Return the answer, or None if there is none. curl runs in the namespace."""
        url = f"http://127.0.0.1:{self.port}{path}"
        command = [*self.inside, "curl", "-sf", "--max-time", "10", url]
        answer = subprocess.run(command, check=False, capture_output=True)
        return answer.stdout.decode() if answer.returncode == 0 else None

    def query(self, text):
        """Return the labels and the value of each series of an instant query."""
        answer = self.get("/api/v1/query?query=" + urllib.parse.quote(text))
        assert answer is not None, f"Prometheus refuses {text}"
        return [(r["metric"], float(r["value"][1])) for r in json.loads(answer)["data"]["result"]]
