# SPDX-License-Identifier: MIT
"""tap.py - shared by tests of programs: run functions, each in a directory of its own, and print
their results as TAP."""

import subprocess
import sys
import tempfile

FAILURES = (ArithmeticError, AssertionError, OSError, ValueError, subprocess.SubprocessError)


def run(tests):
    """A test gets its directory, and returns None, or why it is skipped."""
    print(f"1..{len(tests)}")
    failed = False
    for i, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as directory:
            try:
                skip = test(directory)
                print(f"ok {i} - {test.__name__}" + (f" # SKIP {skip}" if skip else ""), flush=True)
            except FAILURES as e:
                failed = True
                print(f"not ok {i} - {test.__name__}\n# {str(e)[:2000]!r}", flush=True)
    sys.exit(failed)
