// SPDX-License-Identifier: MIT
//! The three kinds of the facade, and how each is declared in a segment.

use once_cell::race::OnceBox;
use percpu::{Counter, Error, FGauge, Family, Histogram, HistogramOptions, Segment};

use crate::names::{Entry, Form};

/// A kind of the facade.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a name counts in, and the form that it has in the segment.
pub(crate) struct Series<T> {
    pub(crate) form: Form,
    pub(crate) of: Of<T>,
}

pub(crate) enum Of<T> {
    /// It has no labels.
    One(T),
    Family(Family<T>),
}

impl<T: Object> Series<T> {
    pub(crate) fn declare(segment: &Segment, entry: &Entry, form: &Form) -> Result<Self, Error> {
        let labels: Vec<&str> = form.labels.iter().map(|l| &**l).collect();
        let of = if labels.is_empty() {
            Of::One(T::declare(segment, entry, form)?)
        } else {
            Of::Family(T::declare_family(segment, entry, form, &labels)?)
        };
        Ok(Self {
            form: form.clone(),
            of,
        })
    }
}

/// An object of the segment that a kind of the facade counts in.
pub(crate) trait Object: percpu::Series + Clone + 'static {
    const FACADE: Kind;

    /// Where a name has its series of this kind.
    fn series(entry: &Entry) -> &OnceBox<Series<Self>>;

    fn declare(segment: &Segment, entry: &Entry, form: &Form) -> Result<Self, Error>;

    fn declare_family(
        segment: &Segment,
        entry: &Entry,
        form: &Form,
        labels: &[&str],
    ) -> Result<Family<Self>, Error> {
        segment.family(&entry.metric(form), labels, form.cap)
    }
}

impl Object for Counter {
    const FACADE: Kind = Kind::Counter;

    fn series(entry: &Entry) -> &OnceBox<Series<Self>> {
        &entry.counter
    }

    fn declare(segment: &Segment, entry: &Entry, form: &Form) -> Result<Self, Error> {
        segment.counter(&entry.metric(form))
    }
}

impl Object for FGauge {
    const FACADE: Kind = Kind::Gauge;

    fn series(entry: &Entry) -> &OnceBox<Series<Self>> {
        &entry.gauge
    }

    fn declare(segment: &Segment, entry: &Entry, form: &Form) -> Result<Self, Error> {
        segment.fgauge(&entry.metric(form))
    }
}

impl Object for Histogram {
    const FACADE: Kind = Kind::Histogram;

    fn series(entry: &Entry) -> &OnceBox<Series<Self>> {
        &entry.histogram
    }

    fn declare(segment: &Segment, entry: &Entry, form: &Form) -> Result<Self, Error> {
        segment.histogram(&entry.metric(form), &options(entry))
    }

    fn declare_family(
        segment: &Segment,
        entry: &Entry,
        form: &Form,
        labels: &[&str],
    ) -> Result<Family<Self>, Error> {
        segment.histogram_family(&entry.metric(form), labels, form.cap, &options(entry))
    }
}

/// The bounds that the builder has for the name; or a range for any unit, from nanoseconds as
/// seconds to terabytes as bytes.
fn options(entry: &Entry) -> HistogramOptions<'_> {
    let options = HistogramOptions::new();
    match &entry.preset.bounds {
        Some(bounds) => options.bounds(bounds),
        None => options
            .range(2f64.powi(-30), 2f64.powi(40))
            .buckets_per_octave(4),
    }
}
