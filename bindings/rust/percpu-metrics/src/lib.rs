// SPDX-License-Identifier: MIT
//! A recorder for the [`metrics`] facade that counts into a segment of libpercpu: all threads of all
//! processes count in one file, which is read from outside, and which keeps the counts of killed
//! processes.
//!
//! ```no_run
//! # fn main() -> Result<(), percpu_metrics::Error> {
//! percpu_metrics::install("myservice")?; // the file /dev/shm/percpu.myservice
//! metrics::counter!("requests_total", "code" => "200").increment(1);
//! # Ok(())
//! # }
//! ```
//!
//! `percpu-show myservice` prints the metrics, and `percpu::Reader` reads them. Where the file cannot
//! be had, the program counts in a private segment: [`Recorder::fallback`] says why.
//!
//! # What becomes of the facade's metrics
//!
//! | facade | segment |
//! |---|---|
//! | `counter!` | a counter of 64 bits |
//! | `gauge!` | a gauge of doubles: one value for all processes |
//! | `histogram!` | an exponential histogram of doubles from 2^-30 to 2^40, 4 buckets for each power of two; or the bounds of [`Builder::buckets`] |
//! | `describe_*!` | help and unit, if it comes before the first use of the name |
//! | labels | labels of a family, which holds [`Builder::cap`] series at most |
//!
//! **Labels.** The first use of a name fixes the names of its labels, or [`Builder::labels`] does.
//! A later use that lacks one of them has the value "" for it. A label that the name does not have
//! is dropped, and the event is counted without it. If a label is there twice, the last one holds.
//! If another process has used the name before, its labels, its unit and its cap hold.
//!
//! **Kinds.** A name has the kind of its first use. Another kind of the same name counts nothing.
//!
//! **Bounds.** There are 4096 names at most. Beyond [`Builder::cap`] label values of a family count
//! in one more series, whose labels have the value `_overflow`.
//!
//! **Told.** What was dropped, or counts nothing, is counted in the same segment by
//! `metrics_problems_total{metric, problem}`. The problem is one of:
//!
//! | problem | meaning |
//! |---|---|
//! | `labels` | a label was dropped |
//! | `kind` | the name has another kind: nothing was counted |
//! | `names` | there are too many names: nothing was counted; `metric` is "" |
//! | `declaration` | the segment refused the metric or the series: nothing was counted |
//! | `value` | a gauge refused the value, which is not finite, or 2^1000 or more in size |
//!
//! [`Recorder::last_problem`] says in words what was last met for the first time. A histogram refuses
//! negative and infinite values, and counts them as refused. Readers show how often a family was full
//! as `percpu_family_overflows_total`.
//!
//! **`absolute`.** See [`Recorder`].
//!
//! # Context
//!
//! Any thread, and children of fork. Not signal handlers: a macro of the facade allocates. A handle
//! that the program keeps may count there: a [`metrics::Counter`] by `increment`, and a
//! [`metrics::Histogram`]. It may not be cloned or dropped there.
//!
//! # Cost
//!
//! Each macro looks the series up, so that no table of keys grows with the traffic. Keep a handle
//! where an event is frequent and its labels are constant.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod builder;
mod handles;
mod kinds;
mod names;
mod problems;
mod recorder;

pub use builder::{Builder, Error};
pub use recorder::Recorder;

/// Create or open the segment with a name, and let all macros of the facade count in it.
///
/// A name with a `/` is a path. Another one stands for `/dev/shm/percpu.NAME`. The counts of an
/// earlier run go on; [`Builder`] has options.
///
/// Where the file cannot be had, the segment is private, and the call succeeds:
/// [`Recorder::fallback`] of the result says why. Fails if the name cannot be one, if there is no
/// private segment either, or if the program has installed a recorder before.
///
/// A prefork server installs in the parent, before it forks; its children then count in the same
/// segment, also in a private one.
pub fn install(name: &str) -> Result<Recorder, Error> {
    Builder::new(name).install()
}
