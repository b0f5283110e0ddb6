// SPDX-License-Identifier: MIT
//! Random operations on the other objects, against a plain model of each; families and readers.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::{Random, TemporaryFile};
use percpu::{
    ApproxSum, Counter, Error, Extrema, FExtrema, Histogram, HistogramOptions, Metric, Owners,
    Rate, RateMark, Reader, Ring, Rule, Segment, SegmentOptions, Value, WhenFull, FAMILY_OVERFLOW,
};

const ROUNDS: u64 = 20_000;

#[test]
fn extrema() {
    let file = TemporaryFile::new("extrema");
    let segment = Segment::create(file.path()).unwrap();
    for x in [
        Extrema::new().unwrap(),
        segment.extrema(&Metric::new("x")).unwrap(),
    ] {
        let (mut model, mut random) = (None, Random::new(3));
        for _ in 0..ROUNDS / 4 {
            if random.below(256) == 0 {
                assert_eq!(x.fetch_reset().ok(), model.take());
            } else {
                let v = random.next() as i64;
                x.observe(v).unwrap();
                let (min, max) = model.unwrap_or((v, v));
                model = Some((v.min(min), v.max(max)));
            }
            assert_eq!(x.fetch().ok(), model);
        }
    }
    for x in [
        FExtrema::new().unwrap(),
        segment.fextrema(&Metric::new("fx")).unwrap(),
    ] {
        assert!(matches!(x.fetch(), Err(Error::Empty(_))));
        assert!(matches!(
            x.observe(f64::INFINITY),
            Err(Error::OutOfRange(_))
        ));
        [3.5, -0.25, 8.0]
            .iter()
            .for_each(|v| x.observe(*v).unwrap());
        assert_eq!(x.fetch().unwrap(), (-0.25, 8.0));
        assert_eq!(x.fetch_reset().unwrap(), (-0.25, 8.0));
        assert!(matches!(x.fetch(), Err(Error::Empty(_))));
    }
}

#[test]
fn owned_gauges() {
    let file = TemporaryFile::new("owned");
    let segment = Segment::create(file.path()).unwrap();
    segment.join("worker 1", false).unwrap();
    assert!(matches!(
        segment.join("worker 2", false),
        Err(Error::Other(_))
    ));
    let sum = segment.owned_gauge(&Metric::new("sum"), Rule::Sum).unwrap();
    let max = segment
        .owned_fgauge(&Metric::new("max"), Rule::Max)
        .unwrap();
    let recent = segment
        .owned_gauge(&Metric::new("recent"), Rule::Recent)
        .unwrap();
    assert_eq!(sum.fetch(Owners::Living).unwrap(), 0);
    assert!(matches!(max.fetch(Owners::Living), Err(Error::Empty(_))));
    assert!(matches!(recent.add(1), Err(Error::Invalid(_))));
    let (mut model, mut random) = (0i64, Random::new(4));
    for _ in 0..ROUNDS {
        let n = random.next() as i64;
        if random.below(8) == 0 {
            sum.set(n).unwrap();
            model = n;
        } else {
            sum.add(n).unwrap();
            model = model.wrapping_add(n);
        }
    }
    max.set(1.5).unwrap();
    max.add(1.0).unwrap();
    recent.set(7).unwrap();
    assert_eq!(sum.fetch(Owners::Living).unwrap(), model);
    assert_eq!(max.fetch(Owners::All).unwrap(), 2.5);
    let each = sum.each(Owners::Living).unwrap();
    assert_eq!(each.len(), 1);
    assert_eq!(
        (each[0].pid, each[0].alive, each[0].value),
        (std::process::id(), true, model)
    );
    assert_eq!(each[0].name, "worker 1");
    let mut reader = Reader::open(file.path()).unwrap();
    let picture = reader.read().unwrap();
    let owners = picture.owners();
    assert_eq!((owners.len(), owners[0].name.as_str()), (1, "worker 1"));
    let series = picture.series().find(|s| s.name() == "max").unwrap();
    assert_eq!(series.owned(Owners::Living).unwrap(), 2.5);
    assert_eq!(series.owned_each().unwrap()[0].value, 2.5);
}

