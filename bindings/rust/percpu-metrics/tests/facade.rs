// SPDX-License-Identifier: MIT
//! What becomes of the facade's calls, by local recorders and a reader from outside.

#![allow(clippy::unwrap_used)]

mod common;

use std::thread;

use common::{picture_after, Picture, TemporaryFile};
use metrics::{
    counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    with_local_recorder, Unit,
};
use percpu::SegmentOptions;
use percpu_metrics::{Builder, Error, Recorder};

#[test]
fn all_kinds_count() {
    let picture = picture_after(
        "kinds",
        |b| b,
        |recorder| {
            for _ in 0..3 {
                counter!("plain_total").increment(2);
                counter!("labels_total", "method" => "GET", "code" => "200").increment(1);
            }
            counter!("labels_total", "code" => "500", "method" => "GET").increment(7);
            gauge!("level").set(4.5);
            gauge!("level").increment(2);
            gauge!("level").decrement(0.25);
            gauge!("levels", "pool" => "a").increment(1);
            histogram!("seconds").record(0.25);
            histogram!("seconds").record_many(2.0, 3);
            histogram!("bytes", "way" => "in").record(4e9);
            assert_eq!(recorder.last_problem(), None);
        },
    );
    assert_eq!(picture.counter("plain_total{}"), 6);
    assert_eq!(
        picture.counter(r#"labels_total{code="200",method="GET"}"#),
        3
    );
    assert_eq!(
        picture.counter(r#"labels_total{code="500",method="GET"}"#),
        7
    );
    assert_eq!(picture.gauge("level{}"), 6.25);
    assert_eq!(picture.gauge(r#"levels{pool="a"}"#), 1.0);
    let seconds = picture.histogram("seconds{}");
    assert_eq!((seconds.count(), seconds.sum()), (4, 6.25));
    let median = seconds.quantile(0.5).unwrap();
    assert!(median.low <= 2.0 && 2.0 <= median.high && median.high <= 1.2 * median.low);
    let bytes = picture.histogram(r#"bytes{way="in"}"#);
    let median = bytes.quantile(0.5).unwrap();
    assert!(median.low <= 4e9 && 4e9 <= median.high && median.high <= 1.2 * median.low);
    assert_eq!(picture.all_problems(), 0);
}

#[test]
fn caps_that_cannot_be_are_refused() {
    for cap in [0, 1_000_001] {
        let file = TemporaryFile::new("caps");
        let error = Builder::new(file.path()).cap(cap).build().unwrap_err();
        assert_eq!(error, Error::Cap(cap));
        assert_eq!(
            error.to_string(),
            format!("a cap of {cap} series: 1 to 1000000")
        );
        assert!(!std::path::Path::new(file.path()).exists());
    }
}

#[test]
fn buckets_that_cannot_be_are_refused() {
    let many: Vec<f64> = (0..513).map(f64::from).collect();
    for (bounds, why) in [
        (
            &[2.0, 1.0][..],
            "bound 1 is 1, and the one before it is 2: bounds rise",
        ),
        (&[f64::NAN], "bound 0 is NaN: bounds are finite"),
        (
            &[],
            "there are no bounds: a histogram without bounds is a summary",
        ),
        (&many, "513 bounds are more than 512"),
    ] {
        let file = TemporaryFile::new("buckets");
        let builder = Builder::new(file.path()).buckets("fine", &[1.0]);
        let error = builder.buckets("h", bounds).build().unwrap_err();
        assert!(matches!(&error, Error::Buckets(name, _) if name == "h"));
        assert_eq!(error.to_string(), format!("the buckets of \"h\": {why}"));
        assert!(!std::path::Path::new(file.path()).exists());
    }
}

#[test]
fn a_name_has_one_kind() {
    let picture = picture_after(
        "kind",
        |b| b,
        |recorder| {
            counter!("x").increment(1);
            gauge!("x").set(5);
            assert_eq!(
                recorder.last_problem(),
                Some("\"x\" is a counter: its use as a gauge counts nothing")
            );
            histogram!("x", "a" => "b").record(5);
            counter!("x").increment(1);
        },
    );
    assert_eq!(picture.counter("x{}"), 2);
    assert_eq!(picture.problems("x", "kind"), 2);
}

#[test]
fn names_are_bounded() {
    const NAMES: usize = 4096;
    let picture = picture_after(
        "names",
        |b| b.labels("named_total", &["a"]),
        |recorder| {
            for i in 0..NAMES {
                counter!(format!("n{i}_total")).increment(1);
            }
            assert_eq!(recorder.last_problem(), None);
            for i in 0..10 {
                counter!(format!("more{i}_total")).increment(1);
            }
            describe_counter!("another_total", "It has no room, either.");
            let sentence = recorder.last_problem().unwrap();
            assert!(
                sentence.contains("4096") && sentence.contains("more0_total"),
                "{sentence}"
            );
            // Those that are there go on.
            counter!("n7_total").increment(1);
            counter!("named_total", "a" => "b").increment(1);
        },
    );
    for i in 0..NAMES {
        assert_eq!(
            picture.counter(&format!("n{i}_total{{}}")),
            1 + u64::from(i == 7)
        );
    }
    assert_eq!(picture.counter(r#"named_total{a="b"}"#), 1);
    assert_eq!(picture.problems("", "names"), 11);
    assert_eq!(picture.len(), NAMES + 2);
}

#[test]
fn what_the_segment_refuses_is_told() {
    let long = "x".repeat(256);
    let picture = picture_after(
        "refused",
        |b| b,
        |recorder| {
            counter!("").increment(1);
            counter!("a\0b").increment(1);
            counter!(long.clone()).increment(1);
            gauge!("g", "" => "empty name").set(1);
            histogram!("h", "le" => "reserved").record(1);
            assert!(recorder
                .last_problem()
                .unwrap()
                .contains("\"h\" counts nothing: "));
            // The value of a label is no reason to lose the count.
            counter!("values_total", "v" => "a\0b").increment(1);
            counter!("values_total", "v" => "x".repeat(5000)).increment(1);
        },
    );
    for name in ["", "a\0b", &long, "g", "h"] {
        // The name with a byte 0 cannot be a label's value, either.
        let told = if name == "a\0b" { "_overflow" } else { name };
        let problem = if name == "a\0b" {
            "_overflow"
        } else {
            "declaration"
        };
        assert_eq!(picture.problems(told, problem), 1, "{name:?}");
    }
    let overflow = r#"values_total{v="_overflow"}"#;
    assert_eq!(picture.counter(overflow), 2);
    assert_eq!(picture.get(overflow).overflows, (0, 2));
}

#[test]
fn descriptions_set_help_and_unit() {
    let picture = picture_after(
        "described",
        |b| b,
        |recorder| {
            describe_counter!("c_total", Unit::Bytes, "What was sent.");
            describe_counter!("c_total", Unit::Count, "The first one stays.");
            describe_gauge!("g", "A level.");
            describe_histogram!("h_seconds", Unit::Seconds, "ä".repeat(1000));
            counter!("c_total", "a" => "b").increment(1);
            gauge!("g").set(1);
            histogram!("h_seconds").record(1);
            counter!("late_total").increment(1);
            describe_counter!("late_total", "Too late.");
            counter!("late_total").increment(1);
            assert_eq!(recorder.last_problem(), None);
        },
    );
    let of = |key: &str| {
        let series = picture.get(key);
        (series.unit.clone(), series.help.clone())
    };
    assert_eq!(
        of(r#"c_total{a="b"}"#),
        ("bytes".into(), "What was sent.".into())
    );
    assert_eq!(of("g{}"), (String::new(), "A level.".into()));
    assert_eq!(of("h_seconds{}"), ("seconds".into(), "ä".repeat(511)));
    assert_eq!(of("late_total{}"), (String::new(), String::new()));
    assert!(!of(r#"c_total{a="b"}"#).1.is_empty());
}

#[test]
fn names_and_values_may_be_any_text() {
    let picture = picture_after(
        "texts",
        |b| b,
        |recorder| {
            counter!("http.requests-größe 1", "küche.x" => "żółć \"\n", "b" => "").increment(1);
            assert_eq!(recorder.last_problem(), None);
        },
    );
    let key = format!("http.requests-größe 1{{b=\"\",küche.x={:?}}}", "żółć \"\n");
    assert_eq!(picture.counter(&key), 1);
}

#[test]
fn own_bounds_are_the_builders() {
    let picture = picture_after(
        "bounds",
        |b| {
            b.buckets("h", &[1.0, 2.0])
                .buckets("f", &[0.5])
                .labels("f", &["a"])
        },
        |_| {
            for v in [0.5, 1.0, 1.5, 99.0, f64::NAN] {
                histogram!("h").record(v);
                histogram!("f").record(v);
            }
            histogram!("exponential").record(-1.0);
        },
    );
    let counts = |key: &str| -> Vec<(f64, u64)> {
        let buckets = picture.histogram(key).buckets();
        buckets.map(|b| (b.upper, b.count)).collect()
    };
    assert_eq!(counts("h{}"), [(1.0, 2), (2.0, 1), (f64::INFINITY, 1)]);
    assert_eq!(counts(r#"f{a=""}"#), [(0.5, 1), (f64::INFINITY, 3)]);
    assert_eq!(picture.histogram("h{}").refused(), 1);
    let exponential = picture.histogram("exponential{}");
    assert_eq!((exponential.count(), exponential.refused()), (0, 1));
}

#[test]
fn a_gauge_tells_what_it_refuses() {
    let picture = picture_after(
        "value",
        |b| b,
        |recorder| {
            gauge!("g").set(3);
            gauge!("g").set(f64::NAN);
            gauge!("g").increment(f64::INFINITY);
            gauge!("g").decrement(f64::INFINITY);
            let sentence = recorder.last_problem().unwrap();
            assert!(
                sentence.starts_with("the gauge \"g\" refused NaN: "),
                "{sentence}"
            );
        },
    );
    assert_eq!(picture.gauge("g{}"), 3.0);
    assert_eq!(picture.problems("g", "value"), 3);
}

#[test]
fn absolute_is_at_least() {
    let picture = picture_after(
        "absolute",
        |b| b,
        |recorder| {
            let kept = counter!("c_total");
            kept.absolute(5);
            kept.absolute(3);
            kept.increment(1);
            assert_eq!(fetch(recorder, "c_total"), 6);
            kept.absolute(6);
            assert_eq!(fetch(recorder, "c_total"), 6);
            kept.absolute(u64::from(u32::MAX) * 4);
            // Two threads set one counter to the same values: no part is added twice.
            thread::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        with_local_recorder(&recorder, || {
                            for v in 0..20_000 {
                                counter!("both_total", "a" => "b").absolute(v);
                            }
                        })
                    });
                }
            });
            // An increment meanwhile is never lost: the sum is as if it had been before or after.
            thread::scope(|s| {
                s.spawn(|| (0..20_000).for_each(|v| counter_of(&recorder).absolute(v)));
                s.spawn(|| (0..20_000).for_each(|_| counter_of(&recorder).increment(1)));
            });
        },
    );
    assert_eq!(picture.counter("c_total{}"), u64::from(u32::MAX) * 4);
    assert_eq!(picture.counter(r#"both_total{a="b"}"#), 19_999);
    let mixed = picture.counter("mixed_total{}");
    assert!((20_000..40_000).contains(&mixed), "{mixed}");
}

fn counter_of(recorder: &Recorder) -> metrics::Counter {
    with_local_recorder(recorder, || counter!("mixed_total"))
}

fn fetch(recorder: Recorder, name: &str) -> u64 {
    let metric = percpu::Metric::new(name);
    recorder.segment().counter(&metric).unwrap().fetch()
}

#[test]
fn first_uses_at_the_same_time_agree() {
    let file = TemporaryFile::new("race");
    let recorder = Builder::new(file.path()).build().unwrap();
    let start = std::sync::Barrier::new(4);
    thread::scope(|s| {
        for t in 0..4 {
            let start = &start;
            s.spawn(move || {
                with_local_recorder(&recorder, || {
                    for i in 0..200 {
                        start.wait();
                        let name = format!("n{i}_total");
                        if t % 2 == 0 {
                            counter!(name, "a" => "1").increment(1);
                        } else {
                            counter!(name, "a" => "1", "b" => "2").increment(1);
                        }
                    }
                });
            });
        }
    });
    let picture = Picture::of(file.path());
    for i in 0..200 {
        let short = format!("n{i}_total{{a=\"1\"}}");
        let sum = if picture.has(&short) {
            assert_eq!(picture.problems(&format!("n{i}_total"), "labels"), 2);
            picture.counter(&short)
        } else {
            picture.counter(&format!("n{i}_total{{a=\"1\",b=\"\"}}"))
                + picture.counter(&format!("n{i}_total{{a=\"1\",b=\"2\"}}"))
        };
        assert_eq!(sum, 4, "n{i}_total");
    }
}

#[test]
fn counts_go_on_and_handles_stay() {
    let file = TemporaryFile::new("again");
    let mut kept = Vec::new();
    for _ in 0..3 {
        let recorder = Builder::new(file.path()).build().unwrap();
        with_local_recorder(&recorder, || kept.push(counter!("c_total", "a" => "b")));
    }
    kept.iter().for_each(|c| c.increment(1));
    assert_eq!(Picture::of(file.path()).counter(r#"c_total{a="b"}"#), 3);
    let anew = SegmentOptions::new().anew();
    Builder::new(file.path()).options(anew).build().unwrap();
    assert_eq!(Picture::of(file.path()).counter(r#"c_total{a="b"}"#), 0);
}

#[test]
fn bad_names_of_segments_are_errors() {
    for name in ["", ".hidden", "a b", "a\0b"] {
        let error = percpu_metrics::install(name).unwrap_err();
        assert!(
            matches!(error, Error::Segment(percpu::Error::Invalid(_))),
            "{name:?}: {error}"
        );
    }
    let strict = Builder::new("/nowhere/x").options(SegmentOptions::new().create());
    assert!(matches!(
        strict.build(),
        Err(Error::Segment(percpu::Error::NotFound(_)))
    ));
}
