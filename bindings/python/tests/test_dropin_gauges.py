# SPDX-License-Identifier: MIT
"""Gauges in all modes, whose processes live, end, or are killed; infos and enums."""

from __future__ import annotations

from pathlib import Path

import pytest
from dropin import FILE, run, start

# What one living process and a dead one have set, by mode: while both live, and afterwards.
MODES = {
    "min": (2, 2),
    "livemin": (2, 5),
    "max": (5, 5),
    "livemax": (5, 5),
    "sum": (7, 7),
    "livesum": (7, 5),
    "mostrecent": (2, 2),
    "livemostrecent": (2, 5),
}


@pytest.mark.parametrize("mode", MODES)
def test_modes_that_fold(tmp_path: Path, mode: str) -> None:
    (both, later, again) = run(
        tmp_path,
        f"""
        g = Gauge("g", "help", multiprocess_mode="{mode}")
        g.set(5)
        def other():
            g.set(2); tell(scrape())
            sys.stdout.flush()
        killed_child(other)
        tell(scrape())
        multiprocess.mark_process_dead(123456)
        tell(scrape())
        """,
    )
    assert ({"g": MODES[mode][0]}, {"g": MODES[mode][1]}) == (both, later)
    assert again == later


@pytest.mark.parametrize("mode", ["all", "liveall", None])
def test_modes_with_a_sample_for_each_process(tmp_path: Path, mode: str | None) -> None:
    option = "" if mode is None else f", multiprocess_mode='{mode}'"
    (parent, child, both, later) = run(
        tmp_path,
        f"""
        g = Gauge("g", "help", ["a"]{option})
        g.labels("x").set(5)
        tell(os.getpid())
        def other():
            tell(os.getpid()); g.labels("x").inc(2); tell(scrape())
            sys.stdout.flush()
        killed_child(other)
        tell(scrape())
        """,
    )
    of_parent, of_child = {f"g{{a=x}}{{pid={parent}}}": 5}, {f"g{{a=x}}{{pid={child}}}": 2}
    assert both == of_parent | of_child
    assert later == (of_parent if mode == "liveall" else of_parent | of_child)


def test_owners_are_named_by_their_pids(tmp_path: Path) -> None:
    """Also for readers in another PID namespace, where the pid is not theirs."""
    (names,) = run(
        tmp_path,
        f"""
        import percpu
        g = Gauge("g", "help"); g.set(1)
        pids = [os.getpid(), in_child(lambda: g.set(2))]
        with percpu.Reader(os.path.join(os.environ["PROMETHEUS_MULTIPROC_DIR"], "{FILE}")) as r:
            names = [owner.name for owner in r.owners(r.read()[0])]
        assert sorted(names) == sorted(map(str, pids))
        tell(len(names))
        """,
    )
    assert names == 2


def test_a_declared_gauge_is_zero(tmp_path: Path) -> None:
    (pid, seen) = run(
        tmp_path,
        """
        for mode in ("all", "min", "livemax", "sum", "mostrecent"):
            Gauge("g_" + mode, "help", multiprocess_mode=mode)
        tell(os.getpid()); tell(scrape())
        """,
    )
    assert seen == {f"g_all{{pid={pid}}}": 0, "g_min": 0, "g_livemax": 0, "g_sum": 0}


def test_requests_in_flight_of_killed_workers(tmp_path: Path) -> None:
    (seen,) = run(
        tmp_path,
        """
        g = Gauge("in_flight", "help", multiprocess_mode="livesum")
        g.inc()
        for _ in range(20):
            killed_child(lambda: g.inc(3))
        tell(scrape())
        """,
    )
    assert seen == {"in_flight": 1}


def test_dead_processes_do_not_pile_up(tmp_path: Path) -> None:
    (few, many, size_few, size_many) = run(
        tmp_path,
        f"""
        g = Gauge("g", "help"); c = Counter("c", "help")
        path = os.path.join(os.environ["PROMETHEUS_MULTIPROC_DIR"], "{FILE}")
        def work():
            g.set(1); c.inc()
        sizes = []
        for n in (100, 700):
            for _ in range(n):
                in_child(work)
            tell(len(scrape())); sizes.append(os.stat(path).st_blocks)
        tell(sizes[0]); tell(sizes[1])
        assert scrape()["c_total"] == 800
        """,
    )
    assert many == few <= 70
    assert size_many <= size_few + 64


