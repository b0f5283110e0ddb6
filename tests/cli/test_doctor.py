#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_doctor.py PERCPU - what "percpu doctor" says of a machine, its exit code. Speaks TAP."""

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

import tap

PERCPU = os.path.abspath(sys.argv[1])
DOCTOR = (PERCPU, "doctor")
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")


def doctor(*arguments):
    """Return (exit status, lines, standard error)."""
    done = subprocess.run([*DOCTOR, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def doctor_of(*command, preexec=None):
    """The same, for a command that executes the doctor."""
    done = subprocess.run(  # pylint: disable=subprocess-popen-preexec-fn
        command, capture_output=True, text=True, check=False, preexec_fn=preexec
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def with_shm(mount):
    """Return its report after these commands, in a mount namespace; None if there is none."""
    possible = subprocess.run([*NAMESPACE, mount], capture_output=True, check=False)
    if possible.returncode != 0:
        return None
    return doctor_of(*NAMESPACE, f'{mount}; exec "$@"', "sh", *DOCTOR)


def new_cpuset():
    """Return a cpuset's directory that accepts CPUs: of version 2, or else 1; None if none does."""
    top = "/sys/fs/cgroup"
    with contextlib.suppress(OSError):
        if os.path.exists(f"{top}/cgroup.subtree_control"):
            with open(f"{top}/cgroup.subtree_control", encoding="ascii") as f:
                return tempfile.mkdtemp(prefix="percpu-", dir=top) if "cpuset" in f.read() else None
        group = tempfile.mkdtemp(prefix="percpu-", dir=f"{top}/cpuset")
        shutil.copyfile(f"{top}/cpuset/cpuset.mems", f"{group}/cpuset.mems")
        return group
    return None


# Numbers of calls on each machine, by its number in ELF.
NUMBERS = {
    "fcntl": {3: 221, 40: 221, 62: 72, 183: 25},
    "fstatfs": {3: 269, 40: 267, 62: 138, 183: 44},
    "gettid": {3: 224, 40: 224, 62: 186, 183: 178},
    "membarrier": {3: 375, 40: 389, 62: 324, 183: 283},
}


def refuse(call, error=errno.EPERM):
    """In a child: let the kernel refuse this call, as by a filter of a container."""
    with open(PERCPU, "rb") as f:
        machine = struct.unpack("<H", f.read(20)[18:])[0]
    filters = struct.pack("=HBBI", 0x20, 0, 0, 0)  # load the number of the call
    filters += struct.pack("=HBBI", 0x15, 0, 1, NUMBERS[call][machine])
    filters += struct.pack("=HBBI", 6, 0, 0, 0x00050000 + error)
    filters += struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
    code = ctypes.create_string_buffer(filters, len(filters))

    class Program(ctypes.Structure):  # pylint: disable=too-few-public-methods
        """struct sock_fprog"""

        _fields_ = [("n", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = Program(len(filters) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no filter")


def doctor_without(call, error=errno.EPERM):
    """Return its report if this call is refused; None if calls cannot be refused."""
    try:
        return doctor_of(*DOCTOR, preexec=lambda: refuse(call, error))
    except subprocess.SubprocessError:
        return None


def expect(lines, name, text):
    """Assert that there is a line of that name that begins so."""
    assert any(line.startswith(f"{name:18}{text}") for line in lines), lines


def the_verdict_is_the_exit_status(_):
    """The verdict is the last line."""
    status, lines, _ = doctor()
    advice = [line for line in lines if line.startswith("to do ")]
    verdict = f'{len(advice)} to change: see "to do"' if advice else "nothing to do"
    assert lines[-1] == f"{'verdict':18}{verdict}", lines
    assert status == bool(advice) or (status == 8 and "FAILED" in "".join(lines)), status
    expect(lines, "/dev/shm", "writable, ")


def a_lower_tier_is_to_be_changed(_):
    """A tier that was asked for is reported with its variable."""
    os.environ["PERCPU_TIER"] = "shared"
    status, lines, _ = doctor()
    del os.environ["PERCPU_TIER"]
    expect(lines, "tier", "shared")
    expect(lines, "to do", "unset PERCPU_TIER")
    assert status in (1, 8), status


def a_directory_without_files_is_told(_):
    """The report says that files are refused, and what to do."""
    mount = "mount --bind /dev/shm /dev/shm; mount -o remount,bind,ro /dev/shm"
    found = with_shm(mount)
    if found is None:
        return "no mount namespace"
    status, lines, errors = found
    assert lines, (status, errors)
    expect(lines, "/dev/shm", "no file can be created: Read-only file system")
    expect(lines, "to do", "make /dev/shm a tmpfs")
    assert status in (1, 8) and "to change" in lines[-1], (status, lines)
    return None


def a_full_directory_is_told(_):
    """The whole directory is used up."""
    if os.path.realpath(PERCPU).startswith("/dev/shm/"):
        return "the program is in /dev/shm itself, where another directory is mounted"
    found = with_shm(
        "mount -t tmpfs -o size=64k tmpfs /dev/shm; head -c 65536 /dev/zero >/dev/shm/all"
    )
    if found is None:
        return "no mount namespace"
    status, lines, errors = found
    assert lines, (status, errors)
    expect(lines, "/dev/shm", "full")
    expect(lines, "to do", "make room in /dev/shm")
    assert status in (1, 8), status
    return None


def room_is_that_of_others(_):
    """The room that the doctor itself takes for its trial still counts as free."""
    if os.path.realpath(PERCPU).startswith("/dev/shm/"):
        return "the program is in /dev/shm itself, where another directory is mounted"
    found = with_shm("mount -t tmpfs -o size=256k tmpfs /dev/shm")
    if found is None:
        return "no mount namespace"
    expect(found[1], "/dev/shm", "writable, 256 KiB free")
    return None


def a_directory_too_small_is_told(_):
    """There is room, but not enough for a segment with one counter."""
    if os.path.realpath(PERCPU).startswith("/dev/shm/"):
        return "the program is in /dev/shm itself, where another directory is mounted"
    for size in (4, 16, 64):
        found = with_shm(f"mount -t tmpfs -o size={size}k tmpfs /dev/shm")
        if found is None:
            return "no mount namespace"
        status, lines, _ = found
        expect(
            lines,
            "/dev/shm",
            "full: no segment with a counter can be created: " + "the disk is full",
        )
        expect(lines, "to do", "make room in /dev/shm")
        assert status in (1, 8), status
    return None


def room_that_is_not_told_is_not_missing(_):
    """A filter hides how much room there is, but segments can be created."""
    found = doctor_without("fstatfs")
    if found is None:
        return "no filter"
    status, lines, _ = found
    expect(
        lines,
        "/dev/shm",
        "writable, how much is free is not told: Operation not permitted",
    )
    assert not any("make room" in line for line in lines), lines
    assert status in (0, 1, 8), status
    return None


def a_filter_is_no_other_user(_):
    """The file that the doctor creates is its user's, so EPERM comes from a filter."""
    for error in (errno.EPERM, errno.ENOSYS):
        found = doctor_without("gettid", error)
        if found is None:
            return "no filter"
        status, lines, _ = found
        expect(
            lines,
            "/dev/shm",
            f"no segment with a counter can be created: {os.strerror(error)}",
        )
        expect(lines, "to do", "let gettid(2) and the other calls")
        assert not any("another user" in line for line in lines), lines
        assert status in (1, 8), status
    return None


def a_limit_is_told(_):
    """The report names the limit, not the directory."""
    for limit, most, words, advice in (
        (
            resource.RLIMIT_FSIZE,
            0,
            "the limit for the size of files",
            "raise the limit of the size of files",
        ),
        (
            resource.RLIMIT_NOFILE,
            4,
            "the process has no free descriptor",
            "raise the limit of descriptors",
        ),
    ):
        status, lines, errors = doctor_of(
            *DOCTOR,
            preexec=lambda limit=limit, most=most: resource.setrlimit(limit, (most, most)),
        )
        assert lines, (status, errors)
        expect(lines, "/dev/shm", "no segment with a counter can be created: " + words)
        expect(lines, "to do", advice)
        assert not any("make /dev/shm a tmpfs" in line for line in lines), lines
        assert status in (1, 8), status


def visits_are_to_be_changed(_):
    """Without membarrier(2) all works, but slower."""
    for error in (errno.EPERM, errno.ENOSYS):
        found = doctor_without("membarrier", error)
        if found is None:
            return "no filter"
        status, lines, _ = found
        expect(lines, "fence, own", "by visiting each CPU")
        if not any(line.split() == ["tier", "rseq"] for line in lines):
            return "no sequences to fence"
        expect(lines, "to do", "let membarrier(2) through")
        assert status == 1, status
    return None


def a_filter_closes_no_output(_):
    """If fcntl(2) is refused, the output is not taken to be closed."""
    found = doctor_without("fcntl")
    if found is None:
        return "no filter"
    status, lines, errors = found
    assert status in (0, 1, 8) and lines, (status, errors)
    assert lines[-1].startswith("verdict"), lines
    return None


def a_cpuset_is_told(_):
    """Snapshots of shared objects need all CPUs, so a cpuset is reported."""
    cpus = os.sched_getaffinity(0)
    group = new_cpuset()
    if group is None or len(cpus) == 1:
        return "no cpuset of our own, or one CPU"

    def enter():
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(os.getpid()))

    try:
        with open(f"{group}/cpuset.cpus", "w", encoding="ascii") as f:
            f.write(str(min(cpus)))
        status, lines, _ = doctor_of(*DOCTOR, preexec=enter)
    finally:
        os.rmdir(group)
    others = "1 CPU" if os.cpu_count() == 2 else f"{os.cpu_count() - 1} CPUs"
    expect(
        lines,
        "fence, all",
        f"{others} not reached (Operation not permitted), the first is CPU ",
    )
    expect(lines, "to do", "let this process run on all CPUs")
    assert status in (1, 8) and "to change" in lines[-1], (status, lines)
    return None


def a_fence_without_a_thread_is_told(_):
    """The kernel starts no thread in such a process, so no CPU was visited, and none is counted."""
    space = ("unshare", "--user", "--map-root-user", "--pid")
    if subprocess.run([*space, "true"], capture_output=True, check=False).returncode != 0:
        return "no namespace"
    for _ in range(5):
        status, lines, _ = doctor_of(*space, *DOCTOR)
        expect(lines, "fence, all", "no CPU was visited: no thread could be started (")
        expect(lines, "to do", "let this process start threads")
        assert status in (1, 8), status
    return None


def output_is_not_lost(_):
    """Output that cannot be written is an error: by the exit code, and in words."""
    for arguments in (DOCTOR, (PERCPU, "--help"), (PERCPU, "man", "doctor")):
        status, _, errors = doctor_of("sh", "-c", 'exec "$@" >/dev/full', "sh", *arguments)
        assert status == 7, (arguments, status)
        assert errors.startswith("percpu: the output cannot be written: "), errors


tap.run(
    [
        the_verdict_is_the_exit_status,
        a_lower_tier_is_to_be_changed,
        a_directory_without_files_is_told,
        a_full_directory_is_told,
        room_is_that_of_others,
        a_directory_too_small_is_told,
        room_that_is_not_told_is_not_missing,
        a_filter_is_no_other_user,
        a_limit_is_told,
        visits_are_to_be_changed,
        a_filter_closes_no_output,
        a_cpuset_is_told,
        a_fence_without_a_thread_is_told,
        output_is_not_lost,
    ]
)
