// SPDX-License-Identifier: MIT
//! Times that are recorded in a histogram (`timer.h`).

use percpu_sys as sys;

use crate::Histogram;

/// A time that is being measured. It records the seconds since it began when it is dropped.
///
/// It may be moved to another thread, so it may live across an `await`.
#[derive(Debug)]
#[must_use = "it records when it is dropped"]
pub struct Timer<'a> {
    start: sys::percpu_timer,
    histogram: &'a Histogram,
}

impl<'a> Timer<'a> {
    pub(crate) fn start(histogram: &'a Histogram) -> Self {
        // SAFETY: the call has no conditions.
        let start = unsafe { sys::percpu_timer_start() };
        Self { start, histogram }
    }

    /// The seconds since it began.
    pub fn elapsed(&self) -> f64 {
        // SAFETY: the timer was started.
        unsafe { sys::percpu_timer_elapsed(self.start) }
    }

    /// Record nothing.
    pub fn discard(self) {
        std::mem::forget(self);
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        // SAFETY: the timer was started, and the histogram is valid.
        unsafe { sys::percpu_timer_record(self.start, self.histogram.0.raw()) }
    }
}