#[test]
fn rates() {
    let rate = Rate::new(10, Duration::from_secs(1 << 20)).unwrap();
    let mut mark = RateMark::default();
    assert_eq!(rate.per_second(&mut mark), 0.0);
    assert_eq!((0..25).filter(|_| rate.check()).count(), 10);
    rate.set_limit(12).unwrap();
    assert_eq!((0..5).filter(|_| rate.check()).count(), 2);
    assert_eq!((rate.allowed(), rate.refused()), (12, 18));
    assert!(rate.per_second(&mut mark) >= 0.0);
    assert!(matches!(
        Rate::new(0, Duration::from_secs(1)),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        Rate::new(1, Duration::ZERO),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        Rate::new(u64::MAX, Duration::from_secs(1)),
        Err(Error::OutOfRange(_))
    ));
    assert!(matches!(
        Rate::new(1, Duration::MAX),
        Err(Error::OutOfRange(_))
    ));
}

#[test]
fn approximate_sums() {
    for batch in [1, 100, 0] {
        let sum = ApproxSum::with_batch(batch).unwrap();
        let (mut model, mut random) = (0, Random::new(5));
        for _ in 0..ROUNDS / 4 {
            let n = random.below(1000) as i64 - 450;
            match random.below(16) {
                0 => assert_eq!(sum.fetch(), model),
                1 => assert_eq!(sum.compare(n), model.cmp(&n)),
                2 if random.below(8) == 0 => {
                    assert_eq!(sum.fetch_zero(), std::mem::take(&mut model))
                }
                3 => match sum.add_below(n, 5000) {
                    Ok(()) => model += n,
                    Err(e) => assert!(matches!(e, Error::OutOfRange(_)) && model > 5000 - n, "{e}"),
                },
                _ => {
                    sum.add(n);
                    model += n;
                }
            }
            assert!((sum.estimate() - model).unsigned_abs() <= 2 * sum.bound());
        }
    }
    assert!(matches!(ApproxSum::with_batch(-1), Err(Error::Invalid(_))));
}

#[test]
fn rings() {
    assert!(matches!(
        Ring::new(1000, WhenFull::Keep),
        Err(Error::Invalid(_))
    ));
    let (ring, mut random) = (Ring::new(1 << 16, WhenFull::Keep).unwrap(), Random::new(6));
    let mut reader = ring.reader().unwrap();
    for round in 0..50 {
        let records: Vec<Vec<u8>> = (0..100)
            .map(|_| {
                (0..=random.below(60))
                    .map(|_| random.next() as u8)
                    .collect()
            })
            .collect();
        records.iter().for_each(|r| ring.put(r).unwrap());
        for r in &records {
            let found = reader.read().unwrap().unwrap();
            assert_eq!(found.data, r, "round {round}");
            assert_eq!(found.lost, 0);
        }
        assert!(reader.read().unwrap().is_none());
    }
    assert!(matches!(ring.put(&[]), Err(Error::Invalid(_))));
    assert!(matches!(
        ring.put(&vec![0; ring.longest() + 1]),
        Err(Error::TooLong(_))
    ));
    let full = (0..1 << 20)
        .take_while(|_| ring.put(&[1; 64]).is_ok())
        .count();
    assert!(full > 0 && full < 1 << 20);
    assert!(matches!(ring.put(&[1; 64]), Err(Error::Full(_))));
    assert!(ring.dropped() >= 2);
    drop(ring); // the reader keeps it
    assert_eq!(reader.read().unwrap().unwrap().data, [1; 64]);
}

percpu::static_counter! { static COUNTED }
static BY_HAND: percpu::StaticCounter = percpu::StaticCounter::new();

#[test]
fn static_counters() {
    percpu::selftest();
    assert_eq!(COUNTED.fetch(), 0);
    COUNTED.inc();
    COUNTED.add(4);
    assert_eq!(COUNTED.fetch_zero(), 5);
    BY_HAND.add(3);
    BY_HAND.setup().unwrap();
    BY_HAND.setup().unwrap();
    BY_HAND.inc();
    assert_eq!(BY_HAND.fetch(), 4);
    BY_HAND.zero();
    assert_eq!(BY_HAND.fetch(), 0);
}

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

