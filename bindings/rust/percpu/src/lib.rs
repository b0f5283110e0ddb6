// SPDX-License-Identifier: MIT
//! Per-CPU counters and metrics: count once, from any thread of any process, in about a nanosecond,
//! exactly; read it from outside at no cost to those who count; and still have it when they die.
//!
//! A [`Counter`] counts in this process. A [`Segment`] is a file of named metrics in which any
//! number of processes count, in Rust or in C; a [`Reader`] reads it from outside. `docs/rust.md`
//! of libpercpu says more.
//!
//! ```
//! use percpu::{Metric, Segment};
//!
//! # let name = std::env::temp_dir().join(format!("percpu-doc-lib-{}", std::process::id()));
//! # let name = name.to_str().unwrap();
//! let segment = Segment::create(name)?;
//! let requests = segment.counter(&Metric::new("requests_total").help("Requests."))?;
//! requests.inc();
//! # std::fs::remove_file(name).unwrap();
//! # Ok::<(), percpu::Error>(())
//! ```
//!
//! # Tasks and fibers
//!
//! Each call finds the thread that it runs in. So an async task may go on in another thread at each
//! `await`, and a fiber at each switch that the compiler takes for a call, or for an `asm!` that may
//! write memory.

#![deny(missing_docs)]

mod approx;
mod counter;
mod error;
mod exemplar;
mod extrema;
mod facts;
mod family;
mod fence;
mod forks;
mod gauge;
mod handle;
mod histogram;
mod histogram_options;
mod metric;
mod owned;
mod picture;
mod picture_series;
mod rate;
mod reader;
mod region;
mod removal;
mod ring;
mod segment;
mod seq;
mod snapshot;
mod statics;
mod stats;
mod status;
mod timer;

pub use approx::ApproxSum;
pub use counter::{Counter, FCounter};
pub use error::{Error, Reason};
pub use exemplar::{Exemplar, Exemplars};
pub use extrema::{Extrema, FExtrema};
pub use facts::{Facts, LockState};
pub use family::{Family, Series, FAMILY_OVERFLOW};
pub use fence::{fence_all, FenceReport};
#[doc(hidden)]
pub use forks::forks;
pub use gauge::{FGauge, Gauge, Latest};
pub use histogram::Histogram;
pub use histogram_options::HistogramOptions;
pub use metric::Metric;
pub use owned::{Held, OwnedFGauge, OwnedGauge, OwnedRule, OwnedValue, Owners, Rule};
pub use picture::{Owner, Picture};
pub use picture_series::{Kind, PictureSeries, Value};
pub use rate::{Rate, RateMark};
pub use reader::Reader;
pub use region::{Region, RegionOptions};
pub use ring::{Record, Ring, RingReader, WhenFull};
pub use segment::{Segment, SegmentOptions};
pub use snapshot::{Bucket, Quantile, Snapshot};
pub use statics::StaticCounter;
pub use stats::{Field, Fields, Stats};
pub use status::{selftest, status, thread_tier, Registrar, Selftest, Status, Tier};
pub use timer::Timer;
