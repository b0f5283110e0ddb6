// SPDX-License-Identifier: MIT
//! Families and exemplars.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::HashMap;

use common::{Random, TemporaryFile};
use percpu::{
    Counter, Error, HistogramOptions, Metric, Owners, Reader, Rule, Segment, Value, FAMILY_OVERFLOW,
};

const ROUNDS: u64 = 20_000;

#[test]
fn families() {
    percpu::selftest();
    let file = TemporaryFile::new("family");
    let segment = Segment::create(file.path()).unwrap();
    let metric = Metric::new("requests_total").help("Requests.");
    let labels = ["method", "code"];
    let family = segment.family::<Counter>(&metric, &labels, 20).unwrap();
    let (mut model, mut random) = (HashMap::new(), Random::new(7));
    for _ in 0..ROUNDS {
        let values = [
            format!("m{}", random.below(5)),
            format!("{}", 200 + random.below(4)),
        ];
        let n = random.below(100);
        family.add(&[&values[0], &values[1]], n).unwrap();
        *model.entry(values).or_insert(0) += n;
    }
    for (values, n) in &model {
        assert_eq!(family.get(&[&values[0], &values[1]]).unwrap().fetch(), *n);
    }
    assert_eq!(
        (model.len(), family.overflows(), family.invalid()),
        (20, 0, 0)
    );

    // Beyond the cap, and values that cannot be a label's.
    family.add(&["more", ""], 5).unwrap();
    family.add(&["with\0", "0"], 6).unwrap();
    assert_eq!((family.overflows(), family.invalid()), (1, 1));
    assert_eq!(family.get(&[FAMILY_OVERFLOW; 2]).unwrap().fetch(), 11);
    assert!(matches!(family.add(&["one"], 1), Err(Error::Invalid(_))));
    assert!(matches!(family.get(&["1"; 65]), Err(Error::Invalid(_))));

    family.remove(&["m0", "200"]).unwrap();
    assert!(matches!(
        family.remove(&["m0", "200"]),
        Err(Error::NotFound(_))
    ));
    assert!(matches!(
        family.remove(&["m\0", "200"]),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        segment.family::<Counter>(&metric, &["other"], 20),
        Err(Error::Exists(_))
    ));
    assert!(segment
        .family::<Counter>(&metric.clone().label("a", "b"), &labels, 20)
        .is_err());

    let options = HistogramOptions::new().bounds(&[1.0, 2.0]);
    let seconds = segment
        .histogram_family(&Metric::new("seconds"), &["path"], 10, &options)
        .unwrap();
    seconds.record(&["/"], 1.5).unwrap();
    assert_eq!(
        seconds
            .get(&["/"])
            .unwrap()
            .fetch()
            .unwrap()
            .count_below(2.0),
        (1, true)
    );
    let exemplars = seconds.exemplars(&["/"]).unwrap();
    exemplars.store(1.5, &[("trace_id", "7")]).unwrap();
    assert_eq!(
        exemplars.fetch(1).unwrap().labels,
        [("trace_id".into(), "7".into())]
    );
    let gauges = segment
        .owned_gauge_family(&Metric::new("in_flight"), &["queue"], 10, Rule::Max)
        .unwrap();
    let summed = segment.owned_gauge_family(&Metric::new("in_flight"), &["queue"], 10, Rule::Sum);
    assert!(matches!(summed, Err(Error::Exists(_))));
    gauges.get(&["a"]).unwrap().set(3).unwrap();
    assert_eq!(
        gauges.get(&["a"]).unwrap().fetch(Owners::Living).unwrap(),
        3
    );

    // Handles stay valid when all else is dropped.
    let one = family.get(&["m1", "200"]).unwrap();
    drop((family, seconds, gauges, segment));
    one.inc();
    assert_eq!(
        one.fetch(),
        model[&["m1".to_string(), "200".to_string()]] + 1
    );
}

#[test]
fn a_family_may_have_64_labels() {
    let file = TemporaryFile::new("labels");
    let segment = Segment::create(file.path()).unwrap();
    let texts: Vec<String> = (0..65).map(|i| format!("l{i}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let declare = |n: usize| segment.family::<Counter>(&Metric::new("n"), &texts[..n], 10);
    assert!(matches!(declare(65), Err(Error::TooLong(_))));
    let family = declare(64).unwrap();
    let mut values = texts[..64].to_vec();
    family.add(&values, 1).unwrap();
    values[63] = "another";
    family.add(&values, 2).unwrap();
    assert!(matches!(family.add(&texts, 1), Err(Error::Invalid(_))));
    let mut reader = Reader::open(file.path()).unwrap();
    let picture = reader.read().unwrap();
    let mut found: Vec<(String, u64)> = picture
        .series()
        .map(|s| match s.value() {
            Ok(Value::Counter(n)) => (s.labels().map(|l| l.1).collect(), n),
            other => panic!("{other:?}"),
        })
        .collect();
    found.sort_by_key(|f| f.1);
    assert_eq!(found, [(texts[..64].concat(), 1), (values.concat(), 2)]);
}

#[test]
fn exemplars() {
    let file = TemporaryFile::new("exemplars");
    let segment = Segment::create(file.path()).unwrap();
    let metric = Metric::new("requests_total");
    assert!(matches!(
        segment.exemplars(&metric),
        Err(Error::NotFound(_))
    ));
    segment.counter(&metric).unwrap();
    let exemplars = segment.exemplars(&metric).unwrap();
    assert!(matches!(exemplars.fetch(0), Err(Error::Empty(_))));
    assert!(matches!(exemplars.fetch(1), Err(Error::Invalid(_))));
    exemplars
        .store(2.0, &[("trace_id", "ä"), ("span", "")])
        .unwrap();
    let found = exemplars.fetch(0).unwrap();
    assert_eq!(found.value, 2.0);
    assert_eq!(
        found.labels,
        [
            ("trace_id".into(), "ä".into()),
            ("span".into(), String::new())
        ]
    );
    for labels in [
        vec![("", "empty")],
        vec![("a", "0\0")],
        vec![("a", "b"); 17],
        vec![("a", "b"); 2],
    ] {
        assert!(
            matches!(exemplars.store(1.0, &labels), Err(Error::Invalid(_))),
            "{labels:?}"
        );
    }
    let long = "x".repeat(200);
    assert!(matches!(
        exemplars.store(1.0, &[("a", &long)]),
        Err(Error::TooLong(_))
    ));
    assert!(matches!(
        exemplars.store(1.0, &[("a", &long[..128])]),
        Err(Error::TooLong(_))
    ));
    exemplars.store(1.0, &[("a", &long[..127])]).unwrap();
    let mut reader = Reader::open(file.path()).unwrap();
    let picture = reader.read().unwrap();
    assert_eq!(
        picture.series().next().unwrap().exemplars(),
        [exemplars.fetch(0).unwrap()]
    );
    exemplars.reset().unwrap();
    assert!(matches!(exemplars.fetch(0), Err(Error::Empty(_))));
}
