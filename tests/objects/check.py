#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the object code of each sequence against what arch/spec.h says.

Builds sequences.c and the library by all compilers there are, for both
architectures, in many ways, and looks at each copy of each asm statement of
arch/<a>.h: the registers it changes are outputs or clobbered; it works in 64
bits on what has 64; its loads are within the sequence; its last instruction is
the commit; loads and stores are acquire and release as specified; it leaves
for where it may only. Nothing is run. Prints TAP.
"""

import argparse
import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

import aarch64
import x86_64
from sequence import Judge
from statements import Object, mark
from table import OPTIONAL, SEQUENCES, Spec

HERE = pathlib.Path(__file__).resolve().parent
LINK = ["-nostdlib", "-static", "-Wl,-e,0,--unresolved-symbols=ignore-all,--no-warn-mismatch"]
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
MORE = ["-O2 -fPIC", "-O2 -fno-pie", "-O2 -flto"]
MORE_X86 = ["-O2 -mavx2", "-O2 -mavx512f", "-O3 -mavx512f -fPIC", "-O1 -mavx"]


class Broken(Exception):
    """A unit was not built."""


def run(*command):
    """Return what a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return done.stdout


def disassemble(prefix, path):
    """Return {address: (instruction, address of the next)}."""
    text = run(f"{prefix}objdump", "-dw", "-z", "--no-show-raw-insn", path)
    lines = re.findall(r"^\s*([0-9a-f]+):\t(.*)$", text, re.MULTILINE)
    at = [int(a, 16) for a, _ in lines]
    ends = [*at[1:], 0]
    return {
        a: (" ".join(text.split()), b) for a, b, (_, text) in zip(at, ends, lines, strict=False)
    }


class Check:
    """The library in a directory, built in another."""

    def __init__(self, source, work):
        self.source, self.work = source, work
        arch = source / "include/percpu/arch"
        self.spec = Spec((arch / "spec.h").read_text())
        self.functions = {}
        for m in (x86_64, aarch64):
            text = (arch / f"{m.NAME}.h").read_text()
            self.functions[m] = set(re.findall(r"\b(percpu_\w+)\([^;{}]*\)\n\{", text))

    def build(self, machine, compiler, unit, path):
        """Link the unit alone, with notes in it; return the asm statements of its source."""
        text = run(*compiler, "-I", self.source / "include", "-E", "-P", unit)
        text, statements = mark(text, self.functions[machine])
        marked = path / "marked.i"
        marked.write_text(text)
        functions = re.findall(r"^(?:__attr.*\) )?int\w* (\w+)\(", unit.read_text(), re.MULTILINE)
        keep = [f"-Wl,-u,{function}" for function in functions]
        run(*compiler, "-w", *LINK, *keep, "-x", "cpp-output", marked, "-o", path / "linked")
        return statements

    def unit(self, machine, prefix, compiler, unit, options):
        """Build a unit; return (how many statements, faults)."""
        path = self.work / re.sub(r"[^\w]+", "-", " ".join([*compiler, unit.stem, *options]))
        path.mkdir()
        statements = self.build(machine, [*compiler, "-std=gnu11", *options], unit, path)
        linked, code = Object(path / "linked"), disassemble(prefix, path / "linked")
        records, faults = linked.records(), []
        found = list(linked.statements(statements))
        for s in found:
            faults += Judge(machine, code, s, self.spec).judge(records, linked.word)
        if len(records) != sum(bool(s.labels) for s in found):
            faults.append(f"{len(records)} records are not one for each sequence")
        if unit.parent == HERE:
            names = {s.function for s in found}
            want = {s.function for s in statements}
            want |= {f"percpu_seq_{name}" for name in SEQUENCES.keys() - OPTIONAL}
            faults += [f"{name}: not in the object code" for name in sorted(want - names)]
        return len(found), faults


def builds(source, quick):
    """Yield (why not, machine, prefix of tools, compiler, unit, options) of each build."""
    native = platform.machine()
    for machine, cross in ((x86_64, "x86_64-linux-gnu-"), (aarch64, "aarch64-linux-gnu-")):
        prefix = "" if machine.NAME == native else cross
        target = [f"--target={cross[:-1]}"] if prefix else []
        for compiler in ([prefix + "gcc"], ["clang", *target]):
            lacking = [t for t in (compiler[0], prefix + "objdump") if not shutil.which(t)]
            if prefix and not shutil.which(prefix + "gcc"):
                lacking = [prefix + "gcc"]
            why = f"no {lacking[0]}" if lacking else None
            common = (why, machine, prefix, compiler)
            ways = LEVELS + MORE + (MORE_X86 if machine is x86_64 else [])
            for options in ["-O2"] if quick else ways:
                yield (*common, HERE / "sequences.c", options.split())
            if not quick:
                yield (*common, source / "src/percpu_all.c", ["-O2"])


def main():
    """Print a line for each build."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path, help="the library")
    parser.add_argument("work", type=pathlib.Path, help="where to build")
    parser.add_argument("--quick", action="store_true", help="one build by each compiler")
    args = parser.parse_args()
    source, work = args.source.resolve(), args.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    check = Check(source, work)

    def judge(build):
        why, machine, prefix, compiler, unit, options = build
        name = f"{' '.join(compiler)} {unit.name} {' '.join(options)}"
        if why:
            return f"{name} # SKIP {why}", []
        try:
            count, faults = check.unit(machine, prefix, compiler, unit, options)
        except Broken as broken:
            return f"{name}: error: not built", str(broken).split("\n")
        return f"{name}: {count} statements", faults

    print("TAP version 13")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = [("arch/spec.h and table.py agree", list(check.spec.faults()))]
        rows += pool.map(judge, builds(source, args.quick))
    for n, (name, faults) in enumerate(rows, 1):
        print("not ok" if faults else "ok", n, "-", name)
        for fault in faults:
            print("#", fault)
    print(f"1..{len(rows)}")


if __name__ == "__main__":
    main()
