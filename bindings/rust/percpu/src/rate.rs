// SPDX-License-Identifier: MIT
//! Rate limits: at most n events in a period (`rate.h`).

use std::time::Duration;

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{debug_as_name, object, Handle};
use crate::Region;

object!(percpu_rate, percpu_rate_destroy);

/// At most so many events in each period. All events are counted, refused ones included.
///
/// **Context:** checks and reads in any thread, in signal handlers, in children of fork.
/// **Progress:** a check takes no lock.
///
/// ```
/// let logins = percpu::Rate::new(5, std::time::Duration::from_secs(3600))?;
/// let allowed = (0..8).filter(|_| logins.check()).count();
/// assert_eq!(allowed, 5);
/// assert_eq!((logins.allowed(), logins.refused()), (5, 3));
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Rate(Handle<sys::percpu_rate>);

/// The last read of [`Rate::per_second`]. It begins as `RateMark::default()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateMark(sys::percpu_rate_mark);

impl Rate {
    /// Create a rate in memory of this process. The period is taken in whole milliseconds, and ends
    /// at a step of a clock that advances by 1 to 10 ms at a time.
    ///
    /// Fails with [`Error::Invalid`] for a limit or a period of 0, and with [`Error::OutOfRange`]
    /// for one above 2^31 - 1.
    pub fn new(limit: u64, period: Duration) -> Result<Self, Error> {
        let (limit, ms) = (number(limit), milliseconds(period));
        // SAFETY: the call stores a rate.
        Handle::create(|ret| unsafe { sys::percpu_rate_create(limit, ms, ret) })
            .map(Self)
            .map_err(|e| e.refused(|| possible(limit, ms)))
    }

    /// Create a rate in a region. Fails as [`Rate::new`], and as `percpu_rate_create_in()`.
    pub fn new_in(region: &Region, limit: u64, period: Duration) -> Result<Self, Error> {
        let (limit, ms) = (number(limit), milliseconds(period));
        // SAFETY: the region is valid; the call stores a rate.
        Handle::in_region(region, sys::percpu_rate_detach, |r, ret| unsafe {
            sys::percpu_rate_create_in(r, limit, ms, ret)
        })
        .map(Self)
        .map_err(|e| e.refused(|| possible(limit, ms)))
    }

    /// Attach to the rate at a root of a region, or create it if there is none. A rate that is there
    /// keeps its limit. Fails as [`Rate::new_in`], and with [`Error::Exists`] if the root has
    /// another object, or a rate of another period.
    pub fn open(region: &Region, root: u32, limit: u64, period: Duration) -> Result<Self, Error> {
        let (limit, ms) = (number(limit), milliseconds(period));
        // SAFETY: the region is valid; the call stores a rate.
        Handle::in_region(region, sys::percpu_rate_detach, |r, ret| unsafe {
            sys::percpu_rate_open(r, root, limit, ms, ret)
        })
        .map(Self)
        .map_err(|e| {
            e.refused(|| {
                let rate = possible(limit, ms);
                format!("{rate}; root {root}: it is 0 to 15, in a file")
            })
        })
    }

    /// Attach to the rate with a key. Fails with [`Error::NotFound`] if there is no rate.
    pub fn attach(region: &Region, key: u64) -> Result<Self, Error> {
        // SAFETY: the region is valid; the call stores a rate.
        Handle::in_region(region, sys::percpu_rate_detach, |r, ret| unsafe {
            sys::percpu_rate_attach(r, key, ret)
        })
        .map(Self)
    }

    /// Its key in its region; 0 if [`Rate::new`] has made it.
    pub fn key(&self) -> u64 {
        // SAFETY: the handle keeps the rate valid.
        unsafe { sys::percpu_rate_key(self.0.raw()) }
    }

    /// Count an event, and return whether it is within the limit of the period.
    #[must_use]
    pub fn check(&self) -> bool {
        // SAFETY: the handle keeps the rate valid.
        unsafe { sys::percpu_rate_check(self.0.raw()) }
    }

    /// Change the limit. A higher one holds at once, a lower one from the next period on at the
    /// latest. Fails as [`Rate::new`].
    pub fn set_limit(&self, limit: u64) -> Result<(), Error> {
        // SAFETY: the handle keeps the rate valid.
        check(unsafe { sys::percpu_rate_set_limit(self.0.raw(), number(limit)) })
            .map_err(|e| e.refused(|| format!("a limit of {limit}: it is 1 to 2147483647")))
    }

    /// How many events were let through since the rate was created.
    pub fn allowed(&self) -> u64 {
        // SAFETY: the handle keeps the rate valid.
        unsafe { sys::percpu_rate_allowed(self.0.raw()) }
    }

    /// How many events were refused since the rate was created.
    pub fn refused(&self) -> u64 {
        // SAFETY: the handle keeps the rate valid.
        unsafe { sys::percpu_rate_refused(self.0.raw()) }
    }

    /// The events per second since the last call with this mark, let through and refused together;
    /// 0 the first time.
    pub fn per_second(&self, last: &mut RateMark) -> f64 {
        // SAFETY: the handle keeps the rate valid.
        unsafe { sys::percpu_rate_per_second(self.0.raw(), &mut last.0) }
    }
}
debug_as_name!(Rate);

/// What is wrong with a rate that the library has refused.
fn possible(limit: i64, ms: i64) -> String {
    format!("a rate of {limit} events in {ms} ms: both numbers are 1 to 2147483647")
}

fn milliseconds(period: Duration) -> i64 {
    i64::try_from(period.as_millis()).unwrap_or(i64::MAX)
}

/// Numbers above the limit of the library stay above it.
fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
