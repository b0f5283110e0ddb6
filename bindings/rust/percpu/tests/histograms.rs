// SPDX-License-Identifier: MIT
//! Histograms against a model of them, snapshots and timers.

#![allow(clippy::unwrap_used)]

mod common;

use common::{both, Random};
use percpu::{Histogram, HistogramOptions};

const ROUNDS: u64 = 20_000;

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
