// SPDX-License-Identifier: MIT
//! Which buckets a histogram has (`histogram.h`).

use std::ptr;

use percpu_sys as sys;

/// Which buckets a histogram has.
///
/// The default are exponential buckets for seconds: 8 for each octave from a microsecond to 17
/// minutes.
///
/// ```
/// use percpu::HistogramOptions;
///
/// let bytes = HistogramOptions::new().range(64.0, 1e9).buckets_per_octave(4);
/// let nanoseconds = HistogramOptions::new().ticks_per_unit(1_000_000_000);
/// let as_before = HistogramOptions::new().bounds(&[0.005, 0.01, 0.025, 0.05, 0.1]);
/// # let _ = (bytes, nanoseconds, as_before);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HistogramOptions<'a> {
    min: f64,
    max: f64,
    ticks_per_unit: u64,
    buckets_per_octave: u32,
    flags: u32,
    bounds: Option<&'a [f64]>,
}

impl<'a> HistogramOptions<'a> {
    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// The range of exponential buckets, in the exported unit, rounded outward to powers of two.
    pub fn range(self, min: f64, max: f64) -> Self {
        Self { min, max, ..self }
    }

    /// 1, 2, 4, 8, 16 or 32 exponential buckets between a power of two and the next.
    pub fn buckets_per_octave(self, buckets_per_octave: u32) -> Self {
        Self {
            buckets_per_octave,
            ..self
        }
    }

    /// Own bounds, in the exported unit, rising and finite, up to 512: a value is in the bucket of
    /// the first bound that it is not above.
    pub fn bounds(self, bounds: &'a [f64]) -> Self {
        Self {
            bounds: Some(bounds),
            ..self
        }
    }

    /// No bounds: a count and a sum.
    pub fn summary(self) -> Self {
        Self {
            flags: sys::PERCPU_HISTOGRAM_SUMMARY,
            ..self
        }
    }

    /// Record whole numbers, this many for one exported unit, whose sums are exact: 1000000000 for
    /// nanoseconds and seconds.
    pub fn ticks_per_unit(self, ticks_per_unit: u64) -> Self {
        Self {
            ticks_per_unit,
            ..self
        }
    }

    pub(crate) fn raw(&self) -> sys::percpu_histogram_options {
        sys::percpu_histogram_options {
            size: size_of::<sys::percpu_histogram_options>(),
            n: 0,
            min: self.min,
            max: self.max,
            ticks_per_unit: self.ticks_per_unit,
            buckets_per_octave: self.buckets_per_octave,
            flags: self.flags,
            bounds: self.bounds.map_or(ptr::null(), |b| b.as_ptr()),
            bounds_n: self.bounds.map_or(0, |b| b.len()),
        }
    }
}
