#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plant one bug after the other; the tests beside it must all see it.

The programs pass without a bug, which is tried first: what fails here fails because
of it. A test has seen a bug if one of its assertions fails; that it crashes does not
count. The results are printed like those of tests/tally.py.

A bug is a patch, ROOM/SOURCE/NAME.patch beside this file: ROOM and SOURCE are those of the file that
it changes first. In front of the diff there is what it does, and then
    Seen by: TEST, TEST...     programs below tests/, and scripts, which print TAP
    Seen by (MACHINE): TEST... in a build for another one: i686, aarch64
    Seen by (tsan): TEST...    with ThreadSanitizer: orders that this machine keeps anyhow
    Seen by (crates): TEST...  tests of the Rust crates: crates.py says how they are named
    Seen by (python): TEST...  tests of the Python modules: modules.py says how they are named
    Quick: yes                 in a few seconds: every run of the tests has it

There is one build. A bug is patched into its copy of the code, what changed is
compiled, and the patch is taken back.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import crates
import modules

HERE = pathlib.Path(__file__).resolve().parent
PATCHES = {path.stem: path for path in HERE.glob("*/*/*.patch")}
SECONDS = 120
TRIES = 6  # what the kernel chooses, such as an mm_cid, may hide a bug at times


def is_in_its_room(path, text):
    """Return whether the folders of a patch are those of the source that it changes first."""
    changed = pathlib.PurePath(text.partition("--- a/")[2].split(maxsplit=1)[0])
    rooms = changed.parts[1:2] if len(changed.parts) == 3 and changed.parts[0] == "src" else ()
    return path.parent.name == changed.stem and rooms in ((), (path.parents[1].name,))


def read_bugs(machine):
    """Return ({bug: its tests on this machine}, those that are seen quickly)."""
    bugs, quick = {}, []
    for name, path in sorted(PATCHES.items()):
        text = path.read_text(encoding="utf-8")
        head = text.partition("--- a/")[0].splitlines()
        if not is_in_its_room(path, text):
            sys.exit(f"{path.name} is not in the folder of the source that it changes")
        said = dict(line.split(": ", 1) for line in head if line.startswith(("Seen by", "Quick: ")))
        if not any(key.startswith("Seen by") for key in said):
            sys.exit(f'{path.name} does not say which test sees it: a line "Seen by: TEST"')
        tests = said.get(f"Seen by ({machine})" if machine else "Seen by")
        if tests:
            bugs[name] = tests.split(", ")
        if "Quick" in said:
            quick.append(name)
    return bugs, quick


class NotPermitted(Exception):
    """The test needs what this user may not do."""


