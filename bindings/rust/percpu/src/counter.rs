// SPDX-License-Identifier: MIT
//! Counters of 64 bits, and of doubles (`counter.h`, `fcounter.h`).

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{debug_as_name, object, Handle};
use crate::seq::{self, Cell};

object!(percpu_counter, percpu_counter_destroy);
object!(percpu_fcounter, percpu_fcounter_destroy);

/// Add to the counter at an address in lane 0 of a region of the default lane size.
///
/// # Safety
/// The counter is valid.
#[inline(always)]
pub(crate) unsafe fn add(c: *mut sys::percpu_counter, n: i64) {
    // SAFETY: the caller's promise.
    unsafe {
        if !seq::add(
            Cell {
                base: c.cast(),
                stride: sys::PERCPU_STRIDE,
            },
            n,
        ) {
            sys::percpu_counter_add_slow(c, n);
        }
    }
}

/// The same, for a counter of doubles. Returns 0 or -errno.
///
/// # Safety
/// The counter is valid.
#[inline(always)]
pub(crate) unsafe fn add_double(c: *mut sys::percpu_fcounter, n: f64) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        if seq::add_double(
            Cell {
                base: c.cast(),
                stride: sys::PERCPU_STRIDE,
            },
            n,
        ) {
            return Ok(());
        }
        check(sys::percpu_fcounter_add_slow(c, n))
    }
}

/// A counter that any thread adds to at about the cost of a plain addition, exactly.
///
/// Values wrap modulo 2^64. Clones are handles of the same counter. What was added stays when a
/// thread or process is killed.
///
/// **Context:** adds and reads in any thread, in signal handlers, in children of fork. Making,
/// cloning into and dropping handles: not in signal handlers.
/// **Ordering:** none for adds (as `Relaxed`). A read includes the adds that happened before it.
/// **Progress:** an add is bounded and takes no lock; a read loads each lane once.
///
/// ```
/// let requests = percpu::Counter::new()?;
/// std::thread::scope(|s| {
///     for _ in 0..2 {
///         s.spawn(|| (0..1000).for_each(|_| requests.inc()));
///     }
/// });
/// assert_eq!(requests.fetch(), 2000);
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Counter(pub(crate) Handle<sys::percpu_counter>);

impl Counter {
    /// Create a counter of 0 in memory of this process.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call stores a counter.
        Handle::create(|ret| unsafe { sys::percpu_counter_create(ret) }).map(Self)
    }

    /// Add n. Never fails, never loses.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        // SAFETY: the handle keeps the counter valid.
        unsafe { add(self.0.raw(), n as i64) }
    }

    /// Add 1.
    #[inline(always)]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Subtract n. Not in a segment, whose readers take a counter that fell for one that began
    /// anew.
    #[inline(always)]
    pub fn sub(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// Read the counter: what was added since it was created or last zeroed. The result need not be
    /// the total of any instant. It costs a load for each possible CPU.
    pub fn fetch(&self) -> u64 {
        // SAFETY: the handle keeps the counter valid.
        unsafe { sys::percpu_counter_fetch(self.0.raw()) }
    }

    /// Set the counter to 0. An add that runs meanwhile counts before or after it.
    pub fn zero(&self) {
        // SAFETY: the handle keeps the counter valid.
        unsafe { sys::percpu_counter_zero(self.0.raw()) }
    }

    /// Read and reset in one step: the values returned to all callers and what is left add up to
    /// what was added.
    pub fn fetch_zero(&self) -> u64 {
        // SAFETY: the handle keeps the counter valid.
        unsafe { sys::percpu_counter_fetch_zero(self.0.raw()) }
    }
}
debug_as_name!(Counter);

/// A counter of doubles, such as seconds.
///
/// Sums of whole numbers are exact below 2^53; others are rounded as the machine adds doubles.
/// Context, Ordering and Progress are those of [`Counter`].
///
/// ```
/// let seconds = percpu::FCounter::new()?;
/// seconds.add(0.25)?;
/// seconds.add(0.5)?;
/// assert_eq!(seconds.fetch(), 0.75);
/// assert!(seconds.add(f64::NAN).is_err());
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct FCounter(pub(crate) Handle<sys::percpu_fcounter>);

impl FCounter {
    /// Create a counter of 0 in memory of this process.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call stores a counter.
        Handle::create(|ret| unsafe { sys::percpu_fcounter_create(ret) }).map(Self)
    }

    /// Add n.
    ///
    /// Fails with [`Error::OutOfRange`], with nothing added, if n is not finite, or the sum of this
    /// CPU would be 2^1000 or more in size.
    #[inline(always)]
    pub fn add(&self, n: f64) -> Result<(), Error> {
        // SAFETY: the handle keeps the counter valid.
        unsafe { add_double(self.0.raw(), n) }
    }

    /// Read the counter, as [`Counter::fetch`] does. The result is finite.
    pub fn fetch(&self) -> f64 {
        // SAFETY: the handle keeps the counter valid.
        unsafe { sys::percpu_fcounter_fetch(self.0.raw()) }
    }

    /// Set the counter to 0.
    pub fn zero(&self) {
        // SAFETY: the handle keeps the counter valid.
        unsafe { sys::percpu_fcounter_zero(self.0.raw()) }
    }

    /// Read and reset in one step, as [`Counter::fetch_zero`], except for rounding.
    pub fn fetch_zero(&self) -> f64 {
        // SAFETY: the handle keeps the counter valid.
        unsafe { sys::percpu_fcounter_fetch_zero(self.0.raw()) }
    }
}
debug_as_name!(FCounter);
