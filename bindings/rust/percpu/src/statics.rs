// SPDX-License-Identifier: MIT
//! Counters that are statics, and count before `main` (`counter.h`).

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use percpu_sys as sys;

use crate::counter;
use crate::error::{check, Error};

/// A counter that is a static. It counts from the first instruction of the program on: until it is
/// set up, adds go to an atomic word, which stays part of the sum.
///
/// [`static_counter!`](crate::static_counter) defines one that is set up before `main`. One that is
/// defined without the macro stays atomic until [`setup`](Self::setup) is called.
///
/// Context, Ordering and Progress are those of [`Counter`](crate::Counter).
///
/// ```
/// percpu::static_counter! {
///     /// Requests.
///     pub static REQUESTS
/// }
/// REQUESTS.inc();
/// assert_eq!(REQUESTS.fetch(), 1);
/// ```
#[repr(transparent)]
pub struct StaticCounter(UnsafeCell<sys::percpu_static_counter>);

// SAFETY: all of its calls may be made by several threads at the same time.
unsafe impl Sync for StaticCounter {}

/// Define a [`StaticCounter`] that a constructor sets up before `main`.
#[macro_export]
macro_rules! static_counter {
    ($(#[$about:meta])* $vis:vis static $name:ident) => {
        $(#[$about])*
        $vis static $name: $crate::StaticCounter = {
            extern "C" fn setup() {
                // Without memory it goes on to count atomically.
                let _ = $name.setup();
            }

            #[used]
            #[unsafe(link_section = ".init_array")]
            static SETUP: extern "C" fn() = setup;
            $crate::StaticCounter::new()
        };
    };
}

impl StaticCounter {
    /// A counter of 0.
    #[allow(clippy::new_without_default)] // it is for statics
    pub const fn new() -> Self {
        Self(UnsafeCell::new(sys::percpu_static_counter {
            counter: ptr::null_mut(),
            early: 0,
        }))
    }

    /// Create the per-CPU counter, unless it exists. Fails with [`Error::NoMemory`]; then adds
    /// still go to the atomic word. Not in signal handlers.
    pub fn setup(&'static self) -> Result<(), Error> {
        // SAFETY: the struct is valid, and stays.
        check(unsafe { sys::percpu_static_counter_setup(self.0.get()) })
    }

    /// Add n. Never fails, never loses.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        let raw = self.0.get();
        // SAFETY: the struct is valid. The library changes its fields by atomic accesses, too. The
        // counter is valid: nobody tears it down.
        unsafe {
            let c = AtomicPtr::from_ptr(&raw mut (*raw).counter).load(Ordering::Acquire);
            if c.is_null() {
                AtomicU64::from_ptr(&raw mut (*raw).early).fetch_add(n, Ordering::Relaxed);
            } else {
                counter::add(c, n as i64);
            }
        }
    }

    /// Add 1.
    #[inline(always)]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Read the counter.
    pub fn fetch(&self) -> u64 {
        // SAFETY: the struct is valid.
        unsafe { sys::percpu_static_counter_fetch(self.0.get()) }
    }

    /// Set the counter to 0.
    pub fn zero(&self) {
        // SAFETY: the struct is valid.
        unsafe { sys::percpu_static_counter_zero(self.0.get()) }
    }

    /// Read and reset the counter in one step.
    pub fn fetch_zero(&self) -> u64 {
        // SAFETY: the struct is valid.
        unsafe { sys::percpu_static_counter_fetch_zero(self.0.get()) }
    }
}

impl std::fmt::Debug for StaticCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticCounter").finish_non_exhaustive()
    }
}
