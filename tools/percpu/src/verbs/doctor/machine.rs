// SPDX-License-Identifier: MIT
//! What this machine offers to programs that count.

use std::time::Duration;

use percpu::{Error, Registrar, Selftest, Status, Tier};
use rustix::io::Errno;

use super::{meaning, shm, Report};
use crate::failure::{Exit, Failure};

const COMMANDS: [&str; 10] = [
    "global",
    "global-expedited",
    "register-global-expedited",
    "private-expedited",
    "register-private-expedited",
    "private-expedited-sync-core",
    "register-private-expedited-sync-core",
    "private-expedited-rseq",
    "register-private-expedited-rseq",
    "get-registrations",
];

pub fn look() -> Result<Exit, Failure> {
    let mut report = Report::default();
    let status = percpu::selftest(); // it may raise the tier
    tell_tier(&mut report, &status);
    let fenced = tell_fences(&mut report, &status);
    tell_rest(&mut report, &status);
    advise_on_fences(&mut report, &status, fenced);
    shm::look(&mut report);
    advise_on_tier(&mut report, &status);
    let exit = report.print()?;
    let broken = status.selftest == Selftest::Failed;
    Ok(if broken { Exit::Broken } else { exit })
}

fn tell_tier(report: &mut Report, s: &Status) {
    let size = |bytes: u32, absent: &str| match bytes {
        0 => absent.to_string(),
        n => format!("{n} bytes"),
    };
    report.line("tier", s.tier);
    report.line("why", s.reason);
    report.line("this thread", percpu::thread_tier());
    report.line(
        "registered by",
        match s.registrar {
            Registrar::None => "nobody",
            Registrar::Libc => "libc",
            Registrar::Library => "libpercpu",
        },
    );
    report.line("rseq, libc", size(s.rseq_size, "not registered by libc"));
    let untold = "not told (before Linux 6.3)";
    report.line("rseq, kernel", size(s.feature_size, untold));
    report.line("rseq, alignment", size(s.align, untold));
    report.line("mm_cid", if s.has_mm_cid { "yes" } else { "no" });
    report.line("commit", format!("of up to {} counters", s.commit_words));
    report.line("possible CPUs", s.possible_cpus);
    let none = if s.cpu_without_lane {
        "; a CPU has none"
    } else {
        ""
    };
    report.line(
        "lanes",
        format!(
            "{}: a plain and an atomic one per CPU, and the bias{none}",
            s.lanes
        ),
    );
}

/// Print what the fences return. Functions that need no fence work without one:
/// docs/cpu/fence.md.
fn tell_fences(report: &mut Report, s: &Status) -> Result<(), Error> {
    let bits = s.membarrier_commands;
    let offered = COMMANDS
        .iter()
        .enumerate()
        .filter(|(i, _)| bits >> i & 1 != 0);
    let offered: Vec<_> = offered.map(|(_, name)| *name).collect();
    report.line(
        "membarrier",
        if bits == 0 {
            "not available".to_string()
        } else {
            offered.join(", ")
        },
    );
    let own = if s.fence {
        "membarrier"
    } else {
        "by visiting each CPU"
    };
    report.line("fence, own", own);
    let (cpus, result) = percpu::fence_all(Duration::from_secs(1));
    let all = match &result {
        Ok(()) => format!(
            "by visiting each CPU: {} of {} reached",
            cpus.fenced, s.possible_cpus
        ),
        Err(e) if cpus.unfenced > 0 => format!(
            "{} CPU{} not reached ({}), the first is CPU {}",
            cpus.unfenced,
            if cpus.unfenced == 1 { "" } else { "s" },
            meaning(e.errno()),
            cpus.first_unfenced
        ),
        Err(e) => format!(
            "no CPU was visited: no thread could be started ({})",
            meaning(e.errno())
        ),
    };
    report.line("fence, all", all);
    result
}

fn tell_rest(report: &mut Report, s: &Status) {
    report.line(
        "locks",
        if s.robust {
            "taken over when their holder was killed"
        } else {
            "not taken over: get_robust_list(2) is refused"
        },
    );
    report.line(
        "kernel",
        rustix::system::uname().release().to_string_lossy(),
    );
    report.line(
        "self-test",
        match s.selftest {
            Selftest::Skipped => "skipped: there are no sequences to test",
            Selftest::Passed => "passed: a preempted sequence is aborted",
            Selftest::Failed => "FAILED: a preempted sequence goes on; do not use rseq here",
            Selftest::Inconclusive => "inconclusive: no preemption could be provoked",
            Selftest::Pending => "pending",
        },
    );
}

/// Advise what is needed to fence all processes, and this one without visits. Without sequences
/// there is nothing to fence.
fn advise_on_fences(report: &mut Report, s: &Status, fenced: Result<(), Error>) {
    if s.tier == Tier::Rseq && !s.fence {
        report.advise(
            "let membarrier(2) through the seccomp filter, or use a kernel from 5.10 on: without \
             it, fences, snapshots and resets visit each CPU",
        );
    }
    match fenced.map_err(|e| Errno::from_raw_os_error(e.errno())) {
        Ok(()) => {}
        Err(Errno::PERM) => report.advise(
            "let this process run on all CPUs (cpuset, filter of sched_setaffinity(2) or \
             gettid(2)), or take snapshots and resets of what processes share elsewhere: here \
             they are refused",
        ),
        Err(Errno::TIMEDOUT) => report.advise(
            "leave other threads some time of each CPU: while a real-time thread has one for \
             itself, snapshots and resets of what processes share time out",
        ),
        Err(_) => report.advise(
            "let this process start threads (limits; none start after unshare(CLONE_NEWPID)): \
             snapshots and resets of what processes share need one",
        ),
    }
    if !s.robust {
        report.advise(
            "let get_robust_list(2) through the seccomp filter, so that locks of the dead are \
             taken over",
        );
    }
}

fn advise_on_tier(report: &mut Report, s: &Status) {
    if s.tier == Tier::Rseq {
        return;
    }
    report.advise(if s.selftest == Selftest::Failed {
        "update the kernel: it lets a preempted sequence go on"
    } else if std::env::var_os("PERCPU_TIER").is_some() {
        "unset PERCPU_TIER, which keeps this process on a lower tier"
    } else if s.registrar == Registrar::None {
        "let rseq(2) through: by the seccomp filter, or a kernel from 4.18 on that has it"
    } else {
        "see \"why\" above, and docs/cpu/status.md, for what keeps tier rseq away"
    });
}
