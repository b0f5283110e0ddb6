# SPDX-License-Identifier: MIT
"""Bugs in the crates of bindings/rust and in the tool, which a test of a crate must see.

A test is named CRATE TARGET NAME: a test of the crate's library if TARGET is "lib", of its program if
it is "bin", or of tests/TARGET.rs. There is one copy of the code. A bug is patched into it, what changed is compiled,
and the patch is taken back.
"""

import pathlib
import shutil
import subprocess

from planted import in_code, judge_tests, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 120
TRIES = 6  # what depends on how threads run may hide a bug at times


def copy_code(directory):
    """Copy what the crates are built of, and the tool, which is in their workspace. Links stay links:
    they lead into the copy.
    """
    code = directory / "code"
    shutil.rmtree(code, ignore_errors=True)
    for part in ("include", "src", "LICENSE", "bindings/rust", "tools/percpu"):
        (code / part).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", ROOT / part, code / part], check=True)


def cargo(directory, test, *arguments):
    """Return the command that builds a test, and runs it unless the arguments say otherwise."""
    crate, target, name = test.split()
    command = ["cargo", "test", "-q", "--locked", "-p", crate]
    command += ["--target-dir", directory / "target"]
    command += ["--manifest-path", directory / "code/bindings/rust/Cargo.toml"]
    # The tool has that feature of the library always, and is built sooner without optimization.
    if crate != "percpu-tool":
        command += ["--release", "--features", "vendored"]
    targets = {"lib": ["--lib"], "bin": ["--bins"]}
    command += targets.get(target, ["--test", target])
    return command + (list(arguments) or ["--", "--exact", name])


def judge_test(directory, test, tries):
    """Return whether the test fails, and a word that says how it ended otherwise."""
    status, output = run(cargo(directory, test, "--no-run"))
    if status != 0:
        return None, "not built:\n" + output[-2000:]
    for _ in range(tries):
        status, output = run(cargo(directory, test), SECONDS)
        if status != 0 or "test result: ok. 1 passed" not in output:
            break
    else:
        return False, ""
    if "test result: FAILED. 0 passed; 1 failed" in output:
        return True, ""
    return None, "it crashed, hung, or there is no such test:\n" + output[-2000:]


def judge(directory, patch, tests):
    """Return (PASS or FAIL, why) of the tests, with the bug of a patch; None: without any."""
    tries = TRIES if patch is not None else 1
    with in_code(directory / "code", patch) as wrong:
        if wrong:
            return "FAIL", wrong
        return judge_tests(
            tests, lambda test: judge_test(directory, test, tries), patch is not None
        )
