# SPDX-License-Identifier: MIT
"""Bugs in the modules of bindings/python, which a test of them must see.

A test is named as pytest does, in bindings/python/tests: test_dropin_counts.py::test_exemplars. There
is one copy of the code. A bug is patched into it, what changed is compiled, and the patch is taken
back. Meson, pytest and prometheus_client are those of the interpreter that runs this.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from planted import in_code, judge_tests, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 120
TRIES = 3  # what depends on how processes run may hide a bug at times
PASSED, FAILED = 0, 1  # as pytest exits


def copy_code(directory):
    """Copy what the modules are built of, and configure a build. Return what went wrong, or None."""
    code = directory / "code"
    shutil.rmtree(code, ignore_errors=True)
    shutil.rmtree(directory / "build", ignore_errors=True)
    for part in ("include", "src", "LICENSE", "bindings/python"):
        (code / part).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", ROOT / part, code / part], check=True)
    bindings = code / "bindings/python"
    status, output = run(["meson", "setup", "-Dbuildtype=debug", directory / "build", bindings])
    return None if status == 0 else output[-2000:]


def build(directory):
    """Compile what has changed, into the package. Return what went wrong, or None."""
    status, output = run(["meson", "compile", "-C", directory / "build"])
    if status != 0:
        return output[-2000:]
    for module in (directory / "build").glob("_core.*so"):
        shutil.copy(module, directory / "code/bindings/python/percpu" / module.name)
    return None


def judge_test(directory, test, tries):
    """Return whether the test fails, and a word that says how it ended otherwise."""
    bindings = directory / "code/bindings/python"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = os.environ | {"PYTHONPATH": str(bindings), "PYTHONDONTWRITEBYTECODE": "1"}
    for _ in range(tries):
        status, output = run(
            [*command, f"tests/{test}"], SECONDS, cwd=bindings, env=env, stdin=subprocess.DEVNULL
        )
        if status != PASSED:
            break
    else:
        return False, ""
    if status == FAILED:
        return True, ""
    return None, "it hung, or there is no such test:\n" + output[-2000:]


def judge(directory, patch, tests):
    """Return (PASS or FAIL, why) of the tests, with the bug of a patch; None: without any."""
    tries = TRIES if patch is not None else 1
    with in_code(directory / "code", patch) as wrong:
        if wrong := wrong or build(directory):
            return "FAIL", wrong
        return judge_tests(
            tests, lambda test: judge_test(directory, test, tries), patch is not None
        )
