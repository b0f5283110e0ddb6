// SPDX-License-Identifier: MIT
//! The crates prometheus and prometheus-client, which count for one process by atomic additions.

use std::sync::OnceLock;

use prometheus::{HistogramOpts, IntCounter, IntCounterVec, Opts};
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use prometheus_client::registry::Registry;

use crate::{repeat, row, since_last, sum_in, Failure, Row};

/// The same 15 buckets as prometheus-cpp's in bench/prometheus.h.
const BUCKETS: [f64; 15] = [
    1e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0,
];

struct All {
    counter: IntCounter,
    by_values: IntCounterVec,
    histogram: prometheus::Histogram,
    client_counter: Counter,
    client_family: Family<[(&'static str, &'static str); 2], Counter>,
    client_histogram: Histogram,
    registry: Registry,
}

static ALL: OnceLock<All> = OnceLock::new();

/// make() was called before.
fn all() -> &'static All {
    ALL.get().expect("the objects")
}

extern "C" fn add() {
    let counter = &all().counter;
    repeat(|| counter.inc());
}

extern "C" fn counted() -> u64 {
    since_last("prometheus", all().counter.get())
}

extern "C" fn add_by_values() {
    let by_values = &all().by_values;
    repeat(|| by_values.with_label_values(&["GET", "200"]).inc());
}

extern "C" fn counted_by_values() -> u64 {
    let counter = all().by_values.with_label_values(&["GET", "200"]);
    since_last("prometheus by values", counter.get())
}

extern "C" fn record() {
    let histogram = &all().histogram;
    repeat(|| histogram.observe(1.1e-6));
}

extern "C" fn recorded() -> u64 {
    since_last("prometheus histogram", all().histogram.get_sample_count())
}

extern "C" fn client_add() {
    let counter = &all().client_counter;
    repeat(|| {
        counter.inc();
    });
}

extern "C" fn client_counted() -> u64 {
    since_last("prometheus-client", all().client_counter.get())
}

extern "C" fn client_add_by_values() {
    let family = &all().client_family;
    repeat(|| {
        family
            .get_or_create(&[("method", "GET"), ("code", "200")])
            .inc();
    });
}

extern "C" fn client_counted_by_values() -> u64 {
    let counter = all()
        .client_family
        .get_or_create(&[("method", "GET"), ("code", "200")])
        .get();
    since_last("prometheus-client by values", counter)
}

extern "C" fn client_record() {
    let histogram = &all().client_histogram;
    repeat(|| histogram.observe(1.1e-6));
}

extern "C" fn client_recorded() -> u64 {
    let mut text = String::new();
    let _ = prometheus_client::encoding::text::encode(&mut text, &all().registry);
    since_last(
        "prometheus-client histogram",
        sum_in(&text, "seconds_count"),
    )
}

pub(crate) fn make() -> Result<Vec<Row>, Failure> {
    let mut all = All {
        counter: IntCounter::new("adds_total", "Adds.")?,
        by_values: IntCounterVec::new(Opts::new("by_values_total", "Adds."), &["method", "code"])?,
        histogram: prometheus::Histogram::with_opts(
            HistogramOpts::new("seconds", "Seconds.").buckets(BUCKETS.to_vec()),
        )?,
        client_counter: Counter::default(),
        client_family: Family::default(),
        client_histogram: Histogram::new(BUCKETS),
        registry: Registry::default(),
    };
    all.registry
        .register("seconds", "Seconds", all.client_histogram.clone());
    let _ = ALL.set(all);
    Ok(vec![
        row(c"crate prometheus: IntCounter", add, counted),
        row(
            c"crate prometheus: IntCounterVec, 2 labels",
            add_by_values,
            counted_by_values,
        ),
        row(c"crate prometheus: Histogram, 15 buckets", record, recorded),
        row(
            c"crate prometheus-client: Counter",
            client_add,
            client_counted,
        ),
        row(
            c"crate prometheus-client: Family, 2 labels",
            client_add_by_values,
            client_counted_by_values,
        ),
        row(
            c"crate prometheus-client: Histogram, 15 buckets",
            client_record,
            client_recorded,
        ),
    ])
}
