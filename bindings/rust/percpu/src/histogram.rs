// SPDX-License-Identifier: MIT
//! Histograms with exponential buckets or with own bounds, and timers (`histogram.h`, `timer.h`).

use std::ptr::{self, NonNull};

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{debug_as_name, non_null, object, Handle};
use crate::segment::{Metric, Segment};
use crate::seq::{self, Bank, Cell};

object!(percpu_histogram, percpu_histogram_destroy);

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

/// A histogram: the number of observations in each bucket, and their sum.
///
/// Infinities, NaN, values of 2^960 or more, and negative ones are refused, and counted as refused.
/// A reader sees each observation whole or not at all, also after a kill. Context and Progress are
/// those of [`Counter`](crate::Counter).
///
/// ```
/// use percpu::{Histogram, HistogramOptions};
///
/// let seconds = Histogram::new(&HistogramOptions::new())?;
/// seconds.record(0.25);
/// {
///     let _timer = seconds.timer(); // records when it is dropped
/// }
/// let snapshot = seconds.fetch()?;
/// assert_eq!(snapshot.count(), 2);
/// assert!(snapshot.quantile(1.0)?.low <= 0.25);
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Histogram(pub(crate) Handle<sys::percpu_histogram>);

impl Histogram {
    /// Create an empty histogram in memory of this process. Fails with [`Error::Invalid`] or
    /// [`Error::OutOfRange`] for options that cannot be.
    pub fn new(options: &HistogramOptions) -> Result<Self, Error> {
        let options = options.raw();
        // SAFETY: the options are valid; the call stores a histogram.
        Handle::create(|ret| unsafe { sys::percpu_histogram_create(&options, ret) }).map(Self)
    }

    /// Record a value, in the exported unit. A histogram of ticks records the nearest number of
    /// ticks. Never fails, never loses.
    #[inline(always)]
    pub fn record(&self, v: f64) {
        // SAFETY: the handle keeps the histogram valid.
        unsafe { record(&*self.0.raw(), v) }
    }

    /// Record a number of ticks. 2^63 or more are refused: most likely they are a negative
    /// difference. A histogram of doubles records the number.
    #[inline(always)]
    pub fn record_ticks(&self, ticks: u64) {
        let bits = (ticks as i64 as f64).to_bits().wrapping_sub(1);
        // SAFETY: as in record(). There is one bank, whose distance is 0.
        unsafe {
            let h = &*self.0.raw();
            let bank = Bank {
                word: &h.zero,
                mask: 0,
            };
            if bits >= h.tick_limit || !seq::bank_add2(cell(h, bits), bank, [1, ticks]) {
                sys::percpu_histogram_record_ticks_slow(h, 0, ticks);
            }
        }
    }

    /// Begin to measure a time, which the timer records in seconds when it is dropped.
    pub fn timer(&self) -> Timer<'_> {
        // SAFETY: the call has no conditions.
        let start = unsafe { sys::percpu_timer_start() };
        Timer {
            start,
            histogram: self,
        }
    }

    /// Read the histogram: what was recorded since it was created or last reset. The result need
    /// not be what it held at any one instant.
    pub fn fetch(&self) -> Result<Snapshot, Error> {
        let snapshot = Snapshot::of(self)?;
        // SAFETY: both are valid.
        check(unsafe { sys::percpu_histogram_fetch(self.0.raw(), 0, snapshot.raw()) })?;
        Ok(snapshot)
    }

    /// Read and reset: what all callers got and what is left adds up to what was recorded.
    pub fn fetch_zero(&self) -> Result<Snapshot, Error> {
        let snapshot = Snapshot::of(self)?;
        // SAFETY: both are valid.
        check(unsafe { sys::percpu_histogram_fetch_zero(self.0.raw(), 0, snapshot.raw()) })?;
        Ok(snapshot)
    }
}
debug_as_name!(Histogram);

