#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plant one bug after the other; the tests beside it must all see it.

The programs pass without a bug, which is tried first: what fails here fails because
of it. A test has seen a bug if one of its assertions fails; that it crashes does not
count. The results are printed like those of tests/tally.py.

There is one build. A bug is patched into its copy of the code, what changed is
compiled, and the patch is taken back.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

STATIC = "objects/check.py --quick"
# Each has a patch beside this file.
BUGS = {
    "id-outside": ["inject/test_steps", "inject/test_settings"],
    "commit-not-last": [STATIC, "inject/test_steps", "inject/test_settings"],
    "outputs-of-aborted": ["inject/test_steps"],
    "append-over-unread": ["inject/test_steps", "inject/test_settings"],
    "missing-restart": ["inject/test_steps", "inject/test_settings"],
    "plain-add": ["inject/test_overlap"],
    "foreign-reset": ["inject/test_overlap"],
    "missing-fence": ["inject/test_overlap"],
    "missing-fence-of-snapshot": ["inject/test_snapshots"],
    "uncommitted-fetch": ["inject/test_fetch"],
    "update-refused": ["unit/test_stats_narrow"],
    "run-over-blocks": ["unit/test_stats_narrow"],
    "layout-by-cpu": ["unit/test_stats_narrow"],
    "copy-not-asked": ["unit/test_stats_narrow", "inject/test_steps"],
    "any-alignment": ["unit/test_hostile"],
    "any-minor-refused": ["unit/test_hostile"],
    "field-moved": ["compat/format.py"],
    "kind-renumbered": ["compat/format.py"],
    "options-tail-unseen": ["unit/test_options"],
    "options-of-old-refused": ["unit/test_options"],
    "any-kind": ["unit/test_region", "unit/test_root"],
    "any-length": ["unit/test_region", "unit/test_root"],
    "freed-from-below": ["unit/test_root"],
    "root-overwritten": ["unit/test_region", "unit/test_root"],
    "loser-keeps": ["unit/test_root"],
    "opened-once": ["unit/test_root"],
    "named-too-soon": ["unit/test_root"],
    "cache-per-lane": ["unit/test_zone_threads"],
    "any-list": ["unit/test_cpus"],
    "unlisted-offline": ["unit/test_jail"],
    "proc-not-asked": ["unit/test_jail"],
    "fence-beyond-lanes": ["unit/test_jail"],
    "thread-error-kept": ["unit/test_jail"],
    "lane-unnoticed": ["unit/test_cpus"],
    "fenced-elsewhere": ["inject/test_guard"],
    "fence-where-it-is": ["unit/test_freebsd_zpcpu"],
    "zpcpu-without-end": ["unit/test_freebsd_zpcpu"],
    "reader-resets": ["unit/test_reader"],
    "reader-updates": ["unit/test_reader"],
    "atomic-lanes-filled": ["unit/test_pin"],
    "grown-lanes-filled": ["unit/test_pin"],
    "cpu-lanes-not-filled": ["unit/test_pin"],
    "bank-outside": ["inject/test_overlap"],
    "late-given-up": ["unit/test_fence"],
    "mm-cid": ["inject/test_overlap"],
    "vector-clobbers": [STATIC, "unit/test_vectors"],
    "fiber-self": ["compat/fibers.sh"],
    "late-kept": ["compat/fibers.sh"],
    "late-tls": ["matrix/late.sh"],
    "late-key": ["matrix/late.sh"],
    "late-registered": ["matrix/late.sh"],
    "guard-acquire": [STATIC],
    "cmpxchg-low-half-arm": [STATIC],
    "lane-low-half-arm": [STATIC],
    "push-no-barrier": [STATIC],
    "bank-add8-clobber": [STATIC],
    "add2-clobber-arm": [STATIC],
    "add2-two-stores-arm": [STATIC],
    "limit-unsigned-arm": [STATIC],
    "pop-commit-arm": [STATIC],
    "turn-acquire": [STATIC],
    "turn-release": [STATIC],
    "push-release": [STATIC],
    "copy-release": [STATIC],
    "copy-acquire": [STATIC],
    "append-release": [STATIC],
    "checkpoint-acquire": [STATIC],
    "bank-loaded-early": [STATIC],
    "behind-the-commit": [STATIC],
    "input-changed": [STATIC],
    "no-signature": [STATIC],
    "handler-no-code": [STATIC],
    "handler-inside": [STATIC],
    "list-elsewhere": [STATIC],
    "cmpxchg-low-half": [STATIC, "unit/test_seq"],
    "lane-low-half": [STATIC, "unit/test_seq"],
    "limit-unsigned": [STATIC, "unit/test_seq"],
    "intel-syntax": ["compat/headers.sh"],
    "header-warns": ["compat/headers.sh"],
    "old-compiler": ["compat/headers.sh"],
    "counter-has-copies": ["compat/headers.sh"],
    "port-macro": ["compat/headers.sh"],
    "rate-without-period": ["unit/test_freebsd"],
    "lock-not-known": ["unit/test_lock"],
    "lock-stolen": ["unit/test_lock", "unit/test_guest"],
    "lock-one-list": ["unit/test_lock"],
    "list-left": ["unit/test_lock"],
    "pending-left": ["unit/test_lock"],
    "waits-blocked": ["unit/test_lock"],
    "replay-after-free": ["unit/test_journal"],
    "replay-after-alloc": ["unit/test_journal"],
    "fork-keeps-journal": ["unit/test_journal"],
    "fork-keeps-guards": ["unit/test_local"],
    "cancel-with-lock": ["unit/test_guest"],
    "handlers-in-lock": ["unit/test_guest"],
    "file-too-long": ["unit/test_guest"],
    "free-forgotten": ["unit/test_guest"],
    "length-left": ["unit/test_guest"],
    "list-forgotten": ["unit/test_guest"],
    "reader-not-noticed": ["inject/test_readers"],
    "reset-not-noticed": ["inject/test_readers"],
    "fence-not-redone": ["inject/test_readers"],
    "reset-seen-in-part": ["inject/test_readers"],
    "proof-not-awaited": ["unit/test_first_use"],
    "fence-never-begins": ["unit/test_first_use"],
    "only-the-intruder": ["unit/test_first_use"],
    "child-without-selftest": ["unit/test_first_use"],
    "daemon-not-awaited": ["unit/test_first_use"],
    "seed-unmapped-twice": ["unit/test_region"],
    "lock-without-id": ["unit/test_faults"],
    "visitor-lost": ["unit/test_faults"],
    "canceled-visit": ["unit/test_cancel"],
    "stack-without-tls": ["unit/test_large_tls"],
    "clears-too-much": ["unit/test_freebsd_uma"],
    "no-pad": ["compat/pads.sh"],
    "child-returns": ["unit/test_vfork"],
    "object-goes": ["compat/unload.sh"],
    "wrapped-anyway": ["compat/process.sh"],
    "descriptor-kept": ["compat/process.sh"],
    "atomic-lane-bit": ["unit/test_lanes"],
    "lane-of-cpu-reserved": ["unit/test_lanes"],
    "add-sets-errno": ["unit/test_lanes"],
    "array-first-64": ["unit/test_lanes"],
    "bias-last-sum": ["unit/test_reads"],
    "bias-last-array": ["unit/test_reads"],
    "bias-last-compact": ["unit/test_reads"],
    "bias-last-stats": ["unit/test_reads"],
    "reset-of-old-sum": ["unit/test_reads"],
    "checkpoint-not-rechecked": ["unit/test_reads"],
    "static-loser-stays": ["unit/test_reads"],
    "checkpoint-of-others": ["unit/test_compact"],
    "failed-set-keeps-cells": ["unit/test_faults"],
    "fence-counts-anyway": ["unit/test_faults"],
    "chunk-counted-too-soon": ["unit/test_faults"],
    "journal-committed-first": ["unit/test_journal"],
    "journal-words-unchecked": ["unit/test_journal"],
    "journal-end-unchecked": ["unit/test_journal"],
    "journal-offset-unaligned": ["unit/test_journal"],
    "journal-not-replayed": ["unit/test_journal"],
    "tail-goes-back": ["unit/test_wbuf"],
    "temporary-not-new": ["unit/test_region"],
    "gaps-lost": ["unit/test_region"],
    "freed-by-others-lost": ["unit/test_region"],
    "end-not-looked-at": ["unit/test_region"],
    "flags-not-compared": ["unit/test_stats", "unit/test_stats_narrow"],
    "loser-blocks-signals": ["unit/test_lock"],
    "loser-stays-armed": ["unit/test_lock"],
    "nobody-woken": ["unit/test_lock"],
    "waiters-forgotten": ["unit/test_lock"],
    "list-of-libc-removed": ["unit/test_lock"],
    "operation-of-libc-ended": ["unit/test_lock"],
    "word-of-others-freed": ["unit/test_lock"],
    "waits-once": ["unit/test_lock"],
    "waits-for-ever": ["unit/test_lock"],
    "sleeps-to-the-end": ["unit/test_lock"],
    "full-disk-grows": ["unit/test_lanes"],
    "first-journal-settled": ["unit/test_journal"],
    "new-chunks-not-found": ["unit/test_region"],
    "key-behind-lane": ["unit/test_region"],
    "object-inside-unit": ["unit/test_region"],
    "object-in-the-middle": ["unit/test_region"],
    "runs-not-reclaimed": ["unit/test_lanes"],
    "private-key": ["unit/test_region"],
    "counter-anywhere": ["unit/test_region"],
    "words-in-one-cell": ["unit/test_lanes"],
    "bound-off-by-one": ["unit/test_compact"],
    "chunk-of-fewer-cpus": ["unit/test_hostile"],
    "chunk-of-other-lanes": ["unit/test_hostile"],
    "file-for-all-to-read": ["unit/test_region"],
    "never-canceled-again": ["unit/test_region"],
    "descriptor-to-write-only": ["unit/test_region"],
    "failed-link-keeps-region": ["unit/test_faults"],
    "blocks-of-objects": ["unit/test_stats"],
    "bias-of-first-fields": ["unit/test_stats"],
    "reset-between-missed": ["inject/test_readers"],
    "reset-begun-by-reader": ["inject/test_readers"],
    "turn-of-others-ended": ["inject/test_readers"],
    "snapshot-never-canceled": ["unit/test_stats"],
    "add-to-first-field": ["unit/test_lanes"],
    "fork-amid-flush": ["unit/test_wbuf"],
    "taken-overwritten": ["unit/test_wbuf"],
    "child-applies-rest": ["unit/test_wbuf"],
    "child-counts-list": ["unit/test_wbuf"],
    "nested-sharing": ["unit/test_thread"],
    "clone-failed-kept": ["unit/test_thread"],
    "clone-beside": ["unit/test_thread"],
    "vfork-failed-kept": ["unit/test_thread"],
    "vfork-errno": ["unit/test_thread"],
    "attach-shared": ["unit/test_thread"],
    "memory-believed": ["unit/test_thread"],
    "own-not-unregistered": ["unit/test_thread"],
    "errno-register": ["unit/test_thread"],
    "helpers-take-signals": ["unit/test_between"],
    "helpers-keep-mask": ["unit/test_lock"],
    "helpers-real-time": ["unit/test_first_use"],
    "condemned-rises": ["unit/test_no_aborts"],
    "condemned-registers": ["unit/test_no_aborts"],
    "clone-with-tls": ["unit/test_thread"],
    "clone-copies": ["unit/test_thread"],
    "clone-arguments": ["unit/test_thread"],
    "visitor-moved": ["unit/test_between"],
    "spinner-elsewhere": ["unit/test_between"],
    "intruder-elsewhere": ["unit/test_between"],
    "visit-not-awaited": ["unit/test_between"],
    "visit-served-anyway": ["unit/test_between"],
    "fork-skips-variables": ["unit/test_between"],
    "fork-skips-checks": ["unit/test_between"],
    "fork-skips-process": ["unit/test_between"],
    "fork-skips-depots": ["unit/test_between"],
    "family-believed": ["unit/test_first_use"],
    "inconclusive-for-all": ["unit/test_jail"],
    "offline-ran": ["unit/test_jail"],
    "fence-cpu-errno": ["unit/test_faults"],
    "fence-not-renewed": ["unit/test_faults"],
    "lanes-of-the-last": ["unit/test_lanes"],
    "known-forgotten": ["unit/test_jail"],
    "status-kept-open": ["unit/test_jail"],
    "unlock-keeps-mask": ["unit/test_guest"],
    "failed-check-keeps-item": ["unit/test_faults"],
    "free-wakes-nobody": ["unit/test_zone_threads"],
    "slow-free-wakes-nobody": ["unit/test_zone_threads"],
    "limit-wakes-nobody": ["unit/test_zone_threads"],
    "freed-not-counted": ["unit/test_zone_threads"],
    "plain-with-dtor": ["unit/test_zone"],
    "zero-after-ctor": ["unit/test_zone"],
    "poison-but-the-last": ["unit/test_zone_debug"],
    "check-in-the-middle": ["unit/test_zone_debug"],
    "reclaim-never-over": ["unit/test_zone_debug"],
    "shelf-stays-locked": ["unit/test_faults"],
    "guard-left-locked": ["unit/test_freebsd_zpcpu"],
    "guard-left-raised": ["unit/test_freebsd_zpcpu"],
    "enters-once": ["unit/test_freebsd_zpcpu"],
    "limit-always-told": ["unit/test_freebsd"],
    "setup-not-cancelable": ["unit/test_between"],
    "claim-by-add": ["unit/test_between"],
    "hoard-depot": ["unit/test_between"],
    "hoard-free": ["unit/test_zone"],
    "hoard-plain": ["unit/test_zone"],
    "shelf-no-lock-put": ["unit/test_between"],
    "shelf-no-lock-take": ["unit/test_between"],
    "add-limit-stores": ["unit/test_between"],
    "stride-before-distance": ["unit/test_between"],
    "two-resets": ["unit/test_between"],
    "poison-in-reclaim": ["unit/test_between"],
    "poison-shared": ["unit/test_zone_debug"],
    "exceptions-expected": ["compat/options.sh"],
    "enums-short": ["compat/options.sh"],
    "attribute-bare": ["compat/options.sh"],
    "vectors-everywhere": ["compat/options.sh"],
    "constant-copied": ["compat/options.sh"],
    "handle-left": ["unit/test_faults"],
    "tables-left": ["unit/test_faults"],
    "region-left": ["unit/test_faults"],
    "temporary-inherited": ["unit/test_faults"],
    "first-fence-lost": ["unit/test_faults"],
    "head-not-cleared": ["unit/test_lock"],
    "unlock-sets-errno": ["unit/test_lock"],
    "orphans-of-first-chunk": ["unit/test_journal"],
    "patience-for-each": ["unit/test_journal"],
    "bias-not-locked": ["unit/test_pin"],
    "bias-not-reserved": ["unit/test_lanes"],
    "node-first-range": ["unit/test_place"],
    "few-lanes-not-noted": ["unit/test_cpus"],
    "lanes-of-readers-noted": ["unit/test_cpus"],
    "next-reader-sleeps": ["inject/test_readers"],
    "guard-without-fence": ["unit/test_local"],
    "reference-left": ["unit/test_local"],
    "atomic-lanes-not-cleared": ["unit/test_lanes"],
    "runs-shorter": ["inject/test_readers"],
    "counter-incomplete": ["compat/headers.sh"],
    "counter-is-a-word": ["compat/headers.sh"],
    "race-unsuppressed": ["compat/races.sh"],
}
# Those that builds for other machines show: 32 bits, and aarch64 in an emulator, where
# the kernel has no rseq.
BUGS_ELSEWHERE = {
    "i686": {
        "lanes-wrap-around": ["unit/test_widths"],
        "words-in-halves": ["unit/test_widths"],
        "times-of-64-bits": ["unit/test_widths"],
        "words-not-aligned": ["unit/test_widths"],
        "lane-cut-to-32-bits": ["unit/test_widths"],
    },
    "aarch64": {
        "cmpxchg-low-half-arm": ["unit/test_seq"],
        "lane-low-half-arm": ["unit/test_seq"],
        "limit-unsigned-arm": ["unit/test_seq"],
        "pop-commit-arm": ["unit/test_aborts"],
        "add2-two-stores-arm": ["unit/test_aborts"],
    },
}
# Seen in a few seconds each: those that every run of the tests has.
QUICK = [
    "tail-goes-back",
    "missing-fence",
    "missing-fence-of-snapshot",
    "uncommitted-fetch",
    "guard-acquire",
    "turn-release",
    "bank-add8-clobber",
    "replay-after-free",
    "root-overwritten",
    "fork-keeps-guards",
    "proof-not-awaited",
    "canceled-visit",
]
HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 120
TRIES = 6  # what the kernel chooses, such as an mm_cid, may hide a bug at times


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
    if build.machine:
        cross = (build.ini, HERE.parent / f"{build.machine}.ini")
        options += [f"--cross-file={ini}" for ini in cross]
    return run("meson", "setup", build.path, HERE.parents[1], "-Dplanted=nothing", *options)


