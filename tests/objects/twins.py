#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that what counts in C++ compiles to the instructions of the calls in C.

    twins.py SOURCE WORK

twins.c has functions by the calls in C, and twins.cc the same by the classes of C++. Each compiler
must make the same instructions of both, in whatever order and registers, when it compiles both as
C++. Clang makes the same of them when it compiles twins.c as C; gcc allocates the registers of some
inline functions in another way in C, with or without the classes. In other ways, too, if
PERCPU_TEST_COMPILERS is "all". Nothing is run. Prints TAP.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LEVELS = ["-O2"]
STANDARDS = ["c++17"]
if os.environ.get("PERCPU_TEST_COMPILERS") == "all":
    LEVELS += ["-O1", "-O3", "-Os"]
    STANDARDS += ["c++20"]
PADS = re.compile(r"(data16 |cs )*nop|xchg +%ax,%ax$")


def functions(compiler, options, unit, made):
    """Return {function: how many there are of each instruction}."""
    subprocess.run([*compiler, *options, "-c", unit, "-o", made], check=True)
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", made], check=True, capture_output=True, text=True
    ).stdout
    found, name = {}, None
    for line in text.split("\n"):
        if start := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            name = start[1]
            found[name] = collections.Counter()
        elif (code := re.match(r"\s*[0-9a-f]+:\t(.*)", line)) and not PADS.match(code[1]):
            found[name][code[1].split()[0]] += 1
    return found


def differences(of_c, of_cpp):
    """Return a line for each function that is not the same."""
    lines = []
    for name in sorted(of_c.keys() | of_cpp.keys()):
        here, there = of_c.get(name), of_cpp.get(name)
        if here is None or there is None:
            lines.append(f"{name}: only in {'C++' if here is None else 'C'}")
        elif here != there:
            more, less = dict(there - here), dict(here - there)
            lines.append(f"{name}: C++ has also {more}, and lacks {less}")
    if not of_c:
        lines.append("no function was compiled")
    return lines


def main():
    """Print a line for each compiler, level and dialect."""
    source, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    print("TAP version 13")
    n = 0
    for c, cpp in (("gcc", "g++"), ("clang", "clang++")):
        lacking = [tool for tool in (c, cpp, "objdump") if not shutil.which(tool)]
        for level, standard in [(a, b) for a in LEVELS for b in STANDARDS]:
            n += 1
            name = f"{cpp} {level} -std={standard}"
            if lacking:
                print(f"ok {n} - {name} # SKIP no {lacking[0]}")
                continue
            common = [level, "-I", source / "include", "-w"]
            in_cpp = [*common, f"-std={standard}"]
            of_cpp = functions([cpp], in_cpp, HERE / "twins.cc", work / "cpp.o")
            faults = differences(
                functions([cpp, "-x", "c++"], in_cpp, HERE / "twins.c", work / "c.o"), of_cpp
            )
            if c == "clang":
                of_c = functions([c], [*common, "-std=gnu11"], HERE / "twins.c", work / "c.o")
                faults += [f"in C: {fault}" for fault in differences(of_c, of_cpp)]
            print(f"{'not ok' if faults else 'ok'} {n} - {name}: {len(of_cpp)} functions")
            for fault in faults:
                print("#", fault)
    print(f"1..{n}")


if __name__ == "__main__":
    main()
