#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Boot a kernel in qemu-system and run the test programs of a build there.

What the system prints on its serial console is kept in WORK/console.txt, and
becomes a log like Meson's, WORK/testlog.json, for tests/tally.py. A program
whose end is not seen there has failed: the system panicked, hung, or ran out of
time. Tests that are scripts need Python or a compiler, and are skipped.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time

import image

# One thread emulates all CPUs in turn. With one each, QEMU 7.2 goes on with code that
# another CPU has patched, and x86-64 kernels panic in int3; and on a machine with fewer
# CPUs than the emulated one, it is slower. One thread needs cx16=off: in QEMU 7.2 its
# cmpxchg16b spoils the flags.
MACHINES = {
    "x86_64": ("qemu-system-x86_64", ["-M", "q35", "-cpu", "max,cx16=off"], "ttyS0"),
    "aarch64": ("qemu-system-aarch64", ["-M", "virt", "-cpu", "max,pauth-impdef=on"], "ttyAMA0"),
}
# The first kernel that tells the size of its rseq area, and has mm_cid in it.
KERNEL_WITH_MM_CID = (6, 3)
SECONDS = 5400  # for the whole run, beside other work
STATUS = "examples/status"  # what it prints tells whether the system is the one asked for
PATIENCE = 2.5  # times what a test is given elsewhere
START = re.compile(r"@@ start (\S+)$")
END = re.compile(r"@@ end (\S+) (\w+) (\d+): (\d+)$")


def tests_of(build):
    """The tests of a build directory, as (suite/name, command, seconds)."""
    listed = subprocess.run(
        ["meson", "introspect", "--tests", build], capture_output=True, check=True
    ).stdout
    for test in json.loads(listed):
        suite = test["suite"][0].split(":")[-1]
        yield f"{suite}/{test['name']}", test["cmd"], test["timeout"]


def is_program(command):
    """Whether a test is a program, and no script."""
    return image.read(command[0])[:4] == b"\x7fELF"


def add_argument(archive, argument, args, directories):
    """What a program is told to use goes along, where nothing is mounted over it. Returns the
    argument to give it there."""
    source = os.path.abspath(os.path.join(args.build, argument))
    inside = "/arguments" + source
    if os.path.isdir(source):
        for f in os.scandir(source):
            if f.is_file():
                archive.file(os.path.join(inside, f.name), image.read(f.path), 0o644)
    elif os.path.isfile(source):
        image.add_program(archive, inside, source, directories, args.compiler)
    else:
        return argument
    return inside


def make_image(args, tests, path):
    """Write the initramfs with these tests."""
    archive = image.Archive()
    for d in ("proc", "sys", "dev", "tmp"):
        archive.directory(d)
    image.add_program(archive, "init", args.init, [], args.compiler)
    lines = []
    directories = [*args.libraries, os.path.join(args.build, "src")]
    for name, command, seconds in tests:
        feature = re.search(r"-(avx\w*)$", name)
        inside = ["/tests/" + name]
        for argument in command[1:]:
            inside.append(add_argument(archive, argument, args, directories))
        seconds = int(seconds * PATIENCE)
        lines.append(" ".join([str(seconds), feature[1] if feature else "-", name, *inside]))
        image.add_program(archive, inside[0], command[0], directories, args.compiler)
    archive.file("programs", "".join(line + "\n" for line in lines).encode(), 0o644)
    with open(path, "wb") as f:
        f.write(archive.finish())


def boot(args, initrd, console):
    """Run the system to its end. Returns whether it came to one in time."""
    program, machine, tty = MACHINES[args.machine]
    cpu = machine[-1] + "".join(f",{feature}=off" for feature in args.without)
    command = [program, *machine[:-1], cpu]
    command += ["-accel", "tcg,thread=single"]
    command += ["-smp", str(args.cpus), "-m", "2G", "-nographic", "-no-reboot"]
    for node in range(2):  # NUMA: the CPUs and the memory in halves
        first, last = args.cpus * node // 2, args.cpus * (node + 1) // 2 - 1
        command += ["-object", f"memory-backend-ram,id=ram{node},size=1G"]
        command += ["-numa", f"node,cpus={first}-{last},memdev=ram{node}"]
    command += ["-nodefaults", "-serial", "stdio", "-monitor", "none"]
    command += ["-kernel", args.kernel, "-initrd", initrd]
    command += ["-append", f"console={tty} loglevel=4 panic=-1"]
    print(shlex.join(command), flush=True)
    with (
        open(console, "w", encoding="utf-8") as out,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as qemu,
    ):
        # What panics may hang instead of leaving, and what hangs prints nothing.
        timer = threading.Timer(SECONDS, qemu.kill)
        timer.start()
        for line in qemu.stdout:
            out.write(line.replace("\r", ""))
            out.flush()
            if "Kernel panic" in line:
                qemu.kill()
        timer.cancel()
    return qemu.returncode == 0


