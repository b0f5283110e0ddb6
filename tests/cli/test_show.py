#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_show.py PERCPU-SHOW SHOW-SEGMENT - a segment with all kinds, in both forms.

Prometheus's own checker reads the text, and Python the JSON. Speaks TAP.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys

import tap

SHOW, SEGMENT = map(os.path.abspath, sys.argv[1:3])

# The values that show_segment.c stores: name, labels, value. JSON has no infinities.
QUOTED, CONTROL = '"quoted" \\ and\nnew', "tab\t, \x01, \xfc"
WAITS = {"x": [0.25, 0.5, 0.75], "y": [0.5, 1, 1.5], "empty": [], "beyond": [0.5, 1024, 2048]}
OWN = [-1.5, 0.005, 0.1, 1 / 3, 2.5]  # bounds
IN_OWN = [-1.5, 2**-8, 0.0625, 0.25, 2.5, 5]
SINGLE = [
    ("a_total", {"label": ""}, 1),
    ("a_total", {"label": QUOTED}, 2**60 + 1),
    ("a_total", {"label": CONTROL}, 0),
    ("build_info", {"label": "1.0"}, 1),
    ("depth", {}, -3),
    ("flying", {}, 2),
    ("last", {"label": "inf"}, "+Inf"),
    ("last", {"label": "minus"}, "-Inf"),
    ("last", {"label": "nan"}, "NaN"),
    ("last", {"label": "small"}, 1e-7),
    ("last", {"label": "zero"}, 0),
    ("lookups_total", {"label": "x", "result": "hit"}, 5),
    ("lookups_total", {"label": "x", "result": "miss"}, 2),
    ("part_ratio", {}, 0.25),
    ("percpu_family_overflows_total", {"family": "sent_total", "reason": "room"}, 2),
    ("percpu_family_overflows_total", {"family": "sent_total", "reason": "invalid"}, 0),
    ("room_celsius", {}, 1 / 3),
    ("sent_total", {"user": "_overflow"}, 11 + 12),
    ("sent_total", {"user": "ann"}, 10),
    ("size_bytes", {"label": "x", "extreme": "min"}, 0.5),
    ("size_bytes", {"label": "x", "extreme": "max"}, 2.5),
    ("size_bytes", {"label": "y", "extreme": "min"}, 1.5),
    ("size_bytes", {"label": "y", "extreme": "max"}, 3.5),
    ("work_seconds_total", {}, 0.1),
]
COUNTERS = {name for name, _, _ in SINGLE if name.endswith("_total")}


def waits():
    """Return the samples of the histograms: their range is 2^-20 to 2^10."""
    for label, values in WAITS.items():
        bounds = [(repr_of(2.0**k), 2.0**k) for k in range(-20, 11)] + [("+Inf", float("inf"))]
        for text, bound in bounds:
            labels = {"label": label, "le": text}
            yield "wait_seconds_bucket", labels, sum(v <= bound for v in values)
        yield "wait_seconds_sum", {"label": label}, sum(values)
        yield "wait_seconds_count", {"label": label}, len(values)


def with_own_bounds():
    """Return the samples of the histogram with own bounds, and of the summary."""
    for k, text in enumerate([*map(repr_of, OWN), "+Inf"]):
        yield "drift_seconds_bucket", {"label": "x", "le": text}, k + 1
    for name in "drift_seconds", "read_bytes":
        yield name + "_sum", {"label": "x"}, sum(IN_OWN)
        yield name + "_count", {"label": "x"}, len(IN_OWN)


def repr_of(v):
    return next(text for text in (f"{v:.{n}g}" for n in (15, 16, 17)) if float(text) == v)


def equal(got, want):
    assert got == want, f"got {got}, not {want}"


def same_samples(got, want):
    """Assert that samples are the same in any order, each once."""
    got, want = sorted(got, key=series), sorted(want, key=series)
    extra, missing = [s for s in got if s not in want], [s for s in want if s not in got]
    assert got == want, f"not stored: {extra}, not shown: {missing}"


def series(sample):
    return sample[0], sorted(sample[1].items())


