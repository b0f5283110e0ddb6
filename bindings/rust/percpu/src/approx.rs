// SPDX-License-Identifier: MIT
//! Sums that one load estimates, and that can be kept below a limit (`approx.h`).

use std::cmp::Ordering;

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{debug_as_name, object, Handle};
use crate::Region;

object!(percpu_approx, percpu_approx_destroy);

/// A sum with an estimate that costs one load, and a bound on its error.
///
/// **Context:** any thread, signal handlers, except for [`add_below`](Self::add_below); children of
/// fork. **Progress:** an add does not wait. Near its limit, `add_below` fences.
///
/// ```
/// let memory = percpu::ApproxSum::new()?;
/// memory.add(1000);
/// assert_eq!(memory.fetch(), 1000);
/// assert!((memory.estimate() - 1000).unsigned_abs() <= memory.bound());
/// assert!(memory.add_below(5, 1004).is_err());
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct ApproxSum(Handle<sys::percpu_approx>);

impl ApproxSum {
    /// Create a sum of 0 in memory of this process, with batches of 4096.
    pub fn new() -> Result<Self, Error> {
        Self::with_batch(0)
    }

    /// Create a sum whose estimate is off by at most a batch for each CPU. A batch is 1 to 2^40; 0
    /// is the default. Fails with [`Error::Invalid`] for another one.
    pub fn with_batch(batch: i64) -> Result<Self, Error> {
        let options = options(batch);
        // SAFETY: the options are valid; the call stores a sum.
        Handle::create(|ret| unsafe { sys::percpu_approx_create(&options, ret) })
            .map(Self)
            .map_err(|e| e.refused(|| format!("a batch of {batch}: it is 1 to 2^40")))
    }

    /// Create a sum of 0 in a region, with that batch, as [`ApproxSum::with_batch`]. Fails as that,
    /// with [`Error::Invalid`] if the region's lanes do not have the default size, and as
    /// `percpu_approx_create_in()`.
    pub fn new_in(region: &Region, batch: i64) -> Result<Self, Error> {
        let options = options(batch);
        // SAFETY: the region and the options are valid; the call stores a sum.
        Handle::in_region(region, sys::percpu_approx_detach, |r, ret| unsafe {
            sys::percpu_approx_create_in(r, &options, ret)
        })
        .map(Self)
        .map_err(|e| {
            e.refused(|| {
                format!("a batch of {batch}: it is 1 to 2^40, in lanes of the default size")
            })
        })
    }

    /// Attach to the sum at a root of a region, or create it if there is none. Fails as
    /// [`ApproxSum::new_in`], and with [`Error::Exists`] if the root has another object, or a sum
    /// of another batch; a batch of 0 accepts any.
    pub fn open(region: &Region, root: u32, batch: i64) -> Result<Self, Error> {
        let options = options(batch);
        // SAFETY: the region and the options are valid; the call stores a sum.
        Handle::in_region(region, sys::percpu_approx_detach, |r, ret| unsafe {
            sys::percpu_approx_open(r, root, &options, ret)
        })
        .map(Self)
        .map_err(|e| {
            e.refused(|| {
                format!(
                    "a batch of {batch} at root {root}: it is 1 to 2^40, or 0, and a root is 0 to \
                     15, in a file with lanes of the default size"
                )
            })
        })
    }

    /// Attach to the sum with a key. Fails with [`Error::NotFound`] if there is no sum.
    pub fn attach(region: &Region, key: u64) -> Result<Self, Error> {
        // SAFETY: the region is valid; the call stores a sum.
        Handle::in_region(region, sys::percpu_approx_detach, |r, ret| unsafe {
            sys::percpu_approx_attach(r, key, ret)
        })
        .map(Self)
    }

    /// Its key in its region; 0 if [`ApproxSum::new`] has made it.
    pub fn key(&self) -> u64 {
        // SAFETY: the handle keeps the sum valid.
        unsafe { sys::percpu_approx_key(self.0.raw()) }
    }

    /// Add n, which may be negative, without a limit.
    pub fn add(&self, n: i64) {
        // SAFETY: the handle keeps the sum valid.
        unsafe { sys::percpu_approx_add_call(self.0.raw(), n) }
    }

    /// Add n, unless the exact sum would exceed the limit. Fails with [`Error::OutOfRange`] and
    /// nothing added if it would; with [`Error::Denied`] or [`Error::Busy`] if CPUs could not be
    /// fenced near the limit.
    pub fn add_below(&self, n: i64, limit: i64) -> Result<(), Error> {
        // SAFETY: the handle keeps the sum valid.
        check(unsafe { sys::percpu_approx_add_below_call(self.0.raw(), n, limit) }).map_err(|e| {
            match e {
                Error::OutOfRange(_) => e.saying("the sum would exceed the limit"),
                other => other,
            }
        })
    }

    /// The approximate sum: one load.
    pub fn estimate(&self) -> i64 {
        // SAFETY: the handle keeps the sum valid.
        unsafe { sys::percpu_approx_estimate_call(self.0.raw()) }
    }

    /// The bound on the error of the estimate.
    pub fn bound(&self) -> u64 {
        // SAFETY: the handle keeps the sum valid.
        unsafe { sys::percpu_approx_bound(self.0.raw()) }
    }

    /// Read the exact sum. Loads each lane once.
    pub fn fetch(&self) -> i64 {
        // SAFETY: the handle keeps the sum valid.
        unsafe { sys::percpu_approx_fetch(self.0.raw()) }
    }

    /// Compare the exact sum with v. Sums the lanes only if v is near the estimate.
    pub fn compare(&self, v: i64) -> Ordering {
        // SAFETY: the handle keeps the sum valid.
        unsafe { sys::percpu_approx_compare(self.0.raw(), v) }.cmp(&0)
    }

    /// Read the sum and set it to 0 in one step.
    pub fn fetch_zero(&self) -> i64 {
        // SAFETY: the handle keeps the sum valid.
        unsafe { sys::percpu_approx_fetch_zero(self.0.raw()) }
    }
}
debug_as_name!(ApproxSum);

fn options(batch: i64) -> sys::percpu_approx_options {
    sys::percpu_approx_options {
        size: size_of::<sys::percpu_approx_options>(),
        batch,
    }
}