@contextlib.contextmanager
def planted(build, bug):
    """The bug is in the code of the build; yields what went wrong."""
    patch = ["patch", "-s", "-p1", "-d", build.path / "planted", "-i", HERE / f"{bug}.patch"]
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
    """Return (status, output) of a program."""
    try:
        done = subprocess.run(
            [build.path / "tests" / test, HERE.parents[1] / "include/percpu/arch"],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return -1, ""
    return done.returncode, done.stdout + done.stderr


def run_by_meson(build, test):
    """Return (status, output) of a program; Meson knows what runs those of its machine."""
    suite, name = test.split("/test_")
    log = build.path / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    run("meson", "test", "-C", build.path, "--no-rebuild", "-t4", "--suite", suite, name)
    done = json.loads(log.read_text())
    return done["returncode"], done.get("stdout", "") + done.get("stderr", "")


def is_seen_by(build, test):
    """Return whether an assertion failed; None if it ended in another way."""
    status, output = (run_by_meson if build.machine else run_here)(build, test)
    if "skipped: not permitted" in output:
        raise NotPermitted
    if status < 0 or "exception" in output or "[  SKIPPED ]" in output:
        return None
    return "[  FAILED  ]" in output


def judge_script(directory, bug, script):
    """Return (PASS, FAIL or SKIP, why): of a script that prints TAP."""
    code = directory / "code"
    plant = [HERE / "plant.sh", bug, code]
    name, *options = script.split()
    for command in (plant, [HERE.parent / name, code, directory / "work", *options]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "error:" in done.stdout:
            print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
            return "FAIL", f"{script} broke"
    if "\nnot ok" in "\n" + done.stdout:
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
    with planted(build, bug) as wrong:
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
        help=f"of {' or '.join(BUGS_ELSEWHERE)}; where cmocka is: ./dev",
    )
    args = parser.parse_args()
    build = Build(args.directory.resolve() / "build", *args.cross)
    wrong = configure(build)
    if wrong:
        sys.exit(wrong)
    bugs = BUGS_ELSEWHERE[build.machine] if build.machine else BUGS
    names = args.bug or (QUICK if args.quick else list(bugs))
    programs = {test for name in names for test in bugs[name] if not is_script(test)}
    results = []

    def record(bug, result, why):
        results.append(result)
        print(result, f"planted: {bug}", why, sep="\t", flush=True)

    if not args.quick:  # then the other configurations have run them
        record("nothing", *judge_nothing(build, sorted(programs)))
    for bug in names:
        record(bug, *judge(build, bug, bugs[bug]))
    return "FAIL" in results


if __name__ == "__main__":
    sys.exit(main())
