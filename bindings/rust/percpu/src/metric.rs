// SPDX-License-Identifier: MIT
//! The descriptions of metrics, and texts as the library takes them.

use std::ffi::{c_char, CStr, CString};
use std::ptr;

use percpu_sys as sys;

use crate::error::Error;

/// The description of a metric: a name, a help text, a unit, and labels. What an exposition format
/// can carry is accepted.
///
/// ```
/// let metric = percpu::Metric::new("requests_total").help("Requests.").label("code", "200");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Metric<'a> {
    name: &'a str,
    help: &'a str,
    unit: &'a str,
    labels: Vec<(&'a str, &'a str)>,
}

impl<'a> Metric<'a> {
    /// A metric of that name, of 1 to 255 bytes.
    pub fn new(name: &'a str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// A text of up to 1023 bytes that says what it is.
    pub fn help(self, help: &'a str) -> Self {
        Self { help, ..self }
    }

    /// The unit, such as `seconds` or `bytes`.
    pub fn unit(self, unit: &'a str) -> Self {
        Self { unit, ..self }
    }

    /// One more label, with its value. A metric has up to 64.
    pub fn label(mut self, name: &'a str, value: &'a str) -> Self {
        self.labels.push((name, value));
        self
    }
}

/// The strings of a metric, each with a byte 0 behind it.
pub(crate) struct MetricTexts {
    name: CString,
    help: CString,
    unit: CString,
    names: Vec<CString>,
    values: Vec<CString>,
}

/// The same as the library takes it. Valid as long as the strings.
pub(crate) struct RawMetric {
    pub(crate) metric: sys::percpu_metric,
    /// To which `metric` points.
    _names: Vec<*const c_char>,
    _values: Vec<*const c_char>,
}

impl MetricTexts {
    pub(crate) fn new(m: &Metric) -> Result<Self, Error> {
        let labels = || m.labels.iter();
        Ok(Self {
            name: text("name of the metric", m.name)?,
            help: text("help text", m.help)?,
            unit: text("unit", m.unit)?,
            names: labels()
                .map(|l| text("name of a label", l.0))
                .collect::<Result<_, _>>()?,
            values: labels()
                .map(|l| text("value of a label", l.1))
                .collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn raw(&self) -> RawMetric {
        let (names, values) = (pointers(&self.names), pointers(&self.values));
        let metric = sys::percpu_metric {
            size: size_of::<sys::percpu_metric>(),
            name: self.name.as_ptr(),
            help: present(&self.help),
            unit: present(&self.unit),
            label_names: array(&names),
            label_values: array(&values),
            labels: names.len(),
        };
        RawMetric {
            metric,
            _names: names,
            _values: values,
        }
    }
}

/// A text as the library takes it. A byte 0 within it is an error.
pub(crate) fn text(what: &str, s: &str) -> Result<CString, Error> {
    CString::new(s).map_err(|_| Error::invalid(format!("the {what} has a byte 0: {s:?}")))
}

fn present(s: &CStr) -> *const c_char {
    if s.is_empty() {
        ptr::null()
    } else {
        s.as_ptr()
    }
}

pub(crate) fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|s| s.as_ptr()).collect()
}

/// The elements, or NULL for none.
pub(crate) fn array<T>(elements: &[T]) -> *const T {
    if elements.is_empty() {
        ptr::null()
    } else {
        elements.as_ptr()
    }
}
