// SPDX-License-Identifier: MIT
//! Which tier is in force, and why (`status.h`).

use std::ffi::CStr;

use percpu_sys as sys;

/// How updates are done, from the slowest to the fastest. No tier loses counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// An atomic add in a lane that all threads share.
    Shared,
    /// An atomic add in a lane of the current CPU.
    Cpu,
    /// A plain add in a restartable sequence.
    Rseq,
}

impl std::fmt::Display for Tier {
    /// As `percpu_tier_name()`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Cpu => "cpu",
            Self::Rseq => "rseq",
        })
    }
}

impl Tier {
    fn of(tier: sys::percpu_tier) -> Self {
        match tier {
            sys::PERCPU_TIER_RSEQ => Self::Rseq,
            sys::PERCPU_TIER_CPU => Self::Cpu,
            _ => Self::Shared,
        }
    }
}

/// What registered the thread's rseq area with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registrar {
    /// Nothing: there is no registration.
    None,
    /// The C library.
    Libc,
    /// libpercpu.
    Library,
}

/// Whether the kernel aborts a preempted sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selftest {
    /// Threads cannot run sequences here.
    Skipped,
    /// The sequence was aborted.
    Passed,
    /// The sequence went on: sequences are unsafe here.
    Failed,
    /// The self-test could not preempt a sequence.
    Inconclusive,
    /// No result yet.
    Pending,
}

/// The state of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The tier of the process. Until the self-test has ended it is at most [`Tier::Cpu`].
    pub tier: Tier,
    /// Why this tier, in words.
    pub reason: &'static str,
    /// The highest possible CPU number + 1.
    pub possible_cpus: u32,
    /// The most fields that one store commits: 2, 4 or 8 on tier *rseq*, else 1.
    pub commit_words: u32,
    /// Whether locks are taken over when their holder was killed.
    pub robust: bool,
    /// What has registered the thread of the first call.
    pub registrar: Registrar,
    /// The result of the self-test.
    pub selftest: Selftest,
    /// Bytes that libc registered; 0: none.
    pub rseq_size: u32,
    /// Bytes that the kernel uses of them; 0: a kernel before 6.3.
    pub feature_size: u32,
    /// The alignment that the kernel asks for; 0: a kernel before 6.3.
    pub align: u32,
    /// Lanes of a region: CPU, atomic and bias lanes.
    pub lanes: u32,
    /// The commands of membarrier(2) that the kernel offers, a bit each.
    pub membarrier_commands: u32,
    /// Whether a fence of the process can use membarrier.
    pub fence: bool,
    /// A thread ran on a CPU for which some region has no lane.
    pub cpu_without_lane: bool,
    /// Whether the rseq area has a concurrency id.
    pub has_mm_cid: bool,
}

/// The state of the process. The first call starts the self-test, and does not wait for it. Not in
/// signal handlers.
///
/// ```
/// let status = percpu::status();
/// println!("tier {:?}: {}", status.tier, status.reason);
/// ```
pub fn status() -> Status {
    // SAFETY: the call returns a struct that stays valid, with a string that does.
    let (s, reason) = unsafe {
        let s = &*sys::percpu_status();
        (s, CStr::from_ptr(s.reason))
    };
    Status {
        tier: Tier::of(s.tier),
        reason: reason.to_str().unwrap_or(""),
        possible_cpus: s.possible_cpus,
        commit_words: s.commit_words,
        robust: s.robust,
        registrar: match s.registrar {
            sys::PERCPU_REGISTRAR_LIBC => Registrar::Libc,
            sys::PERCPU_REGISTRAR_LIBRARY => Registrar::Library,
            _ => Registrar::None,
        },
        selftest: match s.selftest {
            sys::PERCPU_SELFTEST_PASSED => Selftest::Passed,
            sys::PERCPU_SELFTEST_FAILED => Selftest::Failed,
            sys::PERCPU_SELFTEST_INCONCLUSIVE => Selftest::Inconclusive,
            sys::PERCPU_SELFTEST_PENDING => Selftest::Pending,
            _ => Selftest::Skipped,
        },
        rseq_size: s.rseq_size,
        feature_size: s.feature_size,
        align: s.align,
        lanes: s.lanes,
        membarrier_commands: s.membarrier_cmds,
        fence: s.fence,
        cpu_without_lane: s.cpu_without_lane,
        has_mm_cid: s.has_mm_cid,
    }
}

/// Wait for the self-test, about a millisecond on an idle machine, at most 10 s. Afterwards the
/// tier of [`status`] is final. Call it before you measure, and before a sandbox.
pub fn selftest() -> Status {
    // SAFETY: the call has no conditions.
    unsafe { sys::percpu_selftest() };
    status()
}

/// The tier of the calling thread: that of the process, or a lower one. In signal handlers, too.
pub fn thread_tier() -> Tier {
    // SAFETY: the call has no conditions.
    Tier::of(unsafe { sys::percpu_thread_tier() })
}
