# SPDX-License-Identifier: MIT
"""Each kind of object of the module percpu: what its calls do, and what they refuse."""

import errno
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


def series(path: Path, name: str) -> percpu.Series:
    """Return the only series of that name."""
    with percpu.Reader(path) as reader:
        (found,) = [one for one in reader.read() if one.name == name]
        return found


def test_counter(segment: percpu.Segment, path: Path) -> None:
    counter = segment.counter("c", "Help.", unit="bytes", labels={"a": "1", "b": "é"})
    assert type(counter) is percpu.Counter
    assert counter.value == 0 and type(counter.value) is int
    counter.inc()
    counter.add(41)
    counter.add(0)
    counter.add(True)
    assert counter.value == 43
    found = series(path, "c")
    assert (found.kind, found.help, found.unit, found.value) == ("counter", "Help.", "bytes", 43.0)
    assert (found.label_names, found.label_values) == (("a", "b"), ("1", "é"))
    assert segment.counter("c", unit="bytes", labels={"a": "1", "b": "é"}).value == 43
    assert segment.counter("c", unit="bytes", labels={"a": "2", "b": "é"}).value == 0
    counter.reset()
    assert counter.value == 0
    counter.add(2**63 - 1)
    counter.inc()
    assert counter.value == 2**63


def test_counter_of_doubles(segment: percpu.Segment, path: Path) -> None:
    counter = segment.counter("f", floats=True)
    assert type(counter) is percpu.FCounter
    counter.inc()
    counter.add(0.5)
    counter.add(3)
    assert counter.value == 4.5 and type(counter.value) is float
    assert (series(path, "f").kind, series(path, "f").value) == ("fcounter", 4.5)
    for amount in (math.inf, math.nan):
        with pytest.raises(percpu.Error) as raised:
            counter.add(amount)
        assert raised.value.errno == errno.EDOM
    with pytest.raises(percpu.Error) as raised:
        counter.add(1e305)
    assert raised.value.errno == errno.ERANGE
    assert counter.value == 4.5
    counter.reset()
    assert counter.value == 0


@pytest.mark.parametrize("amount", [-1, -(2**62)])
def test_counters_only_grow(segment: percpu.Segment, amount: int) -> None:
    for counter in (segment.counter("c"), segment.counter("f", floats=True)):
        counter.inc()
        with pytest.raises(ValueError, match="only grows"):
            counter.add(amount)
        assert counter.value == 1


def test_amounts_of_other_types(segment: percpu.Segment) -> None:
    counter = segment.counter("c")
    for amount in (1.5, "1", None, b"1"):
        with pytest.raises(TypeError):
            counter.add(amount)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        counter.add(2**63)
    with pytest.raises(TypeError):
        counter.add()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        counter.inc(1)  # type: ignore[call-arg]
    assert counter.value == 0
    doubles: list[Callable[[float], None]] = [
        segment.counter("f", floats=True).add,
        segment.gauge("g").set,
        segment.gauge("g").add,
        segment.gauge("o", owned="sum").set,
        segment.gauge("o", owned="sum").add,
        segment.histogram("h").record,
    ]
    for call in doubles:
        for wrong in ("1", None, 1j):
            with pytest.raises(TypeError):
                call(wrong)  # type: ignore[arg-type]
        with pytest.raises(OverflowError):
            call(10**400)


def test_amount_that_raises(segment: percpu.Segment) -> None:
    class Amount:
        """A number that is none."""

        def __index__(self) -> int:
            raise KeyError("no number")

    with pytest.raises(KeyError):
        segment.counter("c").add(Amount())
    with pytest.raises(KeyError):
        segment.histogram("h").record(Amount())
    with pytest.raises(KeyError):
        segment.stats("s", ["a"]).add(a=Amount())


def test_gauge(segment: percpu.Segment, path: Path) -> None:
    gauge = segment.gauge("g", "Level.")
    assert type(gauge) is percpu.Gauge
    gauge.set(2.5)
    gauge.add(-4)
    assert gauge.value == -1.5
    assert (series(path, "g").kind, series(path, "g").value) == ("fgauge", -1.5)
    with pytest.raises(percpu.Error) as raised:
        gauge.set(math.nan)
    assert raised.value.errno == errno.EDOM
    assert gauge.value == -1.5


def test_owned_gauge(segment: percpu.Segment, path: Path) -> None:
    segment.join("worker-1")
    gauge = segment.gauge("o", owned="max")
    assert type(gauge) is percpu.OwnedGauge
    assert gauge.value is None and gauge.own is None
    gauge.set(2)
    gauge.add(0.5)
    assert gauge.value == 2.5 and gauge.own == 2.5
    with percpu.Reader(path) as reader:
        (found,) = reader.read()
        (owned,) = reader.owners(found)
        assert (found.kind, found.value) == ("owned_fgauge", 2.5)
        assert (owned.name, owned.alive, owned.value, owned.when) == ("worker-1", True, 2.5, 0.0)
    segment.leave()
    assert gauge.own is None and gauge.value is None