@contextlib.contextmanager
def segment(directory):
    """Make the segment; the process that owns a value in flight lives meanwhile."""
    path = os.path.join(directory, "segment")
    with subprocess.Popen(
        [SEGMENT, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        equal(process.stdout.readline(), "ready\n")
        yield path
        process.stdin.close()
        equal(process.wait(30), 0)


def show(*arguments):
    r = subprocess.run([SHOW, *arguments], check=False, capture_output=True, timeout=60)
    equal((r.returncode, r.stderr), (0, b""))
    return r.stdout.decode()


def promtool_is_silent(directory):
    if not shutil.which("promtool"):
        return "no promtool"
    with segment(directory) as path:
        text = show(path)
    r = subprocess.run(
        ["promtool", "check", "metrics"], input=text, check=False, capture_output=True, text=True
    )
    equal((r.returncode, r.stdout, r.stderr), (0, "", ""))
    return None


def unescape(text):
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text)


def number(text):
    """Return a value as in JSON."""
    return json.loads(text) if re.fullmatch(r"-?\d.*", text) else text


def samples_of(text):
    """Read lines of Prometheus's text."""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        sample = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        assert sample, f"this is no sample: {line!r}"
        name, labels, value = sample.groups()
        found = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"(?:, |$)', labels or "")
        yield name, {key: unescape(v) for key, v in found}, number(value)


def the_text_has_all_values(directory):
    with segment(directory) as path:
        text = show(path)
    want = [*SINGLE, *waits(), *with_own_bounds()]
    same_samples(samples_of(text), want)
    bounds = re.findall(r'drift_seconds_bucket.*le="([^"]*)"', text)
    equal([float(b) for b in bounds], [*OWN, float("inf")])
    assert "0.1" in bounds, bounds
    types = dict(re.findall(r"# TYPE (\w+) (\w+)\n", text))
    names = {name for name, _, _ in SINGLE}
    want = {name: "counter" if name in COUNTERS else "gauge" for name in names}
    types_of_histograms = {
        "wait_seconds": "histogram",
        "drift_seconds": "histogram",
        "read_bytes": "summary",
    }
    equal(types, want | types_of_histograms)
    helps = dict(re.findall(r"# HELP (\w+) (.*)\n", text))
    equal(set(helps), set(types))
    equal(helps.pop("percpu_family_overflows_total"), "How often a call got the overflow.")
    equal(set(helps.values()), {'A "help" text,\\nwith a back\\\\slash and \xfc.'})


def the_json_has_all_values(directory):
    with segment(directory) as path:
        samples = json.loads(show("--json", path), parse_constant=lambda c: 1 / 0)
    got = [(s["name"], s["labels"], s["value"]) for s in samples]
    same_samples(got, [*SINGLE, *waits(), *with_own_bounds()])
    equal({s["name"] for s in samples if s["type"] == "counter"}, COUNTERS)
    equal({s["type"] for s in samples if s["name"].startswith("read_bytes")}, {"summary"})


def what_is_owned_goes(directory):
    with segment(directory) as path:
        assert ("flying", {}, 2) in list(samples_of(show(path)))
    samples = list(samples_of(show(path)))
    assert ("flying", {}, 0) in samples, samples
    assert "part_ratio" not in {name for name, _, _ in samples}, samples


def bad_input(directory):
    """Each mistake has an error message."""
    text = os.path.join(directory, "text")
    with open(text, "w", encoding="ascii") as f:
        f.write("dear diary\n" * 1000)
    for arguments, status, words in (
        ((), 2, "usage"),
        (("--json",), 2, "usage"),
        (("--other", text), 2, "usage"),
        ((text,), 1, ""),
        (("--json", os.path.join(directory, "nothing")), 1, "there is no such file"),
    ):
        r = subprocess.run([SHOW, *arguments], capture_output=True, text=True, check=False)
        equal((r.returncode, r.stdout, words in r.stderr), (status, "", True))
        assert len(r.stderr) > 20, r.stderr


def main():
    tests = [
        promtool_is_silent,
        the_text_has_all_values,
        the_json_has_all_values,
        what_is_owned_goes,
        bad_input,
    ]
    tap.run(tests)


if __name__ == "__main__":
    main()
