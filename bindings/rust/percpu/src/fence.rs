// SPDX-License-Identifier: MIT
//! Fences of all processes (`fence.h`).

use std::time::Duration;

use percpu_sys as sys;

use crate::error::{check, Error};

/// The CPUs that a fence reached, and those that it did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceReport {
    /// CPUs that were visited, or that are offline.
    pub fenced: u32,
    /// CPUs where old sequences may still be running.
    pub unfenced: u32,
    /// The number of the first of these.
    pub first_unfenced: u32,
}

/// Fence the sequences of all processes, by visiting each possible CPU: about 0.1 ms per CPU, and
/// at most about `timeout`.
///
/// The report counts no CPUs if no thread could be started. The result is an error unless every
/// CPU was fenced: [`Error::Busy`] if a CPU did not let the visitor run in time, or if no thread
/// could be started; [`Error::Denied`] if this process may not use a CPU; [`Error::Invalid`] if the
/// timeout is 0; [`Error::NoMemory`].
///
/// **Context:** any thread; not a signal handler.
pub fn fence_all(timeout: Duration) -> (FenceReport, Result<(), Error>) {
    let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let mut report = sys::percpu_fence_report {
        fenced: 0,
        unfenced: 0,
        first_unfenced: 0,
        unfenced_cpus: [0; sys::PERCPU_MAX_CPUS as usize / 64],
    };
    // SAFETY: the call stores a report, or leaves it as it is.
    let result = check(unsafe { sys::percpu_fence_all(ns, &mut report) });
    let report = FenceReport {
        fenced: report.fenced,
        unfenced: report.unfenced,
        first_unfenced: report.first_unfenced,
    };
    (report, result)
}
