// SPDX-License-Identifier: MIT
//! Random operations on the other objects, against a plain model of each.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{Random, TemporaryFile};
use percpu::{
    ApproxSum, Error, Extrema, FExtrema, Metric, OwnedRule, Owners, Rate, RateMark, Reader, Ring,
    Rule, Segment, Value, WhenFull,
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
fn a_process_has_an_own_value() {
    let file = TemporaryFile::new("own");
    let segment = Segment::create(file.path()).unwrap();
    let whole = segment
        .owned_gauge(&Metric::new("whole"), Rule::Recent)
        .unwrap();
    let part = segment
        .owned_fgauge(&Metric::new("part"), Rule::Min)
        .unwrap();
    assert!(matches!(whole.own(), Err(Error::Empty(_))));
    assert!(matches!(part.own(), Err(Error::Empty(_))));
    whole.set(-3).unwrap();
    part.add(0.5).unwrap();
    part.add(0.25).unwrap();
    assert_eq!((whole.own().unwrap(), part.own().unwrap()), (-3, 0.75));
    segment.leave().unwrap();
    assert!(matches!(whole.own(), Err(Error::Empty(_))));
    assert!(matches!(part.fetch(Owners::Living), Err(Error::Empty(_))));
    assert_eq!(part.fetch(Owners::All).unwrap(), 0.75);
    part.set(2.0).unwrap();
    assert_eq!(part.fetch(Owners::Living).unwrap(), 2.0);
    assert_eq!(part.fetch(Owners::All).unwrap(), 0.75);
    assert_eq!(part.own().unwrap(), 2.0);
}

#[test]
fn readers_keep_owners_and_show_each() {
    let file = TemporaryFile::new("shown");
    let segment = Segment::create(file.path()).unwrap();
    segment.join("7", false).unwrap();
    let sum = OwnedRule::new(Rule::Sum);
    let set = |name, rule: OwnedRule| {
        let gauge = segment.owned_gauge(&Metric::new(name), rule).unwrap();
        gauge.set((1 << 53) + 1).unwrap();
    };
    set("a", sum);
    set("b", sum.keep());
    set("c", sum.keep().each());
    let part = segment.owned_fgauge(&Metric::new("d"), sum.each()).unwrap();
    part.set(0.5).unwrap();
    let other = segment.owned_gauge(&Metric::new("b"), Rule::Sum);
    assert!(matches!(other, Err(Error::Exists(_))));
    let check = |lives: bool| {
        let mut reader = Reader::open(file.path()).unwrap();
        let picture = reader.read().unwrap();
        let all: Vec<_> = picture.series().collect();
        assert_eq!(all.len(), 4);
        let flags = all
            .iter()
            .map(|s| (s.keeps_owners(), s.is_for_each_owner()));
        let expected = [(false, false), (true, false), (true, true), (false, true)];
        assert!(flags.eq(expected));
        assert!(all.iter().all(|s| s.rule() == Some(Rule::Sum)));
        let whole = (1 << 53) + 1;
        let living = if lives { whole } else { 0 };
        assert!(matches!(all[0].value(), Ok(Value::OwnedGauge(n)) if n == living));
        assert!(matches!(all[1].value(), Ok(Value::OwnedGauge(n)) if n == whole));
        assert!(matches!(all[1].owned_shown(), Err(Error::Invalid(_))));
        let shown = all[2].owned_shown().unwrap();
        assert_eq!(shown.len(), 1);
        assert_eq!((shown[0].name.as_str(), shown[0].alive), ("7", lives));
        assert!(matches!(shown[0].value, Value::OwnedGauge(n) if n == whole));
        let shown = all[3].owned_shown().unwrap();
        assert_eq!(shown.len(), usize::from(lives));
        assert!(shown
            .iter()
            .all(|o| matches!(o.value, Value::OwnedFGauge(x) if x == 0.5)));
    };
    check(true);
    segment.leave().unwrap();
    check(false);
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
