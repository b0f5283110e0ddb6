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

impl Tier {
    fn of(tier: sys::percpu_tier) -> Self {
        match tier {
            sys::PERCPU_TIER_RSEQ => Self::Rseq,
            sys::PERCPU_TIER_CPU => Self::Cpu,
            _ => Self::Shared,
        }
    }
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