/// Record a value in histogram 0: `percpu_histogram_record()`.
///
/// # Safety
/// The histogram is valid.
#[inline(always)]
pub(crate) unsafe fn record(h: &sys::percpu_histogram, v: f64) {
    let bits = v.to_bits().wrapping_sub(1);
    // SAFETY: the caller's promise. The cell is one of the histogram.
    unsafe {
        if bits >= h.limit || !seq::add_count_double(cell(h, bits), v) {
            sys::percpu_histogram_record_slow(h, 0, v);
        }
    }
}

/// The cell of a value above 0, given the bits of the double minus 1: `percpu_histogram_cell()`.
///
/// # Safety
/// The histogram is valid, and its limit allows the value.
#[inline(always)]
unsafe fn cell(h: &sys::percpu_histogram, bits: u64) -> Cell {
    // SAFETY: the caller's promise. The number of the cell is below the number of cells.
    let base = unsafe {
        let number = if h.schema < 0 {
            own_index(h, bits)
        } else {
            index(h, bits)
        };
        h.block
            .base
            .add(sys::PERCPU_HISTOGRAM_HEAD as usize + 16 * number as usize)
    };
    Cell {
        base: base.cast(),
        stride: h.block.stride,
    }
}

/// The number of the cell with exponential buckets: `percpu_histogram_index()`.
///
/// # Safety
/// The histogram has exponential buckets.
#[inline(always)]
unsafe fn index(h: &sys::percpu_histogram, bits: u64) -> i64 {
    let mantissa = bits & ((1 << 52) - 1);
    // SAFETY: shift leaves 6 bits of the mantissa at most, and the table has 64 elements.
    let step = unsafe { *h.table.get_unchecked((mantissa >> h.shift) as usize) };
    let octave = ((bits >> 52) << h.schema) as i64 - h.origin;
    // Not clamp(), which would panic if last were below 0: a record has no such branch.
    (octave + (step.wrapping_add(mantissa) >> 53) as i64)
        .max(0)
        .min(h.last)
}

/// How many own bounds are below the value: `percpu_histogram_own_index()`.
///
/// # Safety
/// The histogram has own bounds.
#[inline(always)]
unsafe fn own_index(h: &sys::percpu_histogram, bits: u64) -> i64 {
    let piece = ((bits >> h.shift) as i64)
        .wrapping_sub(h.origin)
        .clamp(0, 63);
    // SAFETY: the table tells where in the bounds a search of these steps ends within them.
    unsafe {
        let mut first = h.own.add(*h.table.get_unchecked(piece as usize) as usize);
        let mut half = h.half;
        while half != 0 {
            if *first.add(half - 1) <= bits {
                first = first.add(half);
            }
            half /= 2;
        }
        first.offset_from(h.own) as i64
    }
}

/// A time that is being measured. It records the seconds since it began when it is dropped.
///
/// It may be moved to another thread, so it may live across an `await`.
#[derive(Debug)]
#[must_use = "it records when it is dropped"]
pub struct Timer<'a> {
    start: sys::percpu_timer,
    histogram: &'a Histogram,
}

impl Timer<'_> {
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
    fn of(h: &Histogram) -> Result<Self, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the histogram is valid; the call stores a snapshot.
        check(unsafe { sys::percpu_histogram_snapshot_create(h.0.raw(), &mut raw) })?;
        Self::from_raw(raw)
    }

    /// Take over a snapshot of the library.
    pub(crate) fn from_raw(raw: *mut sys::percpu_histogram_snapshot) -> Result<Self, Error> {
        non_null(raw).map(Self)
    }

    fn raw(&self) -> *mut sys::percpu_histogram_snapshot {
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

impl Segment {
    /// Find or create a histogram. A process that declares it with other options gets
    /// [`Error::Exists`].
    pub fn histogram(
        &self,
        metric: &Metric,
        options: &HistogramOptions,
    ) -> Result<Histogram, Error> {
        let o = options.raw();
        // SAFETY: the options are valid; the other arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_histogram(s, m, &o, ret)
        })
        .map(Histogram)
    }
}
