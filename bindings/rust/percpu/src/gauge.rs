// SPDX-License-Identifier: MIT
//! Levels that go up and down, and that can be set; values that are only set (`gauge.h`).

use std::time::{Duration, SystemTime};

use percpu_sys as sys;

use crate::counter;
use crate::error::{check, Error};
use crate::handle::{debug_as_name, object, Handle};

object!(percpu_gauge, percpu_gauge_destroy);
object!(percpu_fgauge, percpu_fgauge_destroy);
object!(percpu_latest, percpu_latest_destroy);

/// A level of integers. An add costs as much as one to a [`Counter`](crate::Counter); a set
/// replaces earlier adds.
///
/// Values wrap modulo 2^64. Context and Progress are those of [`Counter`](crate::Counter).
/// **Ordering:** a thread that reads a value which another one has set sees what that one did
/// before.
///
/// ```
/// let connections = percpu::Gauge::new()?;
/// connections.add(3);
/// connections.dec();
/// assert_eq!(connections.fetch(), 2);
/// connections.set(7)?;
/// assert_eq!(connections.fetch(), 7);
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Gauge(pub(crate) Handle<sys::percpu_gauge>);

impl Gauge {
    /// Create a gauge of 0 in memory of this process.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call stores a gauge.
        Handle::create(|ret| unsafe { sys::percpu_gauge_create(ret) }).map(Self)
    }

    /// Add n, which may be negative.
    #[inline(always)]
    pub fn add(&self, n: i64) {
        // SAFETY: the handle keeps the gauge valid. Its cells are those of a counter (gauge.h).
        unsafe { counter::add(self.0.raw().cast(), n) }
    }

    /// Subtract n.
    #[inline(always)]
    pub fn sub(&self, n: i64) {
        self.add(n.wrapping_neg());
    }

    /// Add 1.
    #[inline(always)]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Subtract 1.
    #[inline(always)]
    pub fn dec(&self) {
        self.add(-1);
    }

    /// Set the gauge. An add that runs meanwhile is replaced, or counts from the new level on.
    pub fn set(&self, v: i64) -> Result<(), Error> {
        // SAFETY: the handle keeps the gauge valid.
        check(unsafe { sys::percpu_gauge_set(self.0.raw(), v) })
    }

    /// Read the gauge. The result need not be the level of any instant.
    pub fn fetch(&self) -> i64 {
        // SAFETY: the handle keeps the gauge valid.
        unsafe { sys::percpu_gauge_fetch(self.0.raw()) }
    }
}
debug_as_name!(Gauge);

/// A level of doubles.
///
/// ```
/// let megabytes = percpu::FGauge::new()?;
/// megabytes.set(1.5)?;
/// megabytes.add(-0.5)?;
/// assert_eq!(megabytes.fetch(), 1.0);
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct FGauge(pub(crate) Handle<sys::percpu_fgauge>);

impl FGauge {
    /// Create a gauge of 0 in memory of this process.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call stores a gauge.
        Handle::create(|ret| unsafe { sys::percpu_fgauge_create(ret) }).map(Self)
    }

    /// Add n, which may be negative. Fails as [`FCounter::add`](crate::FCounter::add).
    #[inline(always)]
    pub fn add(&self, n: f64) -> Result<(), Error> {
        // SAFETY: the handle keeps the gauge valid. Its cells are those of a counter (gauge.h).
        unsafe { counter::add_double(self.0.raw().cast(), n) }
    }

    /// Subtract n, as [`FGauge::add`] adds.
    #[inline(always)]
    pub fn sub(&self, n: f64) -> Result<(), Error> {
        self.add(-n)
    }

    /// Set the gauge. Until the next add it reads as exactly that double. Fails with
    /// [`Error::OutOfRange`] if v is not finite, or 2^1000 or more in size.
    pub fn set(&self, v: f64) -> Result<(), Error> {
        // SAFETY: the handle keeps the gauge valid.
        check(unsafe { sys::percpu_fgauge_set(self.0.raw(), v) })
    }

    /// Read the gauge. The result is finite.
    pub fn fetch(&self) -> f64 {
        // SAFETY: the handle keeps the gauge valid.
        unsafe { sys::percpu_fgauge_fetch(self.0.raw()) }
    }
}
debug_as_name!(FGauge);

/// A value that is only ever set, such as a temperature, with the time when it was set.
///
/// ```
/// let celsius = percpu::Latest::new()?;
/// assert!(matches!(celsius.fetch(), Err(percpu::Error::Empty(_))));
/// celsius.set(21.5)?;
/// assert_eq!(celsius.fetch()?.0, 21.5);
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Latest(pub(crate) Handle<sys::percpu_latest>);

impl Latest {
    /// Create a value that was not set yet, in memory of this process.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call stores a latest value.
        Handle::create(|ret| unsafe { sys::percpu_latest_create(ret) }).map(Self)
    }

    /// Set the value, which may be any double, and its time to now.
    pub fn set(&self, v: f64) -> Result<(), Error> {
        // SAFETY: the handle keeps the value valid.
        check(unsafe { sys::percpu_latest_set(self.0.raw(), v) })
    }

    /// Read the value and the time at which it was set, both of the same set. Fails with
    /// [`Error::Empty`] if it was never set.
    pub fn fetch(&self) -> Result<(f64, SystemTime), Error> {
        let (mut v, mut ns) = (0.0, 0);
        // SAFETY: the handle keeps the value valid; the call stores both results.
        check(unsafe { sys::percpu_latest_fetch(self.0.raw(), &mut v, &mut ns) })?;
        Ok((v, time(ns)))
    }
}
debug_as_name!(Latest);

/// A time that the library tells in ns of CLOCK_REALTIME.
pub(crate) fn time(ns: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(ns)
}
