// SPDX-License-Identifier: MIT
//! The series of a picture, and their values (`reader.h`).

use std::ffi::{c_char, CStr};
use std::ptr;
use std::time::SystemTime;

use percpu_sys as sys;

use crate::error::{check, explained, Error};
use crate::exemplar::{Exemplar, NO_EXEMPLAR};
use crate::gauge::time;
use crate::owned::{list, OwnedValue, Owners, Rule};
use crate::{Picture, Snapshot};

/// A value in a picture.
#[derive(Debug)]
#[non_exhaustive]
pub enum Value {
    /// A counter.
    Counter(u64),
    /// A counter of doubles.
    FCounter(f64),
    /// A gauge.
    Gauge(i64),
    /// A gauge of doubles.
    FGauge(f64),
    /// A latest value, and when it was set.
    Latest(f64, SystemTime),
    /// A histogram.
    Histogram(Snapshot),
    /// The minimum and the maximum.
    Extrema(f64, f64),
    /// An owned gauge, over the owners that live, or all that ever were
    /// ([`OwnedRule::keep`](crate::OwnedRule::keep)).
    OwnedGauge(i64),
    /// An owned gauge of doubles, in the same way.
    OwnedFGauge(f64),
    /// Labels, and no value.
    Info,
    /// Statistics: the counter of each of [`PictureSeries::fields`].
    Stats(Vec<u64>),
}

/// What a series is, with or without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A counter.
    Counter,
    /// A counter of doubles.
    FCounter,
    /// A gauge.
    Gauge,
    /// A gauge of doubles.
    FGauge,
    /// A latest value.
    Latest,
    /// A histogram.
    Histogram,
    /// Extrema.
    Extrema,
    /// An owned gauge.
    OwnedGauge,
    /// An owned gauge of doubles.
    OwnedFGauge,
    /// Labels, and no value.
    Info,
    /// Statistics.
    Stats,
}

/// A series in a picture.
pub struct PictureSeries<'a> {
    pub(crate) picture: &'a Picture<'a>,
    pub(crate) number: usize,
    pub(crate) raw: sys::percpu_reader_series,
}

