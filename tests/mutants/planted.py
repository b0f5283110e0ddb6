# SPDX-License-Identifier: MIT
"""A bug in a copy of the code: patched into it, judged by its tests, and taken back."""

import contextlib
import subprocess


def run(command, seconds=None, **options):
    """Return (status, output) of a command; None for the status if it took too long."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds,
            **options,
        )
        return done.returncode, done.stdout + done.stderr
    return None, ""


def judge_tests(tests, judge_test, planted):
    """Return (PASS or FAIL, why): all of them fail with the bug, or pass without any."""
    for test in tests:
        seen, how = judge_test(test)
        if seen is None:
            return "FAIL", f"{test}: {how}"
        if seen != planted:
            return "FAIL", f"fails without a bug: {test}" if seen else f"survived {test}"
    return "PASS", ("seen by " + ", ".join(tests)) if planted else f"{len(tests)} tests"


@contextlib.contextmanager
def in_code(code, patch):
    """The bug of a patch is in the code, or none is if the patch is None; yields what went wrong."""
    command = ["patch", "-s", "-p1", "-d", code, "-i", patch]
    if patch is None:
        yield None
        return
    status, output = run([*command, "--dry-run"])
    if status != 0:
        yield f"{patch.name} does not apply: the bug must follow the code\n{output}"
        return
    run(command)
    try:
        yield None
    finally:
        run([*command, "-R"])
