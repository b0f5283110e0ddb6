# SPDX-License-Identifier: MIT
"""Readers: pictures, what they refuse, and files with any bytes."""

import errno
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import percpu


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a segment with a series of each kind that Python declares."""
    with percpu.Segment(tmp_path / "s", create=True, program="test") as segment:
        counter = segment.counter("a", "Help of a é.", unit="bytes")
        counter.add(3)
        counter.exemplar({"trace": "1"}, 3)
        segment.gauge("b").set(-1.5)
        owned = segment.gauge("c", owned="recent")
        segment.join("first")
        owned.set(4)
        segment.histogram("d", bounds=[1, 2], labels={"x": "1"}).record(1.5)
        segment.histogram("d", bounds=[1, 2], labels={"x": "2"}).record(9)
        segment.histogram("e", min=0.5, max=8, buckets_per_octave=2).record(1)
        segment.info("f", {"version": "1"})
        segment.stats("g", ["p", "q"]).add(p=1, q=2)
        family = segment.family("counter", "h", ["m", "n"], 5, help="Family.")
        for i in range(7):
            family.labels(str(i), "v").inc()
        segment.leave()
    return tmp_path / "s"


@pytest.fixture
def reader(path: Path) -> Iterator[percpu.Reader]:
    """Open the segment to read."""
    with percpu.Reader(path) as opened:
        yield opened


def test_picture(reader: percpu.Reader) -> None:
    before = time.time()
    series = reader.read()
    assert [one.name for one in series] == [*"abcddefg", *"hhhhhh"]
    assert {one.name: one.kind for one in series} == {
        "a": "counter",
        "b": "fgauge",
        "c": "owned_fgauge",
        "d": "histogram",
        "e": "histogram",
        "f": "info",
        "g": "stats",
        "h": "counter",
    }
    first = series[0]
    assert (first.help, first.unit, first.value) == ("Help of a é.", "bytes", 3.0)
    assert type(first.value) is float
    assert (first.label_names, first.label_values, first.fields, first.field) == ((), (), (), "")
    assert (first.flags, first.cap, first.overflows, first.invalid) == (0, 0, 0, 0)
    assert before - 60 < first.since <= before + 1
    assert "counter" in repr(first) and "'a'" in repr(first)
    assert series[2].value is None and series[2].flags == 3
    d = [one for one in series if one.name == "d"]
    assert [one.value for one in d] == [((1.0, 2.0), (0, 1, 0), 1.5), ((1.0, 2.0), (0, 0, 1), 9.0)]
    assert [one.label_values for one in d] == [("1",), ("2",)]
    assert d[0].value[0] is d[1].value[0] and d[0].label_names is d[1].label_names
    assert series[7].fields == ("p", "q") and series[7].value == (1, 2)
    last = series[-1]
    assert (last.help, last.cap, last.overflows) == ("Family.", 5, 2)


def test_exponential_bounds(reader: percpu.Reader) -> None:
    (found,) = [one for one in reader.read() if one.name == "e"]
    bounds, counts, total = found.value
    assert bounds == pytest.approx([2 ** (i / 2) for i in range(-2, 7)], rel=1e-15)
    assert [bounds[i] for i in (0, 2, 4, 6, 8)] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert len(counts) == 10 and counts[2] == 1 and sum(counts) == 1 and total == 1.0


def test_bounds_are_of_each_histogram(tmp_path: Path) -> None:
    bounds = {"a": (1.0, 2.0), "b": (1.0, 3.0), "c": (1.0, 3.0), "d": (1.0,)}
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        for name, own in bounds.items():
            segment.histogram(name, bounds=own)
        segment.histogram("e", min=1, max=4, buckets_per_octave=1)
        segment.histogram("f", min=2, max=8, buckets_per_octave=1)
        segment.histogram("g", summary=True)
    with percpu.Reader(tmp_path / "s") as reader:
        got = {one.name: one.value[0] for one in reader.read()}
    assert got == {**bounds, "e": (1.0, 2.0, 4.0), "f": (2.0, 4.0, 8.0), "g": ()}


def test_names_are_of_each_metric(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        segment.stats("a", ["x", "y"], labels={"b": "1"})
        segment.stats("b", ["x", "z"], labels={"c": "1"})
        segment.stats("c", ["x"], "what", unit="bytes")
    with percpu.Reader(tmp_path / "s") as reader:
        got = [(one.fields, one.label_names, one.field, one.unit) for one in reader.read()]
    assert got == [
        (("x", "y"), ("b",), "field", ""),
        (("x", "z"), ("c",), "field", ""),
        (("x",), (), "what", "bytes"),
    ]


def test_label_names_of_each_series(tmp_path: Path) -> None:
    all_labels = [{"a": "1", "b": "2"}, {"a": "1"}, {}, {"a": "1", "b": "2"}, {"a": "1", "c": "2"}]
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        for i, labels in enumerate(all_labels):
            segment.counter(f"c{i}", labels=labels)
    with percpu.Reader(tmp_path / "s") as reader:
        assert [one.label_names for one in reader.read()] == [tuple(one) for one in all_labels]


def test_info(reader: percpu.Reader) -> None:
    with pytest.raises(ValueError, match="call read"):
        reader.info()
    reader.read()
    info = reader.info()
    assert type(info) is percpu.ReaderInfo
    assert (info.generation, info.missing, info.pending, info.program) == (1, 0, 0, "test")
    assert 0 <= info.read - info.since < 60 and info.cpus >= 1
    assert len(info) == 7 and info[0] == info.generation


def test_details(reader: percpu.Reader) -> None:
    with pytest.raises(IndexError):
        reader.owners(0)
    series = reader.read()
    for one in (2, series[2]):
        (owned,) = reader.owners(one)
        assert type(owned) is percpu.OwnedValue
        assert (owned.name, owned.alive, owned.value) == ("first", False, 4.0)
        assert owned.when > 0
    for one in (0, series[0]):
        (exemplar,) = reader.exemplars(one)
        assert type(exemplar) is percpu.Exemplar
        assert (exemplar.slot, exemplar.value, exemplar.labels) == (0, 3.0, {"trace": "1"})
    assert reader.exemplars(1) == [] and reader.exemplars(series[3]) == []
    for call in (reader.owners, reader.shown):
        with pytest.raises(percpu.Error) as raised:
            call(0)
        assert raised.value.errno == errno.EINVAL
    with pytest.raises(percpu.Error):
        reader.shown(2)
    calls: list[Callable[[Any], object]] = [reader.owners, reader.shown, reader.exemplars]
    for ask in calls:
        for number in (-1, len(series), 2**70, -(2**70)):
            with pytest.raises(IndexError):
                ask(number)
        for wrong in (None, "a", 1.5):
            with pytest.raises(TypeError):
                ask(wrong)


def test_many_owners(tmp_path: Path) -> None:
    path = tmp_path / "s"
    segments = [percpu.Segment(path, create=True) for _ in range(40)]
    for i, segment in enumerate(segments):
        segment.join(f"owner {i}")
        segment.gauge("g", owned="sum").set(i)
    with percpu.Reader(path) as reader:
        (series,) = reader.read()
        owners = reader.owners(series)
    assert sorted(one.value for one in owners) == list(range(40))
    assert {one.name for one in owners} == {f"owner {i}" for i in range(40)}


def test_series_of_another_picture(reader: percpu.Reader, path: Path) -> None:
    old = reader.read()[0]
    reader.read()
    with pytest.raises(ValueError, match="another picture"):
        reader.exemplars(old)
    with percpu.Reader(path) as other:
        mine = other.read()[0]
        with pytest.raises(ValueError, match="another picture"):
            reader.exemplars(mine)
        assert len(other.exemplars(mine)) == 1


def test_series_outlive_the_reader(path: Path) -> None:
    with percpu.Reader(path) as reader:
        series = reader.read()
    del reader
    assert [one.name for one in series][:2] == ["a", "b"] and series[0].help == "Help of a é."


def test_closed(path: Path) -> None:
    reader = percpu.Reader(path)
    series = reader.read()
    reader.close()
    reader.close()
    calls: list[Callable[[], object]] = [
        reader.read,
        reader.info,
        reader.__enter__,
        lambda: reader.owners(0),
        lambda: reader.shown(0),
        lambda: reader.exemplars(series[0]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the reader is closed"):
            call()


def test_descriptor(path: Path) -> None:
    with path.open("rb") as file:
        reader = percpu.Reader(file.fileno())
        assert os.fstat(file.fileno())
    assert reader.read()[0].value == 3.0
    for number in (-1, 2**40, 1_000_000):
        with pytest.raises(percpu.Error) as raised:
            percpu.Reader(number)
        assert raised.value.errno == errno.EBADF
    with pytest.raises(OverflowError):
        percpu.Reader(2**80)


def test_names(path: Path) -> None:
    for name in (path, str(path), os.fsencode(path)):
        with percpu.Reader(name) as reader:
            assert len(reader.read()) == 14
    with pytest.raises(percpu.Error) as raised:
        percpu.Reader(path.parent / "none")
    assert raised.value.errno == errno.ENOENT
    others: list[Any] = [None, 1.5, []]
    for wrong in others:
        with pytest.raises(TypeError):
            percpu.Reader(wrong)
    with pytest.raises(TypeError):
        percpu.Reader()  # type: ignore[call-arg]


def test_stale(path: Path, reader: percpu.Reader) -> None:
    assert len(reader.read()) == 14
    path.unlink()
    with pytest.raises(percpu.Error) as raised:
        reader.read()
    assert raised.value.errno == errno.ESTALE
    with pytest.raises(ValueError):
        reader.info()
    with percpu.Segment(path, create=True) as segment:
        segment.counter("new")
        with pytest.raises(percpu.Error):
            reader.read()
        with percpu.Reader(path) as again:
            assert [one.name for one in again.read()] == ["new"]


def test_many_series(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / "s", create=True) as segment:
        family = segment.family("counter", "f", ["path", "code"], 20000)
        for i in range(20000):
            family.labels(f"/{i}", "200").add(i)
        with percpu.Reader(tmp_path / "s") as reader:
            for _ in range(2):
                got = {one.label_values[0]: one.value for one in reader.read()}
                assert got == {f"/{i}": float(i) for i in range(20000)}


def test_a_thread_that_is_using_the_reader(reader: percpu.Reader) -> None:
    """A class of the program, or a finalizer, may call the reader again: it does not wait."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    class Number:
        def __index__(self) -> int:
            reader.info()
            return 0

    reader.read()
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    try:
        with pytest.raises(RuntimeError, match="this thread is using the reader"):
            reader.exemplars(Number())  # type: ignore[arg-type]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert len(reader.exemplars(0)) == 1


