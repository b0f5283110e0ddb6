#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""matrix.py SUBJECT LOADER PLUGIN SOURCE COMPILER... - counts in many environments.

Each row runs the subject in an environment of its own and checks the tier that it prints; the
subject checks the counts. Speaks TAP. Rows that are not permitted here are skipped. SOURCE is the
root of the tree: some rows compile the subject and the library again. For aarch64 under qemu there
are unit tests, in ./dev test; for a CPU that goes offline, tests/stress/test_hotplug.c.
"""

import contextlib
import functools
import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile

SUBJECT, LOADER, PLUGIN, SOURCE = (os.path.abspath(a) for a in sys.argv[1:5])
COMPILER = sys.argv[5:]
TIMEOUT = 60
CPU_LISTS = "/sys/devices/system/cpu"
# Results of the self-test on a busy machine: such a row is tried again.
INCONCLUSIVE = "has not come to its end"
TRIES = 4
OBJECTS = tempfile.TemporaryDirectory(prefix="percpu-")
# These rows do not test the library's code: the subject that Meson has built does.
QUICK = [] if os.environ.get("PERCPU_TEST_COMPILERS") == "all" else ["-O0"]
OWN = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}


class Skip(Exception):
    """The row cannot run here."""


def run(*args, env=None, preexec=None):
    """Run a program that must succeed; return its output."""
    clean = {k: v for k, v in os.environ.items() if k not in ("GLIBC_TUNABLES", "PERCPU_TIER")}
    r = subprocess.run(
        args,
        env=clean | (env or {}),
        preexec_fn=preexec,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert r.returncode == 0, f"{' '.join(args)}: status {r.returncode}\n{r.stdout[-2000:]}"
    return r.stdout


def run_if_permitted(refusal, *args):
    """Run a program that may end with this complaint where it is not permitted."""
    try:
        return run(*args)
    except AssertionError as e:
        if refusal in str(e):
            raise Skip(refusal) from e
        raise


def expect(output, **want):
    """Assert that each name=value is in the output."""
    for name, value in want.items():
        assert re.search(rf"\b{name}={value}\b", output), f"no {name}={value} in: {output}"


def need(tool):
    if shutil.which(tool) is None:
        raise Skip(f"no {tool}")


def best_tier():
    """Return the best tier of this machine: rseq, if the kernel has it."""
    for _ in range(TRIES):
        out = run(SUBJECT, "count", env=OWN)
        if INCONCLUSIVE not in out:
            break
    return re.search(r"tier=(\w+)", out)[1]


@functools.cache
def library(directory, *command):
    """Return the library in one object, compiled once for all rows."""
    path = os.path.join(directory, f"library{len(os.listdir(directory))}.o")
    run(*command, *QUICK, "-c", f"{SOURCE}/src/percpu_all.c", "-o", path)
    return path


def compiled(work, *args, cc=None):
    """The subject and the library in one program."""
    program = os.path.join(work, "subject")
    command = [*(cc or COMPILER), "-std=gnu11", "-O2", f"-I{SOURCE}/include", "-pthread"]
    if "-flto" in args:
        source = f"{SOURCE}/src/percpu_all.c"
    else:
        source = library(OBJECTS.name, *command)
    run(*command, *args, f"{SOURCE}/tests/matrix/subject.c", source, "-o", program)
    return program


# The rows: each gets a directory of its own and the best tier.


def as_built(_work, best):
    expect(
        run(SUBJECT, "count", "values", "local", "fence"), tier=best, thread=best, fence=0, all=0
    )


def own_registration(_work, best):
    out = run(SUBJECT, "count", "values", "local", "fence", env=OWN)
    expect(out, tier=best, owner="library" if best == "rseq" else "nobody", fence=0, all=0)


def lower_tiers(_work, best):
    tiers = ["rseq", "cpu", "shared"]
    for tier in tiers[tiers.index(best) + 1 :]:
        out = run(SUBJECT, "count", "values", "vfork", "local", env={"PERCPU_TIER": tier})
        expect(out, tier=tier, thread=tier)


def static_glibc(work, best):
    expect(run(compiled(work, "-static"), "count", "values", "vfork", "local"), tier=best)


def compiled_for_musl(work, *args):
    need("musl-gcc")
    # It has no kernel headers; the machine's are used.
    triplet = sysconfig.get_config_var("MULTIARCH")
    kernel = os.path.join(work, "kernel")
    os.mkdir(kernel)
    for name in ("linux", "asm-generic", f"{triplet}/asm"):
        os.symlink(f"/usr/include/{name}", f"{kernel}/{os.path.basename(name)}")
    return compiled(work, "-static", "-idirafter", kernel, *args, cc=["musl-gcc"])


def static_musl(work, best):
    expect(run(compiled_for_musl(work), "count", "values", "vfork", "local"), tier=best)


def large_tls(work, best):
    for static in [], ["-static"]:
        program = compiled(work, "-DLARGE_TLS", *static)
        expect(run(program, "count", "local", "fence"), tier=best, fence=0, all=0)


def large_tls_musl(work, best):
    program = compiled_for_musl(work, "-DLARGE_TLS")
    expect(run(program, "count", "local", "fence"), tier=best, fence=0, all=0)


def lto_no_pie(work, best):
    program = compiled(work, "-flto", "-no-pie", "-fno-pie")
    expect(run(program, "count", "values", "vfork", "local"), tier=best)


def plugin_unloaded(_work, best):
    expect(run(LOADER, PLUGIN), tier=best)


def vfork_child(_work, best):
    expect(run(SUBJECT, "vfork", "count"), tier=best, thread=best)


def clone_thread(_work, best):
    # Parent and child share their TLS, as far as the library knows for ever.
    lower = "cpu" if best == "rseq" else best
    expect(run(SUBJECT, "clone", "count"), tier=best, thread=lower)


def bare_child(_work, best):
    expect(run(SUBJECT, "bare", "count", "bare"), tier=best, thread=best)
    expect(run(SUBJECT, "bare", "count", "bare", env=OWN), tier=best, thread=best)


def valgrind(work, _best):
    need("valgrind")
    need("strip")
    # Without debugging information: valgrind 3.19 cannot read that of clang 14.
    program = os.path.join(work, "subject")
    run("strip", "-g", "-o", program, SUBJECT)
    expect(
        run("valgrind", "-q", "--error-exitcode=9", program, "count", "values", "local"), tier="cpu"
    )


def debugger_steps(work, best):
    need("gdb")
    script = os.path.join(work, "script")
    with open(script, "w", encoding="ascii") as f:
        f.write("""set confirm off
