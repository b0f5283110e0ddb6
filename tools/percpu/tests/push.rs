// SPDX-License-Identifier: MIT
//! `percpu push`: what a collector gets, of each kind of metric.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
mod sink;

use std::collections::BTreeMap;

use common::{every_kind, json, prints, series, Named, BOUNDS, HOSTILE};
use opentelemetry_proto::tonic::metrics::v1 as otlp;
use otlp::metric::Data;
use otlp::number_data_point::Value as Number;
use percpu::{HistogramOptions, Metric};
use serde_json::Value;
use sink::{metrics, resource, text, Received, Sink};

/// Push once.
fn push(sink: &Sink, arguments: &[&str]) -> Received {
    let before = sink.received().len();
    let url = sink.url();
    let all = [&["push", "--otlp", &url, "--once"], arguments].concat();
    assert_eq!(prints(&all), "");
    let received = sink.received();
    assert_eq!(received.len(), before + 1);
    received[before].clone()
}

/// The only resource of a push.
fn only(received: &Received) -> &otlp::ResourceMetrics {
    let all = &received.message.resource_metrics;
    assert_eq!(all.len(), 1);
    &all[0]
}

fn metric<'a>(r: &'a otlp::ResourceMetrics, name: &str) -> &'a otlp::Metric {
    let mut found = metrics(r).iter().filter(|m| m.name == name);
    let metric = found.next().unwrap_or_else(|| panic!("{name}"));
    assert!(found.next().is_none(), "{name}");
    metric
}

fn numbers(metric: &otlp::Metric) -> &[otlp::NumberDataPoint] {
    match metric.data.as_ref().unwrap() {
        Data::Sum(s) => {
            assert!(s.is_monotonic && s.aggregation_temporality == 2);
            &s.data_points
        }
        Data::Gauge(g) => &g.data_points,
        other => panic!("{other:?}"),
    }
}

fn exponential(metric: &otlp::Metric) -> &[otlp::ExponentialHistogramDataPoint] {
    match metric.data.as_ref().unwrap() {
        Data::ExponentialHistogram(h) => {
            assert_eq!(h.aggregation_temporality, 2);
            &h.data_points
        }
        other => panic!("{other:?}"),
    }
}

fn explicit(metric: &otlp::Metric) -> &[otlp::HistogramDataPoint] {
    match metric.data.as_ref().unwrap() {
        Data::Histogram(h) => {
            assert_eq!(h.aggregation_temporality, 2);
            &h.data_points
        }
        other => panic!("{other:?}"),
    }
}

/// The point of a number that has a label of that value.
fn number(r: &otlp::ResourceMetrics, name: &str, label: &str) -> Number {
    let mut points = numbers(metric(r, name)).iter();
    let is = |p: &&otlp::NumberDataPoint| {
        label.is_empty() || text(&p.attributes).values().any(|v| v == label)
    };
    points.find(is).unwrap().value.unwrap()
}

/// A number of JSON, which spells those that JSON cannot have.
fn double(value: &Value) -> f64 {
    match value.as_str() {
        Some("+Inf") => f64::INFINITY,
        Some("-Inf") => f64::NEG_INFINITY,
        Some("NaN") => f64::NAN,
        _ => value.as_f64().unwrap(),
    }
}

