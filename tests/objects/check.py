#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the object code of each sequence against what arch/spec.h says.

Builds sequences.c, and operations.c with the library, by gcc for both architectures;
by all compilers there are, and in many ways, if PERCPU_TEST_COMPILERS is "all", and looks
at each copy of each asm statement of arch/<a>.h: the registers it changes are outputs
or clobbered; it works in 64 bits on what has 64; its loads are within the sequence;
its last instruction is the commit; loads and stores are acquire and release as
specified; it leaves for where it may only. Nothing is run. Prints TAP.
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
SPECS = ("spec.h", "spec_group.h")
SEQUENCES_C = (HERE / "sequences.c", "gnu11")
KEPT = r"^(?:__attr.*\) )?(?:int\w*|void) (\w+)\([^;{}]*\)\n\{"  # with link-time optimization
WAYS = ["-O2", "-O0"]
WAYS_X86 = ["-O2 -mavx512f"]
WAYS_PROGRAM = ["-O3 -flto"]
WAYS_CPP = ["-O2"]
ALL = os.environ.get("PERCPU_TEST_COMPILERS") == "all"
if ALL:
    WAYS += ["-O1", "-O3", "-Os", "-O2 -fPIC", "-O2 -fno-pie", "-O2 -flto"]
    WAYS_X86 += ["-O2 -mavx2", "-O3 -mavx512f -fPIC", "-O1 -mavx"]
    WAYS_PROGRAM += ["-O2"]
    WAYS_CPP += ["-O0", "-O3"]


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
        self.spec = Spec("".join((arch / name).read_text() for name in SPECS))
        self.functions, self.faults = {}, list(self.spec.faults())
        for m in (x86_64, aarch64):
            text = "".join(path.read_text() for path in sorted(arch.glob(f"{m.NAME}*.h")))
            self.functions[m] = set(re.findall(r"\b(percpu_\w+)\([^;{}]*\)\n\{", text))
            self.faults += [f"{m.NAME}: {fault}" for fault in self.spec.step_faults(text)]

    def build(self, machine, compiler, options, units, path):
        """Link units alone, with notes in them; return the asm statements of their source."""
        statements, command = [], [*compiler, *options, "-w", *LINK]
        for n, (unit, standard, *defines) in enumerate(units):
            cpp = "++" in standard
            source = [*compiler, *options, f"-std={standard}", "-x", "c++" if cpp else "c"]
            source += ["-I", self.source / "include", *defines, "-E", "-P", unit]
            marked = path / f"{n}.i"
            marked.write_text(mark(run(*source), self.functions[machine], statements))
            names = re.findall(KEPT, unit.read_text(), re.MULTILINE)
            command += [f"-Wl,-u,{name}" for name in names]
            command += ["-x", "c++-cpp-output" if cpp else "cpp-output", marked]
        run(*command, "-o", path / "linked")
        return statements

    def judge(self, machine, prefix, compiler, options, units):
        """Build units; return (how many statements they have, faults)."""
        path = self.work / re.sub(
            r"[^\w+]+", "-", " ".join([*compiler, *options, units[0][0].stem])
        )
        path.mkdir()
        statements = self.build(machine, compiler, options, units, path)
        linked, code = Object(path / "linked"), disassemble(prefix, path / "linked")
        records, faults = linked.records()
        found = list(linked.statements(statements))
        for s in found:
            faults += Judge(machine, code, s, self.spec).judge(records, linked)
        if len(records) != sum(bool(s.labels) for s in found):
            faults.append(f"{len(records)} records are not one for each sequence")
        if units[0] == SEQUENCES_C:
            names = {s.function for s in found}
            want = {s.function for s in statements}
            want |= {f"percpu_seq_{name}" for name in SEQUENCES.keys() - OPTIONAL}
            faults += [f"{name}: not in the object code" for name in sorted(want - names)]
        return len(found), faults


def builds(source, quick):
    """Yield (why not, machine, prefix of tools, compiler, options, units) of each build."""
    program = [(HERE / "operations.c", "gnu11"), (HERE / "operations.c", "gnu11", "-DSECOND")]
    program.append((source / "src/percpu_all.c", "gnu11"))
    cpp = [(HERE / "operations.c", "c++17"), (HERE / "operations.c", "c++17", "-DSECOND")]
    for machine, cross in ((x86_64, "x86_64-linux-gnu-"), (aarch64, "aarch64-linux-gnu-")):
        prefix = "" if machine.NAME == platform.machine() else cross
        target = [f"--target={cross[:-1]}"] if prefix else []
        for compiler in [[prefix + "gcc"], *([["clang", *target]] if ALL or quick else [])]:
            tools = (prefix + "gcc", compiler[0], prefix + "objdump")
            lacking = [tool for tool in tools if not shutil.which(tool)]
            common = (f"no {lacking[0]}" if lacking else None, machine, prefix)
            for options in WAYS[:1] if quick else WAYS + (WAYS_X86 if machine is x86_64 else []):
                yield (*common, compiler, options.split(), [SEQUENCES_C])
            for options in [] if quick else WAYS_PROGRAM:
                yield (*common, compiler, options.split(), program)
            cxx = compiler[0].replace("gcc", "g++").replace("clang", "clang++")
            for options in [] if quick or prefix or not shutil.which(cxx) else WAYS_CPP:
                yield (*common, [cxx], options.split(), [*cpp, SEQUENCES_C])


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
        why, *how = build
        _, _, compiler, options, units = how
        name = f"{' '.join(compiler + options)}: {', '.join(unit[0].name for unit in units)}"
        if why:
            return f"{name} # SKIP {why}", []
        try:
            count, faults = check.judge(*how)
        except Broken as broken:
            return f"{name}: error: not built", str(broken).split("\n")
        return f"{name}: {count} statements", faults

    print("TAP version 13")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = [("arch/spec.h, table.py and the ports agree", check.faults)]
        rows += pool.map(judge, builds(source, args.quick))
    for n, (name, faults) in enumerate(rows, 1):
        print("not ok" if faults else "ok", n, "-", name)
        for fault in faults:
            print("#", fault)
    print(f"1..{len(rows)}")


if __name__ == "__main__":
    main()
