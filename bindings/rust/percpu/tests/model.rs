// SPDX-License-Identifier: MIT
//! Random operations on each object, against a plain model of it.

#![allow(clippy::unwrap_used)]

mod common;

use common::both;
use percpu::{
    Counter, FCounter, FGauge, Gauge, Histogram, HistogramOptions, Latest, Segment, Stats,
};

const ROUNDS: u64 = 20_000;

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
