// SPDX-License-Identifier: MIT
//! The facade `metrics` with our recorder, and with that of metrics-exporter-prometheus.

use std::hint::black_box;
use std::sync::OnceLock;

use metrics::{counter, histogram, with_local_recorder, Counter, Histogram, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::{repeat, row, since_last, sum_in, Failure, Row};

/// A recorder, and handles of it that are kept.
struct With<R> {
    recorder: R,
    counter: Counter,
    histogram: Histogram,
}

impl<R: Recorder> With<R> {
    fn new(recorder: R) -> Self {
        let (counter, histogram) = with_local_recorder(&recorder, || {
            let labels = [("method", "GET"), ("code", "200")];
            (
                counter!("kept_total", &labels),
                histogram!("kept_seconds", &labels),
            )
        });
        Self {
            recorder,
            counter,
            histogram,
        }
    }

    fn plain(&self) {
        with_local_recorder(&self.recorder, || {
            repeat(|| counter!("plain_total").increment(1))
        });
    }

    fn labels(&self) {
        with_local_recorder(&self.recorder, || {
            repeat(|| counter!("labels_total", "method" => "GET", "code" => "200").increment(1));
        });
    }

    /// One of the values is not a constant, as a code of an answer is.
    fn values(&self) {
        with_local_recorder(&self.recorder, || {
            repeat(|| {
                let code: &'static str = black_box("200");
                counter!("values_total", "method" => "GET", "code" => code).increment(1);
            });
        });
    }

    fn increment(&self) {
        repeat(|| self.counter.increment(1));
    }

    fn record(&self) {
        repeat(|| self.histogram.record(1.1e-6));
    }
}

static OURS: OnceLock<(With<percpu_metrics::Recorder>, String)> = OnceLock::new();
static THEIRS: OnceLock<(With<PrometheusRecorder>, PrometheusHandle)> = OnceLock::new();

/// make() was called before.
fn ours() -> &'static With<percpu_metrics::Recorder> {
    &OURS.get().expect("our recorder").0
}

fn theirs() -> &'static (With<PrometheusRecorder>, PrometheusHandle) {
    THEIRS.get().expect("their recorder")
}

fn our_total(name: &'static str) -> u64 {
    let text = || -> Result<String, percpu::Error> {
        let path = OURS.get().map_or("", |o| &o.1);
        percpu::Reader::open(path)?.read()?.prometheus()
    };
    since_last(name, text().map_or(0, |text| sum_in(&text, name)))
}

fn their_total(key: &'static str, name: &str) -> u64 {
    since_last(key, sum_in(&theirs().1.render(), name))
}

/// The functions of a row for both recorders.
macro_rules! rows_of {
    ($call:ident, $metric:literal) => {{
        extern "C" fn our_batch() {
            ours().$call();
        }
        extern "C" fn our_total_of() -> u64 {
            our_total($metric)
        }
        extern "C" fn their_batch() {
            theirs().0.$call();
        }
        extern "C" fn their_total_of() -> u64 {
            their_total(concat!("theirs ", $metric), $metric)
        }
        (
            (our_batch as extern "C" fn(), our_total_of),
            (their_batch as extern "C" fn(), their_total_of),
        )
    }};
}

/// Their histogram keeps each value until an upkeep, which programs must do now and then; here after
/// each batch. It may lose a value that another thread records meanwhile.
extern "C" fn their_records() {
    theirs().0.record();
    theirs().1.run_upkeep();
}

pub(crate) fn make(path: &str) -> Result<Vec<Row>, Failure> {
    let _ = OURS.set((
        With::new(percpu_metrics::Builder::new(path).build()?),
        path.into(),
    ));
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _ = THEIRS.set((With::new(recorder), handle));

    let plain = rows_of!(plain, "plain_total");
    let labels = rows_of!(labels, "labels_total");
    let values = rows_of!(values, "values_total");
    let kept = rows_of!(increment, "kept_total");
    let records = rows_of!(record, "kept_seconds_count");
    Ok(vec![
        row(c"counter!: percpu-metrics", plain.0 .0, plain.0 .1),
        row(c"counter!: exporter-prometheus", plain.1 .0, plain.1 .1),
        row(
            c"counter!, 2 labels: percpu-metrics",
            labels.0 .0,
            labels.0 .1,
        ),
        row(
            c"counter!, 2 labels: exporter-prometheus",
            labels.1 .0,
            labels.1 .1,
        ),
        row(
            c"counter!, a value that varies: percpu-metrics",
            values.0 .0,
            values.0 .1,
        ),
        row(
            c"counter!, a value that varies: exporter-prometheus",
            values.1 .0,
            values.1 .1,
        ),
        row(c"a kept counter: percpu-metrics", kept.0 .0, kept.0 .1),
        row(c"a kept counter: exporter-prometheus", kept.1 .0, kept.1 .1),
        row(
            c"a kept histogram: percpu-metrics",
            records.0 .0,
            records.0 .1,
        ),
        Row {
            may_lose: true,
            ..row(
                c"a kept histogram: exporter-prometheus",
                their_records,
                records.1 .1,
            )
        },
    ])
}
