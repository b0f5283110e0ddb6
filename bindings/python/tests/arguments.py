# SPDX-License-Identifier: MIT
"""arguments.py upstream|c|python: call methods of metrics with arguments of all types.

Prints as JSON, for each call, the exception, and the samples of the metric after it: of upstream
in one process, or of the drop-in with its methods in C or in Python.
"""

import decimal
import fractions
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

Found = list[tuple[str, str | None, str]]


class Raises(float):
    """A float that cannot be had."""

    def __float__(self) -> float:
        raise KeyError("from __float__")


class Compares(float):
    """A float that cannot be compared."""

    def __lt__(self, other: object) -> bool:
        raise LookupError("from a comparison")

    __le__ = __gt__ = __ge__ = __lt__


class Whole(int):
    """A subclass of int."""


class Half(float):
    """A subclass of float."""


class Indexed:
    """An object that is an index."""

    def __index__(self) -> int:
        return 3


class Floats:
    """An object that only converts to a float."""

    def __float__(self) -> float:
        return 2.5


class Alike(Floats):
    """An object that does what upstream's methods do with an amount."""

    def __lt__(self, other: float) -> bool:
        return other > 2.5

    def __le__(self, other: float) -> bool:
        return other >= 2.5

    def __neg__(self) -> float:
        return -2.5

    def __radd__(self, other: float) -> float:
        return other + 2.5


PLAIN: list[Any] = [
    *(0, 1, 3, -1, 0.0, -0.0, 0.5, 1e-320, 1e300, -2.5, True, False, 10**18, 2**53 + 1),
    *(2**64, -(2**64), 10**400, -(10**400), math.nan, math.inf, -math.inf, 1.7e308),
    *(None, "1", "x", "", b"1", [], {}, (1,), 1j, object(), len, float, NotImplemented, ...),
    *(decimal.Decimal(text) for text in ("1.5", "-1", "NaN", "sNaN", "Infinity")),
    *(fractions.Fraction(1, 4), fractions.Fraction(-1, 4)),
    *(Whole(2), Half(2.5), Raises(2.5), Compares(2.5), Indexed(), Floats(), Alike()),
]
METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("Counter", "inc", {}),
    ("Gauge", "inc", {}),
    ("Gauge", "dec", {}),
    ("Gauge", "set", {}),
    ("Gauge", "set", {"multiprocess_mode": "mostrecent"}),
    ("Histogram", "observe", {"buckets": (0, 1, 2.5, 1e18)}),
    ("Summary", "observe", {}),
]
WAYS = (
    *("", "1, 2, 3", "amount=2", "value=2", "1, amount=1", "nothing=1", "*[1]", "**{'amount': 3}"),
    *("1, exemplar={'a': 'b'}", "exemplar={'a': 'b'}, amount=2", "1, {'a': 'b'}", "1, exemplar={}"),
    *("1, {'a': 'x' * 200}", "1, exemplar={'1': 'b'}", "1, 'text'", "1, exemplar={'a': 1}"),
)
LABELS = (
    *("", "'x'", "'x', 'y'", "'x', 'y', 'z'", "a='x', b='y'", "b='y', a='x'", "a='x'"),
    *("a='x', c='y'", "'x', b='y'", "1, 2", "None, ...", "a=1, b=None", "'', ''", "'1', '2'"),
    *("a='x', b='y', c='z'", "b'x', 'y'", r"'\ud800', '\0'", "'n' * 999, 'm'", "*['x', 'y']"),
    *("[], {}", "a=1, b=2", "1.0, True"),
)


def of_numpy() -> list[Any]:
    """Return numbers of numpy, if it is installed."""
    try:
        import numpy as np
    except ImportError:
        return []
    numbers = [np.float64(1.5), np.float32(0.25), np.float16(2), np.longdouble(1.5), np.int64(4)]
    others = [np.uint8(5), np.float64(-1), np.bool_(True), np.float64("nan"), np.str_("1")]
    return [*numbers, *others, np.array(1.5), np.array([1.5]), np.array([1.5, 2.5])]


