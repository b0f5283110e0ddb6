// SPDX-License-Identifier: MIT
//! Which buckets a histogram has (`histogram.h`).

use std::ptr;

use percpu_sys as sys;

/// The most bounds.
const MOST: usize = sys::PERCPU_HISTOGRAM_MAX_BOUNDS as usize;

/// Fewer ticks than this are exact as doubles.
const TICKS: f64 = 9_007_199_254_740_992.0;

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

    /// What is wrong with options that the library has refused.
    pub(crate) fn complaint(&self) -> String {
        let ranged = self.min != 0.0 || self.max != 0.0 || self.buckets_per_octave != 0;
        let summary = self.flags != 0;
        match self.bounds {
            _ if ranged && (summary || self.bounds.is_some()) => {
                "a histogram with own bounds, or a summary, has no range and no buckets per octave"
                    .into()
            }
            Some(_) if summary => "a summary has no bounds".into(),
            Some([]) => "there are no bounds: a histogram without bounds is a summary".into(),
            Some(bounds) if bounds.len() > MOST => {
                format!("{} bounds are more than {MOST}", bounds.len())
            }
            Some(bounds) => self.wrong_bound(bounds),
            None => self.wrong_range(),
        }
    }

    fn wrong_bound(&self, bounds: &[f64]) -> String {
        for (i, bound) in bounds.iter().enumerate() {
            if !bound.is_finite() {
                return format!("bound {i} is {bound}: bounds are finite");
            }
            match i.checked_sub(1).and_then(|before| bounds.get(before)) {
                Some(before) if before >= bound => {
                    return format!(
                        "bound {i} is {bound}, and the one before it is {before}: bounds rise"
                    );
                }
                _ => {}
            }
            if bound.abs() >= 2f64.powi(960) || bound * self.ticks_per_unit as f64 >= TICKS - 1.0 {
                return format!(
                    "bound {i} is {bound:e}: bounds are between -2^960 and 2^960, and at most \
                     2^53 - 2 ticks"
                );
            }
        }
        "the bounds cannot be".into()
    }

    fn wrong_range(&self) -> String {
        let n = self.buckets_per_octave;
        if n != 0 && (n > 32 || !n.is_power_of_two()) {
            return format!("{n} buckets per octave: there are 1, 2, 4, 8, 16 or 32");
        }
        let or = |value: f64, default: i32| match value {
            0.0 => 2f64.powi(default),
            value => value,
        };
        format!(
            "a range from {:e} to {:e}: it rises, from 2^-1000 or more to 2^960 or less, and ends \
             below 2^53 ticks",
            or(self.min, -20),
            or(self.max, 10)
        )
    }
}
