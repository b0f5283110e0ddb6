// SPDX-License-Identifier: MIT
//! Random operations on each object, against a plain model of it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, TemporaryFile};
use percpu::{
    Counter, FCounter, FGauge, Gauge, Histogram, HistogramOptions, Latest, Metric, Segment, Stats,
};

const ROUNDS: u64 = 20_000;

/// Run a test on an object of this process, and on one in a segment.
fn both<T>(
    name: &str,
    new: impl FnOnce() -> Result<T, percpu::Error>,
    declare: impl FnOnce(&Segment, &Metric) -> Result<T, percpu::Error>,
    test: impl Fn(T, Random),
) {
    percpu::selftest(); // until then no sequence runs
    test(new().unwrap(), Random::new(1));
    let file = TemporaryFile::new(name);
    let segment = Segment::create(file.path()).unwrap();
    let object = declare(&segment, &Metric::new(name).label("where", "segment")).unwrap();
    drop(segment); // the object keeps it open
    test(object, Random::new(2));
}

#[test]
fn counter() {
    both(
        "counter",
        Counter::new,
        Segment::counter,
        |c, mut random| {
            let (mut model, clone) = (0u64, c.clone());
            for _ in 0..ROUNDS {
                let n = random.next() >> random.below(64);
                match random.below(16) {
                    0 => assert_eq!(c.fetch(), model),
                    1 => assert_eq!(c.fetch_zero(), std::mem::take(&mut model)),
                    2 => {
                        clone.zero();
                        model = 0;
                    }
                    3 => {
                        c.sub(n);
                        model = model.wrapping_sub(n);
                    }
                    4 => {
                        clone.inc();
                        model = model.wrapping_add(1);
                    }
                    _ => {
                        c.add(n);
                        model = model.wrapping_add(n);
                    }
                }
            }
            assert_eq!(clone.fetch(), model);
        },
    );
}

#[test]
fn fcounter() {
    both(
        "fcounter",
        FCounter::new,
        Segment::fcounter,
        |c, mut random| {
            let mut model = 0.0; // of whole numbers, which are added exactly
            for _ in 0..ROUNDS {
                let n = random.below(1 << 20) as f64 - 1000.0;
                match random.below(16) {
                    0 => assert_eq!(c.fetch(), model),
                    1 => assert_eq!(c.fetch_zero(), std::mem::take(&mut model)),
                    2 => {
                        c.zero();
                        model = 0.0;
                    }
                    3 => {
                        let refused = [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e302];
                        let e = c.add(refused[random.below(4) as usize]).unwrap_err();
                        assert!(matches!(e, percpu::Error::OutOfRange(_)), "{e:?}");
                    }
                    _ => {
                        c.add(n).unwrap();
                        model += n;
                    }
                }
            }
            assert_eq!(c.fetch(), model);
        },
    );
}

#[test]
fn gauge() {
    both("gauge", Gauge::new, Segment::gauge, |g, mut random| {
        let mut model = 0i64;
        for _ in 0..ROUNDS {
            let n = (random.next() >> random.below(64)) as i64;
            match random.below(8) {
                0 => assert_eq!(g.fetch(), model),
                1 => {
                    g.set(n).unwrap();
                    model = n;
                }
                2 => {
                    g.inc();
                    model = model.wrapping_add(1);
                }
                3 => {
                    g.dec();
                    model = model.wrapping_sub(1);
                }
                4 => {
                    g.sub(n);
                    model = model.wrapping_sub(n);
                }
                _ => {
                    g.add(n);
                    model = model.wrapping_add(n);
                }
            }
        }
        assert_eq!(g.fetch(), model);
    });
}

#[test]
fn fgauge() {
    both("fgauge", FGauge::new, Segment::fgauge, |g, mut random| {
        let mut model = 0.0;
        for _ in 0..ROUNDS {
            let n = random.below(1 << 20) as f64;
            match random.below(8) {
                0 => assert_eq!(g.fetch(), model),
                1 => {
                    g.set(n / 7.0).unwrap();
                    assert_eq!(g.fetch(), n / 7.0);
                    g.set(n).unwrap();
                    model = n;
                }
                2 => assert!(g.set(f64::NAN).is_err()),
                3 => {
                    g.sub(n).unwrap();
                    model -= n;
                }
                _ => {
                    g.add(n).unwrap();
                    model += n;
                }
            }
        }
        assert_eq!(g.fetch(), model);
    });
}

