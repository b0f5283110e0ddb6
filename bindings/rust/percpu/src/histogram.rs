// SPDX-License-Identifier: MIT
//! Histograms with exponential buckets or with own bounds (`histogram.h`).

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{debug_as_name, object, Handle};
use crate::seq::{self, Bank, Cell};
use crate::{HistogramOptions, Metric, Segment, Snapshot, Timer};

object!(percpu_histogram, percpu_histogram_destroy);

/// A histogram: the number of observations in each bucket, and their sum.
///
/// Infinities, NaN, values of 2^960 or more, and negative ones are refused, and counted as refused.
/// With own bounds, and in a summary, doubles may be negative, above -2^960.
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
        let raw = options.raw();
        // SAFETY: the options are valid; the call stores a histogram.
        Handle::create(|ret| unsafe { sys::percpu_histogram_create(&raw, ret) })
            .map(Self)
            .map_err(|e| e.refused(|| options.complaint()))
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
        Timer::start(self)
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
