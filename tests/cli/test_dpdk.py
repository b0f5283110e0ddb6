#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_dpdk.py L2FWD | --skip WHY - DPDK's lcores count, another process reads.

Each way of counting but the racy one is exact, on both devices; totals that another process reads,
or a client of DPDK's telemetry, never go back and are consistent; bad input has an error message.
Speaks TAP.
"""

import glob
import json
import os
import re
import signal
import socket
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
        for way in ("none", "lcore", "ours", "ours-adds", "ours-whole", "ours-burst", "atomic"):
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


def outside_bursts(work):
    """With a commit per burst, totals are as exact, and all of a burst is counted at once."""
    _, snapshots = watch(work, "ours-burst", "4")
    for _, scopes, _, _ in snapshots:
        if words_of_a_commit(work) == 4:
            check_scope(scopes[0])


def racy(_):
    """Plain adds of all lcores to one word lose packets, or not; that is no error."""
    status, out, err = run("-c", "racy", "-n", "4", "-l", "2", "-s", "0.2")
    equal((status, err), (0, ""))
    lost = re.search(r"^lost: ([\d.]+) % of the packets$", out, re.MULTILINE)
    assert lost and 0 <= float(lost[1]) < 100, out


def rows_of(out):
    """Return the rows of a table: way, counters, Mpps, share of the CPUs, ratio, loss."""
    row = r"^([a-z-]+) +(\d+) +([\d.]+) +([\d.]+) % +([\d.]+) +([\d.]+) %$"
    return [(r[0], *map(float, r[1:])) for r in re.findall(row, out, re.MULTILINE)]


def table(_):
    """All ways in turn; the table has them all, and only one of them loses packets."""
    status, out, err = run("-c", "all", "-l", "2", "-s", "0.2")
    equal((status, err), (0, ""))
    found = rows_of(out)
    ways = [row[0] for row in found]
    for way, rows in (("none", 1), ("lcore", 2), ("ours-whole", 1), ("ours-burst", 2), ("racy", 2)):
        equal((way, ways.count(way)), (way, rows))
    for row in found:
        assert row[0] == "racy" or row[5] == 0, out


def fixed_rate(_):
    """At a low rate lcores forward no more than that, and sleep."""
    status, out, err = run("-c", "all", "-n", "4", "-l", "2", "-s", "2", "--rate", "0.1")
    equal((status, err), (0, ""))
    assert "94 %" in out, out
    for row in rows_of(out):
        assert row[2] <= 0.2 and row[3] < 100, out
    equal(len(rows_of(out)), 7)


def ask(connection, command):
    """Return what DPDK's telemetry answers."""
    connection.send(command.encode())
    return json.loads(connection.recv(16384))[command.partition(",")[0]]


def await_socket(work, process):
    """Return a connection to the telemetry of a process, as dpdk-telemetry.py makes it."""
    end = time.monotonic() + 30
    while not (found := glob.glob(f"{work}/**/dpdk_telemetry.v2", recursive=True)):
        assert process.poll() is None and time.monotonic() < end, "no socket"
        time.sleep(0.02)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(30)
    connection.connect(found[0])
    equal(json.loads(connection.recv(1024))["pid"], process.pid)
    return connection


def telemetry_of(work, way, counters, names):
    """Ask a running l2fwd for the counts of a port until they have grown; compare them."""
    with subprocess.Popen(
        command("-c", way, "-n", counters, "-l", "2", "-s", "90", "--telemetry", "test"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUNTIME_DIRECTORY": work},
    ) as p:
        try:
            with await_socket(work, p) as connection:
                equal(ask(connection, "/l2fwd/ports"), [0, 1])
                seen = [{"packets": 0, "polls": 0}]
                while len(seen) < 5:
                    now = ask(connection, "/l2fwd/port,1")
                    assert p.poll() is None
                    if not now or now["packets"] == seen[-1]["packets"]:
                        time.sleep(0.02)
                        continue
                    assert all(now[k] >= n for k, n in seen[-1].items()), f"{now} after {seen[-1]}"
                    equal(sorted(now), sorted(names))
                    seen.append(now)
                for wrong in ("", ",2", ",x", ",1x", ",-1"):
                    equal((wrong, ask(connection, f"/l2fwd/port{wrong}")), (wrong, None))
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=30)
        finally:
            p.kill()
    equal((p.returncode, err), (0, ""))
    equal(glob.glob(f"{work}/**/dpdk_telemetry.v2", recursive=True), [])
    last = ports(out)[1]
    assert last[1][0][0] >= seen[-1]["packets"] and last[3][0] >= seen[-1]["polls"], out


def telemetry(work):
    """A client of DPDK's telemetry sees the counts, of whichever way."""
    names = ["packets", "bytes", "wire_bytes", "segments"]
    more = [f"{scope}_{name}" for scope in ("vlan", "class", "tenant") for name in names]
    telemetry_of(work, "ours", "4", [*names, "drops", "polls"])
    telemetry_of(work, "lcore", "16", [*names, *more, "drops", "polls"])


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
        (("-r", "0"), "wants a number"),
        (("--telemetry", "a/b"), "file prefix"),
        (("--telemetry", "x", "--read", text), "no --read"),
        (("-o", text), "-o wants"),
        (("-c", "lcore", "-o", text), "-o wants"),
        (("--snapshot",), "is for --read"),
        (("more",), "what is"),
        (("--unknown",), "--help"),
        (("-c", "ours", "-o", text), "exists"),
        (("-c", "ours", "-o", "/nonexistent/x"), "No such file"),
        (("-c", "ours", "-o", os.path.join(work, 250 * "x" + "/x")), "No such file"),
        (("-c", "ours", "-o", os.path.join(work, 300 * "x")), "too long"),
        (("--read", text), "no file of counters"),
        (("--read", work), "no file of counters"),
        (("--read", "/nonexistent"), "No such file"),
    ):
        status, _, err = run(*args)
        equal((args, status), (args, 2))
        assert words in err, f"{args}: {err}"
    with open("/dev/full", "w", encoding="ascii") as full:
        args = command("-c", "ours", "-l", "2", "-s", "0.1")
        r = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    equal((r.returncode, "cannot write" in r.stderr), (2, True))


TESTS = [
    each_way,
    outside,
    outside_whole,
    outside_adds,
    outside_bursts,
    racy,
    table,
    fixed_rate,
    telemetry,
    bad_input,
]


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