#[test]
fn latest() {
    both("latest", Latest::new, Segment::latest, |l, mut random| {
        assert!(matches!(l.fetch(), Err(percpu::Error::Empty(_))));
        for _ in 0..ROUNDS / 10 {
            let v = f64::from_bits(random.next());
            let before = std::time::SystemTime::now();
            l.set(v).unwrap();
            let (read, when) = l.fetch().unwrap();
            assert_eq!(read.to_bits(), v.to_bits());
            assert!(
                when >= before - std::time::Duration::from_millis(20),
                "{when:?} {before:?}"
            );
        }
    });
}

/// The numbers that a bucket of the model has.
type Model = Vec<(f64, u64)>;

fn check_histogram(h: &Histogram, bounds: &[f64], values: &[f64], refused: u64) {
    let snapshot = h.fetch().unwrap();
    let mut model: Model = bounds
        .iter()
        .chain([&f64::INFINITY])
        .map(|b| (*b, 0))
        .collect();
    for v in values {
        model.iter_mut().find(|(upper, _)| v <= upper).unwrap().1 += 1;
    }
    let buckets: Model = snapshot.buckets().map(|b| (b.upper, b.count)).collect();
    assert_eq!(buckets, model);
    assert_eq!(snapshot.count(), values.len() as u64);
    assert_eq!(snapshot.refused(), refused);
    assert_eq!(snapshot.sum(), values.iter().sum::<f64>());
}

/// Values of few bits, so that their sums are exact.
fn value(random: &mut Random) -> f64 {
    random.below(1 << 12) as f64 / 64.0
}

#[test]
fn histogram_of_own_bounds() {
    let bounds = [0.0, 0.5, 1.0, 10.0, 11.0, 12.0, 50.0];
    let options = HistogramOptions::new().bounds(&bounds);
    both(
        "own",
        || Histogram::new(&options),
        |s, m| s.histogram(m, &options),
        |h, mut random| {
            let (mut values, mut refused) = (Vec::new(), 0);
            for _ in 0..ROUNDS {
                if random.below(64) == 0 {
                    h.record([f64::NAN, f64::INFINITY, 2f64.powi(961)][random.below(3) as usize]);
                    refused += 1;
                } else {
                    values.push(value(&mut random));
                    h.record(values[values.len() - 1]);
                }
            }
            check_histogram(&h, &bounds, &values, refused);
            assert_eq!(h.fetch_zero().unwrap().count(), values.len() as u64);
            check_histogram(&h, &bounds, &[], 0);
        },
    );
}

#[test]
fn histogram_of_exponential_buckets() {
    for per_octave in [1, 8, 32] {
        let options = HistogramOptions::new()
            .range(0.125, 32.0)
            .buckets_per_octave(per_octave);
        let bound = |k: u32| 0.125 * 2f64.powf(f64::from(k) / f64::from(per_octave));
        let bounds: Vec<f64> = (0..=8 * per_octave).map(bound).collect();
        both(
            "exponential",
            || Histogram::new(&options),
            |s, m| s.histogram(m, &options),
            |h, mut random| {
                let values: Vec<f64> = (0..ROUNDS).map(|_| value(&mut random)).collect();
                values.iter().for_each(|v| h.record(*v));
                let snapshot = h.fetch().unwrap();
                // No value is so near a bound that the rounding of powf() would matter.
                let counts: Vec<u64> = snapshot.buckets().map(|b| b.count).collect();
                let mut model = vec![0; bounds.len() + 1];
                for v in &values {
                    let near = |b: &&f64| (**b / v - 1.0).abs() < 1e-9 || v <= *b;
                    model[bounds.iter().position(|b| near(&b)).unwrap_or(bounds.len())] += 1;
                }
                assert_eq!(counts, model);
                assert_eq!(snapshot.sum(), values.iter().sum::<f64>());
                let mut sorted = values.clone();
                sorted.sort_by(f64::total_cmp);
                for q in [0.01, 0.5, 0.9] {
                    let at = sorted[(q * values.len() as f64).ceil() as usize - 1];
                    let estimate = snapshot.quantile(q).unwrap();
                    assert!(
                        estimate.low <= at && at <= estimate.high,
                        "{q}: {at} {estimate:?}"
                    );
                }
            },
        );
    }
}