percpu::stats! { struct Traffic { packets, bytes } }

#[test]
fn a_picture_has_what_was_counted() {
    let file = TemporaryFile::new("picture");
    let segment = SegmentOptions::new()
        .create()
        .program("rust test")
        .mode(0o600)
        .open(file.path())
        .unwrap();
    assert_eq!(segment.fallback(), None);
    let m = |name| Metric::new(name).help("Help.").unit("things");
    segment
        .counter(&m("a").label("x", "1").label("y", "ü"))
        .unwrap()
        .add(u64::MAX);
    segment.fcounter(&m("b")).unwrap().add(0.5).unwrap();
    segment.gauge(&m("c")).unwrap().set(-3).unwrap();
    segment.fgauge(&m("d")).unwrap().set(-3.5).unwrap();
    segment.latest(&m("e")).unwrap().set(f64::INFINITY).unwrap();
    segment
        .histogram(&m("f"), &HistogramOptions::new())
        .unwrap()
        .record(0.5);
    segment.extrema(&m("g")).unwrap().observe(4).unwrap();
    segment
        .owned_gauge(&m("h"), Rule::Sum)
        .unwrap()
        .add(2)
        .unwrap();
    segment
        .owned_fgauge(&m("i"), Rule::Min)
        .unwrap()
        .set(2.5)
        .unwrap();
    segment
        .info(&Metric::new("j").label("version", "1"))
        .unwrap();
    let traffic = segment.stats::<Traffic>(&m("k"), "kind").unwrap();
    traffic
        .update(&Traffic {
            packets: 1,
            bytes: 60,
        })
        .unwrap();
    segment.latest(&m("l")).unwrap();

    let mut reader = Reader::open(file.path()).unwrap();
    for consistent in [false, true] {
        if consistent {
            reader.set_consistent().unwrap();
            reader.set_timeout(Duration::from_secs(60)).unwrap();
        }
        let picture = reader.read().unwrap();
        assert_eq!(
            (picture.generation(), picture.pending(), picture.missing()),
            (1, 0, 0)
        );
        assert_eq!(
            (picture.program().as_str(), picture.why_missing()),
            ("rust test", None)
        );
        assert!(picture.since() <= picture.taken());
        let names: Vec<String> = picture.series().map(|s| s.name().to_string()).collect();
        assert_eq!(names.concat(), "abcdefghijkl");
        for s in picture.series() {
            if s.name() != "j" {
                assert_eq!(
                    (s.help(), s.unit(), s.family_cap()),
                    ("Help.", "things", None)
                );
            }
            let value = s.value();
            let right = match (s.name(), &value) {
                ("a", Ok(Value::Counter(u64::MAX))) => {
                    s.labels().eq([("x", "1"), ("y", "ü")]) && !s.cpus().unwrap().is_empty()
                }
                ("b", Ok(Value::FCounter(v))) => *v == 0.5,
                ("c", Ok(Value::Gauge(-3))) => s.number().unwrap() == -3.0,
                ("d", Ok(Value::FGauge(v))) => *v == -3.5,
                ("e", Ok(Value::Latest(v, when))) => v.is_infinite() && *when > picture.since(),
                ("f", Ok(Value::Histogram(snapshot))) => snapshot.count() == 1,
                ("g", Ok(Value::Extrema(min, max))) => (*min, *max) == (4.0, 4.0),
                ("h", Ok(Value::OwnedGauge(2))) => true,
                ("i", Ok(Value::OwnedFGauge(v))) => *v == 2.5,
                ("j", Ok(Value::Info)) => s.labels().eq([("version", "1")]),
                ("k", Ok(Value::Stats(values))) => {
                    s.field_label() == "kind"
                        && s.fields().eq(["packets", "bytes"])
                        && *values == [1, 60]
                }
                ("l", Err(Error::Empty(_))) => true,
                _ => false,
            };
            assert!(right, "{s:?}");
        }
        let text = picture.prometheus().unwrap();
        assert!(text.contains("k{kind=\"bytes\"} 60\n"), "{text}");
        assert!(picture.json().unwrap().starts_with('['));
    }
}

