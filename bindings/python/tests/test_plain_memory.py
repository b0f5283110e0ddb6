# SPDX-License-Identifier: MIT
# mypy: disable-error-code="func-returns-value"
"""No call of the module percpu keeps memory or references, whether it succeeds or fails."""

import gc
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import percpu

CALLS = 10_000


class World:
    """Objects to call."""

    def __init__(self, path: Path) -> None:
        """Make one of each kind."""
        self.path = path
        self.segment = percpu.Segment(path, create=True)
        self.counter = self.segment.counter("count", labels={"a": "1"})
        self.doubles = self.segment.counter("f", floats=True)
        self.gauge = self.segment.gauge("g")
        self.owned = self.segment.gauge("o", owned="recent")
        self.owned.set(1)
        self.histogram = self.segment.histogram("h", bounds=(1.0, 2.0))
        self.histogram.record(1)
        self.snapshot = self.histogram.snapshot()
        self.stats = self.segment.stats("s", ("a", "b"))
        self.family = self.segment.family("counter", "y", ("a",), 5)
        self.other = self.segment.family("histogram", "z", ("a",), bounds=(1.0,))
        self.counter.exemplar({"a": "1"}, 1)
        self.reader = percpu.Reader(path)
        self.old = self.reader.read()
        self.picture = self.reader.read()
        self.number = {one.name: i for i, one in enumerate(self.picture)}
        self.labels = {"trace": "1" * 3, "span": "é" * 3}
        self.bounds = (1.0, 2.0)
        self.closed = percpu.Segment(path)
        self.closed.close()

    def shared(self) -> list[object]:
        """Return what calls take and return, and must not keep."""
        return [
            *(self.segment, self.counter, self.family, self.stats, self.snapshot, self.reader),
            *(self.labels, self.labels["trace"], self.labels["span"], self.bounds, self.path),
            *(self.picture[0], self.picture[0].name, self.picture[0].label_names),
            *(percpu.Counter, percpu.Series, percpu.Error, percpu.HistogramSnapshot),
            *(percpu.Family, percpu.ReaderInfo, percpu.Exemplar, percpu.OwnedValue),
        ]


def segment_in_a_block(w: World) -> None:
    """Open and close a segment, and a reader."""
    with percpu.Segment(w.path) as segment:
        segment.counter("count", labels={"a": "1"}).inc()


def reader_in_a_block(w: World) -> None:
    """Open, read and close."""
    with percpu.Reader(w.path) as reader:
        reader.read()


def snapshot_of_stats(w: World) -> None:
    """Read statistics as they are at one moment."""
    w.stats.add_all((1000, 1000))
    w.stats.snapshot()


def owners_come_and_go(w: World) -> None:
    """Leave and join."""
    w.segment.leave()
    w.segment.join("worker")


GOOD: dict[str, Callable[[World], object]] = {
    "inc": lambda w: w.counter.inc(),
    "add": lambda w: w.counter.add(300),
    "value": lambda w: w.counter.value,
    "reset": lambda w: w.counter.reset(),
    "fcounter": lambda w: (w.doubles.inc(), w.doubles.add(0.5), w.doubles.value),
    "fcounter reset": lambda w: w.doubles.reset(),
    "gauge": lambda w: (w.gauge.set(1.5), w.gauge.add(1.5), w.gauge.value),
    "owned": lambda w: (w.owned.set(1.5), w.owned.value, w.owned.own),
    "record": lambda w: w.histogram.record(1.5),
    "snapshot": lambda w: w.histogram.snapshot(),
    "snapshot's members": lambda w: (
        *(w.snapshot.count, w.snapshot.sum, w.snapshot.bounds, w.snapshot.counts),
        *(w.snapshot.refused, w.snapshot.quantile(0.5)),
    ),
    "exemplar": lambda w: w.counter.exemplar(w.labels, 1.5),
    "stats": lambda w: (w.stats.add(a=1), w.stats.add(a=1, b=300), w.stats.add_all((1, 2))),
    "labels": lambda w: w.family.labels("a"),
    "labels of no label": lambda w: w.family.labels("\udcff"),
    "labels and exemplar": lambda w: w.other.labels("a").exemplar(w.labels, 1.5),
    "remove": lambda w: (w.other.labels("gone"), w.other.remove("gone")),
    "family's members": lambda w: (w.family.overflows, w.family.invalid),
    "declare a counter": lambda w: w.segment.counter("count", labels={"a": "1"}),
    "declare a gauge": lambda w: (w.segment.gauge("g"), w.segment.gauge("o", owned="recent")),
    "declare a histogram": lambda w: w.segment.histogram("h", bounds=w.bounds),
    "declare statistics": lambda w: w.segment.stats("s", ("a", "b")),
    "declare a family": lambda w: w.segment.family("counter", "y", ("a",), 5),
    "declare an info": lambda w: w.segment.info("i", {"version": "1"}),
    "fallback": lambda w: w.segment.fallback,
    "owners": owners_come_and_go,
    "close": lambda w: w.closed.close(),
    "read": lambda w: w.reader.read(),
    "details": lambda w: (
        *(w.reader.info(), w.reader.owners(w.number["o"])),
        *(w.reader.exemplars(w.number["count"]), repr(w.picture[0])),
    ),
    "annotation": lambda w: percpu.Family[percpu.Counter],
}

