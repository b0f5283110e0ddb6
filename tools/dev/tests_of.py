#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which tests see bugs of a function or of a file, and which programs name that function.

    tests_of.py NAME            prints these, and the bugs of tests/mutants
    tests_of.py --tests NAME    prints the names of the tests alone

NAME is a function, or a file: alloc.c, src/memory/alloc.c, counter.h. Of a test (zone, unit/zone) it
prints the file, and the bugs that the test sees.
"""

import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGINS = re.compile(r"^[A-Za-z_].*?\b(\w+)\(|^#define (\w+)\(")


def functions_of(lines):
    """Return for each line of a source the function or macro that it is in, or an empty text."""
    names, name = [], ""
    for line in lines:
        begins = BEGINS.match(line)
        if begins and not line.rstrip().endswith(";"):
            name = begins[1] or begins[2]
        names.append(name)
        if line.startswith("}"):
            name = ""
    return names


def places(patch, sources):
    """Return {(file, function)} of what a patch changes."""
    found, path, at = set(), None, 0
    for line in patch.splitlines():
        if line.startswith("--- a/"):
            path = line[6:]
            if path not in sources:
                sources[path] = functions_of((ROOT / path).read_text().splitlines())
        elif hunk := re.match(r"@@ -(\d+)", line):
            at = int(hunk[1]) - 1
        elif path and line[:1] in ("+", "-") and not line.startswith("+++"):
            names = sources[path]
            found.add((path, names[min(at, len(names) - 1)]))
            at += line[0] == "-"
        elif path and line[:1] in (" ", ""):  # editors may take the space of an empty line
            at += 1
    return found


def is_asked(asked, path, function):
    """Return whether that is the function, or the file."""
    return asked == function or path == asked or path.endswith("/" + asked)


def all_bugs():
    """Yield (name, what it does, its tests, the diff) of each bug."""
    for path in sorted((ROOT / "tests/mutants").glob("*/*/*.patch")):
        head, mark, diff = path.read_text(encoding="utf-8").partition("--- a/")
        tests = ", ".join(re.findall(r"^Seen by[^:]*: (.*)$", head, re.MULTILINE))
        yield path.stem, head.split("\n\n")[0].replace("\n", " "), tests, mark + diff


def bugs_of(asked):
    """Return [(name, what it does, its tests)]."""
    found, sources = [], {}
    for name, does, tests, diff in all_bugs():
        if any(is_asked(asked, *place) for place in places(diff, sources)):
            found.append((name, does, tests))
    return found


def is_function(name):
    """Return whether the library has such a function."""
    sources = [*ROOT.glob("src/*/*.[ch]"), *ROOT.glob("include/**/*.h")]
    return any(name in functions_of(path.read_text().splitlines()) for path in sources)


def callers_of(function):
    """Return the test programs that name the function."""
    word = re.compile(rf"\b{re.escape(function)}\b")
    programs = (ROOT / "tests").glob("**/test_*.c")
    named = [path for path in programs if word.search(path.read_text(encoding="utf-8"))]
    return {f"{path.relative_to(ROOT / 'tests').parts[0]}/{path.stem}" for path in named}


def print_test(asked):
    """Print where the test is, and the bugs that it sees. Return whether there is such a test."""
    suite, name = asked.rsplit("/", 1) if "/" in asked else ("*", asked)
    name = re.sub(r"^test_|\.cc?$", "", name)
    files = sorted((ROOT / "tests").glob(f"{suite}/**/test_{name}.c*"))
    if not files:  # a test that is another one's source, built otherwise
        rows = (ROOT / "tests").glob("*/*/meson.build")
        files = [path for path in rows if f"'{name}'" in path.read_text(encoding="utf-8")]
    for path in files:
        test = f"{path.relative_to(ROOT / 'tests').parts[0]}/test_{name}"
        print(path.relative_to(ROOT))
        for bug, does, tests, _ in all_bugs():
            if test in tests.split(", "):
                print(f"{bug}: {does}")
    return bool(files)


def main():
    """Print them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("name")
    asked = parser.parse_args()
    bugs = bugs_of(asked.name)
    seen = collections.Counter(test for _, _, tests in bugs for test in tests.split(", "))
    callers = callers_of(asked.name) if is_function(asked.name) else set()
    if not seen and not callers:
        if not asked.tests and print_test(asked.name):
            return
        sys.exit(
            f"no bug of tests/mutants is in {asked.name}, and no test names it: "
            "say a function, a file such as alloc.c, or a test"
        )
    if asked.tests:
        programs = {test for test in seen if "/test_" in test} | callers
        print(*sorted(test.replace("/test_", "/") for test in programs), sep="\n")
        return
    for test, count in seen.most_common():
        print(f"{test.replace('/test_', '/')}\tsees {count} of its bugs")
    for test in sorted(callers - set(seen)):
        print(f"{test.replace('/test_', '/')}\tnames it")
    for name, does, tests in bugs:
        print(f"{name}: {does} [{tests.replace('/test_', '/')}]")


if __name__ == "__main__":
    main()