#[test]
fn a_bound_belongs_to_the_bucket_below_it() {
    percpu::selftest();
    let bounds: Vec<f64> = (1..40).map(|n| f64::from(n * n) / 7.0).collect();
    let mut all = vec![HistogramOptions::new().bounds(&bounds)];
    all.extend([1, 2, 4, 8, 16, 32].map(|n| HistogramOptions::new().buckets_per_octave(n)));
    for options in all {
        let h = Histogram::new(&options).unwrap();
        let uppers: Vec<f64> = h.fetch().unwrap().buckets().map(|b| b.upper).collect();
        let mut model = vec![0u64; uppers.len()];
        for upper in uppers.iter().filter(|u| u.is_finite()) {
            for bits in upper.to_bits() - 1..=upper.to_bits() + 1 {
                let v = f64::from_bits(bits);
                h.record(v);
                model[uppers.iter().position(|u| v <= *u).unwrap()] += 1;
            }
        }
        let counts: Vec<u64> = h.fetch().unwrap().buckets().map(|b| b.count).collect();
        assert_eq!(counts, model, "{options:?}");
    }
}

#[test]
fn histogram_of_ticks() {
    let options = HistogramOptions::new()
        .ticks_per_unit(1000)
        .bounds(&[0.001, 0.29, 4.0]);
    both(
        "ticks",
        || Histogram::new(&options),
        |s, m| s.histogram(m, &options),
        |h, mut random| {
            let ticks: Vec<u64> = (0..ROUNDS).map(|_| random.below(5000)).collect();
            ticks.iter().for_each(|t| h.record_ticks(*t));
            h.record_ticks(u64::MAX); // refused
            let snapshot = h.fetch().unwrap();
            let below = |n: u64| ticks.iter().filter(|t| **t <= n).count() as u64;
            assert_eq!(snapshot.count_below(0.29), (below(290), true));
            assert_eq!(snapshot.count_below(4.0), (below(4000), true));
            assert_eq!((snapshot.count(), snapshot.refused()), (ROUNDS, 1));
            assert_eq!(snapshot.sum(), ticks.iter().sum::<u64>() as f64 / 1000.0);
            let mut later = h.fetch().unwrap();
            later.subtract(&snapshot).unwrap();
            assert_eq!(later.count(), 0);
            later.merge(&snapshot).unwrap();
            assert_eq!(later.count(), ROUNDS);
        },
    );
}

#[test]
fn snapshots_that_do_not_fit_stay_as_they_were() {
    let (h, other) = (
        Histogram::new(&HistogramOptions::new()).unwrap(),
        Histogram::new(&HistogramOptions::new().bounds(&[1.0])).unwrap(),
    );
    h.record(0.5);
    let mut snapshot = h.fetch_zero().unwrap();
    let (other, after_reset) = (other.fetch().unwrap(), h.fetch().unwrap());
    for _ in 0..2 {
        let e = snapshot.merge(&other).unwrap_err();
        assert!(matches!(e, percpu::Error::Invalid(_)), "{e:?}");
        let e = snapshot.subtract(&other).unwrap_err();
        assert!(matches!(e, percpu::Error::Invalid(_)), "{e:?}");
        let mut earlier = h.fetch().unwrap();
        let e = earlier.subtract(&snapshot).unwrap_err();
        assert!(matches!(e, percpu::Error::OutOfRange(_)), "{e:?}");
        assert_eq!((earlier.count(), snapshot.count()), (0, 1));
        assert_eq!((earlier.sum(), snapshot.sum()), (0.0, 0.5));
    }
    snapshot.merge(&after_reset).unwrap();
    assert_eq!(snapshot.count(), 1);
}

/// Sixteen doubles live across each add, so the compiler keeps some of them in every register that
/// an add does not say it changes.
#[inline(never)]
fn with_live_doubles(start: f64, mut add: impl FnMut(f64)) -> [f64; 16] {
    let mut live = [0.0; 16];
    for (i, x) in live.iter_mut().enumerate() {
        *x = start * (i + 1) as f64;
    }
    for _ in 0..1000 {
        add(start);
        for (i, x) in live.iter_mut().enumerate() {
            *x += (i + 1) as f64 * start;
        }
    }
    live
}

