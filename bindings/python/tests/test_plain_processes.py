# SPDX-License-Identifier: MIT
"""Threads and processes: fork, spawn, SIGKILL, a reader against writers."""

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import percpu

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(call: Callable[[], None]) -> int:
    """Run the call in a child of fork. Return the wait status. A child that hangs is killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        with contextlib.suppress(BaseException):
            call()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1]


def run_threads(n: int, call: Callable[[], None]) -> None:
    """Run the call in n threads, and wait for them."""
    threads = [threading.Thread(target=call) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        counter = segment.counter("c")
        doubles = segment.counter("f", floats=True)
        owned = segment.gauge("o", owned="sum")
        histogram = segment.histogram("h", bounds=[1])
        stats = segment.stats("s", ["a", "b"])
        family = segment.family("counter", "y", ["a"])

        def count() -> None:
            for i in range(2000):
                counter.inc()
                doubles.add(0.5)
                owned.add(1)
                histogram.record(i % 2)
                stats.add(a=1, b=2)
                family.labels(str(i % 50)).inc()

        run_threads(4, count)
        assert (counter.value, doubles.value, owned.value) == (8000, 4000.0, 8000.0)
        assert histogram.snapshot().count == 8000
        assert stats.snapshot() == {"a": 8000, "b": 16000}
        assert [family.labels(str(i)).value for i in range(50)] == [160] * 50


def test_declaring_while_closing(tmp_path: Path) -> None:
    for _ in range(30):
        segment = percpu.Segment(tmp_path / "s", create=True)
        declared: list[percpu.Counter] = []

        def declare(
            segment: percpu.Segment = segment, declared: list[percpu.Counter] = declared
        ) -> None:
            with contextlib.suppress(ValueError):
                while True:
                    declared.append(segment.counter(f"c{len(declared) % 100}"))
                    declared[-1].inc()

        threads = [threading.Thread(target=declare) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(declared) < 30:
            time.sleep(0)
        segment.close()
        for thread in threads:
            thread.join()
        for counter in declared:
            counter.inc()


def test_fork(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        counter = segment.counter("c")
        family = segment.family("counter", "f", ["a"])
        owned = segment.gauge("o", owned="sum")
        owned.set(1)
        counter.inc()

        def child() -> None:
            assert owned.own is None
            owned.set(10)
            assert owned.own == 10 and owned.value == 11
            counter.inc()
            family.labels("child").inc()
            segment.counter("new").inc()
            segment.close()
            counter.inc()

        assert in_child(child) == 0
        assert counter.value == 3 and family.labels("child").value == 1
        assert segment.counter("new").value == 1
        assert owned.value == 1  # the child has ended


def test_fork_while_threads_count(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        counter = segment.counter("c")
        family = segment.family("counter", "f", ["a"])
        stop = threading.Event()

        def count() -> None:
            i = 0
            while not stop.is_set():
                counter.inc()
                family.labels(str(i % 500)).inc()
                segment.gauge(f"g{i % 50}")
                i += 1

        def child() -> None:
            for i in range(50):
                counter.inc()
                family.labels(f"child {i}").inc()
                segment.gauge(f"h{i}")

        threads = [threading.Thread(target=count) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert [in_child(child) for _ in range(30)] == [0] * 30
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert family.labels("child 7").value == 30


def test_fork_while_a_thread_reads(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        family = segment.family("counter", "f", ["a"], 3000)
        for i in range(3000):
            family.labels(str(i)).inc()
    reader = percpu.Reader(tmp_path / "s")
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            assert len(reader.read()) == 3000

    def child() -> None:
        try:
            assert len(reader.read()) == 3000
        except RuntimeError as error:
            assert "was reading when it forked" in str(error)
        with percpu.Reader(tmp_path / "s") as own:
            assert len(own.read()) == 3000

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert [in_child(child) for _ in range(50)] == [0] * 50
    finally:
        stop.set()
        thread.join()
    assert len(reader.read()) == 3000


def count_forever(path: str) -> None:
    """Count until the process is killed."""
    segment = percpu.Segment(path)
    counter = segment.counter("c")
    stats = segment.stats("s", ["a", "b"])
    owned = segment.gauge("o", owned="sum")
    family = segment.family("counter", "f", ["a"])
    i = 0
    while True:
        owned.set(1)
        counter.inc()
        stats.add(a=1, b=2)
        family.labels(str(i % 200)).inc()
        i += 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_killed_processes(tmp_path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    path = str(tmp_path / "s")
    dice = random.Random(1)
    with percpu.Segment(path, create=True) as segment:
        counter = segment.counter("c")
        stats = segment.stats("s", ["a", "b"])
        owned = segment.gauge("o", owned="sum")
        before = 0
        for _ in range(20 if method == "fork" else 3):
            process = context.Process(target=count_forever, args=(path,))  # type: ignore[attr-defined]
            process.start()
            while counter.value == before:
                time.sleep(0.001)
            time.sleep(dice.random() / 50)
            process.kill()
            process.join()
            assert process.exitcode == -signal.SIGKILL
            before = counter.value
            got = stats.snapshot()
            assert got["b"] == 2 * got["a"]
            assert owned.value == 0
        assert abs(counter.value - stats.snapshot()["a"]) <= 20


def test_reader_against_writers(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    context = multiprocessing.get_context("fork")
    with percpu.Segment(path, create=True) as segment:
        segment.counter("c").inc()
        processes = [context.Process(target=count_forever, args=(path,)) for _ in range(2)]
        for process in processes:
            process.start()
        last = 0.0
        with percpu.Reader(path) as reader:
            for _ in range(300):
                picture = {(one.name, one.label_values): one.value for one in reader.read()}
                assert picture[("c", ())] >= last
                last = picture[("c", ())]
            for process in processes:
                process.kill()
                process.join()
            final = {(one.name, one.label_values): one.value for one in reader.read()}
        assert final[("c", ())] == segment.counter("c").value >= last
        family = segment.family("counter", "f", ["a"])
        total = sum(value for (name, _), value in final.items() if name == "f")
        assert total == sum(family.labels(str(i)).value for i in range(200))


def test_signal_handler_counts(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        counter = segment.counter("c")
        before = signal.signal(signal.SIGALRM, lambda *_: counter.inc())
        handled = 0
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            for _ in range(100_000):
                counter.inc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        handled = counter.value - 100_000
        assert handled >= 0


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in Python, which warns of all that it finds."""
    command = [sys.executable, "-X", "dev", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


SHUTDOWN = """
import sys, threading, time
import percpu
segment = percpu.Segment(sys.argv[1], create=True)
counter = segment.counter("c")
family = segment.family("counter", "f", ["a"])
series = family.labels("x")
reader = percpu.Reader(sys.argv[1])
picture = reader.read()
snapshot = segment.histogram("h").snapshot()

class Late:
    def __del__(self):
        counter.inc()
        series.inc()

late = Late()
late.self = late
sys.late = Late()

def count():
    while True:
        counter.inc()
        family.labels("y").inc()
        reader.read()

for _ in range(3):
    threading.Thread(target=count, daemon=True).start()
time.sleep(0.05)
print(counter.value > 0)
"""


def test_shutdown_with_live_objects(tmp_path: Path) -> None:
    for i in range(5):
        done = run(SHUTDOWN, str(tmp_path / f"s{i}"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


SUBINTERPRETERS = """
import sys
import percpu
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
path, own_lock = sys.argv[1], sys.argv[2] == "own"
segment = percpu.Segment(path, create=True)
counter = segment.counter("count")
program = f'''
import percpu
segment = percpu.Segment({path!r})
counter = segment.counter("count")
counter.inc()
try:
    counter.add(-1)
except ValueError:
    counter.inc()
try:
    percpu.Segment("/nothing/there")
except percpu.Error:
    counter.inc()
with percpu.Reader({path!r}) as reader:
    assert reader.read()[0].value >= 3
'''
for _ in range(3):
    if sys.version_info >= (3, 13):
        one = interpreters.create("isolated" if own_lock else "legacy")
    else:
        one = interpreters.create(isolated=own_lock)
    try:
        failed = interpreters.run_string(one, program)
    except interpreters.RunFailedError as error:
        failed = error
    interpreters.destroy(one)
    if failed is not None:
        print(failed)
        break
print(counter.value)
"""


def test_interpreters_with_one_lock(tmp_path: Path) -> None:
    done = run(SUBINTERPRETERS, str(tmp_path / "s"), "one")
    assert (done.returncode, done.stdout) == (0, "9\n"), done.stderr


@pytest.mark.skipif(sys.version_info < (3, 12), reason="all interpreters have one lock")
def test_interpreters_with_locks_of_their_own(tmp_path: Path) -> None:
    done = run(SUBINTERPRETERS, str(tmp_path / "s"), "own")
    assert (done.returncode, done.stdout) == (0, "9\n"), done.stderr
