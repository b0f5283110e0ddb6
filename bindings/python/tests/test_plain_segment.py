# SPDX-License-Identifier: MIT
"""Segments: how they are opened and closed, and who owns values in them."""

import copy
import errno
import gc
import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import percpu


def open_files(path: Path) -> int:
    """Count the descriptors of this process that lead to the file."""
    here, found = Path("/proc/self/fd"), 0
    for number in os.listdir(here):
        try:
            found += (here / number).stat().st_ino == path.stat().st_ino
        except FileNotFoundError:  # that of listdir()
            continue
    return found


def maps(path: Path) -> int:
    """Count the mappings of the file in this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(int(line.split()[4]) == path.stat().st_ino for line in lines)


def test_names(tmp_path: Path) -> None:
    with pytest.raises(percpu.Error) as raised:
        percpu.Segment(tmp_path / "none")
    assert raised.value.errno == errno.ENOENT and str(tmp_path) in str(raised.value)
    for name in (tmp_path / "s", str(tmp_path / "s"), os.fsencode(tmp_path / "s")):
        with percpu.Segment(name, create=True) as segment:
            segment.counter("c").inc()
    with percpu.Segment(tmp_path / "s") as segment:
        assert segment.counter("c").value == 3
        assert segment.fallback is None
    with pytest.raises(ValueError):
        percpu.Segment("a\0b")
    for wrong in (5, None, 1.5):
        with pytest.raises(TypeError):
            percpu.Segment(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        percpu.Segment()  # type: ignore[call-arg]
    with pytest.raises(percpu.Error) as raised:
        percpu.Segment("no:name", create=True)
    assert raised.value.errno == errno.EINVAL


def test_anew(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as first:
        counter = first.counter("c")
        counter.inc()
        with percpu.Segment(tmp_path / "s", anew=True):
            assert counter.value == 0


def test_mode_and_program(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True, mode=0o640, program="mine"):
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o640
    with pytest.raises(percpu.Error) as raised:
        percpu.Segment(tmp_path / "s", program="other")
    assert raised.value.errno == errno.EEXIST
    with percpu.Reader(tmp_path / "s") as reader:
        assert reader.read() == [] and reader.info().program == "mine"


def test_fallback(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"not a segment")
    with pytest.raises(percpu.Error) as raised:
        percpu.Segment(tmp_path / "s", create=True)
    assert raised.value.errno == errno.EBADMSG
    with percpu.Segment(tmp_path / "s", create=True, fallback=True) as segment:
        assert segment.fallback is not None and str(tmp_path) in segment.fallback
        counter = segment.counter("c")
        counter.inc()
        assert counter.value == 1
    assert (tmp_path / "s").read_bytes() == b"not a segment"


def test_closed(tmp_path: Path) -> None:
    segment = percpu.Segment(tmp_path / "s", create=True)
    assert open_files(tmp_path / "s") == 1
    for _ in range(3):
        segment.close()
    assert open_files(tmp_path / "s") == 0 and maps(tmp_path / "s") == 0
    calls: list[Callable[[], object]] = [
        lambda: segment.counter("c"),
        lambda: segment.counter("c", labels={"a": "1"}),
        lambda: segment.gauge("c"),
        lambda: segment.histogram("c", bounds=[1]),
        lambda: segment.stats("c", ["a"]),
        lambda: segment.info("c", {"a": "1"}),
        lambda: segment.family("counter", "c", ["a"]),
        lambda: segment.join("a"),
        lambda: segment.leave(),
        lambda: segment.fallback,
        lambda: segment.__enter__(),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the segment is closed"):
            call()


def test_objects_keep_a_closed_segment(tmp_path: Path) -> None:
    path = tmp_path / "s"
    segment = percpu.Segment(path, create=True)
    counter = segment.counter("c")
    gauge = segment.gauge("g", owned="sum")
    histogram = segment.histogram("h")
    stats = segment.stats("s", ["a"])
    family = segment.family("counter", "f", ["a"])
    with pytest.raises(percpu.Error):
        segment.join("")
    segment.close()
    with pytest.raises(ValueError, match="the segment is closed"):
        segment.counter("c")
    del segment
    counter.inc()
    counter.exemplar({"trace": "1"}, 1)
    gauge.set(2)
    histogram.record(1)
    stats.add(a=3)
    series = family.labels("late")
    del family
    series.add(4)
    series.exemplar({"trace": "1"}, 1)
    with percpu.Reader(path) as reader:
        got = {one.name: one.value for one in reader.read() if one.kind != "histogram"}
    assert got == {"c": 1.0, "g": 2.0, "s": (3,), "f": 4.0}
    del counter, gauge, histogram, stats
    assert maps(path) > 0
    del series
    gc.collect()
    assert maps(path) == 0 and open_files(path) == 0


def test_segment_that_is_only_deleted(tmp_path: Path) -> None:
    counter = percpu.Segment(tmp_path / "s", create=True).counter("c")
    counter.inc()
    assert counter.value == 1 and maps(tmp_path / "s") > 0
    del counter
    assert maps(tmp_path / "s") == 0


def test_exception_in_a_block(tmp_path: Path) -> None:
    with pytest.raises(KeyError), percpu.Segment(tmp_path / "s", create=True):
        raise KeyError
    assert open_files(tmp_path / "s") == 0


def test_owners(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        segment.join("w1")
        with pytest.raises(percpu.Error) as raised:
            segment.join("w2")
        assert raised.value.errno == errno.EALREADY
        segment.gauge("g", owned="sum").set(5)
        segment.leave()
        segment.leave()
        assert segment.gauge("g", owned="sum").own is None
        segment.join(name="w1", resume=True)
        assert segment.gauge("g", owned="sum").own == 5
        segment.leave()
        segment.join("w1")
        assert segment.gauge("g", owned="sum").own is None
        with pytest.raises(percpu.Error):
            segment.join("")
        with pytest.raises(TypeError):
            segment.join(5)  # type: ignore[arg-type]


def test_two_segments(tmp_path: Path) -> None:
    with (
        percpu.Segment(tmp_path / "a", create=True) as a,
        percpu.Segment(tmp_path / "b", create=True) as b,
        percpu.Segment(tmp_path / "a") as again,
    ):
        a.counter("c").inc()
        b.counter("c").add(2)
        again.counter("c").add(10)
        assert (a.counter("c").value, b.counter("c").value) == (11, 2)


def test_no_copies(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        family = segment.family("counter", "f", ["a"])
        for one in (segment, segment.counter("c"), family, segment.histogram("h").snapshot()):
            with pytest.raises(TypeError):
                pickle.dumps(one)
            with pytest.raises(TypeError):
                copy.copy(one)


def test_subclasses_are_refused() -> None:
    types: list[Any] = [percpu.Segment, percpu.Reader]
    for of in types:
        with pytest.raises(TypeError):
            type("Derived", (of,), {})
        with pytest.raises(TypeError):
            of.extra = 1


def test_exit_returns_nothing(tmp_path: Path) -> None:
    segment = percpu.Segment(tmp_path / "s", create=True)
    none: tuple[None, None, TracebackType | None] = (None, None, None)
    assert segment.__exit__(*none) is None  # type: ignore[func-returns-value]
