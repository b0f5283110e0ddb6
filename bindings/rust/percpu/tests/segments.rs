// SPDX-License-Identifier: MIT
//! Segments and readers.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::os::fd::AsFd;
use std::time::Duration;

use common::TemporaryFile;
use percpu::{
    Error, Histogram, HistogramOptions, Kind, Metric, Reader, Rule, Segment, SegmentOptions, Value,
};

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
            assert_eq!((s.kind(), s.rule()), kind_of(s.name()), "{s:?}");
        }
        let text = picture.prometheus().unwrap();
        assert!(text.contains("k{kind=\"bytes\"} 60\n"), "{text}");
        assert!(picture.json().unwrap().starts_with('['));
    }
}

/// What the picture above says of a name: a kind also where there is no value.
fn kind_of(name: &str) -> (Option<Kind>, Option<Rule>) {
    let (kind, rule) = match name {
        "a" => (Kind::Counter, None),
        "b" => (Kind::FCounter, None),
        "c" => (Kind::Gauge, None),
        "d" => (Kind::FGauge, None),
        "e" | "l" => (Kind::Latest, None),
        "f" => (Kind::Histogram, None),
        "g" => (Kind::Extrema, None),
        "h" => (Kind::OwnedGauge, Some(Rule::Sum)),
        "i" => (Kind::OwnedFGauge, Some(Rule::Min)),
        "j" => (Kind::Info, None),
        "k" => (Kind::Stats, None),
        _ => panic!("{name}"),
    };
    (Some(kind), rule)
}

#[test]
fn a_snapshot_has_the_bounds_of_the_program() {
    let of = |options: HistogramOptions| {
        let snapshot = Histogram::new(&options).unwrap().fetch().unwrap();
        snapshot.own_bounds().map(<[f64]>::to_vec)
    };
    let bounds = [-1.0, 0.5, 2.0];
    assert_eq!(
        of(HistogramOptions::new().bounds(&bounds)),
        Some(bounds.to_vec())
    );
    assert_eq!(of(HistogramOptions::new()), None);
    assert_eq!(of(HistogramOptions::new().summary()), Some(Vec::new()));
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

/// A memfd is a segment, which a process reads that has only the descriptor.
#[test]
fn a_segment_without_a_name() {
    let path = std::env::temp_dir().join(format!("percpu-fd-{}", std::process::id()));
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    let missing = SegmentOptions::new().open_fd(file.as_fd());
    assert!(missing.is_err());
    let segment = SegmentOptions::new()
        .create()
        .open_fd(file.as_fd())
        .unwrap();
    segment
        .counter(&Metric::new("requests_total"))
        .unwrap()
        .add(7);
    let mut reader = Reader::open_fd(file.as_fd()).unwrap();
    drop(file);
    let picture = reader.read().unwrap();
    let values: Vec<_> = picture.series().map(|s| s.number().unwrap()).collect();
    assert_eq!(values, [7.0]);
}

/// A value is missing if the time is over when it is to be read.
#[test]
fn one_missing_value_is_told() {
    let file = TemporaryFile::new("missing");
    let segment = Segment::create(file.path()).unwrap();
    segment.counter(&Metric::new("a")).unwrap().add(3);
    let mut reader = Reader::open(file.path()).unwrap();
    // Stay where the time just suffices: less after a whole picture, more after none.
    let mut ns: u64 = 1000;
    for _ in 0..10_000_000 {
        reader.set_timeout(Duration::from_nanos(ns)).unwrap();
        let step = ns / 256 + 1;
        let Ok(picture) = reader.read() else {
            ns += step; // the time was over before
            continue;
        };
        let told = picture.why_missing().map(str::to_string);
        let missing = picture.missing();
        let value = picture.series().next().unwrap().value();
        if missing == 0 {
            assert!(matches!((told, value), (None, Ok(Value::Counter(3)))));
            ns = (ns - step).max(1);
            continue;
        }
        assert_eq!((missing, value.unwrap_err().errno()), (1, libc::EAGAIN));
        let told = told.unwrap();
        assert!(told.starts_with("a: no value"), "{told}");
        return;
    }
    panic!("no picture without a value");
}

#[test]
fn a_timeout_may_be_short_or_longer_than_a_number_tells() {
    let file = TemporaryFile::new("timeout");
    let segment = Segment::create(file.path()).unwrap();
    segment.counter(&Metric::new("a")).unwrap().add(3);
    let mut reader = Reader::open(file.path()).unwrap();
    let one = Duration::from_nanos(1);
    reader.set_timeout(one).unwrap();
    assert!(matches!(reader.read(), Err(Error::Busy(_))));
    // Of 2^64 + 1 ns the last 64 bits are 1 ns.
    for timeout in [
        Duration::MAX,
        Duration::from_nanos(u64::MAX) + 2 * one,
        Duration::ZERO,
    ] {
        reader.set_timeout(timeout).unwrap();
        assert_eq!(reader.read().unwrap().missing(), 0);
    }
}
