// SPDX-License-Identifier: MIT
//! The minimum and the maximum of what was observed (`extrema.h`).

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{debug_as_name, object, Handle};
use crate::{Metric, Segment};

object!(percpu_extrema, percpu_extrema_destroy);

/// The minimum and the maximum of the integers that were observed since the last reset.
///
/// **Context:** observations and reads in any thread, in signal handlers, in children of fork.
/// Resets: not in signal handlers. **Progress:** an observation or a read takes no lock; a reset
/// fences, in a segment by a visit to each CPU.
///
/// ```
/// let queue = percpu::Extrema::new()?;
/// for n in [3, 9, 4] {
///     queue.observe(n)?;
/// }
/// assert_eq!(queue.fetch()?, (3, 9));
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Extrema(pub(crate) Handle<sys::percpu_extrema>);

impl Extrema {
    /// Create extrema of nothing in memory of this process.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call stores extrema.
        Handle::create(|ret| unsafe { sys::percpu_extrema_create(0, ret) }).map(Self)
    }

    /// Observe v. Fails with [`Error::Busy`] in a thread without sequences if other threads
    /// observed new extremes again and again meanwhile.
    pub fn observe(&self, v: i64) -> Result<(), Error> {
        // SAFETY: the handle keeps the extrema valid.
        check(unsafe { sys::percpu_extrema_observe_call(self.0.raw(), v) })
    }

    /// Read the minimum and the maximum. Fails with [`Error::Empty`] if nothing was observed.
    pub fn fetch(&self) -> Result<(i64, i64), Error> {
        let (mut min, mut max) = (0, 0);
        // SAFETY: the handle keeps the extrema valid; the call stores both results.
        check(unsafe { sys::percpu_extrema_fetch(self.0.raw(), &mut min, &mut max) })?;
        Ok((min, max))
    }

    /// Read and reset: each observation is in the result of one such call. Fails as
    /// `percpu_extrema_fetch_reset()`.
    pub fn fetch_reset(&self) -> Result<(i64, i64), Error> {
        let (mut min, mut max) = (0, 0);
        // SAFETY: the handle keeps the extrema valid; the call stores both results.
        check(unsafe { sys::percpu_extrema_fetch_reset(self.0.raw(), &mut min, &mut max) })?;
        Ok((min, max))
    }
}
debug_as_name!(Extrema);

/// The same, of doubles: -0.0 is less than 0.0.
///
/// ```
/// let celsius = percpu::FExtrema::new()?;
/// celsius.observe(-1.5)?;
/// celsius.observe(20.25)?;
/// assert!(celsius.observe(f64::NAN).is_err());
/// assert_eq!(celsius.fetch()?, (-1.5, 20.25));
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct FExtrema(pub(crate) Handle<sys::percpu_extrema>);

impl FExtrema {
    /// Create extrema of nothing in memory of this process.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call stores extrema.
        Handle::create(|ret| unsafe { sys::percpu_extrema_create(sys::PERCPU_EXTREMA_DOUBLE, ret) })
            .map(Self)
    }

    /// Observe v. Fails with [`Error::OutOfRange`] if v is not finite, and as
    /// [`Extrema::observe`].
    pub fn observe(&self, v: f64) -> Result<(), Error> {
        // SAFETY: the handle keeps the extrema valid.
        check(unsafe { sys::percpu_extrema_observe_double_call(self.0.raw(), v) })
    }

    /// Read the minimum and the maximum. Fails with [`Error::Empty`] if nothing was observed.
    pub fn fetch(&self) -> Result<(f64, f64), Error> {
        let (mut min, mut max) = (0.0, 0.0);
        // SAFETY: the handle keeps the extrema valid; the call stores both results.
        check(unsafe { sys::percpu_extrema_fetch_double(self.0.raw(), &mut min, &mut max) })?;
        Ok((min, max))
    }

    /// Read and reset, as [`Extrema::fetch_reset`].
    pub fn fetch_reset(&self) -> Result<(f64, f64), Error> {
        let (mut min, mut max) = (0.0, 0.0);
        // SAFETY: the handle keeps the extrema valid; the call stores both results.
        check(unsafe { sys::percpu_extrema_fetch_reset_double(self.0.raw(), &mut min, &mut max) })?;
        Ok((min, max))
    }
}
debug_as_name!(FExtrema);

impl Segment {
    /// Find or create extrema of integers.
    pub fn extrema(&self, metric: &Metric) -> Result<Extrema, Error> {
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_extrema(s, m, 0, ret)
        })
        .map(Extrema)
    }

    /// Find or create extrema of doubles.
    pub fn fextrema(&self, metric: &Metric) -> Result<FExtrema, Error> {
        let flags = sys::PERCPU_EXTREMA_DOUBLE;
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_extrema(s, m, flags, ret)
        })
        .map(FExtrema)
    }
}
