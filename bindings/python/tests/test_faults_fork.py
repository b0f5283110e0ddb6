# SPDX-License-Identifier: MIT
"""What fork and sudden ends do to counts: nothing is lost, doubled or stuck."""

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from programs import START, run, scrape

THREADS_THAT_COUNT = """
import os, threading
counter = Counter("jobs", "Jobs.")
family = Counter("tasks", "Tasks.", ["name"])
histogram = Histogram("seconds", "Seconds.", buckets=(1, 2))
gauge = Gauge("busy", "Busy.", multiprocess_mode="livesum")
for n in range(3):  # to make a child takes a lock of the client's, which no fork may meet
    family.labels(str(n))
done = [0] * 3
stop = threading.Event()

def count(n):
    while not stop.is_set():
        counter.inc()
        family.labels(str(n)).inc(0.5)
        histogram.observe(n)
        gauge.set(n)
        done[n] += 1

threads = [threading.Thread(target=count, args=(n,)) for n in range(3)]
for thread in threads:
    thread.start()
for i in range(60):
    pid = os.fork()
    if pid == 0:
        for j in range(20):
            counter.inc()
            family.labels("child").inc()
            family.labels(f"child {i}").inc()
            histogram.observe(1.5)
            gauge.inc()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
print(*done)
"""


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="such a Python may leave a dict locked in a child, for ever",
)
def test_fork_beside_threads(tmp_path: Path) -> None:
    """Children of a process whose threads are counting count as well, and exactly."""
    done = [int(n) for n in run(THREADS_THAT_COUNT, tmp_path).stdout.split()]
    found = scrape(tmp_path)
    assert min(done) > 0
    assert found["jobs_total"] == sum(done) + 60 * 20
    for n in range(3):
        assert found[f'tasks_total{{name="{n}"}}'] == done[n] / 2
    assert found['tasks_total{name="child"}'] == 60 * 20
    assert all(found[f'tasks_total{{name="child {i}"}}'] == 20 for i in range(60))
    assert found["seconds_count"] == sum(done) + 60 * 20
    assert found["seconds_sum"] == done[1] + 2 * done[2] + 1.5 * 60 * 20
    assert found.get("busy", 0) == 0  # nobody lives


PRELOADED = """
import os
counter = Counter("jobs", "Jobs.")
family = Counter("tasks", "Tasks.", ["name"])
child = family.labels("made before")
histogram = Histogram("seconds", "Seconds.", ["name"], buckets=(1, 2))
observed = histogram.labels("made before")
gauges = {mode: Gauge("gauge_" + mode, mode, multiprocess_mode=mode)
          for mode in ("all", "sum", "min", "max", "mostrecent", "livesum")}
counter.inc(0.5)
gauges["sum"].set(100)

def work(n):
    counter.inc()
    child.inc()
    family.labels("made after").inc()
    observed.observe(n)
    for gauge in gauges.values():
        gauge.set(n)

for n in range(1, 5):
    pid = os.fork()
    if pid == 0:
        work(n)
        if n < 3:
            grandchild = os.fork()
            if grandchild == 0:
                work(10 * n)
                os._exit(0)
            os.waitpid(grandchild, 0)
        print(os.getpid(), n, flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
print(os.getpid(), 0)
"""


def test_preload(tmp_path: Path) -> None:
    """Metrics that are made before the fork count in children, each with gauges of its own."""
    lines = run(PRELOADED, tmp_path).stdout.splitlines()
    pids = {n: pid for pid, n in map(str.split, lines)}
    found = scrape(tmp_path)
    assert found["jobs_total"] == 6.5
    assert found['tasks_total{name="made before"}'] == 6
    assert found['tasks_total{name="made after"}'] == 6
    assert found['seconds_sum{name="made before"}'] == 1 + 2 + 3 + 4 + 10 + 20
    assert found["gauge_sum"] == 100 + 1 + 2 + 3 + 4 + 10 + 20
    assert found["gauge_min"] == 0  # of the parent, which has declared it
    assert found["gauge_max"] == 20
    assert found["gauge_mostrecent"] == 4
    assert found.get("gauge_livesum", 0) == 0
    for n, pid in pids.items():
        assert found[f'gauge_all{{pid="{pid}"}}'] == float(n)


UNTIL_KILLED = """
import os
counter = Counter("jobs", "Jobs.")
histogram = Histogram("seconds", "Seconds.", buckets=(1, 2))
gauge = Gauge("busy", "Busy.", multiprocess_mode="livesum")
gauge.set(7)
n = 0
while True:
    for i in range(100):
        counter.inc()
        histogram.observe(1.5)
    n += 100
    os.write(1, b"%d\\n" % n)
"""


def test_kill(tmp_path: Path) -> None:
    """A process that is killed loses nothing that it had counted, and stops nobody."""
    told = counted = 0
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", START + UNTIL_KILLED],
            env=dict(os.environ, PROMETHEUS_MULTIPROC_DIR=str(tmp_path)),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        for _ in range(20):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().splitlines()
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        told += int(lines[-1]) if lines else 20 * 100
        found = scrape(tmp_path)
        assert found["jobs_total"] >= told
        assert 0 <= found["jobs_total"] - found["seconds_count"] <= 5
        assert found["seconds_sum"] == 1.5 * found["seconds_count"]
        assert found.get("busy", 0) == 0
        assert found["jobs_total"] > counted
        counted = int(found["jobs_total"])
        told = counted


def test_exit_at_once(tmp_path: Path) -> None:
    """os._exit() directly after a count keeps it."""
    run("import os\nCounter('jobs', 'Jobs.').inc()\nos._exit(0)", tmp_path)
    assert scrape(tmp_path)["jobs_total"] == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    """Workers of multiprocessing count, however they are started."""
    main = tmp_path / "main.py"
    main.write_text(
        START
        + f"""
import multiprocessing
counter = Counter("jobs", "Jobs.")

def work(n):
    counter.inc(n)

if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(2, maxtasksperchild=3) as pool:
        pool.map(work, range(20), chunksize=1)
        pool.close()
        pool.join()
"""
    )
    counts = tmp_path / "counts"
    counts.mkdir()
    subprocess.run(
        [sys.executable, str(main)],
        check=True,
        timeout=120,
        env=dict(os.environ, PROMETHEUS_MULTIPROC_DIR=str(counts)),
    )
    assert scrape(counts)["jobs_total"] == sum(range(20))