#[test]
fn numbers_are_those_of_show() {
    let name = Named::new("push_numbers");
    let segment = name.make();
    every_kind(&segment);
    let huge = segment.counter(&Metric::new("huge_total")).unwrap();
    (0..3).for_each(|_| huge.add(1 << 62));
    let sink = Sink::new([]);
    let received = push(&sink, &[&name.0]);
    let all = json(&["show", &name.0, "--json"]);
    let r = only(&received);
    let mut compared = 0;
    for s in all["series"].as_array().unwrap() {
        let (kind, value) = (s["kind"].as_str().unwrap(), &s["value"]);
        let labels: BTreeMap<String, String> = serde_json::from_value(s["labels"].clone()).unwrap();
        let its = |m: &&otlp::Metric| m.name == s["name"].as_str().unwrap();
        let Some(m) = metrics(r).iter().find(its) else {
            assert!(s["missing"].is_string(), "{s}");
            continue;
        };
        if !matches!(kind, "counter" | "gauge") {
            continue;
        }
        assert_eq!(
            matches!(m.data, Some(Data::Sum(_))),
            kind == "counter",
            "{s}"
        );
        assert_eq!(m.description, s["help"].as_str().unwrap());
        let point = numbers(m).iter().find(|p| text(&p.attributes) == labels);
        match point.map(|p| p.value.unwrap()) {
            None => assert!(s["missing"].is_string(), "{s}"),
            Some(Number::AsInt(n)) => assert_eq!(Some(n), value.as_i64(), "{s}"),
            Some(Number::AsDouble(x)) if x.is_nan() => assert!(double(value).is_nan(), "{s}"),
            Some(Number::AsDouble(x)) => assert_eq!(x, double(value), "{s}"),
        }
        compared += 1;
    }
    assert!(compared >= 16, "{compared}");
    let whole = Number::AsInt((1 << 60) + 1);
    assert_eq!(number(r, "a_total", HOSTILE), whole);
    // Above 2^63 there are doubles alone.
    assert_eq!(
        number(r, "huge_total", ""),
        Number::AsDouble(3.0 * 2f64.powi(62))
    );
    assert_eq!(number(r, "depth", ""), Number::AsInt(-3));
    assert_eq!(number(r, "build_info", "1.0"), Number::AsInt(1));
    assert_eq!(number(r, "size_bytes", "min"), Number::AsDouble(0.5));
    assert_eq!(number(r, "size_bytes", "max"), Number::AsDouble(2.5));
    assert_eq!(number(r, "percpu_segment_up", ""), Number::AsInt(1));
    let overflows = number(r, "percpu_family_overflows_total", "room");
    assert_eq!(overflows, Number::AsInt(2));
    for (name, unit) in [
        ("a_total", "{things}"),
        ("work_seconds_total", "s"),
        ("size_bytes", "By"),
        ("room_celsius", "Cel"),
        ("part_ratio", "1"),
        ("lookups_total", ""),
    ] {
        assert_eq!(metric(r, name).unit, unit);
    }
}

