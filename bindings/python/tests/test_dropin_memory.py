# SPDX-License-Identifier: MIT
"""Calls of metrics, which keep neither memory nor references."""

from __future__ import annotations

from pathlib import Path

from dropin import run

CALLS = """
    from fractions import Fraction
    import gc, itertools
    numbers = itertools.count()
    worker = 0
    c = Counter("c", "help"); f = Counter("f", "help", ["a"]); s = Summary("s", "help")
    g = Gauge("g", "help"); recent = Gauge("recent", "help", multiprocess_mode="mostrecent")
    h = Histogram("h", "help", ["a"], buckets=(1, 2)); kept = h.labels("x"); i = Info("i", "help")
    values.ValueClass = values.MultiProcessValue(lambda: worker % 2)
    own = Gauge("own", "help", multiprocess_mode="sum"); own_recent = Gauge("o", "help")
    half, huge, label, trace = Fraction(1, 2), 10 ** 400, "a" * 30, {"trace": "t" * 30}
    f.labels(label); own.set(0); worker = 1; own.set(0)
    shared = [c._value, g._value, s._sum, kept._sum, kept._buckets[0], own._value, half, huge, label,
              trace, f.labels(label), c._value.handle, own._value.handle, kept._sum.handle]

    def fails(call):
        try:
            call()
        except Exception:
            return
        raise AssertionError

    def as_another():
        global worker
        worker += 1; own.inc(half); own._value.get()

    def new_series():
        new = str(next(numbers))
        f.labels(new).inc(); h.labels(a=new).observe(1); f.remove(new); h.remove(new)

    calls = dict(
        inc=lambda: (c.inc(), c.inc(2.5), c.inc(half), c.inc(amount=1)),
        gauge=lambda: (g.inc(), g.dec(half), g.set(half), g.set(value=1), recent.set(2)),
        observe=lambda: (kept.observe(1), kept.observe(half), s.observe(1), s.observe(amount=half)),
        exemplar=lambda: (c.inc(1, trace), kept.observe(1.5, trace), kept._buckets[1].get_exemplar()),
        infinite=lambda: (c.inc(float("inf")), g.set(float("nan")), s.observe(float("inf"))),
        labels=lambda: (f.labels(label), f.labels(a=label)),
        get=lambda: (c._value.get(), g._value.get(), kept._sum.get(), kept._buckets[0].get()),
        another=as_another,
        series=new_series,
        info=lambda: i.info({"version": label}),
        scrape=scrape,
        negative=lambda: fails(lambda: c.inc(-1)),
        large=lambda: (fails(lambda: c.inc(huge)), fails(lambda: g.set(huge))),
        text=lambda: (fails(lambda: c.inc(label)), fails(lambda: s.observe(label))),
        recent=lambda: fails(recent.inc),
        values=lambda: (fails(lambda: f.labels(label, label)), fails(lambda: f.labels(b=label))),
        nothing=lambda: (fails(g.set), fails(s.observe), fails(f.labels)),
    )
"""


def test_calls_keep_nothing(tmp_path: Path) -> None:
    (grown,) = run(
        tmp_path,
        CALLS
        + """
    def repeat(call, n):
        for _ in range(n):
            call()
        gc.collect()
        return [sys.getallocatedblocks(), *map(sys.getrefcount, shared)]

    grown = {}
    for name, call in calls.items():
        before = repeat(call, 100)
        for _ in range(3):
            after = repeat(call, 400)
            if max(abs(a - b) for a, b in zip(before, after)) < 40:
                break
            before = after
        else:
            grown[name] = [a - b for a, b in zip(before, after)], before
    tell(grown)
    """,
    )
    assert grown == {}
