# SPDX-License-Identifier: MIT
"""When the drop-in is on, and what it says where it is not."""

from __future__ import annotations

from pathlib import Path

from dropin import BEGIN, FILE, run

STATUS = "import percpu_prometheus; tell(percpu_prometheus.status())"


def test_the_variable_is_set_after_the_import(tmp_path: Path) -> None:
    """prometheus_client looks at it when it is imported, and so does the drop-in."""
    begin = f"import os, percpu_prometheus\nos.environ['PROMETHEUS_MULTIPROC_DIR'] = {str(tmp_path)!r}\n"
    (seen, status) = run(
        None, 'Counter("c", "help").inc(); tell(scrape());' + STATUS, begin=begin + BEGIN
    )
    assert seen == {"c_total": 1}
    assert status == [True, True, [], 0, []]
    assert [p.name for p in tmp_path.iterdir()] == [FILE]


def test_it_is_switched_on_before_the_client_is_imported(tmp_path: Path) -> None:
    begin = "import percpu_prometheus\nassert percpu_prometheus.activate(methods=False)\n"
    (seen, status) = run(
        tmp_path, 'Counter("c", "help").inc(); tell(scrape());' + STATUS, begin=begin + BEGIN
    )
    assert seen == {"c_total": 1}
    assert status == [True, False, [], 0, []]


def test_the_import_does_not_import_the_client(tmp_path: Path) -> None:
    (there, status) = run(
        tmp_path,
        """
        import json, sys, percpu_prometheus
        print(json.dumps([m for m in ("prometheus_client", "percpu._core") if m in sys.modules]))
        print(json.dumps(percpu_prometheus.status()))
        """,
        begin="",
    )
    assert there == []
    assert status == [False, False, [], 0, []]


def test_the_client_is_imported_as_before(tmp_path: Path) -> None:
    program = """
        import importlib.util, json, pkgutil, sys
        found = importlib.util.find_spec("prometheus_client").loader
        assert found.is_package("prometheus_client")
        assert pkgutil.get_data("prometheus_client", "metrics.py")
        import prometheus_client
        spec = prometheus_client.__spec__
        finders = [getattr(f, "__module__", "") for f in sys.meta_path]
        importlib.reload(prometheus_client)
        print(json.dumps([type(spec.loader).__name__, type(prometheus_client.__loader__).__name__,
                          spec.name, finders]))
        """
    assert run(tmp_path, program, begin="import percpu_prometheus\n") == run(
        tmp_path, program, begin=""
    )


def test_a_client_that_cannot_be_imported(tmp_path: Path) -> None:
    """The import fails as before, and may succeed later."""
    (tmp_path / "prometheus_client.py").write_text("raise RuntimeError('broken')")
    (first, second) = run(
        tmp_path,
        f"""
        import json, sys, percpu_prometheus
        sys.path.insert(0, {str(tmp_path)!r})
        try:
            import prometheus_client
        except RuntimeError as e:
            print(json.dumps(str(e)))
        del sys.path[0]
        from prometheus_client import Counter
        Counter("c", "help").inc()
        print(json.dumps(percpu_prometheus.status().active))
        """,
        begin="",
    )
    assert (first, second) == ("broken", True)


def test_the_client_is_another_than_expected(tmp_path: Path) -> None:
    """The program goes on without the drop-in where it finds no place for itself."""
    (tmp_path / "prometheus_client").mkdir()
    (tmp_path / "prometheus_client/__init__.py").write_text("REGISTRY = multiprocess = values = 1")
    for name in ("metrics", "metrics_core", "samples", "utils"):
        (tmp_path / f"prometheus_client/{name}.py").write_text("def __getattr__(name): return str")
    (status,) = run(
        tmp_path,
        f"""
        import json, sys, percpu_prometheus
        sys.path.insert(0, {str(tmp_path)!r})
        import prometheus_client
        print(json.dumps(percpu_prometheus.status().said))
        """,
        begin="",
    )
    assert len(status) == 1
    assert status[0].startswith("prometheus_client's own multi-process mode goes on: ")


def test_metrics_made_too_early_are_named(tmp_path: Path) -> None:
    begin = "from prometheus_client import Counter, Gauge\nearly = Counter('early', 'help')\n"
    (seen, status) = run(
        tmp_path,
        'early.inc(); Counter("c", "help").inc(); tell(scrape());' + STATUS,
        begin=begin + BEGIN,
    )
    assert seen == {"c_total": 1}
    (said,) = status[4]
    assert said.startswith("early: made before percpu_prometheus was imported")


def test_one_sentence_for_a_file_that_cannot_be_had(tmp_path: Path) -> None:
    (own, status) = run(
        tmp_path / "missing",
        """
        c = Counter("c", "help", ["a"]); h = Histogram("h", "help"); g = Gauge("g", "help")
        for i in range(3):
            c.labels(i).inc(); h.observe(1); g.set(4)
        tell([c.labels(1)._value.get(), h._sum.get(), g._value.get()])
        """
        + STATUS,
    )
    assert own == [1, 3, 4]
    assert status[2] == ["h", "g", "c"]
    (said,) = status[4]
    assert said.startswith("each process counts for itself, and no scrape shows it: ")
    assert str(tmp_path / "missing" / FILE) in said


def test_a_logger_that_raises(tmp_path: Path) -> None:
    """Counting goes on, and the sentence can be asked for."""
    (own, said) = run(
        tmp_path / "missing",
        """
        import logging
        logging.getLogger("percpu_prometheus").addFilter(lambda record: 1 / 0)
        c = Counter("c", "help"); c.inc()
        tell(c._value.get()); tell(percpu_prometheus.status().said)
        """,
    )
    assert own == 1
    assert len(said) == 1


def test_values_that_got_the_overflow_are_named_once(tmp_path: Path) -> None:
    (status,) = run(
        tmp_path,
        """
        c = Counter("c", "help", ["a"])
        for i in range(5):
            c.labels(str(i) * 5000).inc()
        c.labels("fits").inc()
        """
        + STATUS,
    )
    (said,) = status[4]
    assert said.startswith("c_total: values of labels without a series of their own")
    (status,) = run(tmp_path, 'Counter("c", "help", ["a"]).labels("new").inc();' + STATUS)
    assert status[4] == []  # in another process, whose values have series


def test_threads_of_a_child_that_begin_at_once(tmp_path: Path) -> None:
    """Each of them finds the process named."""
    (count,) = run(
        tmp_path,
        """
        import threading
        gauges = [Gauge(f"g{i}", "help", multiprocess_mode="liveall") for i in range(4)]
        def child():
            begin = threading.Barrier(4)
            def work(g):
                begin.wait(); g.inc()
            threads = [threading.Thread(target=work, args=(g,)) for g in gauges]
            for t in threads: t.start()
            for t in threads: t.join()
            if percpu_prometheus.status().said:
                os._exit(99)
        for _ in range(40):
            in_child(child)
        tell(40)
        """,
        env={"PYTHONSWITCHINTERVAL": "1e-6"},
    )
    assert count == 40
