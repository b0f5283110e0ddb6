#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plant each bug in a build of its own; the tests beside it must all see it.

The same tests pass without a bug: what fails here fails because of it. A test
has seen a bug if one of its assertions fails; that it crashes does not count. A
script builds what it looks at from a copy of the code that has the bug.
The results are printed like those of tests/tally.py.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

# Each has a patch beside this file.
BUGS = {
    "id-outside": ["inject/test_steps", "inject/test_settings"],
    "commit-not-last": ["inject/test_steps", "inject/test_settings"],
    "append-over-unread": ["inject/test_steps", "inject/test_settings"],
    "missing-restart": ["inject/test_steps", "inject/test_settings"],
    "plain-add": ["inject/test_overlap"],
    "foreign-reset": ["inject/test_overlap"],
    "missing-fence": ["inject/test_overlap"],
    "missing-fence-of-snapshot": ["inject/test_snapshots"],
    "uncommitted-fetch": ["inject/test_fetch"],
    "any-alignment": ["unit/test_hostile"],
    "cache-per-lane": ["unit/test_zone_threads"],
    "any-list": ["unit/test_cpus"],
    "lane-unnoticed": ["unit/test_cpus"],
    "bank-outside": ["inject/test_overlap"],
    "late-given-up": ["unit/test_fence"],
    "mm-cid": ["inject/test_overlap"],
    "vector-clobbers": ["unit/test_vectors"],
    "fiber-self": ["compat/fibers.sh"],
    "guard-acquire": ["compat/orderings.sh"],
}
HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 120
TRIES = 6  # what the kernel chooses, such as an mm_cid, may hide a bug at times


class NotPermitted(Exception):
    """The test needs what this user may not do."""


def build(directory, bug, programs):
    """Return what went wrong, or None."""
    setup = ["meson", "setup", directory, HERE.parents[1], f"-Dplanted={bug}"]
    options = ["-Dbuildtype=plain", "-Dc_args=-O1", "-Dbenchmarks=disabled", "-Dexamples=disabled"]
    shutil.rmtree(directory, ignore_errors=True)
    for command in (setup + options, ["ninja", "-C", directory, *programs]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stdout[-2000:] + done.stderr[-2000:]
    return None


def is_seen_by(program):
    """Return whether an assertion failed; None if it ended in another way."""
    try:
        done = subprocess.run(
            [program, HERE.parents[1] / "include/percpu/arch"],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    output = done.stdout + done.stderr
    if "skipped: not permitted" in output:
        raise NotPermitted
    if done.returncode < 0 or "exception" in output or "[  SKIPPED ]" in output:
        return None
    return "[  FAILED  ]" in output


def judge_script(directory, bug, script):
    """Return (PASS, FAIL or SKIP, why): of a script that prints TAP."""
    code = directory / "code"
    plant = [HERE / "plant.sh", bug, code]
    for command in (plant, [HERE.parent / script, code, directory / "work"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "error:" in done.stdout:
            print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
            return "FAIL", f"{script} broke"
    if "\nnot ok" in done.stdout:
        return "PASS", f"seen by {script}"
    return ("SKIP" if "# SKIP" in done.stdout else "FAIL"), f"survived {script}"


def judge(directory, bug, tests):
    """Return (PASS, FAIL or SKIP, why)."""
    if tests[0].endswith(".sh"):
        return judge_script(directory, bug, tests[0])
    wrong = build(directory, bug, [f"tests/{test}" for test in tests])
    if wrong:
        print(wrong, file=sys.stderr)
        return "FAIL", "not built"
    for test in tests:
        seen = False
        for _ in range(TRIES):
            try:
                seen = is_seen_by(directory / "tests" / test)
            except NotPermitted:
                return "SKIP", f"{test} needs what is not permitted here"
            if seen is not False:
                break
        if seen is None:
            return "FAIL", f"{test} crashed, hung or was skipped"
        if not seen:
            return "FAIL", f"survived {test}"
    return "PASS", "seen by " + ", ".join(tests)


def main():
    """Print a line per bug; fail if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path, help="where to build")
    parser.add_argument("bug", nargs="*", help="all if none is given")
    args = parser.parse_args()
    results = []
    for bug in args.bug or BUGS:
        result, why = judge(args.directory.resolve() / bug, bug, BUGS[bug])
        results.append(result)
        print(result, f"planted: {bug}", why, sep="\t", flush=True)
    return "FAIL" in results


if __name__ == "__main__":
    sys.exit(main())
