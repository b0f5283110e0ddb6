# SPDX-License-Identifier: MIT
"""Odd calls and odd moments: texts that fit no file, signal handlers, forks beside threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from dropin import run


def test_help_of_any_type(tmp_path: Path) -> None:
    """prometheus_client takes any object as a help text, and so does the drop-in."""
    told = run(
        tmp_path,
        """
        from fractions import Fraction
        for i, text in enumerate((None, 5, Fraction(1, 2), "a\\0b", "a\\ud800b")):
            Counter(f"c{i}", text, ["l"], registry=None).labels("x").inc()
        tell([scrape(), percpu_prometheus.status().private])
        """,
    )
    assert told == [[{f"c{i}_total{{l=x}}": 1 for i in range(5)}, []]]


def test_exemplars_that_cannot_be_stored(tmp_path: Path) -> None:
    """prometheus_client does not look at the values of an exemplar: nothing is raised."""
    told = run(
        tmp_path,
        """
        counter, histogram = Counter("c", "A counter."), Histogram("h", "A histogram.")
        for value in ("\\ud800", b"bytes", ["list"]):
            counter.inc(1, {"trace": value})
            histogram.observe(1, {"trace": value})
        found = scrape()
        tell([found["c_total"], found["h_count"], found["h_sum"]])
        """,
    )
    assert told == [[3, 3, 3]]


def test_info_with_keys_of_all_types(tmp_path: Path) -> None:
    """The keys of an info need no order."""
    told = run(tmp_path, "Info('i', 'An info.').info({1: 'a', 'b': 'c'}); tell(scrape())")
    assert told in ([{}], [{"i_info{1=a}{b=c}": 1}])


def test_a_nul_in_a_label(tmp_path: Path) -> None:
    """A label value with a NUL is not taken for the text before the NUL."""
    told = run(
        tmp_path,
        """
        counter = Counter("c", "A counter.", ["l"])
        counter.labels("a").inc(5)
        counter.labels("a\\0b").inc(1, {"trace": "b"})
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
        tell({s.labels["l"]: s.exemplar for m in registry.collect() for s in m.samples
              if s.name == "c_total"}["a"])
        counter.remove("a\\0b")
        tell(scrape()["c_total{l=a}"])
        """,
    )
    assert told == [None, 5]


@pytest.mark.parametrize("methods", [True, False])
@pytest.mark.parametrize("amount", ["inf", "nan", "2.0**970", "-inf"])
def test_refused_observations_are_lost(tmp_path: Path, amount: str, methods: bool) -> None:
    """What a histogram refuses is counted as lost, with and without an exemplar."""
    told = run(
        tmp_path,
        f"""
        from math import inf, nan
        percpu_prometheus.activate(methods={methods})
        histogram = Histogram("h", "A histogram.", buckets=(1, 2))
        histogram.observe({amount})
        histogram.observe({amount}, {{"a": "b"}})
        tell([percpu_prometheus.status().lost, scrape()["h_count"]])
        """,
    )
    assert told == [[2, 0]]


def test_a_bucket_is_told_a_large_number(tmp_path: Path) -> None:
    """A bucket that is told to add a large number returns."""
    told = run(
        tmp_path,
        """
        histogram = Histogram("h", "A histogram.", buckets=(1, 2))
        for times in (float("inf"), float("nan"), 1e300, 3):
            histogram._buckets[0].inc(times)
        tell(scrape()["h_count"])
        """,
    )
    assert told == [3]


SCRAPE_IN_A_HANDLER = """
counter = Counter("c", "A counter.", ["l"])
for i in range(2000):
    counter.labels(str(i)).inc()
handled = 0

def handle(number, frame):
    global handled
    handled += 1
    assert len(scrape()) == 2000

signal.signal(signal.SIGALRM, handle)
while handled < 10:
    signal.setitimer(signal.ITIMER_REAL, 0.004)
    assert len(scrape()) == 2000
