#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_workers.py WORKERS MONITOR - the two examples that share a file.

They start first, again, at once, after a kill, and with a file of another program.
Speaks TAP.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

WORKERS, MONITOR = map(os.path.abspath, sys.argv[1:3])
EACH = 400000  # requests per start


def run(*command):
    """Return (exit status, output, errors)."""
    r = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return r.returncode, r.stdout, r.stderr


def totals(path):
    """Return the counts that the monitor reads: starts, requests, bytes."""
    status, out, err = run(MONITOR, path)
    assert status == 0, err
    return [
        int(n) for n in re.fullmatch(r"starts (\d+), requests (\d+), bytes (\d+)\n", out).groups()
    ]


def monitor_may_start_first(path):
    assert run(MONITOR, path)[0] == 1
    with subprocess.Popen([MONITOR, path, "60"], stdout=subprocess.PIPE, text=True) as monitor:
        time.sleep(0.3)
        assert monitor.poll() is None
        assert run(WORKERS, path)[0] == 0
        assert monitor.communicate(timeout=60)[0].startswith("starts ")
        assert monitor.returncode == 0
    assert totals(path) == [1, EACH, 1500 * EACH]


def restart_counts_on(path):
    for n in range(1, 4):
        assert run(WORKERS, path)[0] == 0
        assert totals(path) == [n, n * EACH, n * 1500 * EACH]


def starts_at_once_lose_nothing(path):
    servers = [subprocess.Popen([WORKERS, path]) for _ in range(8)]
    assert [s.wait(60) for s in servers] == [0] * 8
    assert totals(path) == [8, 8 * EACH, 8 * 1500 * EACH]


def killed_servers_lose_nothing(path):
    """Counts of killed workers stay, and the next start needs no repair."""
    for _ in range(5):
        server = subprocess.Popen([WORKERS, path], start_new_session=True)
        while not os.path.exists(path):
            time.sleep(0.001)
        time.sleep(0.003)
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(60)
    time.sleep(0.2)  # until the workers have died, which are no children of this process
    before = totals(path) if run(MONITOR, path)[0] == 0 else [0, 0, 0]
    assert run(WORKERS, path)[0] == 0
    after = totals(path)
    assert after[:2] == [before[0] + 1, before[1] + EACH]
    # Each of 20 workers may have been killed between a request and its bytes.
    assert 0 <= 1500 * after[1] - after[2] <= 20 * 1500


def foreign_files_are_refused_in_words(path):
    with open(path, "w", encoding="ascii") as f:
        f.write("dear diary\n")
    for program in WORKERS, MONITOR:
        status, _, err = run(program, path)
        assert status == 1 and "no file of counters" in err, err
    with open(path, encoding="ascii") as f:
        assert f.read() == "dear diary\n"


def main():
    tests = [
        monitor_may_start_first,
        restart_counts_on,
        starts_at_once_lose_nothing,
        killed_servers_lose_nothing,
        foreign_files_are_refused_in_words,
    ]
    print(f"1..{len(tests)}")
    for i, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as directory:
            try:
                test(os.path.join(directory, "counters"))
                print(f"ok {i} - {test.__name__}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as e:
                print(f"not ok {i} - {test.__name__}\n# {e!r}", flush=True)


if __name__ == "__main__":
    main()