def test_rules_of_owned_gauges(segment: percpu.Segment) -> None:
    assert segment.gauge("sum", owned="sum").value == 0
    assert segment.gauge("min", owned="min").value is None
    recent = segment.gauge("recent", owned="recent")
    recent.set(7)
    assert recent.value == 7
    with pytest.raises(percpu.Error) as raised:
        recent.add(1)
    assert raised.value.errno == errno.EINVAL
    with pytest.raises(ValueError, match='owned is "all"'):
        segment.gauge("x", owned="all")  # type: ignore[call-overload]


def test_histogram_with_bounds(segment: percpu.Segment, path: Path) -> None:
    histogram = segment.histogram("h", bounds=[0.5, 1, 2.5])
    for value in (0.1, 0.5, 0.6, 2, 3, math.inf, math.nan):
        histogram.record(value)
    got = histogram.snapshot()
    assert type(got) is percpu.HistogramSnapshot
    assert (got.count, got.refused, got.bounds) == (5, 2, (0.5, 1.0, 2.5))
    assert got.counts == (2, 1, 1, 1)
    assert got.sum == pytest.approx(6.2)
    assert got.quantile(0.5) == 0.75
    bounds, counts, total = series(path, "h").value
    assert (bounds, counts, total) == (got.bounds, got.counts, got.sum)
    histogram.record(1)
    assert got.count == 5 and histogram.snapshot().count == 6
    assert segment.histogram("h", bounds=(0.5, 1.0, 2.5)).snapshot().count == 6
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError):
            got.quantile(wrong)


def test_exponential_histogram(segment: percpu.Segment, path: Path) -> None:
    histogram = segment.histogram("h", min=0.25, max=4, buckets_per_octave=1)
    for value in (0.1, 0.25, 0.3, 1, 4, 5):
        histogram.record(value)
    got = histogram.snapshot()
    assert got.bounds == (0.25, 0.5, 1.0, 2.0, 4.0)
    assert got.counts == (2, 1, 1, 0, 1, 1)
    assert series(path, "h").value == (got.bounds, got.counts, got.sum)
    assert segment.histogram("d").snapshot().quantile(0.5) is None


def test_summary(segment: percpu.Segment, path: Path) -> None:
    summary = segment.histogram("s", summary=True)
    summary.record(1.5)
    summary.record(2)
    got = summary.snapshot()
    assert (got.count, got.sum, got.bounds, got.counts) == (2, 3.5, (), (2,))
    assert got.quantile(0.5) is None
    assert series(path, "s").value == ((), (2,), 3.5)


def test_histograms_that_cannot_be(segment: percpu.Segment) -> None:
    with pytest.raises(percpu.Error) as raised:
        segment.histogram("h", bounds=[2, 1])
    assert raised.value.errno == errno.EINVAL
    with pytest.raises(percpu.Error):
        segment.histogram("h", bounds=[1], summary=True)
    with pytest.raises(percpu.Error):
        segment.histogram("h", buckets_per_octave=3)
    for bounds in ([], [1.0] * 513):
        with pytest.raises(ValueError):
            segment.histogram("h", bounds=bounds)
    others: list[Any] = [1.0, ["1"], {1.0, 2.0}]
    for wrong in others:
        with pytest.raises(TypeError):
            segment.histogram("h", bounds=wrong)


def test_stats(segment: percpu.Segment, path: Path) -> None:
    stats = segment.stats("s", ["packets", "bytes"], "what", "Help.", labels={"port": "1"})
    stats.add(packets=1, bytes=100)
    stats.add(bytes=5)
    stats.add(bytes=0, packets=2)
    stats.add_all([10, 20])
    stats.add_all((0, 1))
    stats.add()
    assert stats.snapshot() == {"packets": 13, "bytes": 126}
    found = series(path, "s")
    assert (found.kind, found.field, found.fields) == ("stats", "what", ("packets", "bytes"))
    assert (found.value, found.label_values) == ((13, 126), ("1",))


def test_stats_of_many_fields(segment: percpu.Segment) -> None:
    names = [f"field{i}" for i in range(64)]
    stats = segment.stats("s", names)
    stats.add_all(range(64))
    stats.add(field63=1, field0=2)
    assert list(stats.snapshot().values()) == [2, *range(1, 63), 64]
    with pytest.raises(ValueError):
        segment.stats("t", [*names, "field64"])