signal.setitimer(signal.ITIMER_REAL, 0)
tell(handled >= 10)
"""


def test_a_handler_scrapes_while_the_program_scrapes(tmp_path: Path) -> None:
    """A signal handler may scrape, also if it interrupts a scrape."""
    assert run(tmp_path, SCRAPE_IN_A_HANDLER) == [True]


OBSERVE_IN_A_HANDLER = """
labelled = Histogram("labelled", "A histogram.", ["l"], buckets=(1, 2, 3))
plain = Histogram("plain", "A histogram.", buckets=(1, 2, 3))
handled = n = 0

def observe(amount):
    labelled.labels(str(n)).observe(amount, {"a": "b"})
    plain.observe(amount, {"a": "b"})

def handle(number, frame):
    global handled
    handled += 1
    observe(0.25)
    signal.setitimer(signal.ITIMER_REAL, 0.0001)

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0001)
while handled < 2000:
    n += 1
    observe(0.75)
signal.signal(signal.SIGALRM, signal.SIG_IGN)
found = scrape()
for name in ("labelled", "plain"):
    tell([sum(v for k, v in found.items() if k.split("{")[0] == name + "_count") - n - handled,
          sum(v for k, v in found.items() if k.split("{")[0] == name + "_sum")
          - 0.75 * n - 0.25 * handled])
tell(percpu_prometheus.status().private)
"""


def test_a_handler_makes_and_observes_the_same_histogram(tmp_path: Path) -> None:
    """A signal handler makes the series that the program is making, and observes with exemplars."""
    assert run(tmp_path, OBSERVE_IN_A_HANDLER) == [[0, 0], [0, 0], []]


def test_fork_while_a_thread_makes_series(tmp_path: Path) -> None:
    """A child of fork makes series, whatever its parent's threads were doing."""
    told = run(
        tmp_path,
        """
        import threading
        counter = Counter("c", "A counter.", ["l"])
        stop = threading.Event()

        def make():
            n = 0
            while not stop.is_set():
                n += 1
                counter.labels(f"thread {n}").inc()

        def child():
            signal.alarm(10)
            counter.labels("child").inc()

        sys.setswitchinterval(1e-5)
        threads = [threading.Thread(target=make) for _ in range(2)]
        for thread in threads:
            thread.start()
        for n in range(30):
            in_child(child)
            assert counter.labels("child")._value.get() == n + 1
        stop.set()
        for thread in threads:
            thread.join()
        tell(scrape()["c_total{l=child}"])
        """,
    )
    assert told == [30]


def test_scrapes_of_many_directories_keep_few_files(tmp_path: Path) -> None:
    """A program that scrapes one directory after the other does not keep all of them open."""
    told = run(
        tmp_path,
        """
        def open_files():
            return len(os.listdir("/proc/self/fd"))

        def scrape_of(n):
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder = f"{base}/{n}"
            os.mkdir(folder)
            in_child(lambda: Counter(f"c{n}", "A counter.", registry=None).inc())
            assert scrape() == {f"c{n}_total": 1}

        base = os.environ["PROMETHEUS_MULTIPROC_DIR"]
        before = open_files()
        for n in range(20):
            scrape_of(n)
        tell(open_files() - before < 10)
        """,
    )
    assert told == [True]


def test_an_identity_that_compares_slowly(tmp_path: Path) -> None:
    """Threads replace the identity of a value while others compare with it."""
    told = run(
        tmp_path,
        """
        import threading, gc

        class Identity:
            def __init__(self):
                self.text = str(threading.get_ident() % 3)
            def __eq__(self, other):
                for _ in range(20):
                    gc.isenabled()
                return self.text == other.text
            def __str__(self):
                return self.text

        values.ValueClass = values.MultiProcessValue(Identity)
        gauge = Gauge("g", "A gauge.", multiprocess_mode="livesum")
        sys.setswitchinterval(1e-6)

        def count():
            for _ in range(3000):
                gauge.inc()

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tell(scrape()["g"])
        """,
    )
    assert told == [12000]
