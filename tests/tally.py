#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Read a Meson test log; print a line per test: PASS, FAIL or SKIP, tab, its name.

A program that speaks cmocka's or TAP's language counts as the tests it names,
any other as one. With --rseq the kernel has rseq, and a test skipped for want of
it, or of sequences, has failed.
"""

import argparse
import json
import re
import sys

CMOCKA = re.compile(r"\[\s+(RUN|OK|FAILED|SKIPPED|ERROR)\s+\] (\w+)$")
TAP = re.compile(r"(not )?ok \d+(?: - )?(.*?)(?: # SKIP ?(.*))?$")


def tests_of(output):
    """Map each test that the output names to (result, the line before it)."""
    found = {}
    before = ""
    for line in output.splitlines():
        if m := CMOCKA.match(line):
            word, name = m.groups()
            result = {"OK": "PASS", "SKIPPED": "SKIP"}.get(word, "FAIL")
            if word == "RUN":
                found.setdefault(name, ("FAIL", "did not end"))
            elif found.get(name, ("", "did not end"))[1] == "did not end":
                found[name] = (result, before if result != "PASS" else "")
            before = ""
        elif m := TAP.match(line):
            failed, name, skipped = m.groups()
            result = "FAIL" if failed else "PASS" if skipped is None else "SKIP"
            found[name] = (result, skipped or "")
        elif not line.startswith("#"):
            before = line
    return found


def lines_of(entry, rseq):
    """The lines for one program of the log."""
    # "percpu:unit / fence", where it is in two suites "percpu:unit+repeats / fence"; from
    # newer Mesons "unit - percpu:fence"
    program = re.sub(r"\w+:|\+\w+", "", entry["name"]).replace(" / ", "/").replace(" - ", "/")
    tests = tests_of(entry.get("stdout", "") + "\n" + entry.get("stderr", ""))
    for name, (result, why) in tests.items():
        if result == "SKIP" and rseq and re.search("rseq|sequence", why):
            result = "FAIL"
        yield result, f"{program}: {name}", why
    accounted = any(result == "FAIL" for result, _ in tests.values())
    if entry["result"] in ("OK", "EXPECTEDFAIL"):
        if not tests:
            yield "PASS", program, ""
    elif entry["result"] == "SKIP":
        if not tests:
            yield "SKIP", program, entry.get("stdout", "").strip()[-200:]
    elif not accounted or entry["result"] == "TIMEOUT":
        yield "FAIL", program, f"{entry['result'].lower()}, exit status {entry['returncode']}"


def main():
    """Print the lines; fail if the log has none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("configuration")
    parser.add_argument("--rseq", action="store_true")
    args = parser.parse_args()
    seen = 0
    with open(args.log, encoding="utf-8") as log:
        for line in log:
            for result, name, why in lines_of(json.loads(line), args.rseq):
                seen += 1
                print(result, f"{args.configuration}: {name}", why, sep="\t")
    return 0 if seen else 1


if __name__ == "__main__":
    sys.exit(main())
