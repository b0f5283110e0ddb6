// SPDX-License-Identifier: MIT
//! Errors name what was wrong.

#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Debug;
use std::time::Duration;

use common::TemporaryFile;
use percpu::{
    ApproxSum, Error, Histogram, HistogramOptions, Metric, Rate, Reader, Region, Ring, Segment,
    SegmentOptions, WhenFull,
};

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

/// The sentence of an error.
fn sentence<T: Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_histogram_names_the_option_that_cannot_be() {
    let (many, o) = (vec![1.0; 513], HistogramOptions::new());
    for (options, right) in [
        (
            o.bounds(&[2.0, 1.0]),
            "bound 1 is 1, and the one before it is 2: bounds rise",
        ),
        (
            o.bounds(&[0.5, 0.5]),
            "bound 1 is 0.5, and the one before it is 0.5: bounds rise",
        ),
        (
            o.bounds(&[1.0, f64::NAN]),
            "bound 1 is NaN: bounds are finite",
        ),
        (
            o.bounds(&[f64::INFINITY]),
            "bound 0 is inf: bounds are finite",
        ),
        (
            o.bounds(&[0.0, 1e300]),
            "bound 1 is 1e300: bounds are between -2^960 and 2^960, and at most 2^53 - 2 ticks",
        ),
        (
            o.bounds(&[1.0, 1e10]).ticks_per_unit(1_000_000_000),
            "bound 1 is 1e10: bounds are between -2^960 and 2^960, and at most 2^53 - 2 ticks",
        ),
        (
            o.bounds(&[]),
            "there are no bounds: a histogram without bounds is a summary",
        ),
        (o.bounds(&many), "513 bounds are more than 512"),
        (o.bounds(&[1.0]).summary(), "a summary has no bounds"),
        (
            o.bounds(&[1.0]).range(1.0, 2.0),
            "a histogram with own bounds, or a summary, has no range and no buckets per octave",
        ),
        (
            o.summary().buckets_per_octave(8),
            "a histogram with own bounds, or a summary, has no range and no buckets per octave",
        ),
        (
            o.buckets_per_octave(12),
            "12 buckets per octave: there are 1, 2, 4, 8, 16 or 32",
        ),
        (
            o.buckets_per_octave(64),
            "64 buckets per octave: there are 1, 2, 4, 8, 16 or 32",
        ),
        (
            o.range(3.0, 2.0),
            "a range from 3e0 to 2e0: it rises, from 2^-1000 or more to 2^960 or less, and ends \
             below 2^53 ticks",
        ),
        (
            o.range(0.0, 0.5).ticks_per_unit(1 << 62),
            "a range from 9.5367431640625e-7 to 5e-1: it rises, from 2^-1000 or more to 2^960 or \
             less, and ends below 2^53 ticks",
        ),
    ] {
        assert_eq!(sentence(Histogram::new(&options)), right, "{options:?}");
    }
}

#[test]
fn numbers_that_cannot_be_are_named() {
    let hour = Duration::from_secs(3600);
    let region = Region::new().unwrap();
    assert_eq!(
        sentence(Rate::new(0, hour)),
        "a rate of 0 events in 3600000 ms: both numbers are 1 to 2147483647"
    );
    assert_eq!(
        sentence(Rate::new_in(&region, 0, hour)),
        sentence(Rate::new(0, hour))
    );
    let not_in_a_file = sentence(Rate::open(&region, 16, 1, hour));
    assert!(
        not_in_a_file.ends_with("; root 16: it is 0 to 15, in a file"),
        "{not_in_a_file}"
    );
    assert_eq!(
        sentence(Rate::new(1, hour).unwrap().set_limit(1 << 31)),
        "a limit of 2147483648: it is 1 to 2147483647"
    );
    assert_eq!(
        sentence(ApproxSum::with_batch(-1)),
        "a batch of -1: it is 1 to 2^40"
    );
    let large = sentence(ApproxSum::new_in(&region, 1 << 41));
    assert_eq!(
        large,
        "a batch of 2199023255552: it is 1 to 2^40, in lanes of the default size"
    );
    let at = sentence(ApproxSum::open(&region, 3, 1));
    assert!(at.starts_with("a batch of 1 at root 3: "), "{at}");
    let ring = "a ring of 1000 bytes for each CPU: it is a power of two from 1024 to 2^30";
    assert_eq!(sentence(Ring::new(1000, WhenFull::Keep)), ring);
    assert_eq!(
        sentence(Ring::new_in(&region, 1000, WhenFull::Keep)),
        format!("{ring}, less than a lane by 128 or more")
    );
    let at = sentence(Ring::open(&region, 3, 1000, WhenFull::Keep));
    assert!(at.starts_with(ring) && at.contains("root 3"), "{at}");
}

#[test]
fn a_sum_says_that_it_would_exceed_its_limit() {
    let e = ApproxSum::new().unwrap().add_below(5, 4).unwrap_err();
    assert_eq!(e.to_string(), "the sum would exceed the limit");
    assert_eq!(e.errno(), libc::ERANGE);
}
