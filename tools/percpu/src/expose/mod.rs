// SPDX-License-Identifier: MIT
//! Formats for others: metrics of one or more files, those of one name together.

mod collect;
mod entry;
mod exemplar;
mod lines;
mod messages;
pub mod names;
pub mod negotiate;
pub mod openmetrics;
pub mod protobuf;
pub mod text;
mod walk;

use std::time::SystemTime;

pub use collect::{Collector, Origin};
pub use entry::{Entry, Table};
pub use walk::{walk, Labels, Walk, OVERFLOWS, UP};

use crate::model::{Kind, Value};

/// All series of one name and one kind.
#[derive(Clone, Copy, Debug)]
pub struct Metric<'a> {
    pub name: &'a str,
    /// Or "".
    pub help: &'a str,
    /// Or "".
    pub unit: &'a str,
    pub kind: Kind,
    /// Of histograms: no series has buckets.
    pub is_summary: bool,
    /// It is of no file: this program says it of files.
    pub is_own: bool,
}

/// A series of a metric, and its value.
#[derive(Debug)]
pub struct Row<'a> {
    /// Names and values, as the program gave them.
    pub labels: &'a [(&'a str, &'a str)],
    pub value: &'a Value,
    /// When its counts began.
    pub since: SystemTime,
    /// If the format asks for them.
    pub exemplars: &'a [percpu::Exemplar],
}

impl Metric<'_> {
    /// The unit, if the name that is printed ends in it: else formats may not have it.
    pub fn unit_in(&self, name: &str) -> Option<&str> {
        let rest = name.strip_suffix(self.unit)?.strip_suffix('_')?;
        (!self.unit.is_empty() && !rest.is_empty()).then_some(self.unit)
    }
}

impl Row<'_> {
    /// Whether it is known when its counts began.
    pub fn has_start(&self) -> bool {
        self.since > SystemTime::UNIX_EPOCH
    }
}

/// A format of metrics: it appends them to its buffer.
pub trait Format {
    /// Whether it prints exemplars.
    const EXEMPLARS: bool;

    /// A metric is one of those that are printed afterwards, in the same order.
    fn announce(&mut self, _metric: &Metric<'_>) {}

    /// A metric begins, of which the next rows are.
    fn metric(&mut self, metric: &Metric<'_>);

    fn row(&mut self, row: &Row<'_>);

    /// There are no more metrics.
    fn end(&mut self);

    /// What was printed since it was taken out.
    fn buffer(&mut self) -> &mut Vec<u8>;
}

#[cfg(test)]
mod tests;