def number_of(value: Any) -> float | str:
    """Return a value as a page would show it, or that it cannot."""
    try:
        return float(value)
    except TypeError:  # complex, or an array
        return "no number"


def samples_of(metric: Any) -> str:
    """Return the samples of a metric in this process."""
    found = []
    for sample in metric.collect()[0].samples:
        if not sample.name.endswith("_created"):
            name = sample.name.removeprefix(metric._name)
            found.append((name, sorted(sample.labels.items()), number_of(sample.value)))
    return repr(found)


def tried(what: str, call: Callable[[], Any], metric: Any) -> tuple[str, str | None, str]:
    """Call it, and return what came of it."""
    outcome = None
    try:
        call()
    except Exception as e:  # noqa: BLE001, any is compared
        outcome = f"{type(e).__name__}: {e}"
    return what, outcome, samples_of(metric)


class Maker:
    """Makes metrics, each with a name of its own."""

    def __init__(self) -> None:
        import prometheus_client

        self.client = prometheus_client
        self.registry = prometheus_client.CollectorRegistry()
        self.number = 0

    def make(self, kind: str, **more: Any) -> Any:
        """Make a metric of this kind."""
        self.number += 1
        make = getattr(self.client, kind)
        return make(f"metric_{self.number}", "Tried.", registry=self.registry, **more)


def amounts(maker: Maker) -> Iterator[tuple[str, str | None, str]]:
    """Try each argument with each method, twice."""
    for kind, method, more in METHODS:
        for i, argument in enumerate([*PLAIN, *of_numpy()]):
            metric = maker.make(kind, **more)
            call = getattr(metric, method)
            text = str(argument)[:20].partition(" at 0x")[0]
            what = f"{kind}.{method} {more} {i}: {type(argument).__name__} {text}"
            for time in ("once", "again"):
                yield tried(f"{what} {time}", lambda c=call, a=argument: c(a), metric)  # type: ignore[misc]


def ways(maker: Maker) -> Iterator[tuple[str, str | None, str]]:
    """Try each way to call with each method, and each method of a parent."""
    for kind, method, more in METHODS:
        metric = maker.make(kind, **more)
        names = {"call": getattr(metric, method)}
        for how in WAYS:
            call = eval(f"lambda: call({how})", names)
            yield tried(f"{kind}.{method} {more} ({how})", call, metric)
        parent = maker.make(kind, labelnames=["a", "b"], **more)
        yield tried(f"{kind}.{method} {more} of a parent", getattr(parent, method), parent)


def labels(maker: Maker) -> Iterator[tuple[str, str | None, str]]:
    """Try each way to give labels, to a parent, a child and a metric without labels."""
    for kind in ("Counter", "Gauge", "Histogram", "Summary"):
        parent = maker.make(kind, labelnames=["a", "b"])
        of = {"parent": parent, "child": parent.labels("x", "y"), "plain": maker.make(kind)}
        for how in LABELS:
            for name, metric in of.items():
                call = eval(f"lambda: m.labels({how})", {"m": metric})
                yield tried(f"{kind} {name}.labels({how})", call, metric)
        same = parent.labels("x", "y") is of["child"] is parent.labels(b="y", a="x")
        yield f"{kind}: the same child", None, str(same)


def main() -> None:
    """Try all, and print what was found."""
    sys.set_int_max_str_digits(0)
    logging.disable()
    if sys.argv[1] != "upstream":
        directory = os.environ.pop("PROMETHEUS_MULTIPROC_DIR")
        import percpu_prometheus

        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
        assert percpu_prometheus.activate(methods=sys.argv[1] == "c")
        assert percpu_prometheus.status().methods == (sys.argv[1] == "c")
    maker = Maker()
    print(json.dumps([*amounts(maker), *ways(maker), *labels(maker)]))


if __name__ == "__main__":
    main()
