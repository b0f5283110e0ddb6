# SPDX-License-Identifier: MIT
"""Programs that tests of the drop-in run: each in a process of its own, which imports it anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

FILE = "metrics.percpu"

BEGIN = """
import json, os, signal, sys, time
import percpu_prometheus
from prometheus_client import *
from prometheus_client import multiprocess, values

def tell(x):
    print(json.dumps(x))

def scrape():
    "Return a dict from series to value, of all processes."
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    return {
        s.name + "".join(f"{{{k}={v}}}" for k, v in sorted(s.labels.items())): s.value
        for metric in registry.collect() for s in metric.samples
    }

def in_child(f, end=os._exit):
    "Run f in a child of fork, and return the child's number."
    pid = os.fork()
    if pid == 0:
        try:
            f()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(99)
        end(0)
    _, how = os.waitpid(pid, 0)
    assert how != 99 << 8
    return pid

def killed_child(f):
    "Run f in a child, and kill it when it is done."
    pid = in_child(f, lambda _: os.kill(os.getpid(), signal.SIGKILL))
    return pid
"""


def run(
    folder: Path | None,
    program: str,
    *,
    begin: str = BEGIN,
    env: dict[str, str] | None = None,
    options: tuple[str, ...] = (),
    check: bool = True,
) -> list[Any]:
    """Run a program whose processes count in the folder, and return what it has told."""
    done = start(folder, program, begin=begin, env=env, options=options)
    out, err = done.communicate(timeout=60)
    if check:
        assert done.returncode == 0, err
        assert "Traceback" not in err, err
    return [json.loads(line) for line in out.splitlines()]


def start(
    folder: Path | None,
    program: str,
    *,
    begin: str = BEGIN,
    env: dict[str, str] | None = None,
    options: tuple[str, ...] = (),
) -> subprocess.Popen[str]:
    """Start a program whose processes count in the folder."""
    names = {k: v for k, v in os.environ.items() if k.upper() != "PROMETHEUS_MULTIPROC_DIR"}
    if folder is not None:
        names["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    return subprocess.Popen(
        [sys.executable, *options, "-c", begin + textwrap.dedent(program)],
        env=names | (env or {}),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