BAD: dict[str, Callable[[World], object]] = {
    "add text": lambda w: w.counter.add("1"),  # type: ignore[arg-type]
    "add less": lambda w: w.counter.add(-1),
    "add infinity": lambda w: w.doubles.add(math.inf),
    "set nan": lambda w: w.gauge.set(math.nan),
    "add to recent": lambda w: w.owned.add(1),
    "record text": lambda w: w.histogram.record("1"),  # type: ignore[arg-type]
    "quantile": lambda w: w.snapshot.quantile(2),
    "exemplar of a number": lambda w: w.counter.exemplar({"trace": 1}, 1),  # type: ignore[dict-item]
    "long exemplar": lambda w: w.counter.exemplar({"trace": "x" * 200}, 1),
    "no field": lambda w: w.stats.add(a=1, c=1),
    "few amounts": lambda w: w.stats.add_all((1,)),
    "many values": lambda w: w.family.labels("a", "b"),
    "a number as a value": lambda w: w.other.labels(1),  # type: ignore[arg-type]
    "nothing to remove": lambda w: w.family.remove("none"),
    "other kind": lambda w: w.segment.gauge("count", labels={"a": "1"}),
    "label that is a number": lambda w: w.segment.counter("count", labels={"a": 1}),  # type: ignore[dict-item]
    "no mapping": lambda w: w.segment.counter("count", labels=5),  # type: ignore[call-overload]
    "bounds that fall": lambda w: w.segment.histogram("b", bounds=(2.0, 1.0)),
    "bounds of text": lambda w: w.segment.histogram("b", bounds=("1",)),  # type: ignore[arg-type]
    "other fields": lambda w: w.segment.stats("s", ("a", "c")),
    "fields of numbers": lambda w: w.segment.stats("s", (1,)),  # type: ignore[arg-type]
    "other family": lambda w: w.segment.family("counter", "y", ("b",), 5),
    "other kind of family": lambda w: w.segment.family("counter", "count", ("b",)),
    "other info": lambda w: w.segment.info("count", {"b": "1"}),
    "other name": lambda w: w.segment.join("other name"),
    "closed": lambda w: w.closed.counter("other"),
    "closed with labels": lambda w: w.closed.counter("other", labels=w.labels),
    "no file": lambda w: percpu.Segment(w.path.parent / "none"),
    "no file to read": lambda w: percpu.Reader(w.path.parent / "none"),
    "no descriptor": lambda w: percpu.Reader(-1),
    "no owned gauge": lambda w: w.reader.owners(w.number["count"]),
    "no series": lambda w: w.reader.exemplars(10_000),
    "old series": lambda w: w.reader.exemplars(w.old[0]),
}


def memory() -> int:
    """Return the bytes of memory that the process has of its own."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def repeat(call: Callable[[World], object], world: World, n: int) -> tuple[int, int, list[int]]:
    """Call it n times. Return the blocks of Python, bytes, and references to what is shared."""
    for _ in range(n):
        call(world)
    gc.collect()
    return sys.getallocatedblocks(), memory(), [sys.getrefcount(one) for one in world.shared()]


def failing(call: Callable[[World], object]) -> Callable[[World], object]:
    """Return a call that expects the other one to raise."""

    def fails(world: World) -> None:
        try:
            call(world)
        except (percpu.Error, ValueError, TypeError, IndexError, AttributeError):
            return
        raise AssertionError("the call did not raise")

    return fails


def keeps_nothing(call: Callable[[World], Any], path: Path, n: int) -> None:
    """Check that n calls leave blocks, memory and references as they were.

    The memory of the process also grows for other reasons, but not each time.
    """
    world = World(path)
    call(world)
    blocks, size, references = repeat(call, world, n // 4)
    for _ in range(3):
        blocks_now, size_now, references_now = repeat(call, world, n)
        assert blocks_now - blocks < n // 10
        grown = [now - before for before, now in zip(references, references_now, strict=True)]
        assert max(grown) < 10 and min(grown) > -10, grown
        if size_now - size < 30 * n:
            return
        size = size_now
    raise AssertionError("the memory of the process grows")


@pytest.mark.parametrize("name", GOOD)
def test_calls(tmp_path: Path, name: str) -> None:
    keeps_nothing(GOOD[name], tmp_path / "s", CALLS)


@pytest.mark.parametrize("name", BAD)
def test_calls_that_fail(tmp_path: Path, name: str) -> None:
    keeps_nothing(failing(BAD[name]), tmp_path / "s", CALLS)


@pytest.mark.parametrize("call", [segment_in_a_block, reader_in_a_block, snapshot_of_stats])
def test_calls_that_take_time(tmp_path: Path, call: Callable[[World], None]) -> None:
    keeps_nothing(call, tmp_path / "s", 1000)


def fail_each_allocation(call: Callable[[World], object], world: World) -> int:
    """Call it again and again, while another allocation of Python fails. Return the blocks."""
    memory = pytest.importorskip("_testcapi")
    for start in range(60):
        memory.set_nomemory(start, start + 1)
        try:
            call(world)
        except MemoryError:
            continue
        finally:
            memory.remove_mem_hooks()
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("name", GOOD)
def test_without_memory(tmp_path: Path, name: str) -> None:
    world = World(tmp_path / "s")
    fail_each_allocation(GOOD[name], world)
    before = fail_each_allocation(GOOD[name], world)
    assert fail_each_allocation(GOOD[name], world) - before < 20
    GOOD[name](world)
