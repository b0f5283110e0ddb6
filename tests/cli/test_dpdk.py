#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_dpdk.py L2FWD | --skip WHY - DPDK's lcores count, another process reads.

Each way of counting is exact, on both devices; totals that another process reads never go back and
are consistent; bad input has an error message. Speaks TAP.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

FRAME = 64
WIRE = FRAME + 24
FIELDS = ("packets", "bytes", "wire-bytes", "segments")


def command(*args):
    return [os.path.abspath(sys.argv[1]), *args]


def run(*args):
    """Run l2fwd; return (exit status, output, errors)."""
    r = subprocess.run(command(*args), capture_output=True, text=True, timeout=60, check=False)
    return r.returncode, r.stdout, r.stderr


def equal(got, want):
    assert got == want, f"got {got}, not {want}"


def ports(text):
    """Return each line of a port as (number, scopes of four values each, drops, polls)."""
    found = []
    for number, line in re.findall(r"^port (\d):(.*)$", text, re.MULTILINE):
        values = {
            name: [int(n) for n in re.findall(rf" {name} (\d+)", line)]
            for name in (*FIELDS, "drops", "polls")
        }
        scopes = list(zip(*(values[name] for name in FIELDS)))
        found.append((int(number), scopes, values["drops"], values["polls"]))
    return found


def check_scope(scope):
    """Assert that the counts have all of a packet, or nothing of it."""
    packets, size, wire, segments = scope
    equal((size, wire, segments), (packets * FRAME, packets * WIRE, packets))


def check_growing(seen):
    """Assert that totals of each port never go back."""
    for number in (0, 1):
        last = []
        for port, scopes, drops, polls in seen:
            if port == number:
                now = [*(n for scope in scopes for n in scope), *drops, *polls]
                assert all(a <= b for a, b in zip(last, now)), f"{now} after {last}"
                last = now


def wait_for(path, process, above=0):
    """Wait until the first port has more packets than that."""
    end = time.monotonic() + 30
    while True:
        status, out, _ = run("--read", path)
        if status == 0 and ports(out)[0][1][0][0] > above:
            return
        assert process.poll() is None and time.monotonic() < end, "no packets counted"
        time.sleep(0.02)


def watch(work, way, counters):
    """Forward, and let another process read; return (fetches, snapshots)."""
    path = os.path.join(work, "ports")
    with subprocess.Popen(
        command("-c", way, "-n", counters, "-l", "2", "-s", "90", "-o", path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as p:
        try:
            wait_for(path, p)
            status, out, err = run("--read", path, "-s", "0.3")
            equal((status, err), (0, ""))
            fetches = ports(out)
            status, out, err = run("--read", path, "--snapshot", "-s", "0.3")
            equal((status, err), (0, ""))
            snapshots = ports(out)
            wait_for(path, p, fetches[0][1][0][0])
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=30)
        finally:
            p.kill()
    equal(p.returncode, 0)
    final = ports(out)
    status, out, _ = run("--read", path)
    equal((status, ports(out)), (0, final))
    check_growing(fetches + snapshots + final)
    for _, scopes, _, _ in final:
        assert scopes[0][0] > 0, f"no packets: {final}"
        equal(len(scopes), int(counters) // 4)
    return fetches, snapshots


def words_of_a_commit(work):
    """Return how many counters one commit of "ours" has on this machine."""
    del work
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        flags = f.read().split()
    return 4 if "avx2" in flags else 2


def each_way(_):
    """Every way counts every packet once, on both devices."""
    for device in ("ring", "null"):
        for way in ("none", "lcore", "ours", "ours-adds", "ours-whole", "atomic"):
            for counters in ("4", "16"):
                status, out, err = run(
                    *("-c", way, "-n", counters, "-d", device, "-l", "2", "-s", "0.1")
                )
                equal((status, err), (0, ""))
                equal(len(ports(out)), 2)
                for _, scopes, _, polls in ports(out):
                    assert polls[0] > 0, out
                    for scope in scopes:
                        check_scope(scope)


def outside(work):
    """A reader sees totals that grow; in snapshots, packets and bytes agree."""
    _, snapshots = watch(work, "ours", "4")
    for _, scopes, _, _ in snapshots:
        packets, size, wire, segments = scopes[0]
        equal((size, wire), (packets * FRAME, segments * WIRE))
        if words_of_a_commit(work) == 4:
            check_scope(scopes[0])


def outside_whole(work):
    """With one commit, a snapshot has all 16 counters of a packet."""
    _, snapshots = watch(work, "ours-whole", "16")
    for _, scopes, _, _ in snapshots:
        equal(len(set(scopes)), 1)
        check_scope(scopes[0])


def outside_adds(work):
    """With a commit per counter, totals are as exact in the end."""
    watch(work, "ours-adds", "16")


def table(_):
    """All ways in turn; the table has them all."""
    status, out, err = run("-c", "all", "-l", "2", "-s", "0.2")
    equal((status, err), (0, ""))
    for way, rows in (("none", 1), ("lcore", 2), ("ours-whole", 1), ("atomic", 2)):
        equal(len(re.findall(rf"^{way} +\d+ +[\d.]+ +[\d.]+$", out, re.MULTILINE)), rows)


def bad_input(work):
    """Each mistake has an error message."""
    text = os.path.join(work, "text")
    with open(text, "w", encoding="ascii") as f:
        f.write("this is a text\n" * 1000)
    for args, words in (
        (("-c", "fast"), "knows no"),
        (("-n", "5"), "4 or 16"),
        (("-n", "many"), "wants a number"),
        (("-s", "0"), "wants a number"),
        (("-s", "1s"), "wants a number"),
        (("-l", "17"), "wants a number"),
        (("-d", "wire"), "ring or null"),
        (("-o", text), "-o wants"),
        (("-c", "lcore", "-o", text), "-o wants"),
        (("--snapshot",), "is for --read"),
        (("more",), "what is"),
        (("--unknown",), "--help"),
        (("-c", "ours", "-o", text), "exists"),
        (("-c", "ours", "-o", "/nonexistent/x"), "No such file"),
        (("--read", text), "no file of counters"),
        (("--read", work), "no file of counters"),
        (("--read", "/nonexistent"), "No such file"),
    ):
        status, _, err = run(*args)
        equal((args, status), (args, 2))
        assert words in err, f"{args}: {err}"


TESTS = [each_way, outside, outside_whole, outside_adds, table, bad_input]


def main():
    if sys.argv[1] == "--skip":
        print(f"1..1\nok 1 - dpdk-l2fwd # SKIP {sys.argv[2]}")
        return 0
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        result = "ok"
        try:
            with tempfile.TemporaryDirectory() as work:
                test(work)
        except (AssertionError, subprocess.TimeoutExpired, OSError) as e:
            print("# " + str(e).replace("\n", "\n# "))
            result = "not ok"
            failed = 1
        print(f"{result} {number} - {test.__name__}", flush=True)
    return failed


sys.exit(main())
