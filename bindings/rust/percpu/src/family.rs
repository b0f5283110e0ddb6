// SPDX-License-Identifier: MIT
//! Metrics whose label values are not known in advance (`family.h`).

use std::ffi::{c_void, CString};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use percpu_sys as sys;

use crate::counter;
use crate::error::{explained, Error};
use crate::handle::{non_null, Handle, Object};
use crate::histogram;
use crate::metric::{array, pointers, text, MetricTexts};
use crate::{
    Counter, Exemplars, Extrema, FCounter, FExtrema, FGauge, Gauge, Histogram, HistogramOptions,
    Latest, Metric, OwnedFGauge, OwnedGauge, OwnedRule, Segment,
};

mod kinds {
    use super::{Handle, Object};

    /// A kind of series, and how its handle is made. Only this crate implements it.
    pub trait Kind: Sized {
        const KIND: u32;
        const FLAGS: u32 = 0;
        type Raw: Object;
        fn of(handle: Handle<Self::Raw>) -> Self;
    }
}
use kinds::Kind;

/// What a family may consist of: counters, gauges, latest values, histograms, extrema and owned
/// gauges.
pub trait Series: Kind {}

macro_rules! series {
    ($type:ident, $raw:ident, $kind:ident $(, $flags:ident)?) => {
        impl Kind for $type {
            const KIND: u32 = sys::$kind;
            $(const FLAGS: u32 = sys::$flags;)?
            type Raw = sys::$raw;

                fn of(handle: Handle<Self::Raw>) -> Self {
                Self(handle)
            }
        }

        impl Series for $type {}
    };
}

series!(Counter, percpu_counter, PERCPU_METRIC_COUNTER);
series!(FCounter, percpu_fcounter, PERCPU_METRIC_FCOUNTER);
series!(Gauge, percpu_gauge, PERCPU_METRIC_GAUGE);
series!(FGauge, percpu_fgauge, PERCPU_METRIC_FGAUGE);
series!(Latest, percpu_latest, PERCPU_METRIC_LATEST);
series!(Histogram, percpu_histogram, PERCPU_METRIC_HISTOGRAM);
series!(Extrema, percpu_extrema, PERCPU_METRIC_EXTREMA);
series!(
    FExtrema,
    percpu_extrema,
    PERCPU_METRIC_EXTREMA,
    PERCPU_EXTREMA_DOUBLE
);
series!(OwnedGauge, percpu_owned_gauge, PERCPU_METRIC_OWNED_GAUGE);
series!(OwnedFGauge, percpu_owned_fgauge, PERCPU_METRIC_OWNED_FGAUGE);

/// The value of all labels of the overflow.
pub const FAMILY_OVERFLOW: &str = "_overflow";

/// A metric with names of labels, whose series are found or created when their values are first
/// seen, up to a cap. A call beyond the cap, or with a value that cannot be a label's, gets one
/// more series, the overflow.
///
/// **Context:** any thread; not a signal handler, except for values that this process has found
/// before, if no process removes series.
/// **Progress:** a look-up of values that this process has found before takes no lock and no system
/// call, so it can be made for each event.
///
/// ```
/// use percpu::{Counter, Metric, Segment};
///
/// # let name = std::env::temp_dir().join(format!("percpu-doc-family-{}", std::process::id()));
/// # let name = name.to_str().unwrap();
/// let segment = Segment::create(name)?;
/// let requests =
///     segment.family::<Counter>(&Metric::new("requests_total"), &["method", "code"], 100)?;
/// requests.add(&["GET", "200"], 1)?;
/// assert_eq!(requests.get(&["GET", "200"])?.fetch(), 1);
/// # std::fs::remove_file(name).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
pub struct Family<T> {
    raw: NonNull<sys::percpu_family>,
    labels: usize,
    segment: Segment,
    of: PhantomData<fn() -> T>,
}

// SAFETY: all calls on families may be made by any thread.
unsafe impl<T> Send for Family<T> {}
// SAFETY: as above, and by several at the same time.
unsafe impl<T> Sync for Family<T> {}

impl<T> Clone for Family<T> {
    fn clone(&self) -> Self {
        Self {
            raw: self.raw,
            labels: self.labels,
            segment: self.segment.clone(),
            of: PhantomData,
        }
    }
}

