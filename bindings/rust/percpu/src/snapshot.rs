// SPDX-License-Identifier: MIT
//! What a histogram holds (`histogram.h`).

use std::ptr::{self, NonNull};

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::non_null;
use crate::Histogram;

/// The contents of a histogram.
pub struct Snapshot(NonNull<sys::percpu_histogram_snapshot>);

// SAFETY: it is memory of its own, which changes by &mut only.
unsafe impl Send for Snapshot {}
// SAFETY: as above.
unsafe impl Sync for Snapshot {}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // SAFETY: it is used by nobody else.
        unsafe { sys::percpu_histogram_snapshot_destroy(self.raw()) }
    }
}

/// The observations in a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The upper end: the bucket has values that are not above it. The last bucket has infinity.
    pub upper: f64,
    /// How many there are.
    pub count: u64,
    /// Their sum in the exported unit.
    pub sum: f64,
}

/// An estimate of a quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The estimate. With own bounds it is what PromQL computes.
    pub value: f64,
    /// The observation is not below this.
    pub low: f64,
    /// The observation is not above this.
    pub high: f64,
}

impl Snapshot {
    /// An empty snapshot of a histogram's layout.
    pub(crate) fn of(h: &Histogram) -> Result<Self, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the histogram is valid; the call stores a snapshot.
        check(unsafe { sys::percpu_histogram_snapshot_create(h.0.raw(), &mut raw) })?;
        Self::from_raw(raw)
    }

    /// Take over a snapshot of the library.
    pub(crate) fn from_raw(raw: *mut sys::percpu_histogram_snapshot) -> Result<Self, Error> {
        non_null(raw).map(Self)
    }

    pub(crate) fn raw(&self) -> *mut sys::percpu_histogram_snapshot {
        self.0.as_ptr()
    }

    fn get(&self) -> &sys::percpu_histogram_snapshot {
        // SAFETY: it is valid, and changes by &mut only.
        unsafe { self.0.as_ref() }
    }

    /// How many observations there are.
    pub fn count(&self) -> u64 {
        self.get().count
    }

    /// The sum of all observations, in the exported unit.
    pub fn sum(&self) -> f64 {
        self.get().sum
    }

    /// How many observations were refused.
    pub fn refused(&self) -> u64 {
        self.get().refused
    }

    /// Whole numbers for one exported unit; 0 in a histogram of doubles.
    pub fn ticks_per_unit(&self) -> u64 {
        self.get().ticks_per_unit
    }

    /// The buckets, by rising ends, empty ones included.
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = Bucket> + '_ {
        let s = self.get();
        // SAFETY: the snapshot has n buckets.
        let buckets = unsafe { s.bucket.as_slice(s.n as usize) };
        buckets.iter().enumerate().map(move |(k, b)| Bucket {
            upper: self.upper(k),
            count: b.count,
            sum: b.sum,
        })
    }

    /// The bounds that the program has given: the ends of all buckets but the last. `None` of a
    /// histogram with exponential buckets.
    pub fn own_bounds(&self) -> Option<&[f64]> {
        let s = self.get();
        if s.bounds.is_null() {
            return None;
        }
        // SAFETY: there are n - 1 bounds, as long as the snapshot is there.
        Some(unsafe { std::slice::from_raw_parts(s.bounds, (s.n as usize).saturating_sub(1)) })
    }

    /// Where bucket k ends.
    fn upper(&self, k: usize) -> f64 {
        let s = self.get();
        if k + 1 >= s.n as usize {
            return f64::INFINITY;
        }
        if !s.bounds.is_null() {
            // SAFETY: there are n - 1 bounds.
            return unsafe { *s.bounds.add(k) };
        }
        let first = if s.schema < 0 {
            s.low >> -s.schema
        } else {
            s.low << s.schema
        };
        // SAFETY: the call has no conditions.
        unsafe { sys::percpu_histogram_bound(s.schema, first + k as i32) }
    }

    /// Estimate a quantile, 0 to 1. Fails with [`Error::Empty`] if nothing was observed, or there
    /// are no bounds; with [`Error::Invalid`] if q is not from 0 to 1.
    pub fn quantile(&self, q: f64) -> Result<Quantile, Error> {
        let mut r = sys::percpu_histogram_quantile {
            value: 0.0,
            low: 0.0,
            high: 0.0,
        };
        // SAFETY: the snapshot is valid.
        check(unsafe { sys::percpu_histogram_quantile(self.raw(), q, &mut r) })?;
        Ok(Quantile {
            value: r.value,
            low: r.low,
            high: r.high,
        })
    }

    /// Count the observations that are not above a bound, and tell whether the number is exact: it
    /// is an estimate if the bound divides a bucket that is not empty.
    pub fn count_below(&self, bound: f64) -> (u64, bool) {
        let mut exact = false;
        // SAFETY: the snapshot is valid.
        let n = unsafe { sys::percpu_histogram_count_below(self.raw(), bound, &mut exact) };
        (n, exact)
    }

    /// Add the contents of another snapshot. Fails as `percpu_histogram_merge()`.
    pub fn merge(&mut self, from: &Snapshot) -> Result<(), Error> {
        // SAFETY: both are valid, and not the same.
        check(unsafe { sys::percpu_histogram_merge(self.raw(), from.raw()) })
    }

    /// Subtract an earlier snapshot of the same histogram: what is left was recorded in between.
    /// Fails with [`Error::OutOfRange`] if the histogram was reset in between.
    pub fn subtract(&mut self, earlier: &Snapshot) -> Result<(), Error> {
        // SAFETY: both are valid, and not the same.
        check(unsafe { sys::percpu_histogram_subtract(self.raw(), earlier.raw()) })
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .finish_non_exhaustive()
    }
}