def run(*command):
    """Return what went wrong, or None."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stdout[-2000:] + done.stderr[-2000:]


@dataclasses.dataclass
class Build:
    """A build, and the other machine it is for: with the file that says where cmocka is."""

    path: pathlib.Path
    machine: str | None
    ini: str | None


def configure(build):
    """Make the build, with a copy of the code that has no bug. Return what went wrong."""
    shutil.rmtree(build.path, ignore_errors=True)
    options = ["-Dbuildtype=plain", "-Dbenchmarks=disabled", "-Dexamples=disabled"]
    options += ["-Dc_args=-O1" + (" -D_TIME_BITS=64" if build.machine == "i686" else "")]
    if build.machine == "tsan":
        options.append("-Db_sanitize=thread")
    elif build.machine:
        cross = (build.ini, HERE.parent / f"{build.machine}.ini")
        options += [f"--cross-file={ini}" for ini in cross]
    return run("meson", "setup", build.path, HERE.parents[1], "-Dmutant=nothing", *options)


@contextlib.contextmanager
def applied(build, bug):
    """The bug is in the code of the build; yields what went wrong."""
    patch = ["patch", "-s", "-p1", "-d", build.path / "mutant", "-i", PATCHES[bug]]
    wrong = run(*patch, "--dry-run")
    if wrong:
        yield f"{bug}.patch does not apply: the code has changed, the bug must follow\n{wrong}"
        return
    run(*patch)
    try:
        yield None
    finally:
        run(*patch, "-R")


def run_here(build, test):
    """Return (status, output) of a program. What it has forked ends with it."""
    command = [build.path / "tests" / test, HERE.parents[1] / "include/percpu/arch"]
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        with subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        ) as program:
            try:
                status = program.wait(SECONDS)
            except subprocess.TimeoutExpired:
                status = -1
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
        output.seek(0)
        return status, output.read()


def run_by_meson(build, test):
    """Return (status, output) of a program; Meson knows what runs those of its machine."""
    suite, name = test.split("/test_")
    name = f"stress-{name}" if suite == "stress" else name
    log = build.path / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    run("meson", "test", "-C", build.path, "--no-rebuild", "-t4", "--suite", suite, name)
    done = json.loads(log.read_text())
    return done["returncode"], done.get("stdout", "") + done.get("stderr", "")


def is_seen_by(build, test):
    """Return whether an assertion failed, or a race was seen; None if it ended otherwise."""
    status, output = (run_by_meson if build.machine else run_here)(build, test)
    if "skipped: not permitted" in output:
        raise NotPermitted
    if "WARNING: ThreadSanitizer" in output:
        return True
    if "exception" in output:
        return None
    if "[  FAILED  ]" in output:
        return True  # whatever the program did after that
    skipped = "[  SKIPPED ]" in output and build.machine != "tsan"  # which skips some
    return None if status < 0 or skipped else False  # what was skipped might have seen it


def judge_script(directory, bug, script):
    """Return (PASS, FAIL or SKIP, why): of a script that prints TAP."""
    code = directory / "code"
    apply = [HERE / "apply.sh", bug, code]
    name, *options = script.split()
    for command in (apply, [HERE.parent / name, code, directory / "work", *options]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seen = "\nnot ok" in "\n" + done.stdout  # which some also say by their status
        if (done.returncode != 0 and not seen) or "error:" in done.stdout:
            print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
            return "FAIL", f"{script} broke"
    if seen:
        return "PASS", f"seen by {script}"
    return ("SKIP" if "# SKIP" in done.stdout else "FAIL"), f"survived {script}"


def is_script(test):
    """Return whether it is one, which prints TAP, and no program of the build."""
    return test.split()[0].endswith((".sh", ".py"))


def judge(build, bug, tests):
    """Return (PASS, FAIL or SKIP, why)."""
    directory = build.path.parent
    scripts = [test for test in tests if is_script(test)]
    programs = [test for test in tests if test not in scripts]
    results = [judge_script(directory / bug, bug, script) for script in scripts]
    if programs:
        results.append(judge_built(build, bug, programs))
    worst = min(results, key=lambda result: ["FAIL", "SKIP", "PASS"].index(result[0]))
    return worst if worst[0] != "PASS" else ("PASS", "; ".join(why for _, why in results))


def judge_built(build, bug, tests):
    """Return (PASS, FAIL or SKIP, why): of programs."""
    with applied(build, bug) as wrong:
        wrong = wrong or run("ninja", "-C", build.path, *(f"tests/{test}" for test in tests))
        if wrong:
            print(wrong, file=sys.stderr)
            return "FAIL", "not built"
        return judge_programs(build, tests)


def judge_programs(build, tests):
    """Return (PASS, FAIL or SKIP, why)."""
    for test in tests:
        seen = False
        for _ in range(TRIES):
            try:
                seen = is_seen_by(build, test)
            except NotPermitted:
                return "SKIP", f"{test} needs what is not permitted here"
            if seen is not False:
                break
        if seen is None:
            return "FAIL", f"{test} crashed, hung or was skipped"
        if not seen:
            return "FAIL", f"survived {test}"
    return "PASS", "seen by " + ", ".join(tests)


def find_tests_of_none(build, bugs, names):
    """Return a sentence for each test that a bug names and that there is not."""
    done = subprocess.run(
        ["ninja", "-C", build.path, "-t", "targets", "all"],
        capture_output=True,
        text=True,
        check=True,
    )
    targets = {line.partition(":")[0] for line in done.stdout.splitlines()}

    def is_there(test):
        if is_script(test):
            return (HERE.parent / test.split()[0]).is_file()
        return f"tests/{test}" in targets

    return [
        f"{name}.patch: no test {test}"
        for name in names
        for test in bugs[name]
        if not is_there(test)
    ]


def judge_nothing(build, tests):
    """Return (PASS or FAIL, why): of programs, without a bug."""
    wrong = run("ninja", "-C", build.path, *(f"tests/{test}" for test in tests))
    if wrong:
        print(wrong, file=sys.stderr)
        return "FAIL", "not built"
    for test in tests:
        with contextlib.suppress(NotPermitted):
            if is_seen_by(build, test):
                return "FAIL", f"{test} fails without a bug"
    return "PASS", f"{len(tests)} programs"


def judge_crates(directory, bugs, names, record):
    """Record what the tests of the crates see."""
    crates.copy_code(directory)
    tests = sorted({test for name in names for test in bugs[name]})
    record("nothing", *crates.judge(directory, None, tests))
    for bug in names:
        record(bug, *crates.judge(directory, PATCHES[bug], bugs[bug]))


def judge_modules(directory, bugs, names, record):
    """Record what the tests of the Python modules see."""
    if wrong := modules.copy_code(directory):
        sys.exit(wrong)
    tests = sorted({test for name in names for test in bugs[name]})
    record("nothing", *modules.judge(directory, None, tests))
    for bug in names:
        record(bug, *modules.judge(directory, PATCHES[bug], bugs[bug]))


def main():
    """Print a line per bug; fail if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path, help="where to build")
    parser.add_argument("bug", nargs="*", help="all if none is given")
    parser.add_argument("--quick", action="store_true", help="those that are seen soon")
    parser.add_argument(
        "--cross",
        nargs=2,
        metavar=("MACHINE", "INI"),
        default=(None, None),
        help="i686 or aarch64; where cmocka is: ./dev",
    )
    parser.add_argument("--tsan", action="store_true", help="those that ThreadSanitizer sees")
    parser.add_argument("--crates", action="store_true", help="those in the Rust crates")
    parser.add_argument("--python", action="store_true", help="those in the Python modules")
    args = parser.parse_args()
    cross = ("tsan", None) if args.tsan else args.cross
    build = Build(args.directory.resolve() / "build", *cross)
    kind = "crates" if args.crates else "python" if args.python else build.machine
    bugs, quick = read_bugs(kind)
    names = args.bug or (quick if args.quick else list(bugs))
    if unknown := [name for name in names if name not in bugs]:
        parser.error(f"no such bug for this machine: {', '.join(unknown)}")
    results = []

    def record(bug, result, why):
        results.append(result)
        print(result, f"mutant: {bug}", why, sep="\t", flush=True)

    if args.crates or args.python:
        judge_all = judge_crates if args.crates else judge_modules
        judge_all(args.directory.resolve(), bugs, names, record)
        return "FAIL" in results
    if wrong := configure(build):
        sys.exit(wrong)
    if wrong := find_tests_of_none(build, bugs, names):
        sys.exit("\n".join(wrong))
    programs = {test for name in names for test in bugs[name] if not is_script(test)}
    if not args.quick:  # then the other configurations have run them
        record("nothing", *judge_nothing(build, sorted(programs)))
    for bug in names:
        record(bug, *judge(build, bug, bugs[bug]))
    return "FAIL" in results


if __name__ == "__main__":
    sys.exit(main())
