# SPDX-License-Identifier: MIT
"""Where the file is, which processes may use it, and what happens where it cannot be had."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from dropin import FILE, run

COUNT = 'c = Counter("c", "help"); c.inc(); tell(scrape()); tell(percpu_prometheus.status())'

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")


@pytest.mark.parametrize(
    ("folder", "file"),
    [(0o700, 0o600), (0o755, 0o644), (0o2775, 0o664), (0o777, 0o666), (0o1777, 0o644)],
)
def test_the_file_has_the_permissions_of_its_directory(
    tmp_path: Path, folder: int, file: int
) -> None:
    tmp_path.chmod(folder)
    run(tmp_path, COUNT)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == file


@root
def test_a_file_of_root_is_its_directory_owners() -> None:
    """A master that is root makes the file, and its workers are another user."""
    with tempfile.TemporaryDirectory() as name:  # all users may search its parents
        folder = Path(name)
        os.chown(folder, 1234, 1234)
        (alone, both) = run(folder, ROOT_AND_WORKER)
        assert alone == both == {"c_total": 2, "d_total{a=x}": 1}
        assert (folder / FILE).stat().st_uid == 1234
        os.chown(folder / FILE, 5678, 5678)
        run(folder, COUNT)
        assert (folder / FILE).stat().st_uid == 5678


@root
def test_a_file_with_another_name_stays_roots(tmp_path: Path) -> None:
    """The directory's owner has linked a file of root's there."""
    (tmp_path / "of_root").mkdir()
    (tmp_path / "of_user").mkdir()
    run(tmp_path / "of_root", COUNT)
    os.chown(tmp_path / "of_user", 1234, 1234)
    (tmp_path / "of_user" / FILE).hardlink_to(tmp_path / "of_root" / FILE)
    (seen, _) = run(tmp_path / "of_user", COUNT)
    assert seen == {"c_total": 2}
    assert (tmp_path / "of_root" / FILE).stat().st_uid == 0


ROOT_AND_WORKER = """
    c = Counter("c", "help"); c.inc()
    def worker():
        os.setgid(1234); os.setuid(1234)
        c.inc(); Counter("d", "help", ["a"]).labels("x").inc(); tell(scrape())
        sys.stdout.flush()
    in_child(worker)
    tell(scrape())
    """


@root
def test_a_file_of_a_stranger_is_refused(tmp_path: Path) -> None:
    """Where all users may write, one that is neither root nor the directory's owner made it."""
    run(tmp_path, COUNT)
    tmp_path.chmod(0o1777)
    os.chown(tmp_path / FILE, 4321, 4321)
    (seen, status) = run(tmp_path, COUNT)
    assert seen == {"c_total": 1}
    assert status[2] == ["c"]
    assert "another user's" in status[4][0]
    tmp_path.chmod(0o755)
    (seen, status) = run(tmp_path, COUNT)
    assert (seen, status[2]) == ({"c_total": 2}, [])


