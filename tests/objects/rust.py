#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the object code of the Rust crate's sequences as check.py checks those of the C headers.

    rust.py SOURCE WORK

Builds sequences.rs in several ways, for this machine and for others whose core library the compiler
has, which is $RUSTC or rustc. A sequence leaves by a label, as in C; or by a number, at one place
behind its end, where its result register is 0 if it has committed. Compilers that have labels build
both. Prints a line for each build; fails if there is a fault.
"""

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

import aarch64
import x86_64
from check import LINK, SPECS, Broken, disassemble, run
from sequence import Judge
from statements import SECTION, Object, Operand, Statement
from table import Spec

RUSTC = os.environ.get("RUSTC", "rustc")
FIRST_WITH_LABELS = (1, 87)
HERE = pathlib.Path(__file__).resolve().parent
WAYS = ["-Copt-level=0", "-Copt-level=2", "-Copt-level=3", "-Copt-level=s"]
FUNCTION = re.compile(r"unsafe fn (\w+)\(.*?\) -> bool \{(.*?)\n\}", re.DOTALL)
NOTE = re.compile(r'end!\(\s*"(\w+)",\s*"([^"]*)"')
CLOBBER = re.compile(r'out\("(\w+)"\)')
OUTPUT = re.compile(r"\b(\w+) = out\(reg\)")
# How the result register becomes 0, and becomes 1.
RESULT = {
    x86_64: ("xor %eax,%eax", "mov $0x1,%eax"),
    aarch64: ("mov x9, xzr", "mov x9, #0x1"),
}


class NumberJudge(Judge):
    """A judge of a statement that leaves by a number."""

    def handler(self, abort):
        """The abort handler sets the result to 1, and leaves."""
        text, at = self.code[abort]
        if text.split(" //")[0] != RESULT[self.machine][1]:
            self.fault(f"the abort handler does not set the result: {text}")
            return
        jump = self.machine.decode(at, self.code[at][0])
        if jump.op != "jump" or jump.target != self.s.targets["slow"]:
            self.fault("the abort handler does more than to leave", jump)

    def judge(self, records, linked):
        """Return the faults of the statement."""
        text, at = self.code.get(self.s.end, ("nothing", 0))
        if text != RESULT[self.machine][0] or at != self.s.targets["slow"]:
            self.fault(f"behind the commit the result does not become 0: {text}")
        return super().judge(records, linked)


def read_source(machine, source):
    """Return {sequence: what its function tells the compiler} of a source."""
    found = {}
    for _, body in FUNCTION.findall(source.read_text()):
        note = NOTE.search(body)
        if not note:
            continue  # no sequence on this machine
        outputs = OUTPUT.findall(body)
        names = re.findall(r"\{(\w+)", note[2])
        clobbers = CLOBBER.findall(body)
        clobbers += [] if "preserves_flags" in body else ["cc"]
        clobbers += [] if "nomem" in body else ["memory"]
        found[note[1]] = Statement(
            f"percpu_seq_{note[1]}",
            [Operand(n, "=&r") for n in names if n in outputs],
            [Operand(n, "r") for n in names if n not in outputs],
            clobbers,
            ["slow"],
        )
    return found


def in_source_syntax(machine, text):
    """Return an operand as the disassembly writes it."""
    if machine is x86_64:
        return f"%{text}" if machine.register(text) else f"${text}"
    return text if machine.register(text) else f"#{text}"


def statements(machine, linked, source):
    """Yield each copy of each statement."""
    data, at = linked.section(SECTION), 0
    while at < len(data):
        end = data.index(b"\0", at)
        name, *texts = data[at:end].decode().split("~")
        s = source[name]
        copy = [
            [Operand(o.name, o.constraint, in_source_syntax(machine, t)) for o, t in pairs]
            for pairs in (
                list(zip(s.outputs, texts, strict=False)),
                list(zip(s.inputs, texts[len(s.outputs) :], strict=True)),
            )
        ]
        words = [int.from_bytes(data[end + 1 + 8 * i :][:8], "little") for i in range(3)]
        yield Statement(
            s.function, *copy, s.clobbers, s.labels, words[0], words[1], {"slow": words[2]}
        )
        at = end + 25


def check(machine, prefix, way, labels, source, work):
    """Build and judge; return (how many statements there are, faults)."""
    seq = source / f"bindings/rust/percpu/src/seq/{machine.NAME}.rs"
    spec = Spec("".join((source / "include/percpu/arch" / name).read_text() for name in SPECS))
    told = read_source(machine, seq)
    path = work / f"{machine.NAME}{way}{'-labels' if labels else '-number'}"
    path.mkdir()
    target = f"--target={machine.NAME}-unknown-linux-gnu"
    run(
        *(RUSTC, "--edition=2021", "--crate-type=lib", "--emit=obj", "--cfg=percpu_notes"),
        *(["--cfg=percpu_labels"] if labels else []),
        *("-Awarnings", "-Cpanic=abort", target, way, HERE / "sequences.rs"),
        *("-o", path / "sequences.o"),
    )
    (path / "self.c").write_text("__thread void *percpu_self;\n")  # binutils 2.40 needs one
    run(f"{prefix}gcc", *LINK, path / "self.c", path / "sequences.o", "-o", path / "linked")
    linked, code = Object(path / "linked"), disassemble(prefix, path / "linked")
    records, faults = linked.records()
    found = list(statements(machine, linked, told))
    judge = Judge if labels else NumberJudge
    for s in found:
        faults += judge(machine, code, s, spec).judge(records, linked)
    if len(records) != len(found):
        faults.append(f"{len(records)} records are not one for each sequence")
    lacking = {s.function for s in told.values()} - {s.function for s in found}
    faults += [f"{name}: not in the object code" for name in sorted(lacking)]
    return len(found), faults


def has_core(machine):
    """Return whether rustc can build for the machine."""
    target = f"--target={machine.NAME}-unknown-linux-gnu"
    done = subprocess.run(
        [RUSTC, target, "--print=target-libdir"], capture_output=True, text=True, check=False
    )
    return done.returncode == 0 and any(pathlib.Path(done.stdout.strip()).glob("libcore-*"))


def main():
    """Print a line for each build."""
    source, work = (pathlib.Path(p).resolve() for p in sys.argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    told = run(RUSTC, "-vV")
    host = told.split("host: ")[1].split("-")[0]
    version = tuple(int(n) for n in told.split("release: ")[1].split(".")[:2])
    ways_to_leave = [False, True] if version >= FIRST_WITH_LABELS else [False]
    bad = False
    for machine in (x86_64, aarch64):
        prefix = "" if machine.NAME == host else f"{machine.NAME}-linux-gnu-"
        if not has_core(machine) or not shutil.which(f"{prefix}gcc"):
            print(f"{machine.NAME}: skipped, no {prefix}gcc or no core library of rustc for it")
            continue
        for way, labels in itertools.product(WAYS, ways_to_leave):
            try:
                n, faults = check(machine, prefix, way, labels, source, work)
            except Broken as broken:
                n, faults = 0, str(broken).split("\n")
            what = f"{machine.NAME} {way}, by {'labels' if labels else 'a number'}"
            print(f"{what}: {n} sequences, {len(faults)} faults", *faults, sep="\n  ")
            bad |= bool(faults)
    sys.exit(bad)


if __name__ == "__main__":
    main()
