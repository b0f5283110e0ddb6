#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Read what pytest reported as JUnit's XML; print a line per test: PASS, FAIL or SKIP, tab, its name.

A report without a test, or none at all, is an error. The second argument comes before each name.
"""

import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def result_of(case: xml.Element) -> tuple[str, str]:
    """Return what became of a test, and why."""
    for kind, word in (("failure", "FAIL"), ("error", "FAIL"), ("skipped", "SKIP")):
        found = case.find(kind)
        if found is not None:
            return word, " ".join(found.get("message", "").split())
    return "PASS", ""


def main(report: str, name: str) -> int:
    """Print the results, and return the exit status."""
    if not Path(report).exists():
        print(f"junit.py: {report} is not there", file=sys.stderr)
        return 1
    results: dict[str, tuple[str, str]] = {}
    for case in xml.parse(report).getroot().iter("testcase"):
        file = case.get("classname", "").rsplit(".", 1)[-1]
        test = f"{name}/{file}::{case.get('name')}"
        if results.get(test, ("", ""))[0] != "FAIL":  # an error of its end comes as another case
            results[test] = result_of(case)
    for test, (word, why) in results.items():
        print(word, test, why[:200], sep="\t")
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