def test_a_process_identifier_names_processes(tmp_path: Path) -> None:
    (seen, later) = run(
        tmp_path,
        """
        worker = "one"
        values.ValueClass = values.MultiProcessValue(lambda: worker)
        g = Gauge("g", "help"); live = Gauge("live", "help", multiprocess_mode="liveall")
        g.set(1); live.set(1)
        def second():
            global worker
            worker = "two"
            g.set(2); live.set(2); tell(scrape()); sys.stdout.flush()
        killed_child(second)
        assert g._value.get() == 1
        def again():
            global worker
            worker = "two"
            live.inc(7); assert g._value.get() == 0
            tell(scrape()); sys.stdout.flush()
        in_child(again)
        """,
    )
    ones = {"g{pid=one}": 1, "live{pid=one}": 1}
    assert seen == ones | {"g{pid=two}": 2, "live{pid=two}": 2}
    assert later == ones | {"live{pid=two}": 7}


def test_an_identifier_that_changes_in_one_process(tmp_path: Path) -> None:
    (seen, own, dead, again) = run(
        tmp_path,
        """
        worker = 1
        values.ValueClass = values.MultiProcessValue(lambda: worker)
        g = Gauge("g", "help", multiprocess_mode="liveall"); c = Counter("c", "help")
        g.set(1); c.inc(); first = g._value.handle
        worker = 2; g.set(2); c.inc(); worker = 1; g.inc(4); c.inc()
        assert g._value.handle is first
        tell(scrape()); tell(g._value.get())
        multiprocess.mark_process_dead(2, "/elsewhere")
        assert "g{pid=2}" in scrape()
        folder = os.environ["PROMETHEUS_MULTIPROC_DIR"]
        file = os.path.join(folder, "gauge_liveall_2.db")  # of a process without this module
        open(file, "w").close()
        multiprocess.mark_process_dead(2, os.path.relpath(folder))
        assert not os.path.exists(file)
        tell(scrape())
        worker = 2; g.inc(3); tell(scrape())
        """,
    )
    assert seen == {"g{pid=1}": 5, "g{pid=2}": 2, "c_total": 3}
    assert own == 5
    assert dead == {"g{pid=1}": 5, "c_total": 3}
    assert again == dead | {"g{pid=2}": 3}


def test_a_child_takes_identities_in_turn(tmp_path: Path) -> None:
    """Also that of its parent, which then has what both have set."""
    (seen,) = run(
        tmp_path,
        """
        worker = "one"
        values.ValueClass = values.MultiProcessValue(lambda: worker)
        percpu_prometheus.activate()  # which keeps the class
        g = Gauge("g", "help"); g.set(1)
        def child():
            global worker
            worker = "two"; g.set(2); worker = "one"; g.set(4)
        in_child(child)
        tell(scrape())
        """,
    )
    assert seen == {"g{pid=one}": 5, "g{pid=two}": 2}


def test_identities_of_any_text(tmp_path: Path) -> None:
    """An empty one has a name of its own, and long ones are cut."""
    (seen, said) = run(
        tmp_path,
        r"""
        worker = ""
        values.ValueClass = values.MultiProcessValue(lambda: worker)
        g = Gauge("g", "help")
        for worker in ("", "ä" * 40, "x" * 63, "y" * 64, "\udc80"):
            g.set(1)
        tell(scrape()); tell(percpu_prometheus.status().said)
        """,
    )
    names = ["-", "ä" * 31, "x" * 63, "y" * 63, "?"]
    assert seen == {f"g{{pid={name}}}": 1 for name in names}
    assert said == []


@pytest.mark.parametrize("mode", ["all", "liveall"])
def test_processes_of_one_identity_have_one_sample(tmp_path: Path, mode: str) -> None:
    """Such as those of pid 1 in containers: a second sample of a series would be refused."""
    (seen,) = run(
        tmp_path,
        f"""
        values.ValueClass = values.MultiProcessValue(lambda: "one")
        g = Gauge("g", "help", multiprocess_mode="{mode}"); g.set(1)
        def other():
            g.set(2)
            registry = CollectorRegistry(); multiprocess.MultiProcessCollector(registry)
            tell([(s.labels, s.value) for m in registry.collect() for s in m.samples])
            sys.stdout.flush()
        in_child(other)
        """,
    )
    assert seen == [[{"pid": "one"}, 3]]


