// SPDX-License-Identifier: MIT
//! Which labels count, and what another program has declared of a name.

#![allow(clippy::unwrap_used)]

mod common;

use common::{picture_after, Picture, TemporaryFile};
use metrics::{counter, describe_counter, gauge, histogram, with_local_recorder, Unit};
use percpu_metrics::Builder;

#[test]
fn labels_are_those_of_the_first_use() {
    let picture = picture_after(
        "labels",
        |b| b,
        |recorder| {
            counter!("a_total", "b" => "1", "a" => "2").increment(1);
            counter!("a_total", "a" => "2", "b" => "1").increment(1);
            counter!("a_total", "a" => "2").increment(4);
            counter!("a_total").increment(8);
            counter!("a_total", "b" => "").increment(8);
            counter!("a_total", "a" => "x", "a" => "y", "b" => "z").increment(16);
            assert_eq!(recorder.last_problem(), None);
            counter!("a_total", "c" => "no", "b" => "1", "a" => "2").increment(32);
            let sentence = recorder.last_problem().unwrap();
            assert!(
                sentence.contains("\"a_total\" has no label \"c\""),
                "{sentence}"
            );
            assert!(sentence.contains("[a, b]"), "{sentence}");
            gauge!("plain").set(1);
            gauge!("plain", "c" => "no").set(2);
            gauge!("plain", "d" => "no").set(3);
            assert!(recorder
                .last_problem()
                .unwrap()
                .contains("\"plain\" has no label \"c\""));
        },
    );
    assert_eq!(picture.counter(r#"a_total{a="2",b="1"}"#), 1 + 1 + 32);
    assert_eq!(picture.counter(r#"a_total{a="2",b=""}"#), 4);
    assert_eq!(picture.counter(r#"a_total{a="",b=""}"#), 16);
    assert_eq!(picture.counter(r#"a_total{a="y",b="z"}"#), 16);
    assert_eq!(picture.gauge("plain{}"), 3.0);
    assert_eq!(picture.problems("a_total", "labels"), 1);
    assert_eq!(picture.problems("plain", "labels"), 2);
    assert_eq!(picture.all_problems(), 3);
}

#[test]
fn labels_are_those_of_the_builder() {
    let picture = picture_after(
        "preset",
        |b| b.labels("a_total", &["b", "a", "b"]).labels("b_total", &[]),
        |_| {
            counter!("a_total").increment(1);
            counter!("a_total", "b" => "1").increment(2);
            counter!("b_total", "b" => "1").increment(4);
        },
    );
    assert_eq!(picture.counter(r#"a_total{a="",b=""}"#), 1);
    assert_eq!(picture.counter(r#"a_total{a="",b="1"}"#), 2);
    assert_eq!(picture.counter("b_total{}"), 4);
    assert_eq!(picture.problems("b_total", "labels"), 1);
    assert_eq!(picture.all_problems(), 1);
}

#[test]
fn many_labels_and_too_many() {
    let labels = |n: usize| -> Vec<(String, String)> {
        (0..n)
            .map(|i| (format!("l{i:02}"), format!("v{i}")))
            .collect()
    };
    let picture = picture_after(
        "many",
        |b| b,
        |recorder| {
            counter!("nine_total", &labels(9)).increment(1);
            counter!("most_total", &labels(64)).increment(1);
            assert_eq!(recorder.last_problem(), None);
            counter!("more_total", &labels(65)).increment(1);
            counter!("more_total", &labels(65)).increment(1);
            assert!(recorder
                .last_problem()
                .unwrap()
                .starts_with("\"more_total\" counts nothing"));
        },
    );
    let series = |name: &str, n: usize| {
        let all: Vec<String> = labels(n)
            .iter()
            .map(|(k, v)| format!("{k}={v:?}"))
            .collect();
        format!("{name}{{{}}}", all.join(","))
    };
    assert_eq!(picture.counter(&series("nine_total", 9)), 1);
    assert_eq!(picture.counter(&series("most_total", 64)), 1);
    assert_eq!(picture.problems("more_total", "declaration"), 2);
}

#[test]
fn beyond_the_cap_the_overflow_counts() {
    let picture = picture_after(
        "cap",
        |b| b.cap(3),
        |_| {
            for user in 0..10 {
                counter!("users_total", "user" => user.to_string()).increment(1);
            }
        },
    );
    for user in 0..3 {
        assert_eq!(
            picture.counter(&format!("users_total{{user=\"{user}\"}}")),
            1
        );
    }
    let overflow = r#"users_total{user="_overflow"}"#;
    assert_eq!(picture.counter(overflow), 7);
    assert_eq!(picture.get(overflow).overflows, (7, 0));
    assert_eq!(picture.all_problems(), 0);
}

#[test]
fn a_segment_that_disagrees_is_told() {
    let file = TemporaryFile::new("other");
    let segment = percpu::Segment::create(file.path()).unwrap();
    segment.gauge(&percpu::Metric::new("c_total")).unwrap();
    segment
        .counter(&percpu::Metric::new("single_total").label("a", "b"))
        .unwrap();
    segment
        .counter(&percpu::Metric::new("metrics_problems_total"))
        .unwrap();
    let recorder = Builder::new(file.path()).build().unwrap();
    with_local_recorder(&recorder, || {
        counter!("c_total").increment(1);
        assert!(recorder
            .last_problem()
            .unwrap()
            .starts_with("\"c_total\" counts nothing: "));
        counter!("single_total", "a" => "c").increment(1);
        assert!(recorder
            .last_problem()
            .unwrap()
            .starts_with("\"single_total\" counts nothing: "));
        counter!("fine_total").increment(1);
    });
    assert_eq!(Picture::of(file.path()).counter("fine_total{}"), 1);
}

#[test]
fn what_another_process_has_declared_holds() {
    let file = TemporaryFile::new("forms");
    let first = Builder::new(file.path()).cap(7).build().unwrap();
    with_local_recorder(&first, || {
        describe_counter!("c_total", Unit::Bytes, "");
        counter!("c_total", "a" => "1").increment(1);
        counter!("plain_total").increment(1);
        histogram!("h", "a" => "1", "b" => "2").record(1);
    });
    let second = Builder::new(file.path())
        .buckets("h", &[1.0])
        .build()
        .unwrap();
    with_local_recorder(&second, || {
        counter!("c_total", "b" => "2", "a" => "1").increment(2);
        assert!(second.last_problem().unwrap().contains("are [a]"));
        counter!("plain_total", "a" => "1").increment(2);
        // Other buckets cannot be reconciled.
        histogram!("h", "a" => "1").record(1);
    });
    let picture = Picture::of(file.path());
    assert_eq!(picture.counter(r#"c_total{a="1"}"#), 3);
    assert_eq!(picture.counter("plain_total{}"), 3);
    assert_eq!(picture.histogram(r#"h{a="1",b="2"}"#).count(), 1);
    assert_eq!(picture.problems("c_total", "labels"), 1);
    assert_eq!(picture.problems("plain_total", "labels"), 1);
    assert_eq!(picture.problems("h", "declaration"), 1);
}
