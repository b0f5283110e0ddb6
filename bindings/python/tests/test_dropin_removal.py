# SPDX-License-Identifier: MIT
"""Series that are removed: for all processes, and begin anew when one of them counts again."""

from __future__ import annotations

from pathlib import Path

import pytest
from dropin import run

REMOVALS = {
    "remove": 'c.remove("x", "y")',
    "remove_by_labels": 'c.remove_by_labels({"a": "x"})',
    "clear": "c.clear()",
}


@pytest.mark.parametrize("how", REMOVALS)
@pytest.mark.parametrize("kind", ["Counter", "Gauge", "Histogram", "Summary"])
def test_a_removed_series_begins_anew(tmp_path: Path, how: str, kind: str) -> None:
    update = "observe" if kind in ("Histogram", "Summary") else "inc"
    (before, removed, again) = run(
        tmp_path,
        f"""
        options = {{"multiprocess_mode": "sum"}} if "{kind}" == "Gauge" else {{}}
        c = {kind}("c", "help", ["a", "b"], **options)
        child = c.labels("x", "y")
        def total():
            names = ("c_total", "c", "c_count")
            return [v for k, v in scrape().items() if k.split("{{")[0] in names]
        child.{update}(4)
        def other():
            c.labels("x", "y").{update}(2)
        in_child(other)
        tell(total())
        {REMOVALS[how]}
        tell(total())
        child.{update}(1)  # a child that the program kept
        c.labels("x", "y").{update}(1)
        tell(total())
        """,
        env={"PYTHONWARNINGS": "error"},
    )
    share = 6 if kind in ("Counter", "Gauge") else 2
    assert before == [share]
    assert removed == []
    # What an ended process had in a gauge stays its own.
    assert again == [4 if kind == "Gauge" else 2]


def test_a_gauge_of_the_most_recent_value_begins_anew(tmp_path: Path) -> None:
    (removed, again) = run(
        tmp_path,
        """
        g = Gauge("g", "help", ["a"], multiprocess_mode="mostrecent"); g.labels("x").set(5)
        g.remove("x"); tell(scrape())
        g.labels("x"); tell(scrape())
        """,
    )
    assert removed == {}
    assert again == {"g{a=x}": 0}


def test_removed_infos_and_enums(tmp_path: Path) -> None:
    (one, none) = run(
        tmp_path,
        """
        e = Enum("e", "help", ["a"], states=["on", "off"]); i = Info("i", "help", ["a"])
        for a in "xyz":
            e.labels(a).state("off"); i.labels(a).info({"version": "1"})
        e.remove("x"); i.remove("x"); e.remove_by_labels({"a": "z"}); i.remove_by_labels({"a": "z"})
        tell(scrape())
        e.clear(); i.clear(); tell(scrape())
        """,
        env={"PYTHONWARNINGS": "ignore"},
    )
    assert one == {"e{a=y}{e=on}": 0, "e{a=y}{e=off}": 1, "i_info{a=y}{version=1}": 1}
    assert none == {}


def test_other_processes_count_on(tmp_path: Path) -> None:
    """A process that kept a child of a removed series counts in the series that began anew."""
    (seen,) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["a"]); h = Histogram("h", "help", ["a"], buckets=(1,))
        kept, observed = c.labels("x"), h.labels("x")
        kept.inc(5); observed.observe(0.5)
        def remove():
            c.remove("x"); h.clear()
        in_child(remove)
        assert scrape() == {}
        c.remove("x")  # which is gone
        assert percpu_prometheus.status().said == ()
        kept.inc(); observed.observe(2); observed.observe(3)
        tell({k: v for k, v in scrape().items() if "total" in k or "count" in k})
        """,
    )
    assert seen == {"c_total{a=x}": 1, "h_count{a=x}": 2}


def test_only_the_named_series_goes(tmp_path: Path) -> None:
    (one, some, none) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["a", "b"]); d = Counter("d", "help", ["a", "b"])
        for a in "xy":
            for b in "12":
                c.labels(a, b).inc()
        d.labels("x", "1").inc()
        c.remove("x", 1); tell(sorted(scrape()))
        c.remove_by_labels({"a": "y"}); tell(sorted(scrape()))
        c.clear(); tell(sorted(scrape()))
        """,
    )
    rest = ["d_total{a=x}{b=1}"]
    assert one == ["c_total{a=x}{b=2}", "c_total{a=y}{b=1}", "c_total{a=y}{b=2}", *rest]
    assert some == ["c_total{a=x}{b=2}", *rest]
    assert none == rest


def test_a_value_without_a_series_is_none_of_another(tmp_path: Path) -> None:
    """What cannot be a label's value is in the overflow: its removal takes no other series."""
    (seen,) = run(
        tmp_path,
        r"""
        c = Counter("c", "help", ["a"])
        for value in ("x", "x\0y", "x\udc80"):
            c.labels(value).inc()
        c.remove("x\0y"); c.remove("x\udc80")
        tell(scrape())
        """,
    )
    assert seen["c_total{a=x}"] == 1