def test_an_identifier_that_raises(tmp_path: Path) -> None:
    (what,) = run(
        tmp_path,
        """
        fails = False
        def identify():
            return 1 / (not fails)
        values.ValueClass = values.MultiProcessValue(identify)
        g = Gauge("g", "help", multiprocess_mode="sum"); c = Counter("c", "help")
        fails = True
        c.inc()
        for call in (g.inc, lambda: g.set(1), g._value.get):
            try:
                call()
            except ZeroDivisionError:
                continue
            raise AssertionError
        fails = False
        g.set(2)
        tell(scrape())
        """,
    )
    assert what == {"g": 2, "c_total": 1}


def test_a_stopped_process_lives(tmp_path: Path) -> None:
    stopped = start(
        tmp_path,
        """
        Gauge("g", "help", multiprocess_mode="livesum").set(3)
        print("there", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        """,
    )
    try:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "there\n"
        declare = 'Gauge("g", "help", multiprocess_mode="livesum"); tell(scrape())'
        assert run(tmp_path, declare) == [{"g": 3}]
    finally:
        stopped.kill()
        stopped.communicate()
    assert run(tmp_path, declare) == [{"g": 0}]


def test_info_is_of_living_processes(tmp_path: Path) -> None:
    (types, parent, changed, killed) = run(
        tmp_path,
        """
        def types():
            registry = CollectorRegistry(); multiprocess.MultiProcessCollector(registry)
            return {m.name: m.type for m in registry.collect()}
        i = Info("build", "help", ["app"])
        i.labels("web").info({"version": "1", "commit": "a"})
        tell(types()); tell(scrape())
        def other():
            i.labels("web").info({"version": "2", "commit": "b"}); tell(scrape()); sys.stdout.flush()
        killed_child(other)
        i.labels("web").info({"commit": "c", "version": "3"})
        tell(scrape())
        """,
    )
    one = {"build_info{app=web}{commit=a}{version=1}": 1}
    assert types == {"build": "info"}
    assert parent == one
    assert changed == one | {"build_info{app=web}{commit=b}{version=2}": 1}
    assert killed == {"build_info{app=web}{commit=c}{version=3}": 1}


def test_enum_is_what_was_set_last(tmp_path: Path) -> None:
    (types, first, second, third) = run(
        tmp_path,
        """
        def types():
            registry = CollectorRegistry(); multiprocess.MultiProcessCollector(registry)
            return {m.name: m.type for m in registry.collect()}
        e = Enum("task", "help", states=["starting", "running", "stopped"])
        tell(types()); tell(scrape())
        e.state("running"); tell(scrape())
        in_child(lambda: e.state("stopped"))
        tell(scrape())
        """,
    )
    assert types == {"task": "stateset"}
    assert first == {"task{task=starting}": 1, "task{task=running}": 0, "task{task=stopped}": 0}
    assert second == {"task{task=starting}": 0, "task{task=running}": 1, "task{task=stopped}": 0}
    assert third == second  # that process has ended


def test_a_gauge_with_a_label_pid(tmp_path: Path) -> None:
    """Its samples would have two labels of that name: each process counts it for itself."""
    (seen, private) = run(
        tmp_path,
        """
        g = Gauge("g", "help", ["pid"]); g.labels("x").set(1)
        s = Gauge("s", "help", ["pid"], multiprocess_mode="sum"); s.labels("x").set(1)
        tell(scrape()); tell(percpu_prometheus.status().private)
        """,
    )
    assert seen == {"s{pid=x}": 1}
    assert private == ["g"]


def test_a_child_uses_its_parents_segment(tmp_path: Path) -> None:
    """It may have no right to open the file again, or no descriptor left."""
    (seen,) = run(
        tmp_path,
        """
        import resource
        g = Gauge("g", "help", multiprocess_mode="livesum"); c = Counter("c", "help", ["a"])
        g.set(1); c.labels("x").inc()
        done, tell_parent = os.pipe()
        pid = os.fork()
        if pid == 0:
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
            Counter("late", "help").inc(); g.set(2); c.labels("x").inc()
            os.write(tell_parent, str(percpu_prometheus.status().said).encode()); time.sleep(60)
        assert os.read(done, 999) == b"()"
        tell(scrape())
        os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
        """,
    )
    assert seen == {"g": 3, "c_total{a=x}": 2, "late_total": 1}
