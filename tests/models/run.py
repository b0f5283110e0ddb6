#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the models beside this file with spin: all of their states, and each planted bug.

    run.py DIRECTORY [--quick] [MODEL...]

Each model is checked without bugs: the search must end, visit all states, and reach each
statement. It is checked once with each of its bugs: the search must find the bug. The
results are printed like those of tests/tally.py. A model has these lines in its head:

    Bounds: ...                how many processes, CPUs and objects it has
    Run NAME: -DX -DY          what it is compiled with; several such lines, or none
    Bug BUG_X [in RUN]: ...    what is wrong with -DBUG_X
    Quick: NAME                a run that takes less than a second

A statement that only a bug reaches has the comment "only with a bug" on its line.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MEGABYTES = 1800  # for each run; there are as many runs at once as CPUs
DEPTH = 2000000
SECONDS = int(os.environ.get("MODEL_SECONDS", "400"))
COMPLETE = "State-vector"  # printed at the end of a search
CUT = ("max search depth too small", "Search not completed", "out of memory", "hash conflicts:  0x")


@dataclasses.dataclass
class Run:
    """One program that spin makes of a model."""

    model: str
    name: str
    defines: list
    bug: str = ""


def name_of(run):
    """Return the name of the run's files."""
    return "-".join(filter(None, (run.model, run.name, run.bug)))


def runs_of(path):
    """Return (runs without bugs, with bugs, the name of the quick one)."""
    head = "".join(path.read_text(encoding="utf-8").split("*/")[:2])
    clean = {
        name: Run(path.stem, name, defines.split())
        for name, defines in re.findall(r"^ \* Run (\w+):(.*)$", head, re.MULTILINE)
    } or {"": Run(path.stem, "", [])}
    first = next(iter(clean))
    bugs = [
        Run(path.stem, run or first, clean[run or first].defines + [f"-D{bug}"], bug)
        for bug, run in re.findall(r"^ \* Bug (\w+)(?: in (\w+))?:", head, re.MULTILINE)
    ]
    quick = re.findall(r"^ \* Quick: (\w*)$", head, re.MULTILINE)
    return list(clean.values()), bugs, quick[0] if quick else None


def command(args, where, seconds=None):
    """Run a command in a directory; return what it printed."""
    done = subprocess.run(
        args,
        cwd=where,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
    return done.stdout


def search(run, directory):
    """Search the states of a run. Return what pan printed."""
    where = directory / name_of(run)
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    source = HERE / f"{run.model}.pml"
    said = command(["spin", *run.defines, "-a", str(source)], where)
    if not (where / "pan.c").exists():
        return said
    options = ["-O2", "-w", "-DSAFETY", "-DNOFAIR", "-DCOLLAPSE", f"-DMEMLIM={MEGABYTES}"]
    said += command(["gcc", *options, "-o", "pan", "pan.c"], where)
    if not (where / "pan").exists():
        return said
    try:
        return command(["./pan", f"-m{DEPTH}", "-w22"], where, SECONDS)
    except subprocess.TimeoutExpired:
        return f"took more than {SECONDS} s"


def trouble_of(said):
    """Return why the search is not complete, or "". An error that it found is no reason."""
    if COMPLETE not in said:
        return (said.strip().splitlines() or ["nothing was printed"])[-1]
    return next((line for line in said.splitlines() if any(cut in line for cut in CUT)), "")


def error_of(said):
    """Return the error that the search found, and its depth; or ""."""
    found = re.search(r"pan:\d+: (.*?)(?: \(at depth (\d+)\))?$", said, re.MULTILINE)
    return f"{found[1]}, depth {found[2]}" if found else ""


def reached(run, said, directory):
    """Return (the lines with a statement that the search reached, all lines with statements)."""
    pan = directory / name_of(run) / "pan"
    lines, there, proctype, lacking = {}, set(), "", set()
    for line in command([pan, "-d"], pan.parent).splitlines():
        if m := re.match(r"proctype (\w+)|init", line):
            proctype = m[1] or "init"
        elif m := re.match(r"\tstate +(\d+) -.*\.pml:(\d+) =>", line):
            lines[proctype, m[1]] = int(m[2])
    for line in said.splitlines():
        if m := re.match(r"unreached in (?:proctype )?(\w+)", line):
            proctype = m[1]
        elif m := re.match(r"\t\S+\.pml:(\d+), state (\d+)", line):
            lacking.add((proctype, m[2]))
    there = {line for state, line in lines.items() if state not in lacking}
    return there, set(lines.values())


def judge(run, said, seconds):
    """Return (result, why)."""
    states = re.search(r"^ *(\S+) states, stored", said, re.MULTILINE)
    count = f"{float(states[1]):.0f} states" if states else ""
    trouble, error = trouble_of(said), error_of(said)
    if run.bug:
        return (
            ("PASS", f"found: {error}")
            if error and not error.startswith("max")
            else (
                "FAIL",
                f"not found: {trouble or count}",
            )
        )
    if trouble or error or not states:
        return "FAIL", error or trouble
    return "PASS", f"{count}, {seconds:.1f} s"


def check(run, directory):
    """Check one run. Return (run, what pan printed, result, why)."""
    begun = time.monotonic()
    said = search(run, directory)
    (directory / f"{name_of(run)}.txt").write_text(said, encoding="utf-8")
    return run, said, *judge(run, said, time.monotonic() - begun)


def main():
    """Check the models; fail if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="the quick runs, without bugs")
    parser.add_argument("models", nargs="*")
    args = parser.parse_args()
    directory = args.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    runs = []
    for path in sorted(HERE.glob("*.pml")):
        if args.models and path.stem not in args.models:
            continue
        clean, bugs, quick = runs_of(path)
        runs += [r for r in clean if r.name == quick] if args.quick else clean + bugs
    failed, lines = not runs, {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for run, said, result, why in pool.map(lambda run: check(run, directory), runs):
            name = ": ".join(filter(None, ("models", run.model, run.name, run.bug)))
            print(result, name, why, sep="\t", flush=True)
            failed |= result != "PASS"
            if not run.bug and not args.quick and result == "PASS":
                there, all_lines = lines.setdefault(run.model, (set(), set()))
                new = reached(run, said, directory)
                there |= new[0]
                all_lines |= new[1]
    for model, (there, all_lines) in lines.items():
        source = (HERE / f"{model}.pml").read_text(encoding="utf-8").splitlines()
        lacking = [n for n in sorted(all_lines - there) if "only with a bug" not in source[n - 1]]
        where = ", ".join(f"line {n}" for n in lacking)
        result = "FAIL" if lacking else "PASS"
        print(result, f"models: {model}: all statements are reached", where, sep="\t")
        failed |= bool(lacking)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
