// SPDX-License-Identifier: MIT
//! Distributions beside the library's own snapshots.

use super::*;
use percpu::{Histogram, HistogramOptions};

/// Numbers that are the same in each run (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }

    /// From tiny to large, some equal, and negative ones if asked for.
    fn value(&mut self, negative: bool) -> f64 {
        let sign = if negative && self.below(2) == 0 {
            -1.0
        } else {
            1.0
        };
        let octave = self.below(44) as i32 - 24;
        sign * (1.0 + self.below(64) as f64 / 64.0) * f64::from(octave).exp2()
    }
}

const BOUNDS: [f64; 6] = [-100.0, -0.5, 0.0, 0.25, 3.0, 1000.0];

/// All kinds, and whether they take values below 0.
fn kinds() -> [(HistogramOptions<'static>, bool); 7] {
    let new = HistogramOptions::new;
    [
        (new(), false),
        (new().range(0.125, 64.0).buckets_per_octave(1), false),
        (new().range(0.125, 64.0).buckets_per_octave(32), false),
        (new().ticks_per_unit(1_000_000_000), false),
        (new().bounds(&BOUNDS), true),
        (new().bounds(&BOUNDS[3..]), true),
        (new().bounds(&[1.0]).ticks_per_unit(1000), false),
    ]
}

fn filled(options: &HistogramOptions, negative: bool, random: &mut Random) -> Histogram {
    let h = Histogram::new(options).unwrap();
    for _ in 0..random.below(60) + 1 {
        h.record(random.value(negative));
    }
    h
}

#[test]
fn quantiles_lie_where_the_library_says() {
    let mut random = Random(1);
    for round in 0..300 {
        for (i, (options, negative)) in kinds().iter().enumerate() {
            let snapshot = filled(options, *negative, &mut random).fetch().unwrap();
            let d = Distribution::new(&snapshot);
            assert!(d.is_sound());
            for k in 0..=20 {
                let q = f64::from(k) / 20.0;
                let (ours, there) = (d.quantile(q).unwrap(), snapshot.quantile(q).unwrap());
                // The library and we add in different orders.
                let little = 1e-9 * (there.low.abs().min(1e9) + there.high.abs().min(1e9));
                assert!(
                    there.low - little <= ours && ours <= there.high + little,
                    "round {round}, kind {i}, {q}: {ours} {there:?}"
                );
            }
        }
    }
}

#[test]
fn a_summary_has_no_quantiles() {
    let h = Histogram::new(&HistogramOptions::new().summary()).unwrap();
    let of = || Distribution::new(&h.fetch().unwrap());
    assert_eq!((of().mean(), of().quantile(0.5)), (None, None));
    h.record(2.0);
    h.record(-1.0);
    assert_eq!((of().count(), of().mean()), (2, Some(0.5)));
    assert_eq!(of().layout(), &Layout::Summary);
    assert_eq!(of().quantile(0.5), None);
    assert!(of().rows(8).len() < 2);
}

#[test]
fn nothing_observed() {
    for (options, _) in kinds() {
        let d = Distribution::new(&Histogram::new(&options).unwrap().fetch().unwrap());
        assert_eq!((d.count(), d.mean(), d.quantile(0.5)), (0, None, None));
        assert_eq!(d.rows(8), []);
    }
}

#[test]
fn an_interval_is_what_was_recorded_in_it() {
    let mut random = Random(2);
    for round in 0..100 {
        for (options, negative) in kinds() {
            let h = filled(&options, negative, &mut random);
            let before = Distribution::new(&h.fetch().unwrap());
            let mut earlier = h.fetch().unwrap();
            for _ in 0..random.below(9) {
                h.record(random.value(negative));
            }
            let mut later = h.fetch().unwrap();
            let interval = Distribution::new(&later).since(&before).unwrap();
            later.subtract(&earlier).unwrap();
            let wanted = Distribution::new(&later);
            assert_eq!(interval.count(), wanted.count(), "round {round}");
            let counts = |d: &Distribution| -> Vec<_> {
                d.buckets().iter().map(|b| (b.upper, b.count)).collect()
            };
            assert_eq!(counts(&interval), counts(&wanted));
            assert!((interval.sum() - wanted.sum()).abs() <= 1e-9 * before.sum().abs().max(1e9));
            earlier.merge(&later).unwrap();
        }
    }
}

#[test]
fn a_reset_is_seen() {
    let mut random = Random(3);
    for (options, negative) in kinds() {
        let h = filled(&options, negative, &mut random);
        let before = Distribution::new(&h.fetch().unwrap());
        h.fetch_zero().unwrap();
        let empty = Distribution::new(&h.fetch().unwrap());
        assert_eq!(empty.since(&before), None);
        assert_eq!(before.since(&before).unwrap().count(), 0);
        // As many observations, elsewhere.
        let upper = before.buckets()[0].upper;
        let elsewhere = if upper > 1.0 { 2f64.powi(-30) } else { 2000.0 };
        (0..before.count()).for_each(|_| h.record(elsewhere));
        let other = Distribution::new(&h.fetch().unwrap());
        assert_eq!(other.count(), before.count());
        assert_eq!(other.since(&before), None, "{before:?} {other:?}");
    }
}

#[test]
fn rows_have_all_observations() {
    let mut random = Random(4);
    for round in 0..200 {
        for (options, negative) in kinds() {
            let h = filled(&options, negative, &mut random);
            let d = Distribution::new(&h.fetch().unwrap());
            let most = random.below(10) as usize + 2;
            let rows = d.rows(most);
            let about = format!("round {round}, {most}: {rows:?} of {d:?}");
            assert!(rows.len() <= most + 1, "{about}");
            assert_eq!(rows.iter().map(|r| r.1).sum::<u64>(), d.count(), "{about}");
            assert!(rows.windows(2).all(|w| w[0].0 < w[1].0), "{about}");
            // Each row has what is up to its end: the cumulative count is exact.
            let mut below = 0;
            for (end, n) in rows {
                below += n;
                let end = end * (1.0 + 1e-9 * end.signum());
                let buckets = d.buckets().iter().filter(|b| b.upper <= end);
                assert_eq!(below, buckets.map(|b| b.count).sum::<u64>(), "{about}");
            }
        }
    }
}

#[test]
fn json_keeps_all_of_it() {
    let mut random = Random(5);
    for (options, negative) in kinds() {
        let h = filled(&options, negative, &mut random);
        let d = Distribution::new(&h.fetch().unwrap());
        let json = serde_json::to_string(&d).unwrap();
        assert_eq!(
            serde_json::from_str::<Distribution>(&json).unwrap(),
            d,
            "{json}"
        );
    }
}