impl<T> std::fmt::Debug for Family<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family")
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

const LABELS: usize = sys::PERCPU_METRIC_LABELS as usize;

impl<T: Series> Family<T> {
    /// Find or create the series with these values, one for each label. The same values always have
    /// the same series.
    ///
    /// Fails with [`Error::Invalid`] if there is not one value for each label, and with
    /// [`Error::Damaged`].
    pub fn get(&self, values: &[&str]) -> Result<T, Error> {
        Handle::of_segment(self.find(values)?, &self.segment.0).map(T::of)
    }

    /// Its handle, which the segment keeps.
    fn find(&self, values: &[&str]) -> Result<*mut T::Raw, Error> {
        let mut texts = [const { MaybeUninit::<sys::percpu_text>::uninit() }; LABELS];
        self.check_number(values)?;
        for (text, value) in texts.iter_mut().zip(values) {
            text.write(sys::percpu_text {
                at: value.as_ptr().cast(),
                n: value.len(),
            });
        }
        let mut raw: *mut c_void = ptr::null_mut();
        // SAFETY: the family has as many labels as there are texts; the call stores a handle of the
        // family's kind.
        explained(unsafe {
            sys::percpu_family_series(self.raw.as_ptr(), T::KIND, texts.as_ptr().cast(), &mut raw)
        })?;
        Ok(raw.cast())
    }

    fn check_number(&self, values: &[&str]) -> Result<(), Error> {
        if values.len() == self.labels {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the family has {} labels, and there are {} values",
            self.labels,
            values.len()
        )))
    }

    /// The strings of values, for the calls that take strings.
    fn strings(&self, values: &[&str]) -> Result<Vec<CString>, Error> {
        self.check_number(values)?;
        values.iter().map(|v| text("value of a label", v)).collect()
    }

    /// Remove the series with these values: readers no longer list it, and the next look-up begins
    /// it anew. What a thread adds by a handle meanwhile is dropped. Fails with [`Error::NotFound`]
    /// if there is no such series.
    pub fn remove(&self, values: &[&str]) -> Result<(), Error> {
        let strings = self.strings(values)?;
        // SAFETY: the family is valid, and has as many labels.
        explained(unsafe {
            sys::percpu_family_remove(self.raw.as_ptr(), pointers(&strings).as_ptr())
        })
    }

    /// How many calls, in all processes, got the overflow because there was no room.
    pub fn overflows(&self) -> u64 {
        // SAFETY: the family is valid.
        unsafe { sys::percpu_family_overflows(self.raw.as_ptr()) }
    }

    /// How many calls, in all processes, got the overflow because a value could not be a label's.
    pub fn invalid(&self) -> u64 {
        // SAFETY: the family is valid.
        unsafe { sys::percpu_family_invalid(self.raw.as_ptr()) }
    }
}

impl Family<Counter> {
    /// Add n to the counter with these values. Fails as [`Family::get`].
    pub fn add(&self, values: &[&str], n: u64) -> Result<(), Error> {
        let raw = self.find(values)?;
        // SAFETY: the segment keeps the counter.
        unsafe { counter::add(raw, n as i64) };
        Ok(())
    }

    /// Find or create the exemplars of the series with these values. Fails as [`Family::get`], and
    /// if there is no room.
    pub fn exemplars(&self, values: &[&str]) -> Result<Exemplars, Error> {
        exemplars(self, values)
    }
}

impl Family<FCounter> {
    /// Add n to the counter with these values. Fails as [`Family::get`] and [`FCounter::add`].
    pub fn add(&self, values: &[&str], n: f64) -> Result<(), Error> {
        let raw = self.find(values)?;
        // SAFETY: the segment keeps the counter.
        unsafe { counter::add_double(raw, n) }
    }
}

impl Family<Gauge> {
    /// Add n to the gauge with these values. Fails as [`Family::get`].
    pub fn add(&self, values: &[&str], n: i64) -> Result<(), Error> {
        let raw = self.find(values)?;
        // SAFETY: the segment keeps the gauge. Its cells are those of a counter (gauge.h).
        unsafe { counter::add(raw.cast(), n) };
        Ok(())
    }
}

