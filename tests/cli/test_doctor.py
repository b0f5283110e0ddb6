#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_doctor.py PERCPU-DOCTOR - what it says of a machine, and by its exit status. Speaks TAP."""

import os
import subprocess
import sys

import tap

DOCTOR = os.path.abspath(sys.argv[1])
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")


def doctor(*arguments):
    """Return (exit status, lines, standard error)."""
    done = subprocess.run([DOCTOR, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def with_shm(mount):
    """Return what it finds after these commands, in a mount namespace; None if there is none."""
    possible = subprocess.run([*NAMESPACE, mount], capture_output=True, check=False)
    if possible.returncode != 0:
        return None
    done = subprocess.run(
        [*NAMESPACE, f'{mount}; exec "$0"', DOCTOR], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def expect(lines, name, text):
    """There is a line of that name that begins so."""
    assert any(line.startswith(f"{name:18}{text}") for line in lines), lines


def usage_is_told(_):
    """Help is asked for, and anything else is refused by its name."""
    status, lines, _ = doctor("--help")
    assert status == 0 and lines[0].startswith("usage: percpu-doctor"), lines
    status, lines, errors = doctor("--quick")
    assert status == 3 and not lines and "--quick" in errors, (status, errors)
    assert doctor("--help", "x")[0] == 3


def the_verdict_is_the_exit_status(_):
    """It is the last line."""
    status, lines, _ = doctor()
    advice = [line for line in lines if line.startswith("to do ")]
    verdict = f'{len(advice)} to change: see "to do"' if advice else "nothing to do"
    assert lines[-1] == f"{'verdict':18}{verdict}", lines
    assert status == bool(advice) or (status == 2 and "FAILED" in "".join(lines)), status
    expect(lines, "/dev/shm", "writable, ")


def a_lower_tier_is_to_be_changed(_):
    """The variable that asks for it is named."""
    os.environ["PERCPU_TIER"] = "shared"
    status, lines, _ = doctor()
    del os.environ["PERCPU_TIER"]
    expect(lines, "tier", "shared")
    expect(lines, "to do", "unset PERCPU_TIER")
    assert status in (1, 2), status


def a_directory_without_files_is_told(_):
    """That files are refused, and what to do."""
    mount = "mount --bind /dev/shm /dev/shm; mount -o remount,bind,ro /dev/shm"
    found = with_shm(mount)
    if found is None:
        return "no mount namespace"
    status, lines, _ = found
    expect(lines, "/dev/shm", "no file can be created: Read-only file system")
    expect(lines, "to do", "make /dev/shm a tmpfs")
    assert status in (1, 2) and "to change" in lines[-1], (status, lines)
    return None


def a_full_directory_is_told(_):
    """All of it is taken."""
    found = with_shm(
        "mount -t tmpfs -o size=64k tmpfs /dev/shm; head -c 65536 /dev/zero >/dev/shm/all"
    )
    if found is None:
        return "no mount namespace"
    status, lines, _ = found
    expect(lines, "/dev/shm", "full")
    expect(lines, "to do", "make room in /dev/shm")
    assert status in (1, 2), status
    return None


tap.run(
    [
        usage_is_told,
        the_verdict_is_the_exit_status,
        a_lower_tier_is_to_be_changed,
        a_directory_without_files_is_told,
        a_full_directory_is_told,
    ]
)