#[test]
fn a_reader_tells_that_its_file_was_replaced() {
    let file = TemporaryFile::new("replaced");
    Segment::create(file.path()).unwrap();
    let mut reader = Reader::open(file.path()).unwrap();
    reader.read().unwrap();
    std::fs::remove_file(file.path()).unwrap();
    assert!(matches!(reader.read(), Err(Error::NotFound(_))));
    Segment::create(file.path()).unwrap();
    let e = reader.read().unwrap_err();
    assert!(matches!(e, Error::NotFound(_)), "{e:?}");
    Reader::open(file.path()).unwrap().read().unwrap();
}

#[test]
fn errors_say_why() {
    let file = TemporaryFile::new("errors");
    let segment = Segment::create(file.path()).unwrap();
    segment.counter(&Metric::new("a")).unwrap();
    let e = segment.gauge(&Metric::new("a")).unwrap_err();
    assert!(
        matches!(e, Error::Exists(_)) && e.to_string().contains("counter"),
        "{e}"
    );
    assert_eq!(e.errno(), libc::EEXIST);
    assert_eq!(
        std::io::Error::from(e.clone()).kind(),
        std::io::ErrorKind::AlreadyExists
    );
    assert_eq!(std::io::Error::from(e.clone()).to_string(), e.to_string());
    for metric in [
        Metric::new(""),
        Metric::new("a\0b"),
        Metric::new("b").help("\0"),
        Metric::new("b").unit("\0"),
        Metric::new("b").label("\0", ""),
        Metric::new("b").label("x", "\0"),
        Metric::new("b").label("x", "1").label("x", "2"),
    ] {
        let e = segment.counter(&metric).unwrap_err();
        assert!(
            matches!(e, Error::Invalid(_)) && !e.to_string().is_empty(),
            "{metric:?}: {e}"
        );
    }
    let long = "x".repeat(300);
    assert!(matches!(
        segment.counter(&Metric::new(&long)),
        Err(Error::TooLong(_))
    ));
    assert!(matches!(Segment::open("a\0b"), Err(Error::Invalid(_))));
    assert!(matches!(
        Segment::open("no such segment"),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(
        Segment::open("no_such_segment"),
        Err(Error::NotFound(_))
    ));
    assert!(matches!(Reader::open("/"), Err(Error::Damaged(_))));
    let wrong = HistogramOptions::new().bounds(&[2.0, 1.0]);
    assert!(matches!(Histogram::new(&wrong), Err(Error::Invalid(_))));
    let wrong = HistogramOptions::new().bounds(&[1.0]).summary();
    assert!(matches!(
        segment.histogram(&Metric::new("h"), &wrong),
        Err(Error::Invalid(_))
    ));
    let other = SegmentOptions::new().program("another").open(file.path());
    assert!(matches!(other, Err(Error::Exists(_))));
    let e = percpu::FCounter::new().unwrap().add(f64::NAN).unwrap_err();
    assert!(!e.to_string().is_empty() && e.errno() == libc::EDOM);
}

#[test]
fn a_segment_goes_on_begins_anew_or_falls_back() {
    let file = TemporaryFile::new("anew");
    let count = |options: SegmentOptions| {
        let segment = options.open(file.path()).unwrap();
        let c = segment.counter(&Metric::new("n")).unwrap();
        c.inc();
        c.fetch()
    };
    assert_eq!(count(SegmentOptions::new().create()), 1);
    assert_eq!(count(SegmentOptions::new()), 2);
    assert_eq!(count(SegmentOptions::new().anew()), 1);
    let nowhere = SegmentOptions::new()
        .create()
        .fallback()
        .open("/nowhere/segment")
        .unwrap();
    assert!(nowhere.fallback().unwrap().contains("/nowhere"));
    let c = nowhere.counter(&Metric::new("n")).unwrap();
    c.inc();
    assert_eq!(c.fetch(), 1);
}
