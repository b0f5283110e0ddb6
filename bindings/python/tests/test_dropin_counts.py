# SPDX-License-Identifier: MIT
"""Counters, histograms and summaries of all processes, by prometheus_client's names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from dropin import FILE, run

import percpu


def test_counters_of_all_processes_add_up(tmp_path: Path) -> None:
    (seen, files) = run(
        tmp_path,
        """
        plain = Counter("plain", "help")
        labeled = Counter("labeled", "help", ["method", "path"])
        def count():
            plain.inc(); plain.inc(2.5); plain.inc(True)
            labeled.labels("get", "/").inc(3)
            labeled.labels(path="/", method="get").inc()
            labeled.labels("post", 7).inc(0.25)
        count()
        for _ in range(3):
            in_child(count)
        killed_child(count)
        tell(scrape())
        tell(os.listdir(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
        """,
    )
    assert seen == {
        "plain_total": 5 * 4.5,
        "labeled_total{method=get}{path=/}": 5 * 4,
        "labeled_total{method=post}{path=7}": 5 * 0.25,
    }
    assert files == [FILE]


def test_labels_by_names_in_any_order(tmp_path: Path) -> None:
    (seen,) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["x", "y"])
        c.labels("a", "b").inc(1); c.labels("b", "a").inc(10)
        c.labels(y="b", x="a").inc(100); c.labels(x="b", y="a").inc(1000)
        tell(scrape())
        """,
    )
    assert seen == {"c_total{x=a}{y=b}": 101, "c_total{x=b}{y=a}": 1010}


def test_counts_go_on_in_the_next_run(tmp_path: Path) -> None:
    program = 'c = Counter("c", "help"); c.inc(2); tell(scrape())'
    assert run(tmp_path, program) == [{"c_total": 2}]
    assert run(tmp_path, program) == [{"c_total": 4}]


def test_get_is_of_all_processes(tmp_path: Path) -> None:
    (values,) = run(
        tmp_path,
        """
        c = Counter("c", "help"); h = Histogram("h", "help", buckets=(1, 2)); s = Summary("s", "help")
        def count():
            c.inc(2); h.observe(1.5); s.observe(3)
        in_child(count); count()
        tell([c._value.get(), h._sum.get(), [b.get() for b in h._buckets],
              s._count.get(), s._sum.get()])
        """,
    )
    assert values == [4, 3, [0, 2, 0], 2, 6]


def test_counter_reset_and_set_are_of_all_processes(tmp_path: Path) -> None:
    (before, zero, now) = run(
        tmp_path,
        """
        c = Counter("c", "help")
        in_child(lambda: c.inc(5))
        tell(c._value.get()); c.reset(); tell(scrape()["c_total"])
        c.inc(); c._value.set(12); c.inc(); tell(scrape()["c_total"])
        """,
    )
    assert (before, zero, now) == (5, 0, 13)


@pytest.mark.parametrize("methods", [True, False])
def test_histogram(tmp_path: Path, methods: bool) -> None:
    (seen,) = run(
        tmp_path,
        f"""
        percpu_prometheus.activate(methods={methods})
        h = Histogram("h", "help", ["a"], buckets=(-1, 0.5, 0.5, 2))
        def count():
            for v in (-3, -1, 0, 0.5, 0.6, 2, 2.0001, 9):
                h.labels("x").observe(v)
        count(); in_child(count); killed_child(count)
        tell(scrape())
        """,
        begin="import os; d = os.environ.pop('PROMETHEUS_MULTIPROC_DIR')\n"
        "import percpu_prometheus; os.environ['PROMETHEUS_MULTIPROC_DIR'] = d\n" + _rest_of_begin(),
    )
    assert {k: v for k, v in seen.items() if "bucket" in k} == {
        "h_bucket{a=x}{le=-1.0}": 6,
        "h_bucket{a=x}{le=0.5}": 12,
        "h_bucket{a=x}{le=2.0}": 18,
        "h_bucket{a=x}{le=+Inf}": 24,
    }
    assert seen["h_count{a=x}"] == 24
    assert seen["h_sum{a=x}"] == pytest.approx(3 * (-3 - 1 + 0.5 + 0.6 + 2 + 2.0001 + 9))


def _rest_of_begin() -> str:
    from dropin import BEGIN

    return BEGIN


def test_a_subclass_with_its_own_observe(tmp_path: Path) -> None:
    """It adds to the sum and to a bucket, as prometheus_client's method does."""
    (seen,) = run(
        tmp_path,
        """
        class Doubled(Histogram):
            def observe(self, amount):
                self._sum.inc(2 * amount)
                for i, bound in enumerate(self._upper_bounds):
                    if 2 * amount <= bound:
                        self._buckets[i].inc(1)
                        break
        h = Doubled("h", "help", buckets=(1, 4))
        h.observe(1); h.observe(0.1); h.observe(7)
        h._buckets[2].inc(2)  # without a sum: counted, above the last bound
        Histogram("other", "help", buckets=(1,))._sum.inc(100)  # which is of no bucket of this one
        h._buckets[1].inc(1)
        tell({k: v for k, v in scrape().items() if k[0] == "h"})
        """,
    )
    assert seen == {
        "h_bucket{le=1.0}": 1,
        "h_bucket{le=4.0}": 3,
        "h_bucket{le=+Inf}": 6,
        "h_count": 6,
        "h_sum": pytest.approx(2 + 0.2 + 14 + 8 + 4),
    }


def test_parts_of_a_histogram_without_each_other(tmp_path: Path) -> None:
    (seen, lost) = run(
        tmp_path,
        """
        h = Histogram("h", "help", buckets=(1, 4)); other = Histogram("other", "help", buckets=(1,))
        for _ in range(20):
            other._sum.inc(100)  # which no bucket gets
        h._sum.inc(3); h._buckets[1].inc(1)
        h._buckets[0].inc(3)  # at the bound
        h._sum.inc(float("nan")); h._buckets[0].inc(1)
        h._buckets[0].inc(1e7); h.observe(1e300)
        tell({k: v for k, v in scrape().items() if k[0] == "h"})
        tell(percpu_prometheus.status().lost)
        """,
    )
    assert seen == {
        "h_bucket{le=1.0}": 4,
        "h_bucket{le=4.0}": 5,
        "h_bucket{le=+Inf}": 5,
        "h_count": 5,
        "h_sum": 7,
    }
    assert lost == 3


def test_summary_takes_negative_values(tmp_path: Path) -> None:
    (seen,) = run(
        tmp_path,
        """
        s = Summary("s", "help", ["a"])
        def count():
            s.labels("x").observe(-2.5); s.labels("x").observe(1)
        count(); in_child(count)
        tell(scrape())
        """,
    )
    assert seen == {"s_count{a=x}": 4, "s_sum{a=x}": -3}


def test_helpers_of_the_client_count(tmp_path: Path) -> None:
    (seen,) = run(
        tmp_path,
        """
        c = Counter("errors", "help"); h = Histogram("took", "help"); s = Summary("all", "help")
        g = Gauge("inside", "help", multiprocess_mode="livesum")
        try:
            with c.count_exceptions(), g.track_inprogress(), h.time(), s.time():
                tell(scrape()["inside"])
                raise ValueError
        except ValueError:
            pass
        tell({k: v for k, v in scrape().items() if k in ("errors_total", "took_count", "inside", "all_count")})
        """,
    )[1:]
    assert seen == {"errors_total": 1, "took_count": 1, "inside": 0, "all_count": 1}


def test_exemplars(tmp_path: Path) -> None:
    (plain, text) = run(
        tmp_path,
        """
        from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
        c = Counter("c", "help", ["a"]); h = Histogram("h", "help", buckets=(1, 2))
        def count():
            c.labels("x").inc(2, {"trace": "c1"}); h.observe(1.5, {"trace": "h1"})
            h.observe(9, exemplar={"trace": "h2", "span": "s"})
        in_child(count)
        count()
        tell([v and [v.labels, v.value] for v in
              [c.labels("x")._value.get_exemplar()] + [b.get_exemplar() for b in h._buckets]])
        registry = CollectorRegistry(); multiprocess.MultiProcessCollector(registry)
        (shown,) = [s.exemplar for m in registry.collect() for s in m.samples if m.name == "c"]
        own = c.labels("x")._value.get_exemplar()
        assert abs(shown.timestamp - own.timestamp) < 1e-3  # both are of the segment
        tell(openmetrics(registry).decode())
        """,
    )
    assert plain == [
        [{"trace": "c1"}, 2],
        None,
        [{"trace": "h1"}, 1.5],
        [{"trace": "h2", "span": "s"}, 9],
    ]
    assert 'c_total{a="x"} 4.0 # {trace="c1"} 2.0 ' in text
    assert 'h_bucket{le="2.0"} 2.0 # {trace="h1"} 1.5 ' in text
    assert 'h_bucket{le="+Inf"} 4.0 # {span="s",trace="h2"} 9.0 ' in text
    assert 'h_bucket{le="1.0"} 0.0\n' in text


def test_an_exemplar_of_many_labels(tmp_path: Path) -> None:
    """A segment has room for the first ones."""
    (labels,) = run(
        tmp_path,
        """
        c = Counter("c", "help"); c.inc(1, {chr(97 + i): "1" for i in range(26)})
        tell("".join(c._value.get_exemplar().labels))
        """,
    )
    assert labels == "abcdefghijklmnop"


def test_exemplars_that_cannot_be_stored(tmp_path: Path) -> None:
    """The update counts, and nothing is raised."""
    (seen, stored) = run(
        tmp_path,
        r"""
        c = Counter("c", "help"); h = Histogram("h", "help", buckets=(1,))
        for text in ("\ud800", "with\0nul"):
            c.inc(1, {"trace": text}); h.observe(2, {"trace": text})
        tell(scrape()); tell([v.get_exemplar() for v in (c._value, *h._buckets)])
        """,
    )
    assert (seen["c_total"], seen["h_count"]) == (2, 2)
    assert stored == [None, None, None]


def test_texts_of_all_kinds(tmp_path: Path) -> None:
    """Long help texts are cut; labels that no exposition format has go to the overflow."""
    (seen, help_text) = run(
        tmp_path,
        r"""
        c = Counter("c", "ä" * 2000, ["a"])
        for value in ("", "ü\n\"\\", "x" * 4096, "y" * 4097, "\udc80", "with\0nul"):
            c.labels(value).inc()
        tell(scrape())
        registry = CollectorRegistry(); multiprocess.MultiProcessCollector(registry)
        tell([m.documentation for m in registry.collect() if m.name == "c"][0])
        """,
    )
    overflows = seen.pop("percpu_family_overflows_total{family=c_total}")
    assert overflows >= 3
    assert seen == {
        "c_total{a=}": 1,
        'c_total{a=ü\n"\\}': 1,
        "c_total{a=" + "x" * 4096 + "}": 1,
        "c_total{a=_overflow}": 3,
    }
    assert help_text == "ä" * 511


def test_what_cannot_be_counted_is_counted_and_said_once(tmp_path: Path) -> None:
    (seen, status) = run(
        tmp_path,
        """
        c = Counter("c", "help"); g = Gauge("g", "help", multiprocess_mode="sum")
        h = Histogram("h", "help", buckets=(1,)); s = Summary("s", "help")
        inf, nan = float("inf"), float("nan")
        g.set(3)
        for v in (inf, nan):
            c.inc(v); g.set(v); g.inc(v); g.dec(v); h.observe(v); s.observe(v)
        c.inc(1e308)
        c._value.inc(inf); h._sum.set(1); h.observe(1e300); s.observe(-1e300)
        tell(scrape())
        tell(percpu_prometheus.status())
        """,
        env={"PYTHONWARNINGS": "error"},
    )
    assert (seen["c_total"], seen["g"], seen["h_count"], seen["s_count"]) == (0, 3, 0, 0)
    active, methods, private, lost, said = status
    assert (active, methods, private, lost) == (True, True, [], 17)
    assert len(said) == 1
    assert "an update of c_total was not counted: it was infinite, not a number, or" in said[0]


def test_exceptions_are_those_of_the_client(tmp_path: Path) -> None:
    program = """
        c = Counter("c", "help", ["a"]); g = Gauge("g", "help", multiprocess_mode="mostrecent")
        h = Histogram("h", "help"); s = Summary("s", "help", ["a"])
        calls = [lambda: c.inc(), lambda: c.labels(), lambda: c.labels("x", "y"),
                 lambda: c.labels(b="x"), lambda: c.labels("x", a="y"), lambda: h.labels("x"),
                 lambda: c.labels("x").labels("y"), lambda: c.labels("x").inc(-1),
                 lambda: c.labels("x").inc("1"), lambda: c.labels("x").inc(None),
                 lambda: c.labels("x").inc(10 ** 400), lambda: c.labels("x").inc(1, 2, 3),
                 lambda: c.labels("x").inc(amout=1), lambda: c.labels("x").inc(1, {"a": "b" * 200}),
                 lambda: g.inc(), lambda: g.dec(2), lambda: g.set(), lambda: g.set("x"),
                 lambda: g.set(None), lambda: g.set(1, 2), lambda: h.observe(), lambda: s.observe(1),
                 lambda: h.observe("x"), lambda: h.observe(1, {"a": 1}), lambda: h.observe(None)]
        for call in calls:
            try:
                tell(["returned", repr(call())])
            except Exception as e:
                tell([type(e).__name__, str(e)])
        """
    ours = run(tmp_path, program)
    theirs = run(None, program, env={"PERCPU_NOT": "1"})
    assert ours == theirs


def test_signatures_are_those_of_the_client(tmp_path: Path) -> None:
    program = """
        import inspect
        for m in (Counter.inc, Gauge.inc, Gauge.dec, Gauge.set, Histogram.observe, Summary.observe,
                  Counter.labels, Counter.remove, Counter.clear, Info.info, Enum.state, Enum):
            tell([m.__name__, list(inspect.signature(m).parameters), bool(m.__doc__)])
        """
    ours = run(tmp_path, program)
    theirs = run(None, program)
    assert ours == theirs


def test_numbers_of_other_types(tmp_path: Path) -> None:
    program = """
        from fractions import Fraction
        class F(float): pass
        class I(int): pass
        class Index:
            def __index__(self): return 3
            def __float__(self): return 4.0
        c = Counter("c", "help"); g = Gauge("g", "help", multiprocess_mode="livesum")
        for v in (Fraction(1, 2), F(1.5), I(2), True, 2 ** 60):
            c.inc(v); g.inc(v); g.dec(v); tell([c._value.get(), g._value.get()])
            g.set(v); tell(g._value.get())
        g.set("1.5"); tell(g._value.get()); g.set(Index()); tell(g._value.get())
        """
    assert run(tmp_path, program) == run(None, program)


def test_tools_read_the_same_file(tmp_path: Path) -> None:
    """No process has the file open any more; a reader reads it."""
    run(
        tmp_path,
        """
        Counter("c", "help").inc(3)
        Gauge("g", "help", ["a"], multiprocess_mode="all").labels("x").set(2)
        Histogram("h", "help", buckets=(1,)).observe(0.5)
        """,
    )
    with percpu.Reader(os.fspath(tmp_path / FILE)) as reader:
        series = {s.name: s for s in reader.read()}
        assert series["c_total"].value == 3
        assert series["h"].value == ((1.0,), (1, 0), 0.5)
        (owner,) = reader.owners(series["g"])
        assert (owner.value, owner.alive) == (2, False)


def test_what_other_programs_count_in_the_file(tmp_path: Path) -> None:
    with percpu.Segment(tmp_path / FILE, create=True) as segment:
        segment.counter("c", labels={"a": "1"}).add(2)
        segment.gauge("g").set(3)
        segment.gauge("never_set", owned="max")
        segment.histogram("h", min=1, max=2, buckets_per_octave=1).record(2)
        segment.info("i", {"version": "1"})
        segment.stats("s", ["in", "out"], "way").add(out=4)
    (seen,) = run(tmp_path, "tell(scrape())")
    buckets = {f"h_bucket{{le={le}}}": n for le, n in (("1.0", 0), ("2.0", 1), ("+Inf", 1))}
    assert seen == {
        "c_total{a=1}": 2,
        "g": 3,
        "h_count": 1,
        "h_sum": 2,
        "i{version=1}": 1,
        "s_total{way=in}": 0,
        "s_total{way=out}": 4,
        **buckets,
    }


def test_autoload_needs_no_import(tmp_path: Path) -> None:
    """The client alone, without this module, counts in files of its own."""
    run(tmp_path, 'Counter("c", "help").inc()', begin="from prometheus_client import *\n")
    assert [p.suffix for p in tmp_path.iterdir()] == [".db"]
    out = subprocess.run(["ls", tmp_path], capture_output=True, text=True, check=True).stdout
    assert FILE not in out


def test_a_summary_without_methods_in_c(tmp_path: Path) -> None:
    """A class of its own, which adds to the count and then to the sum."""
    (seen, own) = run(
        tmp_path,
        """
        class Own(Summary):
            def observe(self, amount):
                self._count.inc(1)
                self._sum.inc(amount)
        s = Own("s", "help"); s.observe(2.5); s.observe(0.5)
        tell(scrape()); tell([s._count.get(), s._sum.get()])
        """,
    )
    assert seen == {"s_count": 2, "s_sum": 3}
    assert own == [2, 3]


def test_buckets_with_one_bound(tmp_path: Path) -> None:
    (own,) = run(
        tmp_path,
        """
        h = Histogram("h", "help", buckets=(1, 1, 2)); h.observe(1); h.observe(2)
        tell([b.get() for b in h._buckets])
        assert b"h_bucket" in generate_latest()  # the registry of the process alone
        """,
    )
    assert own == [1, 0, 1, 0]