def test_threads_share_a_reader(path: Path, reader: percpu.Reader) -> None:
    pictures: list[tuple[int, float]] = []

    def read() -> None:
        for _ in range(200):
            series = reader.read()
            pictures.append((len(series), series[0].value))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pictures == [(14, 3.0)] * 800


def data(path: Path) -> list[int]:
    """Return the offsets of the pages of the file that have data."""
    pages: list[int] = []
    with path.open("rb") as file:
        at, end = 0, os.fstat(file.fileno()).st_size
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            if any(os.pread(file.fileno(), 4096, at)):
                pages.append(at)
            at += 4096
    return pages


def look(path: Path) -> int:
    """Read all that there is. Return how many series there are, or -1 if the file is refused."""
    try:
        with percpu.Reader(path) as reader:
            series = reader.read()
            for one in series:
                repr(one), one.help, one.value
                reader.exemplars(one)
                if one.kind.startswith("owned"):
                    reader.owners(one)
            reader.info()
            return len(series)
    except percpu.Error:
        return -1


def test_any_bytes(path: Path) -> None:
    dice = random.Random(1)
    pages = data(path)
    results = set()
    with path.open("r+b") as file:
        for _ in range(400):
            at = dice.choice(pages) + dice.randrange(4096)
            old = os.pread(file.fileno(), 8, at)
            os.pwrite(file.fileno(), dice.randbytes(dice.choice((1, 2, 8))), at)
            results.add(look(path))
            if dice.random() < 0.7:
                os.pwrite(file.fileno(), old, at)
    assert len(results) > 1


def test_texts_that_are_no_utf8(path: Path) -> None:
    with path.open("r+b") as file:
        for page in data(path):
            old = os.pread(file.fileno(), 4096, page)
            new = old.replace(b"Help of a", b"\xff\xfe\x80lp o\xc0a")
            new = new.replace(b"trace", b"\xfftr\x80e").replace(b"first", b"\xedir\xa0t")
            os.pwrite(file.fileno(), new, page)
    assert look(path) == 13  # the library leaves out what is no UTF-8


def test_file_that_is_cut(path: Path, reader: percpu.Reader) -> None:
    reader.read()
    os.truncate(path, 4096)
    with pytest.raises(percpu.Error) as raised:
        reader.read()
    assert raised.value.errno in (errno.EBADMSG, errno.EIO)
    assert look(path) == -1
