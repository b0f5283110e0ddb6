# SPDX-License-Identifier: MIT
"""Families of the module percpu: what their calls do, and what they refuse."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

import percpu


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[percpu.Segment]:
    """Open a new segment."""
    with percpu.Segment(tmp_path / "segment", create=True) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path, segment: percpu.Segment) -> Path:
    """Return the file of the segment."""
    return tmp_path / "segment"


def test_families(segment: percpu.Segment, path: Path) -> None:
    requests = segment.family("counter", "requests", ["method", "code"], 10, help="Requests.")
    requests.labels("GET", "200").inc()
    requests.labels("GET", "200").add(2)
    requests.labels("PUT", "200").inc()
    seconds = segment.family("counter", "seconds", ["code"], floats=True)
    seconds.labels("200").add(0.5)
    level = segment.family("gauge", "level", ["tank"])
    level.labels("a").set(3)
    flight = segment.family("gauge", "flight", ["path"], owned="sum")
    flight.labels("/").add(1)
    took = segment.family("histogram", "took", ["path"], bounds=[1, 2])
    took.labels("/").record(1.5)
    took.labels("/").exemplar({"trace": "1"}, 1.5)
    with percpu.Reader(path) as reader:
        got = {(one.name, one.label_values): (one.kind, one.value) for one in reader.read()}
    assert got == {
        ("requests", ("GET", "200")): ("counter", 3.0),
        ("requests", ("PUT", "200")): ("counter", 1.0),
        ("seconds", ("200",)): ("fcounter", 0.5),
        ("level", ("a",)): ("fgauge", 3.0),
        ("flight", ("/",)): ("owned_fgauge", 1.0),
        ("took", ("/",)): ("histogram", ((1.0, 2.0), (0, 1, 0), 1.5)),
    }


def test_cap_and_values_of_a_family(segment: percpu.Segment, path: Path) -> None:
    family = segment.family("counter", "f", ["a"], 2)
    for value in ("1", "2", "3", "4"):
        family.labels(value).inc()
    assert (family.overflows, family.invalid) == (2, 0)
    for value in ("\udcff", "a\0b", "x" * 4097):
        family.labels(value).inc()
    assert (family.overflows, family.invalid) == (2, 3)
    with percpu.Reader(path) as reader:
        got = {one.label_values: one.value for one in reader.read()}
        assert all(one.cap == 2 and one.overflows == 2 for one in reader.read())
    assert got == {("1",): 1.0, ("2",): 1.0, ("_overflow",): 5.0}


def test_remove(segment: percpu.Segment, path: Path) -> None:
    family = segment.family("counter", "f", ["a", "b"])
    family.labels("1", "2").add(5)
    family.remove("1", "2")
    with percpu.Reader(path) as reader:
        assert reader.read() == []
    assert family.labels("1", "2").value == 0
    with pytest.raises(percpu.Error) as raised:
        family.remove("3", "4")
    assert raised.value.errno == errno.ENOENT
    for value in ("\udcff", "a\0b"):
        with pytest.raises(percpu.Error) as raised:
            family.remove(value, "4")
        assert raised.value.errno == errno.EILSEQ


def test_families_refuse(segment: percpu.Segment) -> None:
    family = segment.family("counter", "f", ["a", "b"])
    for call in (family.labels, family.remove):
        for values in ((), ("1",), ("1", "2", "3")):
            with pytest.raises(ValueError, match="values for 2 labels"):
                call(*values)
        for wrong in (1, None, b"1"):
            with pytest.raises(TypeError):
                call("1", wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cap"):
        segment.family("counter", "g", ["a"], 0)
    with pytest.raises(percpu.Error):
        segment.family("counter", "g", ["a"], 1_000_001)
    with pytest.raises(percpu.Error):
        segment.family("counter", "g", [])
    with pytest.raises(ValueError, match="65"):
        segment.family("counter", "g", [f"a{i}" for i in range(65)])
    with pytest.raises(ValueError, match='kind is "meter"'):
        segment.family("meter", "g", ["a"])  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="owned"):
        segment.family("gauge", "g", ["a"], owned="x")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        segment.family("counter", "g", "ab")


def test_labels_of_a_class(segment: percpu.Segment) -> None:
    class Value(str):
        """A str with an attribute."""

        __slots__ = ("back",)
        back: object

    value = Value("v")
    counter = segment.family("counter", "f", ["a"]).labels(value)
    value.back = counter
    counter.exemplar({"trace": "1"}, 1)
    assert segment.family("counter", "f", ["a"]).labels("v").value == 0