@root
def test_a_file_of_root_is_used_by_all() -> None:
    """Where all users may write, too."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder, COUNT)
        os.chown(folder, 1234, 1234)
        folder.chmod(0o1777)
        (folder / FILE).chmod(0o666)
        (seen, status) = run(folder, "os.setuid(4321)\n" + COUNT)
        assert (seen, status[2]) == ({"c_total": 2}, [])


def test_a_file_that_was_replaced(tmp_path: Path) -> None:
    """Metrics that are made afterwards count in the new file."""
    (seen,) = run(
        tmp_path,
        f"""
        c = Counter("c", "help"); c.inc()
        os.unlink(os.path.join(os.environ["PROMETHEUS_MULTIPROC_DIR"], "{FILE}"))
        d = Counter("d", "help"); d.inc(); scrape()
        c.inc()
        tell(scrape())
        """,
    )
    assert seen == {"d_total": 1}


def test_the_program_changes_its_directory(tmp_path: Path) -> None:
    (seen,) = run(
        tmp_path,
        """
        os.chdir(os.path.dirname(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = os.path.basename(
            os.environ["PROMETHEUS_MULTIPROC_DIR"])
        registry = CollectorRegistry(); multiprocess.MultiProcessCollector(registry)
        g = Gauge("g", "help", multiprocess_mode="livesum"); g.set(1)
        def child():
            os.chdir("/"); g.set(2); Counter("c", "help").inc()
        in_child(child)
        os.chdir("/")
        tell([s.value for m in registry.collect() for s in m.samples])
        """,
    )
    assert seen == [1, 1]


def test_the_deprecated_variable(tmp_path: Path) -> None:
    (seen, status) = run(
        None, COUNT, env={"prometheus_multiproc_dir": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    )
    assert (seen, status[0]) == ({"c_total": 1}, True)
    assert [p.name for p in tmp_path.iterdir()] == [FILE]
    (seen, _) = run(tmp_path, COUNT, env={"prometheus_multiproc_dir": "/nowhere"})
    assert seen == {"c_total": 2}


def test_without_the_variable_nothing_changes() -> None:
    (value, status) = run(
        None,
        """
        c = Counter("c", "help"); c.inc(2)
        tell([type(c._value).__name__, c._value.get()]); tell(percpu_prometheus.status())
        """,
    )
    assert value == ["MutexValue", 2]
    assert status == [False, False, [], 0, []]


@pytest.mark.parametrize(
    ("former", "latter", "word"),
    [
        ('Counter("m", "help", ["a"])', 'Counter("m", "help", ["b"])', "label"),
        ('Histogram("m", "help", buckets=(1, 2))', 'Histogram("m", "help", buckets=(1, 3))', "2"),
        ('Gauge("m", "help", multiprocess_mode="sum")', 'Summary("m", "help")', "gauge"),
        (
            'Gauge("m", "help", multiprocess_mode="sum")',
            'Gauge("m", "help", multiprocess_mode="livesum")',
            "",
        ),
    ],
    ids=["labels", "bounds", "kind", "mode"],
)
def test_another_declaration_of_the_name(
    tmp_path: Path, former: str, latter: str, word: str
) -> None:
    """The program goes on, and counts what clashes in each process for itself."""
    use = """
m = m.labels("x") if m._labelnames else m
m.observe(1) if hasattr(m, "observe") else m.inc()
"""
    run(tmp_path, f"m = {former}{use}")
    (status, own, seen) = run(
        tmp_path,
        f"m = {latter}{use}"
        """
tell(percpu_prometheus.status())
tell([s.value for s in m._child_samples() if s.name in ("_total", "", "_count")])
Counter("other", "help").inc(); tell(scrape()["other_total"])
""",
    )
    assert status[2] == ["m"]
    assert word in status[4][0]
    assert "until the directory is emptied" in status[4][0]
    assert own == [1]
    assert seen == 1


def test_a_metric_that_no_segment_can_have(tmp_path: Path) -> None:
    """The program goes on, and counts it in each process for itself."""
    (own, status, seen) = run(
        tmp_path,
        """
        names = [f"a{i}" for i in range(100)]
        c = Counter("c", "help", names); c.labels(*names).inc(2)
        h = Histogram("h", "help", buckets=(float("-inf"),)); h.observe(3)
        tell([c.labels(*names)._value.get(), h._sum.get(), h._buckets[1].get()])
        tell(percpu_prometheus.status()); tell(scrape())
        """,
    )
    assert own == [2, 3, 1]
    assert (status[2], len(status[4])) == (["c", "h"], 2)
    assert seen == {}


def test_a_scrape_without_a_file(tmp_path: Path) -> None:
    """Processes without this module have files of their own, which are read then."""
    assert run(tmp_path, "tell(scrape())") == [{}]
    run(tmp_path, 'Counter("c", "help").inc(3)', begin="from prometheus_client import *\n")
    assert run(tmp_path, "tell(scrape())") == [{"c_total": 3}]


def test_files_of_the_clients_own_mode_are_named(tmp_path: Path) -> None:
    run(tmp_path, 'Counter("c", "help").inc(3)', begin="from prometheus_client import *\n")
    (seen, status) = run(tmp_path, COUNT)
    assert seen == {"c_total": 1}
    assert ".db files" in status[4][0]


def test_a_scrape_of_what_is_no_segment_fails(tmp_path: Path) -> None:
    """It shows no zeros, and the log has the reason."""
    (tmp_path / FILE).write_bytes(b"x" * 8192)
    (number, said) = run(
        tmp_path,
        """
        import errno, percpu
        try:
            scrape()
        except percpu.Error as e:
            tell(errno.errorcode[e.errno]); tell(percpu_prometheus.status().said)
        """,
    )
    assert number == "EBADMSG"
    assert f"{tmp_path / FILE} cannot be read" in said[0]


def test_a_scrape_goes_on_with_a_new_file(tmp_path: Path) -> None:
    (first, second) = run(
        tmp_path,
        f"""
        registry = CollectorRegistry(); multiprocess.MultiProcessCollector(registry)
        def values_now():
            return [s.value for m in registry.collect() for s in m.samples]
        Counter("c", "help").inc(); tell(values_now())
        os.unlink(os.path.join(os.environ["PROMETHEUS_MULTIPROC_DIR"], "{FILE}"))
        in_child(lambda: Counter("d", "help").inc(7))
        tell(values_now())
        """,
    )
    assert (first, second) == ([1], [7])


def test_a_restricted_registry(tmp_path: Path) -> None:
    (names,) = run(
        tmp_path,
        """
        Counter("c", "help").inc(); Counter("d", "help").inc()
        registry = CollectorRegistry(support_collectors_without_names=True)
        multiprocess.MultiProcessCollector(registry)
        tell([m.name for m in registry.restricted_registry(["d_total"]).collect()])
        """,
    )
    assert names == ["d"]


def test_a_collector_without_a_directory(tmp_path: Path) -> None:
    program = """
        for path in (None, "", "/nonexistent"):
            try:
                multiprocess.MultiProcessCollector(None, path)
            except ValueError as e:
                tell(str(e))
        """
    assert run(None, program) == ["env PROMETHEUS_MULTIPROC_DIR is not set or not a directory"] * 3
