// SPDX-License-Identifier: MIT
//! The recorder: from a key of the facade to an object of the segment.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use percpu::{Error, Reader, Segment};

use crate::kinds::{Object, Of, Series};
use crate::names::{Entry, Form, Names, Preset, Shape};
use crate::problems::{Problem, Problems};

/// How many labels a look-up takes without memory.
const FEW: usize = 8;

/// Counts what the macros of the facade say in a segment.
///
/// Copies are the same recorder. It lives until the process ends, and so does what it knows of the
/// names.
///
/// **`absolute(v)`** sets a counter to at least v, as `fetch_max` does: it reads the counter, and adds
/// what is missing. Threads of one process do so one at a time for each name, so they never add a
/// part twice; an `increment` meanwhile counts before it or after it. It is not promised between
/// processes: two that set one counter at the same time may both add, so that it becomes too large.
/// Give each process a label of its own then. The counts of an earlier run are part of the counter.
#[derive(Clone, Copy)]
pub struct Recorder(&'static Inner);

struct Inner {
    segment: Segment,
    /// Of the segment, for readers.
    name: String,
    cap: usize,
    names: Names,
    problems: Problems,
}

/// An object, and the name that it is of.
pub(crate) struct Found<T> {
    pub(crate) object: T,
    pub(crate) entry: &'static Entry,
    place: usize,
    inner: &'static Inner,
}

impl<T> Found<T> {
    /// Count a problem of the name.
    pub(crate) fn tell(&self, problem: Problem, sentence: impl FnOnce() -> String) {
        self.inner
            .problems
            .tell((self.place, self.entry), problem, sentence);
    }
}

impl Recorder {
    pub(crate) fn new(
        segment: Segment,
        name: &str,
        cap: usize,
        presets: Vec<(&str, Preset)>,
    ) -> Self {
        let segment = segment.leak();
        percpu::forks(); // counts from now on
        Self(Box::leak(Box::new(Inner {
            name: name.into(),
            cap,
            names: Names::new(presets),
            problems: Problems::new(&segment),
            segment,
        })))
    }

    /// The segment, for metrics that the facade does not have.
    pub fn segment(&self) -> &'static Segment {
        &self.0.segment
    }

    /// Why the segment is private: the sentence of the error when its file could not be had. `None`
    /// if all processes count in the file.
    pub fn fallback(&self) -> Option<String> {
        self.0.segment.fallback()
    }

    /// What was last dropped for the first time, in words. Further uses of the same name with the
    /// same problem are only counted, in `metrics_problems_total`.
    pub fn last_problem(&self) -> Option<&'static str> {
        self.0.problems.last(&self.0.names)
    }

    pub(crate) fn find<T: Object>(&self, key: &Key) -> Option<Arc<Found<T>>> {
        self.0.find(key).map(Arc::new)
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>, help: &SharedString) {
        match self.0.names.find(name.as_str()) {
            Some((_, entry)) => entry.describe(unit, help),
            None => self.0.problems.tell_too_many(name.as_str()),
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.find::<percpu::Counter>(key)
            .map_or(Counter::noop(), Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.find::<percpu::FGauge>(key)
            .map_or(Gauge::noop(), Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.find::<percpu::Histogram>(key)
            .map_or(Histogram::noop(), Histogram::from_arc)
    }
}

impl Inner {
    /// The object of a key. `None`: there is none, which is told.
    fn find<T: Object>(&'static self, key: &Key) -> Option<Found<T>> {
        let Some((place, entry)) = self.names.find(key.name()) else {
            self.problems.tell_too_many(key.name());
            return None;
        };
        let tell = |problem, sentence: &dyn Fn() -> String| {
            self.problems.tell((place, entry), problem, sentence);
        };
        let shape = entry.shape(T::FACADE, key, self.cap);
        if shape.kind != T::FACADE {
            tell(Problem::Kind, &|| {
                wrong_kind(entry, shape, T::FACADE.text())
            });
            return None;
        }
        let found = self
            .declared(entry, shape)
            .and_then(|series| object(series, key).map(|found| (series, found)));
        match found {
            Ok((series, (object, unknown))) => {
                if let Some(label) = unknown {
                    tell(Problem::Labels, &|| {
                        unknown_label(entry, &series.form, label)
                    });
                }
                Some(Found {
                    object,
                    entry,
                    place,
                    inner: self,
                })
            }
            Err(e) => {
                tell(Problem::Declaration, &|| {
                    format!("\"{}\" counts nothing: {e}", entry.name)
                });
                None
            }
        }
    }

    /// What the name counts in. Threads that get here at the same time declare the same.
    fn declared<T: Object>(
        &self,
        entry: &'static Entry,
        shape: &Shape,
    ) -> Result<&'static Series<T>, Error> {
        let kept = T::series(entry);
        if let Some(series) = kept.get() {
            return Ok(series);
        }
        if let Some(e) = entry.refused.get() {
            return Err(e.clone());
        }
        let made = Series::declare(&self.segment, entry, &shape.form).or_else(|e| {
            match self.form_in_file(&entry.name, &e) {
                Some(form) => Series::declare(&self.segment, entry, &form),
                None => Err(e),
            }
        });
        if let Err(e) = &made {
            if !may_pass(e) {
                let _ = entry.refused.set(Box::new(e.clone()));
            }
        }
        made.map(|series| kept.get_or_init(|| Box::new(series)))
    }

    /// The form that another process has declared, if an error tells that there is another one.
    fn form_in_file(&self, name: &str, e: &Error) -> Option<Form> {
        if !matches!(e, Error::Exists(_)) || self.segment.fallback().is_some() {
            return None;
        }
        let mut reader = Reader::open(&self.name).ok()?;
        let picture = reader.read().ok()?;
        let series = picture.series().find(|s| s.name() == name)?;
        let labels: Vec<Box<str>> = series.labels().map(|(label, _)| label.into()).collect();
        let cap = series.family_cap();
        // A metric with labels that is no family cannot have further series of this recorder.
        (labels.is_empty() || cap.is_some()).then(|| Form {
            labels,
            unit: series.unit().into(),
            cap: cap.unwrap_or(0) as usize,
        })
    }
}

/// Whether a later declaration may succeed: there is room again, or no other process in the way.
fn may_pass(e: &Error) -> bool {
    matches!(
        e,
        Error::Full(_) | Error::NoMemory(_) | Error::Busy(_) | Error::Other(_)
    )
}

/// The object for the values that a key has, and the name of a label that was dropped.
fn object<'k, T: Object>(series: &Series<T>, key: &'k Key) -> Result<(T, Option<&'k str>), Error> {
    let n = series.form.labels.len();
    let (mut few, mut many) = ([""; FEW], Vec::new());
    let values = if n <= FEW {
        &mut few[..n]
    } else {
        many.resize(n, "");
        &mut many[..]
    };
    let unknown = series.form.values(key, values);
    let object = match &series.of {
        Of::One(object) => object.clone(),
        Of::Family(family) => family.get(values)?,
    };
    Ok((object, unknown))
}

fn wrong_kind(entry: &Entry, shape: &Shape, wanted: &str) -> String {
    format!(
        "\"{}\" is a {}: its use as a {wanted} counts nothing",
        entry.name,
        shape.kind.text()
    )
}

fn unknown_label(entry: &Entry, form: &Form, label: &str) -> String {
    let labels = form.labels.join(", ");
    format!(
        "\"{}\" has no label \"{label}\", which is dropped: its labels are [{labels}]",
        entry.name
    )
}
