# SPDX-License-Identifier: MIT
"""Counting where an interpreter is in an unusual state: signals, its end, further interpreters."""

import sys
from pathlib import Path

import pytest
from programs import run, said, scrape

IN_A_HANDLER = """
import signal, threading
counter = Counter("jobs", "Jobs.")
family = Counter("tasks", "Tasks.", ["name"])
histogram = Histogram("seconds", "Seconds.", buckets=(1, 2))
gauge = Gauge("busy", "Busy.")
handled = 0

def handle(number, frame):
    global handled
    handled += 1
    counter.inc()
    family.labels("handler").inc()
    family.labels(f"handler {handled % 50}").inc()
    histogram.observe(1.5)
    gauge.inc()
    signal.setitimer(signal.ITIMER_REAL, 0.0003)

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0003)
n = 0
while handled < 500:
    for i in range(100):
        counter.inc()
        family.labels("program").inc()
        family.labels(f"program {n % 50}").inc()
        histogram.observe(0.5)
        gauge.inc()
        n += 1
signal.signal(signal.SIGALRM, signal.SIG_IGN)
print(n, handled)
"""


def test_signal_handler(tmp_path: Path) -> None:
    """A handler counts while the code that it interrupts counts."""
    n, handled = (int(number) for number in run(IN_A_HANDLER, tmp_path).stdout.split())
    found = scrape(tmp_path)
    assert found["jobs_total"] == n + handled
    assert found['tasks_total{name="program"}'] == n
    assert found['tasks_total{name="handler"}'] == handled
    of_names = [value for name, value in found.items() if name.startswith("tasks_total")]
    assert sum(of_names) == 2 * (n + handled)
    assert found["seconds_count"] == n + handled
    assert found["seconds_sum"] == n * 0.5 + handled * 1.5
    assert sum(value for name, value in found.items() if name.startswith("busy{")) == n + handled


AT_THE_END = """
import atexit, sys, weakref
counter = Counter("jobs", "Jobs.", ["where"])
histogram = Histogram("seconds", "Seconds.", buckets=(1, 2))
at_exit, in_del, in_callback = (counter.labels(w) for w in ("atexit", "del", "callback"))
atexit.register(lambda: (at_exit.inc(), counter.labels("new at exit").inc()))

class Last:
    def __init__(self, child, histogram):
        self.child = child
        self.histogram = histogram

    def __del__(self):
        self.child.inc()
        self.histogram.observe(1.5)

# Kept until the modules are cleared.
last = Last(in_del, histogram)
sys.modules["kept"] = Last(in_del, histogram)
reference = Last(in_del, histogram)
reference.itself = reference
noticed = weakref.ref(last, lambda _, child=in_callback: child.inc())
"""


def test_end_of_interpreter(tmp_path: Path) -> None:
    """Counting goes on in atexit, in finalizers, and while modules are cleared."""
    assert said(run(AT_THE_END, tmp_path)) == []
    found = scrape(tmp_path)
    assert found['jobs_total{where="atexit"}'] == 1
    assert found['jobs_total{where="new at exit"}'] == 1
    assert found['jobs_total{where="del"}'] == found["seconds_count"] == 3


DAEMONS = """
import threading, time
counter = Counter("jobs", "Jobs.")
family = Counter("tasks", "Tasks.", ["name"])
histogram = Histogram("seconds", "Seconds.", buckets=(1, 2))

def count(n):
    for i in range(10**9):
        counter.inc()
        family.labels(str(i % 1000)).inc()
        histogram.observe(1.5)

for n in range(4):
    threading.Thread(target=count, args=(n,), daemon=True).start()
time.sleep(0.1)
"""


def test_daemon_threads(tmp_path: Path) -> None:
    """Daemon threads that still count when the interpreter ends do no harm."""
    for _ in range(5):
        assert said(run(DAEMONS, tmp_path)) == []
    found = scrape(tmp_path)
    assert found["jobs_total"] > 0
    assert 0 <= found["jobs_total"] - found["seconds_count"] <= 5 * 4 * 2


IN_ANOTHER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
Counter("outer", "Outer.").inc()
program = '''
import percpu_prometheus
from prometheus_client import Counter, Gauge, Histogram, CollectorRegistry
r = CollectorRegistry()
counter = Counter("inner", "Inner.", ["n"], registry=r)
for i in range(100):
    counter.labels(str(i % 3)).inc()
Histogram("seconds", "Seconds.", registry=r).observe(1.5)
Gauge("busy", "Busy.", registry=r, multiprocess_mode="sum").inc(3)
'''
for i in range(3):
    one = interpreters.create()
    failure = interpreters.run_string(one, program)
    if failure is not None:
        print(getattr(failure, "formatted", failure), file=sys.stderr)
    interpreters.destroy(one)
Counter("after", "After.").inc()
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="further interpreters are of 3.12")
def test_further_interpreters(tmp_path: Path) -> None:
    """A further interpreter counts, too."""
    assert said(run(IN_ANOTHER, tmp_path)) == []
    found = scrape(tmp_path)
    assert found["outer_total"] == found["after_total"] == 1
    assert sum(found[f'inner_total{{n="{n}"}}'] for n in range(3)) == 300
    assert found["seconds_count"] == 3