/// The end of each bucket of a point that is not empty, with its count.
fn buckets(p: &otlp::ExponentialHistogramDataPoint) -> Vec<(f64, u64)> {
    let base = 2f64.powf(2f64.powi(-p.scale));
    let positive = p.positive.as_ref().unwrap();
    let ends = (1..).map(|i| base.powi(positive.offset + i));
    let zero = (p.zero_threshold, p.zero_count);
    let all = ends.zip(positive.bucket_counts.iter().copied());
    [zero]
        .into_iter()
        .chain(all)
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// The same in JSON. There the last bucket is open: here it ends where the next one would.
fn buckets_of(histogram: &Value, open: f64) -> Vec<(f64, u64)> {
    let all = histogram["buckets"].as_array().unwrap();
    let end = |b: &Value| match double(&b["upper"]) {
        f64::INFINITY => open,
        end => end,
    };
    all.iter()
        .map(|b| (end(b), b["count"].as_u64().unwrap()))
        .collect()
}

#[test]
fn histograms_are_those_of_show() {
    let name = Named::new("push_histograms");
    let segment = name.make();
    every_kind(&segment);
    let fine = HistogramOptions::new()
        .buckets_per_octave(32)
        .range(0.001, 8.0);
    let fine = segment
        .histogram(&Metric::new("fine_seconds"), &fine)
        .unwrap();
    (0..3000).for_each(|i| fine.record(f64::from(i * i) / 1e6));
    let from_zero = HistogramOptions::new().bounds(&[0.0, 5.0]);
    let from_zero = segment.histogram(&Metric::new("from_zero"), &from_zero);
    from_zero.unwrap().record(2.5);
    let sink = Sink::new([]);
    let received = push(&sink, &[&name.0]);
    let all = json(&["show", &name.0, "--json"]);
    let r = only(&received);
    for (name, scale, top) in [
        ("wait_seconds", 3, 10),
        ("fine_seconds", 5, 3),
        ("tick_seconds", 3, 10),
    ] {
        let open = (f64::from(top) + 2f64.powi(-scale)).exp2();
        for p in exponential(metric(r, name)) {
            let labels = text(&p.attributes);
            let label = labels.get("label").map_or("", String::as_str);
            let h = &series(&all, name, label)["histogram"];
            assert_eq!((p.scale, Some(p.count)), (scale, h["count"].as_u64()));
            assert_eq!(p.sum, Some(double(&h["sum"])), "{name} {label}");
            let (got, want) = (buckets(p), buckets_of(h, open));
            assert_eq!(got.len(), want.len(), "{name} {label} {got:?} {want:?}");
            for ((end, n), (wanted, wanted_n)) in got.iter().zip(&want) {
                assert!((end / wanted - 1.0).abs() < 1e-9, "{name} {got:?} {want:?}");
                assert_eq!(n, wanted_n, "{name} {label} {got:?} {want:?}");
            }
            assert_eq!(want.iter().map(|(_, n)| n).sum::<u64>(), p.count);
        }
    }
    let drift = &explicit(metric(r, "drift_seconds"))[0];
    assert_eq!(drift.explicit_bounds, BOUNDS);
    assert_eq!(drift.bucket_counts, [1, 1, 1, 1, 1, 1]);
    // It may fall, since values may be negative.
    assert_eq!((drift.count, drift.sum, drift.min), (6, None, None));
    assert_eq!(explicit(metric(r, "from_zero"))[0].sum, Some(2.5));
    let read = &explicit(metric(r, "read_seconds"))[0];
    assert_eq!((read.count, read.bucket_counts.len()), (6, 0));
    let sum = double(&series(&all, "read_seconds", "x")["histogram"]["sum"]);
    assert_eq!((read.sum, read.explicit_bounds.len()), (Some(sum), 0));
}

#[test]
fn exemplars_have_the_bytes_of_their_traces() {
    let name = Named::new("push_exemplars");
    let segment = name.make();
    let a = Metric::new("a_total");
    segment.counter(&a).unwrap().add(5);
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let exemplars = segment.exemplars(&a).unwrap();
    exemplars
        .store(
            5.0,
            &[("trace_id", trace), ("span_id", span), ("user", "ann")],
        )
        .unwrap();
    let b = Metric::new("b_total");
    segment.counter(&b).unwrap().add(1);
    let zeros = "0".repeat(32);
    let exemplars = segment.exemplars(&b).unwrap();
    exemplars
        .store(
            1.0,
            &[("trace_id", &zeros), ("span_id", "00f067aa0ba902bx")],
        )
        .unwrap();
    let sink = Sink::new([]);
    let received = push(&sink, &[&name.0]);
    let r = only(&received);
    let of = |name| &numbers(metric(r, name))[0].exemplars[0];
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let good = of("a_total");
    assert_eq!(
        (hex(&good.trace_id), hex(&good.span_id)),
        (trace.into(), span.into())
    );
    assert_eq!(good.value, Some(otlp::exemplar::Value::AsDouble(5.0)));
    let user = BTreeMap::from([("user".to_string(), "ann".to_string())]);
    assert_eq!(text(&good.filtered_attributes), user);
    assert!(good.time_unix_nano > 1_700_000_000_000_000_000);
    let bad = of("b_total");
    assert!(bad.trace_id.is_empty() && bad.span_id.is_empty());
    assert_eq!(text(&bad.filtered_attributes)["trace_id"], zeros);
    assert_eq!(
        text(&bad.filtered_attributes)["span_id"],
        "00f067aa0ba902bx"
    );
}

#[test]
fn resources_tell_segments_apart() {
    let (one, two) = (Named::new("push_one"), Named::new("push_two"));
    let segments = [one.make(), two.make()];
    for s in &segments {
        let metric = Metric::new("a_total").label("site", "own").label("x", "y");
        s.counter(&metric).unwrap().add(1);
    }
    let sink = Sink::new([]);
    let url = sink.url();
    let mut command = common::percpu(&["push", "--otlp", &url, "--once", &one.0, &two.0, "gone"]);
    command.args([
        "--resource",
        "deployment.environment=test",
        "--resource",
        "a=line",
    ]);
    command.args([
        "--label",
        "site=given",
        "--label",
        "more=1",
        "--match",
        "*a*total",
    ]);
    command.args(["--header", "x-token=secret"]);
    command.env("OTEL_RESOURCE_ATTRIBUTES", "a=environment,b=x%2Cy");
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-token=other,x-more=1");
    let out = command.output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success() && said.lines().count() == 1, "{said}");
    assert!(
        said.contains("gone cannot be read: there is no segment"),
        "{said}"
    );
    let received = &sink.received()[0];
    assert!(
        received.head.starts_with("post /v1/metrics http/1.1\r\n"),
        "{}",
        received.head
    );
    for line in [
        "content-type: application/x-protobuf",
        "content-encoding: gzip",
        "x-token: secret",
        "x-more: 1",
    ] {
        assert!(
            received.head.contains(&format!("\r\n{line}\r\n")),
            "{}",
            received.head
        );
    }
    assert_eq!(received.head.matches("x-token").count(), 1);
    let host = rustix::system::uname()
        .nodename()
        .to_str()
        .unwrap()
        .to_string();
    let all = &received.message.resource_metrics;
    let names: Vec<_> = all.iter().map(resource).collect();
    for (names, (name, program)) in names.iter().zip([
        (&*one.0, "tool test"),
        (&*two.0, "tool test"),
        ("gone", "gone"),
    ]) {
        assert_eq!(names["service.name"], program);
        assert_eq!(names["service.instance.id"], format!("{name}@{host}"));
        assert_eq!(
            (&*names["host.name"], &*names["a"], &*names["b"]),
            (&*host, "line", "x,y")
        );
        assert_eq!(names["deployment.environment"], "test");
    }
    let up = |i: usize| number(&all[i], "percpu_segment_up", "");
    assert_eq!(
        (all.len(), up(1), up(2)),
        (3, Number::AsInt(1), Number::AsInt(0))
    );
    let labels = text(&numbers(metric(&all[0], "a_total"))[0].attributes);
    let wanted = [("more", "1"), ("site", "own"), ("x", "y")];
    assert!(
        labels.iter().map(|(k, v)| (&**k, &**v)).eq(wanted),
        "{labels:?}"
    );
}

