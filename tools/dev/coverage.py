#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""coverage.py PROFILE EXPLAINED PROGRAM...: print what of the library no test reaches.

PROFILE is what llvm-profdata(1) merged from the runs of the programs. A line of the output is

    FILE:LINE: line|true|false: SOURCE

where the line never ran, or a condition on it was never true, or never false. EXPLAINED says in one
place what no test can reach, and why: paragraphs, each with the reason first and below it, indented,
lines as the output has them but without the line's number. Such a line explains one line of the
file, or with "x2 " in front of it two that are equal. With "?" in front of all that, other machines
reach it. The exit status is 1 if there is a line that is not explained, or an explanation of what is
reached.
"""

import collections
import concurrent.futures
import itertools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def export(profile, program):
    """Return (name, what llvm-cov says) of each file of the library in a program.

    One program at a time: of functions of one name llvm-cov takes the first one of all programs,
    and builds that differ have different functions of that name. It warns of functions that ran in
    other builds only, and says nothing of them.
    """
    command = ["llvm-cov", "export", "-skip-functions", f"-instr-profile={profile}", program]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    found = []
    for entry in json.loads(done.stdout)["data"][0]["files"]:
        name = pathlib.Path(entry["filename"]).resolve().relative_to(ROOT)
        if name.parts[0] in ("src", "include"):
            found.append((name, entry))
    return found


def count_lines(segments):
    """Return {line: count}: how often each line with code ran, the most of its parts."""
    counts = {}
    for (line, _, count, counted, entry, gap), after in itertools.pairwise(segments):
        if not counted or gap:
            continue
        # A region that begins on this line covers the lines up to the next segment.
        last = after[0] if after[1] > 1 else after[0] - 1
        for covered in range(line if entry else line + 1, last + 1):
            counts[covered] = max(counts.get(covered, 0), count)
    return counts


class Counts:
    """How often lines and conditions of a file ran, in all builds and all copies that are inlined."""

    def __init__(self):
        self.lines = collections.Counter()
        self.branches = collections.defaultdict(lambda: [0, 0])

    def add(self, entry):
        """Add what a build counted."""
        for line, count in count_lines(entry["segments"]).items():
            self.lines[line] += count
        for line, column, _, _, true, false, *_ in entry["branches"]:
            self.branches[line, column][0] += true
            self.branches[line, column][1] += false

    def unreached(self):
        """Yield (line, what)."""
        for line, count in self.lines.items():
            if count == 0:
                yield line, "line"
        for (line, _), (true, false) in self.branches.items():
            if true + false > 0:  # else the line says it
                if true == 0:
                    yield line, "true"
                if false == 0:
                    yield line, "false"


def has_code(source):
    """Return whether a line has more than a brace, a label, a comment or a directive."""
    return not re.fullmatch(r"[\s{};]*|\s*/?\*.*|#.*|\s*(else|do)\s*\{?", source)


def read_explained(path):
    """Return {line that is explained: how often it may be in its file}, and those some reach."""
    explained, machines = collections.Counter(), set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line[:1] == "\t":
            some, times, key = re.fullmatch(r"(\?)?(?:x(\d+) )?(.*)", line.strip()).groups()
            explained[key] += int(times or 1)
            if some:
                machines.add(key)
    return explained, machines


def judge(places, explained, machines):
    """Print what is not explained, and what is not so. Return how many lines each."""
    unexplained = stale = 0
    for key, at in places.items():
        if len(at) > explained[key] and not key.endswith(": *"):
            print("\n".join(at))
            if explained[key]:
                print(f"of these {len(at)}, {explained[key]} explained: {key}")
            unexplained += len(at) - explained[key]
    for key, times in sorted(explained.items()):
        n = len(places.get(key, ()))
        if n < times and key not in machines:
            print(f"explained, but reached or gone, {times - n} of {times}: {key}")
            stale += times - n
    return unexplained, stale


def main():
    """Print the lines, and how many there are."""
    profile, explained, *programs = sys.argv[1:]
    explained, machines = read_explained(pathlib.Path(explained))
    places = collections.defaultdict(list)
    files = collections.defaultdict(Counts)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for name, entry in itertools.chain.from_iterable(
            pool.map(lambda program: export(profile, program), programs)
        ):
            files[name].add(entry)
    for name, counts in sorted(files.items()):
        text = [""] + (ROOT / name).read_text(encoding="utf-8").splitlines()
        for line, what in sorted(set(counts.unreached())):
            source = " ".join(text[line].split())
            if what == "line" and not has_code(text[line]):
                continue
            place = f"{name}:{line}: {what}: {source}"
            if f"{name}: *" in explained:
                places[f"{name}: *"].append(place)
            else:
                places[f"{name}: {what}: {source}"].append(place)
    found, stale = judge(places, explained, machines)
    total = explained.total()
    print(f"{found} not reached, {total} explained, {stale} of these reached or gone")
    return bool(found or stale)


if __name__ == "__main__":
    sys.exit(main())