set pagination off
break step
break step_end
run
set $steps = 0
while $pc != (unsigned long)&step_end && $steps < 40000
  stepi
  set $steps = $steps + 1
end
printf "steps=%d\\n", $steps
continue
printf "status=%d\\n", $_exitcode
""")
    gdb = ("gdb", "-batch", "-nx", "-x", script, "--args", SUBJECT, "count", "step")
    out = run_if_permitted("ptrace: Operation not permitted", *gdb)
    expect(out, tier=best, status=0)
    steps = int(re.search(r"steps=(\d+)", out)[1])
    assert 200 < steps < 40000, f"{steps} steps"


def filter_rseq(_work, _best):
    expect(
        run(SUBJECT, "deny=rseq", "exec", "count", "values", "local", "fence"), tier="cpu", fence=0
    )


def filter_rseq_new_threads(_work, best):
    # Without libc's registration, which is fatal to the process when it fails.
    out = run(SUBJECT, "count", "deny=rseq", "count", "local", env=OWN)
    expect(out, tier=best, thread=best)


def filter_membarrier(_work, best):
    out = run(SUBJECT, "deny=membarrier", "count", "local", "fence", "clone")
    expect(out, tier=best, fence=0, all=0)


def filter_membarrier_rseq(_work, best):
    # The new threads lock, and each lock needs a visit to a CPU.
    out = run(SUBJECT, "deny=membarrier", "count", "deny=rseq", "values", "local", env=OWN)
    expect(out, tier=best)


def filter_fences_late(_work, best):
    # The new threads lock, and cannot be moved to other CPUs.
    sandbox = ("deny=membarrier", "deny=sched_setaffinity", "deny=rseq")
    expect(run(SUBJECT, "count", *sandbox, "local", env=OWN), tier=best)


def filter_setaffinity(_work, _best):
    out = run(SUBJECT, "deny=sched_setaffinity", "count", "local", "fence")
    expect(out, tier="cpu", fence=0, all=-1)


def filter_getcpu(_work, best):
    expect(run(SUBJECT, "deny=getcpu", "count", "values", "local"), tier=best)


def filter_fences(_work, best):
    # The visitor finds out its CPU without a system call.
    out = run(SUBJECT, "deny=membarrier", "deny=getcpu", "count", "fence")
    expect(out, tier=best, fence=0, all=0)


def little_address_space(_work, best):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (48 << 20, 48 << 20))

    expect(run(SUBJECT, "count", "values", "local", "fence", preexec=limit), tier=best, all=0)


def affinity_of_one(_work, best):
    def pin():
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    expect(
        run(SUBJECT, "count", "values", "vfork", "local", "fence", preexec=pin), tier=best, all=0
    )


def new_cpuset():
    """Return a cpuset's directory that accepts CPUs: of version 2, or else 1."""
    top = "/sys/fs/cgroup"
    with contextlib.suppress(OSError), open(f"{top}/cgroup.subtree_control", encoding="ascii") as f:
        if "cpuset" in f.read():
            return tempfile.mkdtemp(prefix="percpu-", dir=top)
    try:
        group = tempfile.mkdtemp(prefix="percpu-", dir=f"{top}/cpuset")
        shutil.copyfile(f"{top}/cpuset/cpuset.mems", f"{group}/cpuset.mems")
        return group
    except OSError as e:
        raise Skip(f"no cpuset of our own: {e.strerror}") from e


