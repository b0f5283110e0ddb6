// SPDX-License-Identifier: MIT
//! The crate percpu, on the objects that the rows in C use.

use std::sync::OnceLock;

use percpu::{Counter, Family, Histogram, HistogramOptions, Metric, Segment};

use crate::{repeat, repeat_amid_work, row, Failure, Row};

struct All {
    counter: Counter,
    histogram: Histogram,
    family: Family<Counter>,
}

static ALL: OnceLock<All> = OnceLock::new();

/// make() was called before.
fn all() -> &'static All {
    ALL.get().expect("the objects")
}

/// What is recorded; the rows in C have the same, and load it for each record, too.
static SECONDS: f64 = 1.1e-6;

fn seconds() -> f64 {
    // SAFETY: it is a constant.
    unsafe { std::ptr::read_volatile(&SECONDS) }
}

extern "C" fn add() {
    let counter = all().counter.clone();
    repeat(|| counter.add(1));
}

extern "C" fn add_amid_work() {
    let counter = all().counter.clone();
    repeat_amid_work(|| counter.add(1));
}

extern "C" fn record() {
    let histogram = all().histogram.clone();
    repeat(|| histogram.record(seconds()));
}

extern "C" fn record_amid_work() {
    let histogram = all().histogram.clone();
    repeat_amid_work(|| histogram.record(seconds()));
}

extern "C" fn add_by_values() {
    let family = all().family.clone();
    repeat(|| {
        let _ = family.add(&["GET", "200"], 1);
    });
}

extern "C" fn counted() -> u64 {
    all().counter.fetch_zero()
}

extern "C" fn recorded() -> u64 {
    all().histogram.fetch_zero().map_or(0, |s| s.count())
}

extern "C" fn counted_by_values() -> u64 {
    all()
        .family
        .get(&["GET", "200"])
        .map_or(0, |c| c.fetch_zero())
}

pub(crate) fn make(path: &str) -> Result<Vec<Row>, Failure> {
    let segment = Segment::open(path)?;
    let all = All {
        counter: segment.counter(&Metric::new("adds_total"))?,
        histogram: segment.histogram(&Metric::new("seconds"), &HistogramOptions::new())?,
        family: segment.family(&Metric::new("by_values_total"), &["method", "code"], 100)?,
    };
    let _ = ALL.set(all);
    Ok(vec![
        row(c"percpu::Counter::add", add, counted),
        row(c"percpu::Counter::add, amid work", add_amid_work, counted),
        row(c"percpu::Histogram::record", record, recorded),
        row(
            c"percpu::Histogram::record, amid work",
            record_amid_work,
            recorded,
        ),
        row(
            c"percpu::Family::add, 2 labels",
            add_by_values,
            counted_by_values,
        ),
    ])
}