def test_values_of_labels_that_are_numbers(tmp_path: Path) -> None:
    (one, none) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["a", "b"])
        c.labels(1, 2); c.labels(1, 3); c.labels(2, 3)
        c.remove_by_labels({"a": 1, "b": 3}); c.remove(2, 3); tell(sorted(scrape()))
        c.remove_by_labels({"a": 1}); tell(scrape())
        """,
        env={"PYTHONWARNINGS": "ignore"},
    )
    assert one == ["c_total{a=1}{b=2}"]
    assert none == {}


def test_clear_takes_series_of_other_processes(tmp_path: Path) -> None:
    (before, after) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["a"]); g = Gauge("g", "help", ["a"])
        def other():
            c.labels("there").inc(); g.labels("there").set(1)
        in_child(other)
        c.labels("here").inc()
        tell(len(scrape())); c.clear(); g.clear(); tell(scrape())
        """,
    )
    assert before == 3
    assert after == {}


def test_removal_takes_no_series_of_other_labels(tmp_path: Path) -> None:
    """Another program has declared the name, so this one counts for itself."""
    run(tmp_path, 'Counter("c", "help", ["a"]).labels("x").inc()')
    (seen, own) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["b", "d"]); c.labels("x", "y").inc()
        c.clear(); c.labels("x", "y").inc(); c.remove("x", "z"); c.remove_by_labels({"b": "w"})
        tell(scrape()); tell([s.value for s in c.collect()[0].samples if s.name == "c_total"])
        """,
        env={"PYTHONWARNINGS": "ignore"},
    )
    assert seen == {"c_total{a=x}": 1}
    assert own == [1]


def test_wrong_calls_raise_as_before(tmp_path: Path) -> None:
    program = """
        import warnings
        warnings.simplefilter("ignore")
        c = Counter("c", "help", ["a"]); plain = Counter("plain", "help")
        for call in (lambda: c.remove(), lambda: c.remove("x", "y"), lambda: plain.remove("x"),
                     lambda: c.remove_by_labels("x"), lambda: c.remove_by_labels({"z": "x"}),
                     lambda: c.remove_by_labels({}), lambda: plain.clear(), lambda: c.remove("new")):
            try:
                tell(["returned", repr(call())])
            except Exception as e:
                tell([type(e).__name__, str(e)])
        """
    assert run(tmp_path, program) == run(None, program)


def test_a_worker_removes_while_another_counts(tmp_path: Path) -> None:
    """At the end, all that was counted after the last removal is there."""
    (seen,) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["a"])
        kept = c.labels("x")
        pid = os.fork()
        if pid == 0:
            for _ in range(300):
                c.labels("x"); c.remove("x")
            os._exit(0)
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            for _ in range(50):
                kept.inc()
        c.clear()
        for _ in range(100):
            kept.inc()
        tell(scrape())
        """,
    )
    assert seen == {"c_total{a=x}": 100}


OBSERVED = {
    "Counter": ("", "inc()"),
    "Gauge": (", multiprocess_mode='sum'", "set(3)"),
    "Histogram": ("", "observe(1)"),
    "Summary": ("", "observe(1)"),
    "Enum": (", states=['a', 'b']", "state('b')"),
}


@pytest.mark.parametrize("how", ["remove('x')", "remove_by_labels({'l': 'x'})", "clear()"])
@pytest.mark.parametrize("kind", list(OBSERVED))
def test_series_of_another_process_goes(tmp_path: Path, how: str, kind: str) -> None:
    """A process removes a series that only another one, which lives, has made."""
    options, call = OBSERVED[kind]
    told = run(
        tmp_path,
        f"""
        metric = {kind}("m", "A metric.", ["l"]{options})
        made, end = os.pipe(), os.pipe()
        if os.fork() == 0:
            for l in "xy":
                metric.labels(l).{call}
            os.write(made[1], b"x")
            os.read(end[0], 1)
            os._exit(0)
        os.read(made[0], 1)
        labels = lambda: sorted({{k.split("{{l=")[1][0] for k in scrape()}})
        tell(labels())
        if hasattr(metric, {how.split("(")[0]!r}):
            metric.{how}
        else:
            metric.remove("x")
        tell(labels())
        os.write(end[1], b"x")
        os.wait()
        """,
    )
    assert told == [["x", "y"], [] if "clear" in how else ["y"]]


def test_an_enum_is_removed(tmp_path: Path) -> None:
    """All states of an enum go with it."""
    told = run(
        tmp_path,
        """
        enum = Enum("e", "An enum.", ["l"], states=["a", "b"])
        enum.labels("x").state("b")
        enum.labels("y").state("b")
        enum.remove("x")
        tell(scrape())
        """,
    )
    assert told == [{"e{e=a}{l=y}": 0, "e{e=b}{l=y}": 1}]


def test_clear_says_nothing_of_the_overflow(tmp_path: Path) -> None:
    (seen, said) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["a"])
        c.labels("x").inc(); c.labels("y" * 5000).inc()
        c.clear()
        tell({k: v for k, v in scrape().items() if k.startswith("c_")})
        tell(percpu_prometheus.status().said)
        """,
    )
    assert seen == {"c_total{a=_overflow}": 1}
    assert len(said) == 1  # that these values got it
