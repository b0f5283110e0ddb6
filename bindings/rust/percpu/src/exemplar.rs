// SPDX-License-Identifier: MIT
//! Exemplars: the latest event that the program has described, for a counter or for each bucket of
//! a histogram (`exemplar.h`).

use std::ffi::c_char;
use std::ptr;
use std::time::SystemTime;

use percpu_sys as sys;

use crate::error::{check, explained, Error};
use crate::gauge::time;
use crate::handle::{debug_as_name, object, Handle};
use crate::metric::MetricTexts;
use crate::{Metric, Segment};

object!(percpu_exemplars, percpu_exemplars_destroy);

const LABELS: usize = sys::PERCPU_EXEMPLAR_LABELS as usize;
const TEXT: usize = sys::PERCPU_EXEMPLAR_BYTES as usize + 2 * LABELS;

/// The exemplars of a counter or a histogram of a segment: of each event that it describes a value,
/// a time and labels.
///
/// **Context:** stores in any thread, in signal handlers, in children of fork.
/// **Progress:** a store is wait-free.
///
/// ```
/// use percpu::{Metric, Segment};
///
/// # let name = std::env::temp_dir().join(format!("percpu-doc-exemplar-{}", std::process::id()));
/// # let name = name.to_str().unwrap();
/// let segment = Segment::create(name)?;
/// let metric = Metric::new("requests_total");
/// let requests = segment.counter(&metric)?;
/// let exemplars = segment.exemplars(&metric)?;
/// requests.inc();
/// exemplars.store(1.0, &[("trace_id", "4bf92f35")])?;
/// assert_eq!(exemplars.fetch(0)?.labels, [("trace_id".to_string(), "4bf92f35".to_string())]);
/// # std::fs::remove_file(name).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Exemplars(pub(crate) Handle<sys::percpu_exemplars>);

/// An exemplar that was read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Exemplar {
    /// What was added to the counter, or recorded in the histogram.
    pub value: f64,
    /// When it was stored.
    pub time: SystemTime,
    /// Its labels: names and values.
    pub labels: Vec<(String, String)>,
}

impl Exemplar {
    pub(crate) fn of(e: &sys::percpu_exemplar) -> Self {
        let text = |at: u8| {
            let bytes = e.text.get(usize::from(at)..).unwrap_or(&[]);
            crate::owned::name_of(bytes)
        };
        let labels = e
            .label_names
            .iter()
            .zip(&e.label_values)
            .take(e.labels as usize);
        Self {
            value: e.value,
            time: time(e.time),
            labels: labels
                .map(|(name, value)| (text(*name), text(*value)))
                .collect(),
        }
    }
}

/// An exemplar for the library to store into.
pub(crate) const NO_EXEMPLAR: sys::percpu_exemplar = sys::percpu_exemplar {
    value: 0.0,
    time: 0,
    labels: 0,
    label_names: [0; LABELS],
    label_values: [0; LABELS],
    text: [0; TEXT],
};

/// The strings of labels, each with a byte 0 behind it, without an allocation.
struct Texts {
    bytes: [u8; TEXT],
    used: usize,
}

impl Texts {
    /// Keep a text, and return where it is.
    fn keep(&mut self, text: &str) -> Result<usize, Error> {
        let at = self.used;
        if text.as_bytes().contains(&0) {
            return Err(Error::of(libc::EINVAL));
        }
        let room = self
            .bytes
            .get_mut(at..=at + text.len())
            .ok_or(Error::of(libc::ENAMETOOLONG))?;
        room[..text.len()].copy_from_slice(text.as_bytes());
        self.used += text.len() + 1;
        Ok(at)
    }

    fn at(&self, at: usize) -> *const c_char {
        self.bytes[at..].as_ptr().cast()
    }
}

impl Exemplars {
    /// Store the exemplar of an event, with the time now and up to 16 labels of up to 128 bytes
    /// together. It replaces the one in the slot of that value. It does not count the event.
    ///
    /// Fails with nothing stored: with [`Error::Invalid`], [`Error::TooLong`],
    /// [`Error::OutOfRange`], or [`Error::Busy`] if another thread is storing in the slot.
    pub fn store(&self, value: f64, labels: &[(&str, &str)]) -> Result<(), Error> {
        let mut texts = Texts {
            bytes: [0; TEXT],
            used: 0,
        };
        let mut places = [(0, 0); LABELS];
        let mut raw = [sys::percpu_exemplar_label {
            name: ptr::null(),
            value: ptr::null(),
        }; LABELS];

        if labels.len() > LABELS {
            return Err(Error::of(libc::EINVAL));
        }
        for (place, (name, value)) in places.iter_mut().zip(labels) {
            *place = (texts.keep(name)?, texts.keep(value)?);
        }
        for (label, (name, value)) in raw.iter_mut().zip(places) {
            *label = sys::percpu_exemplar_label {
                name: texts.at(name),
                value: texts.at(value),
            };
        }
        // SAFETY: the handle keeps the exemplars valid, and the strings are.
        check(unsafe {
            sys::percpu_exemplars_store(self.0.raw(), value, raw.as_ptr(), labels.len())
        })
    }

    /// Read the exemplar in a slot: 0 of a counter, from 0 by rising values of a histogram. Fails
    /// with [`Error::Empty`] if none was stored there, and with [`Error::Invalid`] if there is no
    /// such slot.
    pub fn fetch(&self, slot: usize) -> Result<Exemplar, Error> {
        let mut e = NO_EXEMPLAR;
        // SAFETY: the handle keeps the exemplars valid; the call stores an exemplar.
        check(unsafe { sys::percpu_exemplars_fetch(self.0.raw(), slot, &mut e) })?;
        Ok(Exemplar::of(&e))
    }

    /// Forget all exemplars.
    pub fn reset(&self) -> Result<(), Error> {
        // SAFETY: the handle keeps the exemplars valid.
        check(unsafe { sys::percpu_exemplars_reset(self.0.raw()) })
    }
}
debug_as_name!(Exemplars);

impl Segment {
    /// Find or create the exemplars of a counter or a histogram that this process has declared.
    /// Fails with [`Error::NotFound`] if it has not.
    pub fn exemplars(&self, metric: &Metric) -> Result<Exemplars, Error> {
        let texts = MetricTexts::new(metric)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the strings are valid; the call stores a handle.
        explained(unsafe {
            sys::percpu_segment_exemplars(self.raw(), &texts.raw().metric, &mut raw)
        })?;
        Handle::of_segment(raw, &self.0).map(Exemplars)
    }
}