impl Family<Histogram> {
    /// Record v in the histogram with these values. Fails as [`Family::get`].
    pub fn record(&self, values: &[&str], v: f64) -> Result<(), Error> {
        let raw = self.find(values)?;
        // SAFETY: the segment keeps the histogram.
        unsafe { histogram::record(&*raw, v) };
        Ok(())
    }

    /// Find or create the exemplars of the series with these values. Fails as [`Family::get`], and
    /// if there is no room.
    pub fn exemplars(&self, values: &[&str]) -> Result<Exemplars, Error> {
        exemplars(self, values)
    }
}

fn exemplars<T: Series>(family: &Family<T>, values: &[&str]) -> Result<Exemplars, Error> {
    let strings = family.strings(values)?;
    let mut raw = ptr::null_mut();
    // SAFETY: the family is valid, and has as many labels; the call stores a handle.
    explained(unsafe {
        sys::percpu_family_exemplars(family.raw.as_ptr(), pointers(&strings).as_ptr(), &mut raw)
    })?;
    Handle::of_segment(raw, &family.segment.0).map(Exemplars)
}

impl Segment {
    /// Find or create a family with these names of labels, and at most `cap` series beside the
    /// overflow. The metric has no labels itself. All options of the kind are the default; an owned
    /// gauge is a sum.
    ///
    /// Fails with [`Error::Exists`] if the name has another cap, kind, unit, labels or options, and
    /// as `percpu_segment_family()`.
    pub fn family<T: Series>(
        &self,
        metric: &Metric,
        labels: &[&str],
        cap: usize,
    ) -> Result<Family<T>, Error> {
        declare(self, metric, labels, cap, T::FLAGS, None)
    }

    /// The same, of histograms with these options.
    pub fn histogram_family(
        &self,
        metric: &Metric,
        labels: &[&str],
        cap: usize,
        options: &HistogramOptions,
    ) -> Result<Family<Histogram>, Error> {
        declare(self, metric, labels, cap, 0, Some(options))
    }

    /// The same, of owned gauges with this rule.
    pub fn owned_gauge_family(
        &self,
        metric: &Metric,
        labels: &[&str],
        cap: usize,
        rule: impl Into<OwnedRule>,
    ) -> Result<Family<OwnedGauge>, Error> {
        declare(self, metric, labels, cap, rule.into().raw(), None)
    }

    /// The same, of owned gauges of doubles with this rule.
    pub fn owned_fgauge_family(
        &self,
        metric: &Metric,
        labels: &[&str],
        cap: usize,
        rule: impl Into<OwnedRule>,
    ) -> Result<Family<OwnedFGauge>, Error> {
        declare(self, metric, labels, cap, rule.into().raw(), None)
    }
}

fn declare<T: Series>(
    segment: &Segment,
    metric: &Metric,
    labels: &[&str],
    cap: usize,
    flags: u32,
    histogram: Option<&HistogramOptions>,
) -> Result<Family<T>, Error> {
    let texts = MetricTexts::new(metric)?;
    let m = texts.raw();
    if m.metric.labels != 0 {
        return Err(Error::invalid(
            "a family has names of labels, and no values".into(),
        ));
    }
    let label_texts = labels
        .iter()
        .map(|l| text("name of a label", l))
        .collect::<Result<Vec<CString>, Error>>()?;
    let names = pointers(&label_texts);
    let options = histogram.map(|o| o.raw());
    let declaration = sys::percpu_declaration {
        size: size_of::<sys::percpu_declaration>(),
        name: m.metric.name,
        help: m.metric.help,
        unit: m.metric.unit,
        label_names: array(&names),
        label_values: ptr::null(),
        labels: labels.len(),
        kind: T::KIND,
        flags,
        cap,
        histogram: options.as_ref().map_or(ptr::null(), |o| o),
        fields: ptr::null(),
        ret: sys::percpu_declared {
            family: ptr::null_mut(),
        },
    };
    let mut raw = ptr::null_mut();
    // SAFETY: all that the declaration points to is valid; the call stores a family.
    explained(unsafe { sys::percpu_segment_family(segment.raw(), &declaration, &mut raw) })?;
    Ok(Family {
        raw: non_null(raw)?,
        labels: labels.len(),
        segment: segment.clone(),
        of: PhantomData,
    })
}
