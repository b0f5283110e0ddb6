// SPDX-License-Identifier: MIT
//! What verbs print: pictures of metrics, whatever kind of file they are read from.

pub mod board;
pub mod boards;
mod distribution;
pub mod files;
pub mod find;
pub mod float;
pub mod haproxy;
mod haproxy_fields;
mod live;
pub mod native;
pub mod segment;
pub mod shares;
pub mod snapshot;
mod step;
pub mod track;
pub mod writers;

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

pub use distribution::{Distribution, Layout};
pub use live::{Change, Live};
pub use step::{Number, Step};

use crate::failure::Failure;
use crate::text::plain;

/// A file that has metrics.
pub trait Source {
    /// Take a picture. `wanted` says of which series it is to have details, which cost more.
    fn read(&mut self, wanted: &dyn Fn(&About) -> bool) -> Result<Picture, Failure>;
}

/// All metrics of a file at one moment.
#[derive(Debug)]
pub struct Picture {
    /// The program that has made the file, or "".
    pub program: String,
    /// It grows with each reset of all counts.
    pub generation: u64,
    /// When the generation began.
    pub since: SystemTime,
    /// When the picture was taken: for people.
    pub taken: SystemTime,
    /// The same by a clock that nobody sets: for rates.
    pub moment: Instant,
    /// How many CPUs have counts of their own.
    pub cpus: usize,
    /// Records without a metric: being declared, left by a killed process, or damaged.
    pub pending: u32,
    /// The processes that have a slot in the file, dead or alive.
    pub owners: Vec<Owner>,
    /// By names; of statistics each field is a series. Series of one name follow each other.
    pub series: Vec<Series>,
}

/// A process that has a slot in the file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Owner {
    /// In its own PID namespace.
    pub pid: u32,
    pub alive: bool,
    /// Its name, or "".
    pub name: String,
}

/// A metric with its labels, and its value.
#[derive(Debug)]
pub struct Series {
    /// The same object in all pictures of a source, as long as the series is the same.
    pub about: Arc<About>,
    /// `Err`: a sentence that says why there is none.
    pub value: Result<Value, String>,
    /// Of its family, if it has one.
    pub family: Option<Family>,
    /// If details were asked for.
    pub details: Option<Box<Details>>,
}

/// What does not change of a series.
#[derive(Debug, PartialEq)]
pub struct About {
    /// Unique in this process.
    pub id: u64,
    pub name: String,
    /// Or "".
    pub help: String,
    /// Or "".
    pub unit: String,
    pub kind: Kind,
    /// Names and values.
    pub labels: Vec<(String, String)>,
    /// When its counts began.
    pub since: SystemTime,
}

/// What a value means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It grows, but for resets: its rate says something.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution of values.
    Histogram,
    /// The least and the greatest value.
    Extrema,
    /// Labels alone.
    #[default]
    Info,
}

#[derive(Debug)]
pub enum Value {
    /// Of a counter.
    Count(u64),
    /// Of a counter of doubles.
    Amount(f64),
    /// Of a gauge.
    Level(i64),
    /// Of a gauge of doubles.
    Measure(f64),
    /// Of a gauge that has the latest value, and when it was set.
    Latest(f64, SystemTime),
    Distribution(Distribution),
    Extrema {
        min: f64,
        max: f64,
    },
    Info,
}

/// How often label values of a family found no series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// The most series it may have.
    pub cap: u32,
    /// There was no room.
    pub overflows: u64,
    /// A text could not be a label's value.
    pub invalid: u64,
}

#[derive(Debug, Default)]
pub struct Details {
    /// What each CPU has added; empty where that is not kept.
    pub cpus: Vec<f64>,
    /// What each process has; empty but for owned gauges.
    pub shares: Vec<Share>,
    /// How these become one value: of owned gauges.
    pub rule: Option<percpu::Rule>,
    /// Of an owned gauge: its value is that of all processes that ever were.
    pub keeps: bool,
    pub exemplars: Vec<percpu::Exemplar>,
}

/// What a process has of an owned gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub owner: Owner,
    pub value: f64,
}

impl Value {
    /// The number by which series are sorted, and of which rates are made: of a distribution the
    /// count, of extrema the greatest.
    pub fn number(&self) -> f64 {
        match self {
            Self::Count(n) => *n as f64,
            Self::Level(n) => *n as f64,
            Self::Amount(x) | Self::Measure(x) | Self::Latest(x, _) => *x,
            Self::Distribution(d) => d.count() as f64,
            Self::Extrema { max, .. } => *max,
            Self::Info => 1.0,
        }
    }
}

/// As Prometheus writes it: `name{label="value"}`; what must not come to a terminal is escaped.
impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&full_name(&self.name, &self.labels))
    }
}

/// A name with its labels, as text.
pub fn full_name(name: &str, labels: &[(String, String)]) -> String {
    match labels_text(labels) {
        labels if labels.is_empty() => plain(name).into_owned(),
        labels => format!("{}{{{labels}}}", plain(name)),
    }
}

/// Labels as Prometheus writes them.
pub fn labels_text(labels: &[(String, String)]) -> String {
    let labels = labels.iter();
    let texts: Vec<_> = labels
        .map(|(name, value)| format!("{}={value:?}", plain(name)))
        .collect();
    texts.join(",")
}