impl PictureSeries<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        // SAFETY: the string is valid until the next picture.
        unsafe { text_at(self.raw.name) }
    }

    /// Its help text, or "".
    pub fn help(&self) -> &str {
        // SAFETY: the string is valid until the next picture.
        unsafe { text_at(self.raw.help) }
    }

    /// Its unit, or "".
    pub fn unit(&self) -> &str {
        // SAFETY: the string is valid until the next picture.
        unsafe { text_at(self.raw.unit) }
    }

    /// Its labels: names and values.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        // SAFETY: there are that many names, and values; the strings are valid until the next
        // picture.
        let (names, values) = unsafe {
            let n = self.raw.labels as usize;
            (
                texts_at(self.raw.label_names, n),
                texts_at(self.raw.label_values, n),
            )
        };
        // SAFETY: as above.
        names
            .iter()
            .zip(values)
            .map(|(name, value)| unsafe { (text_at(*name), text_at(*value)) })
    }

    /// Of statistics: the label whose values are the names of the fields. Otherwise "".
    pub fn field_label(&self) -> &str {
        // SAFETY: the string is valid until the next picture.
        unsafe { text_at(self.raw.field) }
    }

    /// Of statistics: the names of the fields. Otherwise none.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &str> {
        let n = if self.raw.kind == sys::PERCPU_METRIC_STATS {
            self.raw.n as usize
        } else {
            0
        };
        // SAFETY: there are that many names; the strings are valid until the next picture.
        unsafe { texts_at(self.raw.fields, n) }
            .iter()
            .map(|name| unsafe { text_at(*name) })
    }

    /// What it is; `None`: a kind of a later version.
    pub fn kind(&self) -> Option<Kind> {
        Some(match self.raw.kind {
            sys::PERCPU_METRIC_COUNTER => Kind::Counter,
            sys::PERCPU_METRIC_FCOUNTER => Kind::FCounter,
            sys::PERCPU_METRIC_GAUGE => Kind::Gauge,
            sys::PERCPU_METRIC_FGAUGE => Kind::FGauge,
            sys::PERCPU_METRIC_LATEST => Kind::Latest,
            sys::PERCPU_METRIC_HISTOGRAM => Kind::Histogram,
            sys::PERCPU_METRIC_EXTREMA => Kind::Extrema,
            sys::PERCPU_METRIC_OWNED_GAUGE => Kind::OwnedGauge,
            sys::PERCPU_METRIC_OWNED_FGAUGE => Kind::OwnedFGauge,
            sys::PERCPU_METRIC_INFO => Kind::Info,
            sys::PERCPU_METRIC_STATS => Kind::Stats,
            _ => return None,
        })
    }

    /// Of an owned gauge: its rule.
    pub fn rule(&self) -> Option<Rule> {
        match self.kind() {
            Some(Kind::OwnedGauge | Kind::OwnedFGauge) => {
                Rule::from_raw(self.raw.flags & !(sys::PERCPU_OWNED_KEEP | sys::PERCPU_OWNED_EACH))
            }
            _ => None,
        }
    }

    fn has_owned_flag(&self, flag: u32) -> bool {
        self.rule().is_some() && self.raw.flags & flag != 0
    }

    /// Whether it is an owned gauge whose value is that of all owners that ever were
    /// ([`OwnedRule::keep`](crate::OwnedRule::keep)).
    pub fn keeps_owners(&self) -> bool {
        self.has_owned_flag(sys::PERCPU_OWNED_KEEP)
    }

    /// Whether it is an owned gauge that has a value for each owner
    /// ([`OwnedRule::each`](crate::OwnedRule::each)): [`PictureSeries::owned_shown`].
    pub fn is_for_each_owner(&self) -> bool {
        self.has_owned_flag(sys::PERCPU_OWNED_EACH)
    }

    /// When its counts began.
    pub fn since(&self) -> SystemTime {
        time(self.raw.since)
    }

    /// The cap of its family; `None` if it is of no family.
    pub fn family_cap(&self) -> Option<u32> {
        (self.raw.cap != 0).then_some(self.raw.cap)
    }

    /// Of its family: how often there was no room for a series, and how often a value could not be
    /// a label's.
    pub fn overflows(&self) -> (u64, u64) {
        (self.raw.overflows, self.raw.invalid)
    }

    /// Its value. Fails with [`Error::Empty`] if nothing was observed or set, with [`Error::Busy`]
    /// if it was changed again and again while it was read, and with [`Error::Unsupported`] for a
    /// kind of a later version.
    pub fn value(&self) -> Result<Value, Error> {
        match self.raw.kind {
            sys::PERCPU_METRIC_COUNTER => self.get(sys::percpu_reader_counter).map(Value::Counter),
            sys::PERCPU_METRIC_FCOUNTER => self.number().map(Value::FCounter),
            sys::PERCPU_METRIC_GAUGE => self.get(sys::percpu_reader_gauge).map(Value::Gauge),
            sys::PERCPU_METRIC_FGAUGE => self.number().map(Value::FGauge),
            sys::PERCPU_METRIC_LATEST => {
                let when = self.get(sys::percpu_reader_when)?;
                Ok(Value::Latest(self.number()?, time(when)))
            }
            sys::PERCPU_METRIC_HISTOGRAM => {
                let mut raw = ptr::null_mut();
                // SAFETY: the picture is valid; the call stores a snapshot, which is ours then.
                check(unsafe {
                    sys::percpu_reader_histogram(self.reader(), self.number, &mut raw)
                })?;
                Snapshot::from_raw(raw).map(Value::Histogram)
            }
            sys::PERCPU_METRIC_EXTREMA => {
                let (mut min, mut max) = (0.0, 0.0);
                // SAFETY: the picture is valid; the call stores both results.
                check(unsafe {
                    sys::percpu_reader_extrema(self.reader(), self.number, &mut min, &mut max)
                })?;
                Ok(Value::Extrema(min, max))
            }
            sys::PERCPU_METRIC_OWNED_GAUGE => {
                self.get(sys::percpu_reader_gauge).map(Value::OwnedGauge)
            }
            sys::PERCPU_METRIC_OWNED_FGAUGE => self.number().map(Value::OwnedFGauge),
            sys::PERCPU_METRIC_INFO => Ok(Value::Info),
            sys::PERCPU_METRIC_STATS => {
                let mut out = vec![0; self.raw.n as usize];
                // SAFETY: the picture is valid; the call stores that many numbers.
                check(unsafe {
                    let (at, n) = (out.as_mut_ptr(), out.len());
                    sys::percpu_reader_stats(self.reader(), self.number, at, n)
                })?;
                Ok(Value::Stats(out))
            }
            _ => Err(Error::of(libc::ENOTSUP)),
        }
    }

    /// Its value as a double, of a kind that is one value: 1 for an info.
    pub fn number(&self) -> Result<f64, Error> {
        self.get(sys::percpu_reader_number)
    }

    /// Of an owned gauge: its value by its rule.
    pub fn owned(&self, whose: Owners) -> Result<f64, Error> {
        let mut v = 0.0;
        // SAFETY: the picture is valid; the call stores the result.
        check(unsafe {
            sys::percpu_reader_owned_fetch(self.reader(), self.number, whose.raw(), &mut v)
        })?;
        Ok(v)
    }

    /// Of an owned gauge: the value of each owner.
    pub fn owned_each(&self) -> Result<Vec<OwnedValue<f64>>, Error> {
        let floats = self.raw.kind == sys::PERCPU_METRIC_OWNED_FGAUGE;
        // SAFETY: the picture is valid; the call stores as many as there is room for.
        let values = list(|out, n, all| unsafe {
            sys::percpu_reader_owned_each(self.reader(), self.number, out, n, all)
        })?;
        let value = |v: &sys::percpu_owned_value| if floats { v.fvalue } else { v.value as f64 };
        Ok(values
            .iter()
            .map(|v| OwnedValue::new(v, value(v)))
            .collect())
    }

    /// Of an owned gauge that has a value for each owner: these, sorted by names. The name of an owner
    /// without one is its pid. Fails with [`Error::Invalid`] for another series.
    pub fn owned_shown(&self) -> Result<Vec<OwnedValue<Value>>, Error> {
        // SAFETY: the picture is valid; the call stores as many as there is room for.
        let values = list(|out, n, all| unsafe {
            sys::percpu_reader_owned_shown(self.reader(), self.number, out, n, all)
        })?;
        let value = |v: &sys::percpu_owned_value| match self.raw.kind {
            sys::PERCPU_METRIC_OWNED_FGAUGE => Value::OwnedFGauge(v.fvalue),
            _ => Value::OwnedGauge(v.value),
        };
        Ok(values
            .iter()
            .map(|v| OwnedValue::new(v, value(v)))
            .collect())
    }

    /// Of a counter or a gauge: what each CPU has added, read from the file now.
    pub fn cpus(&self) -> Result<Vec<f64>, Error> {
        let mut out = vec![0.0; self.picture.cpus()];
        // SAFETY: the picture is valid and for one thread; the call stores that many numbers.
        explained(unsafe {
            let (at, n) = (out.as_mut_ptr(), out.len());
            sys::percpu_reader_cpus(self.reader(), self.number, at, n)
        })?;
        Ok(out)
    }

    /// Of a counter or a histogram: its exemplars.
    pub fn exemplars(&self) -> Vec<Exemplar> {
        let mut found = Vec::new();
        for slot in 0.. {
            let mut e = NO_EXEMPLAR;
            // SAFETY: the picture is valid; the call stores an exemplar.
            let result =
                unsafe { sys::percpu_reader_exemplar(self.reader(), self.number, slot, &mut e) };
            match result {
                0 => found.push(Exemplar::of(&e)),
                r if r == -libc::ENODATA || r == -libc::EAGAIN => {}
                _ => break,
            }
        }
        found
    }

    fn reader(&self) -> *mut sys::percpu_reader {
        self.picture.reader.raw()
    }

    /// Return what a call stores about this series.
    fn get<T: Default>(
        &self,
        call: unsafe extern "C" fn(*const sys::percpu_reader, usize, *mut T) -> i32,
    ) -> Result<T, Error> {
        let mut v = T::default();
        // SAFETY: the picture is valid; the call stores its result.
        check(unsafe { call(self.reader(), self.number, &mut v) })?;
        Ok(v)
    }
}

impl std::fmt::Debug for PictureSeries<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PictureSeries")
            .field("name", &self.name())
            .field("labels", &self.labels().collect::<Vec<_>>())
            .field("value", &self.value())
            .finish_non_exhaustive()
    }
}

/// A text of a picture. The library has checked that it is UTF-8.
///
/// # Safety
/// The string is valid as long as the result is used.
unsafe fn text_at<'a>(s: *const c_char) -> &'a str {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(s) }.to_str().unwrap_or("")
}

/// Texts of a picture.
///
/// # Safety
/// There are n pointers, valid as long as the result is used; n may be 0.
unsafe fn texts_at<'a>(texts: *const *const c_char, n: usize) -> &'a [*const c_char] {
    if n == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(texts, n) }
}