def in_cpuset_of_one(command):
    """Run a command with one CPU; return its output, and the results of its fences."""
    group = new_cpuset()
    cpus = os.sched_getaffinity(0)

    def enter():
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(os.getpid()))

    try:
        with open(f"{group}/cpuset.cpus", "w", encoding="ascii") as f:
            f.write(str(min(cpus)))
        out = run(*command, preexec=enter)
    finally:
        os.rmdir(group)
    # The other CPUs cannot be visited, which is an error.
    return out, -1 if len(cpus) > 1 else 0


def cpuset_of_one(_work, best):
    out, fence_all = in_cpuset_of_one([SUBJECT, "count", "local", "fence"])
    expect(out, tier=best, fence=0, all=fence_all)


def with_list(work, name, cpus):
    """Return a command that runs the subject where a list in sysfs has these CPUs."""
    need("unshare")
    fake = os.path.join(work, name)
    with open(fake, "w", encoding="ascii") as f:
        f.write(cpus + "\n")
    # unshare would make / private first, which is no mount point in a chroot.
    private = ["unshare", "-m", "--propagation", "unchanged"]
    mount = f'mount --make-rprivate /sys && mount --bind "$1" {CPU_LISTS}/{name} || exit 0'
    prefix = [*private, "sh", "-c", mount + '; echo mounted; shift; exec "$@"', "sh", fake]
    return [*prefix, SUBJECT, "count", "local", "fence"]


def with_possible(work, cpus):
    """Run the subject where these CPUs are possible according to sysfs."""
    out = run_if_permitted("unshare failed", *with_list(work, "possible", cpus))
    if "mounted" not in out:
        raise Skip("no bind mount onto sysfs")
    return out


def cpuset_as_listed(work, best):
    """As some containers do, sysfs lists the CPUs of the cpuset; others are online, too."""
    command = with_list(work, "online", str(min(os.sched_getaffinity(0))))
    if "mounted" not in run_if_permitted("unshare failed", *command):
        raise Skip("no bind mount onto sysfs")
    out, fence_all = in_cpuset_of_one(command)
    expect(out, tier=best, fence=0, all=fence_all)


def sysfs_lies(work, best):
    # /proc lists them, too. On a busy machine a fence may not reach a CPU.
    cpus = re.search(r"cpus=(\d+)", run(SUBJECT, "count"))[1]
    for lie in "0", "0-3,8-11":
        expect(with_possible(work, lie), tier=best, cpus=cpus, fence=0, all="(0|-110)")


ROWS = [
    ("as built", as_built),
    ("glibc does not register", own_registration),
    ("lower tiers", lower_tiers),
    ("static glibc", static_glibc),
    ("static musl", static_musl),
    ("large static TLS", large_tls),
    ("large static TLS, musl", large_tls_musl),
    ("LTO, no-pie", lto_no_pie),
    ("plugin unloaded under load", plugin_unloaded),
    ("child of vfork", vfork_child),
    ("clone that shares TLS", clone_thread),
    ("child of the bare system call", bare_child),
    ("valgrind", valgrind),
    ("gdb steps through adds", debugger_steps),
    ("filter without rseq", filter_rseq),
    ("filter without rseq, new threads alone", filter_rseq_new_threads),
    ("filter without membarrier", filter_membarrier),
    ("filter without membarrier, then without rseq", filter_membarrier_rseq),
    ("filter without membarrier and sched_setaffinity, then without rseq", filter_fences_late),
    ("filter without sched_setaffinity", filter_setaffinity),
    ("filter without getcpu", filter_getcpu),
    ("filter without membarrier and getcpu", filter_fences),
    ("RLIMIT_AS of 48 MiB", little_address_space),
    ("affinity of one CPU", affinity_of_one),
    ("cpuset of one CPU", cpuset_of_one),
    ("cpuset of one CPU, sysfs lists that one", cpuset_as_listed),
    ("sysfs lies about the CPUs", sysfs_lies),
]


def attempt(fn, best):
    """Try a row until it succeeds, or fails for another reason than a busy machine."""
    for left in reversed(range(TRIES)):
        with tempfile.TemporaryDirectory() as work:
            try:
                return fn(work, best)
            except AssertionError as e:
                if left == 0 or INCONCLUSIVE not in str(e):
                    raise


def main():
    best = best_tier()
    failed = 0
    for i, (name, fn) in enumerate(ROWS, 1):
        try:
            attempt(fn, best)
            print(f"ok {i} - {name}", flush=True)
        except Skip as e:
            print(f"ok {i} - {name} # SKIP {e}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError) as e:
            failed += 1
            text = str(e).replace("\n", "\n# ")
            print(f"not ok {i} - {name}\n# {text}", flush=True)
    print(f"1..{len(ROWS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