def parse(text):
    """Map each program that was started to (how it ended or None, status, ms, its output)."""
    runs = {}
    name, lines = None, []
    for line in text.splitlines():
        if m := START.search(line):
            name, lines = m[1], []
            runs[name] = (None, 0, 0, lines)
        elif (m := END.search(line)) and m[1] == name:
            runs[name] = (m[2], int(m[3]), int(m[4]), lines)
            name = None
        elif name:
            lines.append(line)
    return {n: (how, value, ms, "\n".join(out)) for n, (how, value, ms, out) in runs.items()}


def log_entry(name, run, why_lost):
    """What Meson would log of a test that ended so."""
    how, value, _, output = run
    entry = {"name": name.replace("/", " / "), "stdout": output, "returncode": value}
    if how == "exit":
        entry["result"] = {0: "OK", 77: "SKIP"}.get(value, "FAIL")
    elif how == "feature":
        entry |= {"result": "SKIP", "stdout": "this machine lacks what it is compiled for"}
    elif how == "signal":
        entry |= {"result": "FAIL", "returncode": -value}
    elif how == "timeout":
        entry["result"] = "TIMEOUT"
    else:
        entry |= {"result": "ERROR", "returncode": f"unknown: {why_lost}"}
    return entry


def check_system(args, status):
    """Is it the system that was asked for? TAP, from what examples/status printed there."""
    release = re.sub(r"^vmlinuz-", "", os.path.basename(args.kernel))
    told = tuple(int(n) for n in re.findall(r"\d+", release)[:2]) >= KERNEL_WITH_MM_CID
    expected = [
        ("kernel", re.escape(release)),
        ("possible CPUs", str(args.cpus)),
        ("tier", "rseq"),
        ("rseq, kernel", r"(2[89]|[3-9]\d|\d{3,}) bytes" if told else r"not told .*"),
        ("mm_cid", "yes" if told else "no"),
        ("self-test", "passed.*"),
        ("fence, all", rf".*: {args.cpus} of {args.cpus} reached"),
    ]
    facts = dict(re.findall(r"^(\S.*?)  +(.*?)\s*$", status, re.MULTILINE))
    for i, (name, value) in enumerate(expected, 1):
        found = facts.get(name, "not printed")
        ok = "ok" if re.fullmatch(value, found) else "not ok"
        yield f"{ok} {i} - {name}: {found}"


def report(entry, run):
    """A line on a program for whoever watches, and what a failed one printed."""
    print(f"{entry['result']:8} {run[2] / 1000:7.1f} s  {entry['name']}")
    if entry["result"] not in ("OK", "SKIP"):
        print("\n".join("    " + line for line in entry["stdout"].splitlines()[-60:]))


def judge(args, wanted, inside, console, ended):
    """The log's entries, one per test, and one for the system itself."""
    runs = parse(console)
    nothing = (None, 0, 0, "")
    panic = re.search(r"Kernel panic.*", console)
    why_lost = panic[0] if panic else "the system ended early" if ended else "the system hung"
    for test in wanted:
        name = test[0]
        if test in inside:
            entry = log_entry(name, runs.get(name, nothing), why_lost)
            report(entry, runs.get(name, nothing))
            yield entry
        else:
            why = "a script: needs Python or a compiler"
            yield {"name": name.replace("/", " / "), "stdout": why, "result": "SKIP"}
    checks = "\n".join(check_system(args, runs.get(STATUS, nothing)[3]))
    print(checks)
    yield {"name": "system", "stdout": checks, "result": "OK"}


def main():
    """Boot, and write the log; it is for tally.py to judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", help="a Meson build directory")
    parser.add_argument("work", help="the directory to write to")
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--init", required=True, help="init.c, compiled and linked statically")
    parser.add_argument("--machine", required=True, choices=MACHINES)
    parser.add_argument("--compiler", required=True, help="knows where libraries are")
    parser.add_argument("--libraries", action="append", default=[], help="a directory of more")
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--without", action="append", default=[], help="what the CPUs lack")
    parser.add_argument("--only", action="append", metavar="SUITE/NAME", help="run this test alone")
    args = parser.parse_args()

    initrd, console, log = (
        os.path.join(args.work, name) for name in ("initramfs", "console.txt", "testlog.json")
    )
    wanted = list(tests_of(args.build))
    if args.only:
        unknown = set(args.only) - {test[0] for test in wanted}
        if unknown:
            parser.error(f"no such test: {', '.join(sorted(unknown))}")
        wanted = [test for test in wanted if test[0] in [*args.only, STATUS]]
    inside = [test for test in wanted if is_program(test[1])]
    make_image(args, inside, initrd)
    begin = time.monotonic()
    ended = boot(args, initrd, console)
    seconds = time.monotonic() - begin
    with open(console, encoding="utf-8") as f:
        text = f.read()
    with open(log, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(entry) + "\n" for entry in judge(args, wanted, inside, text, ended))
    if "@@ done" not in text:
        print(text[-2000:])
    print(f"{len(inside)} programs in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