/// The start time of each point of a total, by the metric's name and its labels.
fn starts(r: &otlp::ResourceMetrics) -> BTreeMap<String, (u64, u64)> {
    let mut all = BTreeMap::new();
    for m in metrics(r) {
        let points: Vec<_> = match m.data.as_ref().unwrap() {
            Data::Gauge(g) => {
                assert!(g.data_points.iter().all(|p| p.start_time_unix_nano == 0));
                continue;
            }
            Data::Sum(s) => {
                let points = s.data_points.iter();
                points
                    .map(|p| (&p.attributes, p.start_time_unix_nano, p.time_unix_nano))
                    .collect()
            }
            Data::Histogram(h) => {
                let points = h.data_points.iter();
                points
                    .map(|p| (&p.attributes, p.start_time_unix_nano, p.time_unix_nano))
                    .collect()
            }
            Data::ExponentialHistogram(h) => {
                let points = h.data_points.iter();
                points
                    .map(|p| (&p.attributes, p.start_time_unix_nano, p.time_unix_nano))
                    .collect()
            }
            Data::Summary(_) => panic!(),
        };
        for (labels, start, time) in points {
            assert!(
                start > 1_700_000_000_000_000_000 && start < time,
                "{}",
                m.name
            );
            all.insert(format!("{} {:?}", m.name, text(labels)), (start, time));
        }
    }
    all
}

#[test]
fn start_times_change_with_the_counts_alone() {
    let name = Named::new("push_starts");
    let segment = name.make();
    every_kind(&segment);
    let sink = Sink::new([]);
    let first = push(&sink, &[&name.0]);
    let before = starts(only(&first));
    assert!(before.len() >= 14, "{before:?}");
    // Another process pushes: times go on, starts are what they were.
    let again = push(&sink, &[&name.0]);
    for (series, (start, time)) in starts(only(&again)) {
        let (first_start, first_time) = before[&series];
        assert!(start == first_start && time > first_time, "{series}");
    }
    // A later series has a start of its own.
    segment.counter(&Metric::new("later_total")).unwrap().add(1);
    let later = push(&sink, &[&name.0]);
    let (later, _) = starts(only(&later))["later_total {}"];
    assert!(before.values().all(|(start, _)| *start < later));
    drop(segment);
    prints(&["reset", "--yes", &name.0]);
    let reset = push(&sink, &[&name.0]);
    let reset = starts(only(&reset));
    let last = before.values().map(|(_, time)| *time).max().unwrap();
    assert!(
        reset.values().all(|(start, _)| *start > last),
        "{reset:?} {before:?}"
    );
    // Another segment of that name.
    std::fs::remove_file(name.path()).unwrap();
    let segment = name.make();
    every_kind(&segment);
    let last = reset.values().map(|(_, time)| *time).max().unwrap();
    let replaced = push(&sink, &[&name.0]);
    assert!(starts(only(&replaced))
        .values()
        .all(|(start, _)| *start > last));
}