def test_stats_refuse(segment: percpu.Segment) -> None:
    stats = segment.stats("s", ["a", "b"])
    with pytest.raises(TypeError, match="'c'"):
        stats.add(a=1, c=1)
    with pytest.raises(TypeError):
        stats.add(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        stats.add(a=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        stats.add(a=1, b=-1)
    for amounts in ([1], [1, 2, 3], [1, -2]):
        with pytest.raises(ValueError):
            stats.add_all(amounts)
    others: list[Any] = [5, {}, "ab", [1, 1.5]]
    for wrong in others:
        with pytest.raises(TypeError):
            stats.add_all(wrong)
    assert stats.snapshot() == {"a": 0, "b": 0}
    for fields in ("ab", 5, [1], None):
        with pytest.raises(TypeError):
            segment.stats("t", fields)  # type: ignore[arg-type]
    with pytest.raises(percpu.Error):
        segment.stats("t", ["a", "a"])


def test_info(segment: percpu.Segment, path: Path) -> None:
    segment.info("build", {"version": "1.0"}, "What runs.")
    found = series(path, "build")
    assert (found.kind, found.value, found.help) == ("info", 1.0, "What runs.")
    assert (found.label_names, found.label_values) == (("version",), ("1.0",))


def test_exemplars(segment: percpu.Segment, path: Path) -> None:
    counter = segment.counter("c", labels={"a": "1"})
    counter.exemplar({"trace": "t1", "span": "é"}, 2.5)
    counter.exemplar({}, 3)
    histogram = segment.histogram("h", bounds=[1, 2])
    histogram.exemplar({"trace": "low"}, 0.5)
    histogram.exemplar({"trace": "high"}, 9)
    segment.counter("f", floats=True).exemplar({"trace": "t1"}, 1)
    with percpu.Reader(path) as reader:
        pictures = {one.name: reader.exemplars(one) for one in reader.read()}
    assert [(one.slot, one.value, one.labels) for one in pictures["c"]] == [(0, 3.0, {})]
    assert [(one.value, one.labels) for one in pictures["h"]] == [
        (0.5, {"trace": "low"}),
        (9.0, {"trace": "high"}),
    ]
    assert [one.labels for one in pictures["f"]] == [{"trace": "t1"}]


def test_exemplars_refuse(segment: percpu.Segment) -> None:
    counter = segment.counter("c")
    with pytest.raises(percpu.Error) as raised:
        counter.exemplar({"trace": "x" * 200}, 1)
    assert raised.value.errno == errno.ENAMETOOLONG
    with pytest.raises(percpu.Error) as raised:
        counter.exemplar({"trace": "x"}, math.inf)
    assert raised.value.errno == errno.EDOM
    with pytest.raises(ValueError):
        counter.exemplar({str(i): "" for i in range(17)}, 1)
    for value in ("\udcff", "a\0b"):
        with pytest.raises(ValueError):
            counter.exemplar({"trace": value}, 1)
    for labels in (None, ["trace"], {"trace": 1}, {1: "x"}):
        with pytest.raises((TypeError, AttributeError)):
            counter.exemplar(labels, 1)  # type: ignore[arg-type]


def test_names_and_labels_that_cannot_be(segment: percpu.Segment) -> None:
    with pytest.raises(percpu.Error) as raised:
        segment.counter("")
    assert raised.value.errno == errno.EINVAL and raised.value.strerror
    with pytest.raises(percpu.Error) as raised:
        segment.counter("x" * 256)
    assert raised.value.errno == errno.ENAMETOOLONG
    for text in ("a\0b", "\udcff"):
        with pytest.raises(ValueError):
            segment.counter(text)
        with pytest.raises(ValueError):
            segment.counter("c", text)
        with pytest.raises(ValueError):
            segment.counter("c", labels={"a": text})
    with pytest.raises(ValueError, match="64"):
        segment.counter("c", labels={f"a{i}": "" for i in range(65)})
    others: list[Any] = [5, "ab", ["a"], {"a": 1}, {1: "a"}]
    for labels in others:
        with pytest.raises((TypeError, AttributeError)):
            segment.counter("c", labels=labels)
    with pytest.raises(TypeError):
        segment.counter(5)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        segment.counter("c", count=True)  # type: ignore[call-overload]


def test_other_kind(segment: percpu.Segment) -> None:
    segment.counter("c")
    with pytest.raises(percpu.Error) as raised:
        segment.gauge("c")
    assert raised.value.errno == errno.EEXIST
    assert isinstance(raised.value, OSError) and "c: is a counter" in str(raised.value)


@pytest.mark.parametrize(
    "kind",
    ["Counter", "FCounter", "Gauge", "OwnedGauge", "Histogram", "Stats", "Family", "Series"]
    + ["HistogramSnapshot"],
)
def test_types_are_closed(kind: str) -> None:
    of = getattr(percpu, kind)
    with pytest.raises(TypeError):
        of()
    with pytest.raises(TypeError):
        of.extra = 1
    with pytest.raises(TypeError):
        type("Derived", (of,), {})


def test_annotations() -> None:
    assert str(percpu.Family[percpu.Counter]) == "percpu._core.Family[percpu._core.Counter]"
