#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_ipstat.py IPSTAT - the example as users run it.

Capture files of known and of random content, a worker killed on the way,
counters read from outside, live traffic where it is permitted, bad input.
Speaks TAP.
"""

import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

IPSTAT = os.path.abspath(sys.argv[1])
ETHER = bytes(12)
ADDRESSES = bytes.fromhex("7f0000017f000001")

# One packet of each kind, and the counters it adds 1 to.
TCP_SYN = (
    ETHER
    + b"\x08\x00\x45\x00\x00\x28\0\0\0\0\x40\x06\0\0"
    + ADDRESSES
    + bytes(12)
    + b"\x50\x02"
    + bytes(6)
)
UDP = (
    ETHER
    + b"\x08\x00\x45\x00\x00\x20\0\0\0\0\x40\x11\0\0"
    + ADDRESSES
    + bytes(4)
    + b"\0\x0c"
    + bytes(6)
)
ARP = ETHER + b"\x08\x06\0\x01\x08\0\x06\x04\0\x01" + bytes(20)
SHORT = ETHER + b"\x08\x00\x45"
KINDS = [
    (TCP_SYN, ["ip.ips_total", "tcp.tcps_rcvtotal", "tcp.tcps_syn"]),
    (UDP, ["ip.ips_total", "udp.udps_ipackets"]),
    (ARP, ["arp.arps_received", "arp.arps_rxrequests"]),
    (SHORT, ["ip.ips_total", "ip.ips_toosmall"]),
]


def write_capture(path, packets):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        f.writelines(struct.pack("<IIII", 0, 0, len(p), len(p)) + p for p in packets)


def run(*args, prefix=()):
    """Run ipstat; return (exit status, output, errors)."""
    r = subprocess.run(
        [*prefix, IPSTAT, *args], capture_output=True, text=True, timeout=60, check=False
    )
    return r.returncode, r.stdout, r.stderr


def counters(text):
    return {name: int(n) for name, n in re.findall(r"(\w+\.\w+) +(\d+)", text)}


def equal(got, want):
    assert got == want, f"got {got}, not {want}"


def known_file(work):
    """A file is counted exactly, by few workers and by many."""
    count = 10001
    path = os.path.join(work, "known.pcap")
    write_capture(path, (KINDS[i % len(KINDS)][0] for i in range(count)))
    want = {"link.links_total": count, "link.links_bytes": 0}
    for i in range(count):
        packet, names = KINDS[i % len(KINDS)]
        want["link.links_bytes"] += len(packet) - 14
        for name in names:
            want[name] = want.get(name, 0) + 1
    for crew in (("-p", "1", "-t", "1"), ("-p", "3", "-t", "2"), ("-p", "2", "-t", "7")):
        status, out, err = run("-r", path, *crew)
        equal((status, err), (0, ""))
        got = counters(out)
        equal({name: got.get(name) for name in want}, want)


def hostile_file(work):
    """Random and damaged packets do not crash it, and are all counted."""
    rng = random.Random(1)
    packets = []
    for _ in range(20000):
        packet = bytearray(rng.choice(KINDS)[0] + rng.randbytes(rng.randrange(100)))
        packet[12:14] = rng.choice((b"\x08\0", b"\x08\x06", b"\x86\xdd", b"\x12\x34"))
        for _ in range(rng.randrange(8)):
            packet[rng.randrange(14, len(packet))] = rng.randrange(256)
        packets.append(bytes(packet[: rng.randrange(len(packet) + 1)]))
    path = os.path.join(work, "hostile.pcap")
    write_capture(path, packets)
    status, out, err = run("-r", path)
    equal((status, err), (0, ""))
    equal(counters(out)["link.links_total"], len(packets))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(child) for child in f.read().split()]


def killed_workers(work):
    """Killed workers lose at most the packets they had in hand; totals survive them all."""
    count = 400000
    path = os.path.join(work, "large.pcap")
    region = os.path.join(work, "counters")
    write_capture(path, (TCP_SYN for _ in range(count)))
    with subprocess.Popen(
        [IPSTAT, "-r", path, "-o", region], stdout=subprocess.PIPE, text=True
    ) as p:
        end = time.monotonic() + 10
        killed = 0
        while killed < 4 and p.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
            for worker in children(p.pid)[:2]:
                try:
                    os.kill(worker, signal.SIGKILL)
                except ProcessLookupError:
                    continue  # killed before, and reaped since it was listed
                killed += 1
        out = p.stdout.read()
    equal(p.returncode, 0)
    assert "was killed" in out, out
    found = re.search(r"(\d+) packets were in the hands of killed", out)
    doubtful = int(found.group(1)) if found else 0
    got = counters(out)
    for name in ("link.links_total", "ip.ips_total", "tcp.tcps_rcvtotal", "tcp.tcps_syn"):
        assert count - doubtful <= got[name] <= count, f"{name} is {got[name]}, {doubtful} in doubt"
    status, out, _ = run("--attach", region)
    equal((status, counters(out)), (0, got))


def bad_input(work):
    """Each mistake has an error message."""
    text = os.path.join(work, "text")
    cut = os.path.join(work, "cut.pcap")
    with open(text, "w", encoding="ascii") as f:
        f.write("this is a text\n" * 1000)
    write_capture(cut, [TCP_SYN] * 10)
    os.truncate(cut, os.path.getsize(cut) - 5)
    for args, words in (
        ((), "say one of"),
        (("-i", "lo", "-r", text), "say one of"),
        (("-r", "/nonexistent"), "No such file"),
        (("-r", text), "is no capture file"),
        (("-r", work), "is no capture file"),
        (("-r", cut), "what comes before is counted"),
        (("-r", cut, "-o", text), "exists"),
        (("-r", cut, "-o", "/nonexistent/x"), "No such file"),
        (("-r", cut, "-t", "0"), "wants a number"),
        (("-r", cut, "-t", "many"), "wants a number"),
        (("-r", cut, "more"), "what is"),
        (("--attach", text), "no file of counters"),
        (("--attach", work), "no file of counters"),
        (("--attach", "/nonexistent"), "No such file"),
        (("--unknown",), "--help"),
    ):
        status, _, err = run(*args)
        equal(status, 2)
        assert words in err, f"{args}: {err}"
    with open(text, encoding="ascii") as f:
        equal(f.readline(), "this is a text\n")


def may_capture():
    """Return whether it can capture: on most systems users can, in a network of their own."""
    for options in (("-n",), ("-rn",)):
        if (
            subprocess.run(
                ["unshare", *options, "true"], stderr=subprocess.DEVNULL, check=False
            ).returncode
            == 0
        ):
            return True
    return False


def live(_):
    """Live traffic is counted like the kernel does, although a worker is killed."""
    if not may_capture():
        return "no permission to make a network"
    status, out, err = run("--demo", "-s", "2")
    equal((status, err), (0, ""))
    assert "was killed" in out and "captured + dropped" in out and "WRONG" not in out, out
    assert re.search(r"TCP segments +\d{3,}", out), out
    return None


def no_interface(_):
    """An unknown interface has an error message, and so has a lack of permission."""
    status, _, err = run("-i", "nonexistent0", "-s", "1")
    equal(status, 2)
    assert "no interface" in err or "no permission" in err, err


def without_permission(_):
    """Without permission the demo says so and counts a file of its own."""
    powerless = (
        "unshare",
        "-r",
        "sh",
        "-c",
        (
            "echo 0 >/proc/sys/user/max_user_namespaces && "
            'exec setpriv --bounding-set -all --inh-caps -all "$@"'
        ),
        "sh",
    )
    if subprocess.run([*powerless, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return "cannot drop permissions here"
    status, out, err = run("--demo", prefix=powerless)
    equal((status, err), (0, ""))
    assert "not permitted" in out and "was killed" in out and "WRONG" not in out, out
    return None


TESTS = [
    known_file,
    hostile_file,
    killed_workers,
    bad_input,
    no_interface,
    live,
    without_permission,
]


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        try:
            with tempfile.TemporaryDirectory() as work:
                skip = test(work)
            result = "ok"
        except (AssertionError, subprocess.TimeoutExpired, OSError) as e:
            print("# " + str(e).replace("\n", "\n# "))
            result, skip = "not ok", None
            failed = 1
        print(
            f"{result} {number} - {test.__name__}" + (f" # SKIP {skip}" if skip else ""), flush=True
        )
    return failed


sys.exit(main())