#[test]
fn adds_change_no_register_that_is_in_use() {
    percpu::selftest(); // so that the sequences count, and not the slow calls
    let (c, g) = (FCounter::new().unwrap(), FGauge::new().unwrap());
    let h = Histogram::new(&HistogramOptions::new()).unwrap();
    let own = Histogram::new(&HistogramOptions::new().bounds(&[1.0, 4.0])).unwrap();
    let start = std::hint::black_box(1.0);
    let right: [f64; 16] = std::array::from_fn(|i| 1001.0 * (i + 1) as f64);
    assert_eq!(with_live_doubles(start, |n| c.add(n).unwrap()), right);
    assert_eq!(with_live_doubles(start, |n| g.add(n).unwrap()), right);
    assert_eq!(with_live_doubles(start, |n| h.record(n)), right);
    assert_eq!(with_live_doubles(start, |n| own.record(n)), right);
    assert_eq!((c.fetch(), g.fetch()), (1000.0, 1000.0));
}

#[test]
fn timer() {
    let h = Histogram::new(&HistogramOptions::new()).unwrap();
    drop(h.timer());
    h.timer().discard();
    let timer = h.timer();
    assert!(timer.elapsed() >= 0.0);
    std::thread::scope(|s| s.spawn(|| drop(timer)).join()).unwrap();
    assert_eq!(h.fetch().unwrap().count(), 2);
}

percpu::stats! { struct One { n } }
percpu::stats! { struct Two { a, b } }
percpu::stats! { struct Three { a, b, c } }
percpu::stats! { struct Five { a, b, c, d, e } }
percpu::stats! { struct Nine { a, b, c, d, e, f, g, h, i } }
percpu::stats! { whole struct Whole { a, b, c, d, e, f, g, h, i, j } }

fn stats_of<T: percpu::Fields + PartialEq + std::fmt::Debug>(
    name: &str,
    fields: &[percpu::Field<T>],
    word: impl Fn(&mut T, usize) -> &mut u64,
) {
    both(
        name,
        Stats::<T>::new,
        |s, m| s.stats(m, "field"),
        |stats, mut random| {
            let mut model = T::default();
            for _ in 0..ROUNDS / 4 {
                match random.below(64) {
                    0 => assert_eq!(stats.snapshot().unwrap(), model),
                    1 => assert_eq!(stats.fetch_zero().unwrap(), std::mem::take(&mut model)),
                    2..=20 => {
                        let i = random.below(fields.len() as u64) as usize;
                        let n = random.next();
                        stats.add(fields[i], n);
                        *word(&mut model, i) = word(&mut model, i).wrapping_add(n);
                    }
                    _ => {
                        let mut delta = T::default();
                        for i in 0..fields.len() {
                            let n = random.next();
                            *word(&mut delta, i) = n;
                            *word(&mut model, i) = word(&mut model, i).wrapping_add(n);
                        }
                        stats.update(&delta).unwrap();
                    }
                }
                assert_eq!(stats.fetch().unwrap(), model);
            }
        },
    );
}

#[test]
fn stats() {
    stats_of("one", &[One::n], |s, _| &mut s.n);
    stats_of("two", &[Two::a, Two::b], |s, i| {
        [&mut s.a, &mut s.b].into_iter().nth(i).unwrap()
    });
    stats_of("three", &[Three::a, Three::b, Three::c], |s, i| {
        [&mut s.a, &mut s.b, &mut s.c].into_iter().nth(i).unwrap()
    });
    stats_of(
        "five",
        &[Five::a, Five::b, Five::c, Five::d, Five::e],
        |s, i| {
            [&mut s.a, &mut s.b, &mut s.c, &mut s.d, &mut s.e]
                .into_iter()
                .nth(i)
                .unwrap()
        },
    );
    stats_of("nine", &[Nine::a, Nine::i], |s, i| {
        [&mut s.a, &mut s.i].into_iter().nth(i).unwrap()
    });
    stats_of("whole", &[Whole::a, Whole::j], |s, i| {
        [&mut s.a, &mut s.j].into_iter().nth(i).unwrap()
    });
    assert_eq!(Stats::<Whole>::new().unwrap().commit_words(), 10);
}
