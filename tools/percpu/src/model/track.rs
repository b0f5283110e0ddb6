// SPDX-License-Identifier: MIT
//! What is kept of a series: its latest value, averages, and a ring of earlier values.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::segment::next_id;
use super::{About, Details, Distribution, Family, Kind, Series, Value};

/// How many pictures back one can scroll.
pub const KEPT: usize = 300;
/// The times over which averages are taken, in seconds, as varnishstat has them.
pub const SPANS: [f64; 3] = [10.0, 100.0, 1000.0];
/// Over how long the distributions in the pane are.
const WINDOW: Duration = Duration::from_secs(60);
/// How far apart the distributions of a series are that is not looked at.
const STEP: Duration = Duration::from_secs(10);

/// The numbers of a row. NaN: there is none.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub value: f64,
    /// Since the picture before.
    pub change: f64,
    /// Of what only grows: per second.
    pub rate: f64,
    /// Of the rate, or of the value of what does not only grow.
    pub averages: [f64; 3],
}

impl Numbers {
    pub const NONE: Self = Self {
        value: f64::NAN,
        change: f64::NAN,
        rate: f64::NAN,
        averages: [f64::NAN; 3],
    };

    /// Add those of another series.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.value, other.value);
        add(&mut self.change, other.change);
        add(&mut self.rate, other.rate);
        for (a, b) in self.averages.iter_mut().zip(other.averages) {
            add(a, b);
        }
    }
}

/// Add a number, if it is one.
pub fn add(sum: &mut f64, x: f64) {
    if sum.is_nan() {
        *sum = x;
    } else if !x.is_nan() {
        *sum += x;
    }
}

/// Exponentially weighted means; in the beginning plain ones, as in varnishstat.
#[derive(Clone, Copy, Debug, Default)]
struct Averages {
    means: [f64; 3],
    seconds: [f64; 3],
}

impl Averages {
    fn update(&mut self, x: f64, seconds: f64) {
        if !x.is_finite() || seconds <= 0.0 {
            return;
        }
        for ((mean, past), span) in self.means.iter_mut().zip(&mut self.seconds).zip(SPANS) {
            *past = (*past + seconds).min(span).max(seconds);
            *mean += (x - *mean) * seconds / *past;
        }
    }

    fn get(&self) -> [f64; 3] {
        if self.seconds[0] > 0.0 {
            self.means
        } else {
            [f64::NAN; 3]
        }
    }
}

/// What is kept of a moment while the cursor is on the series.
pub struct Fine {
    pub number: u64,
    pub moment: Instant,
    pub details: Details,
    pub distribution: Option<Distribution>,
}

pub struct Track {
    /// Unique in this process. It stays when the file is reset or replaced.
    pub id: u64,
    pub about: Arc<About>,
    /// Name and labels in lower case: for the search.
    pub text: String,
    pub value: Result<Value, String>,
    pub family: Option<Family>,
    values: VecDeque<f64>,
    averages: Averages,
    coarse: VecDeque<(Instant, Distribution)>,
    fine: VecDeque<Fine>,
}

impl Track {
    pub fn new(about: &Arc<About>) -> Self {
        Self {
            id: next_id(),
            about: about.clone(),
            text: about.to_string().to_lowercase(),
            value: Ok(Value::Info),
            family: None,
            values: VecDeque::new(),
            averages: Averages::default(),
            coarse: VecDeque::new(),
            fine: VecDeque::new(),
        }
    }

    /// Whether it only grows, so that it has a rate.
    pub fn grows(&self) -> bool {
        matches!(self.about.kind, Kind::Counter | Kind::Histogram)
    }

    /// Take over what the picture with that number has. `kept` is of how many details are kept.
    pub fn update(
        &mut self,
        series: Series,
        (number, kept): (u64, usize),
        moments: &VecDeque<Instant>,
    ) {
        if self.about.since != series.about.since || self.about.kind != series.about.kind {
            self.forget_last();
        }
        self.about = series.about;
        self.value = series.value;
        self.family = series.family;
        let value = match &self.value {
            Err(_) | Ok(Value::Info) => f64::NAN,
            Ok(value) => value.number(),
        };
        push(&mut self.values, value, KEPT);
        let seconds = seconds_at(moments, 0);
        let now = self.numbers(0, moments);
        let averaged = if self.grows() { now.rate } else { now.value };
        self.averages.update(averaged, seconds.unwrap_or(1.0));
        if let Some(moment) = moments.back() {
            self.keep((number, kept), *moment, series.details);
        }
    }

    /// A moment at which nothing is known: the file was reset or replaced.
    pub fn gap(&mut self) {
        push(&mut self.values, f64::NAN, KEPT);
        self.coarse.clear();
        self.fine.clear();
    }

    /// The counts began anew: the next value is not compared with those before.
    fn forget_last(&mut self) {
        if let Some(last) = self.values.back_mut() {
            *last = f64::NAN;
        }
        self.coarse.clear();
        self.fine.clear();
    }

    fn keep(
        &mut self,
        (number, kept): (u64, usize),
        moment: Instant,
        details: Option<Box<Details>>,
    ) {
        let distribution = match &self.value {
            Ok(Value::Distribution(d)) => Some(d),
            _ => None,
        };
        match details {
            Some(details) => {
                let fine = Fine {
                    number,
                    moment,
                    details: *details,
                    distribution: distribution.cloned(),
                };
                push(&mut self.fine, fine, kept);
            }
            None => self.fine.clear(),
        }
        let last = self.coarse.back().map(|(at, _)| *at);
        if let (Some(d), true) = (distribution, last.is_none_or(|at| moment - at >= STEP)) {
            let most = (WINDOW.as_secs() / STEP.as_secs()) as usize + 1;
            push(&mut self.coarse, (moment, d.clone()), most);
        }
    }

    /// The numbers of some pictures back: 0 is the latest. Averages are only of the latest.
    pub fn numbers(&self, back: usize, moments: &VecDeque<Instant>) -> Numbers {
        let value = nth_back(&self.values, back).unwrap_or(f64::NAN);
        let before = nth_back(&self.values, back + 1).unwrap_or(f64::NAN);
        let change = value - before;
        let seconds = seconds_at(moments, back).unwrap_or(f64::NAN);
        let growth = self.grows() && change >= 0.0 && seconds > 0.0;
        let lost = self.grows() && change < 0.0;
        Numbers {
            value,
            change: if lost { f64::NAN } else { change },
            rate: if growth { change / seconds } else { f64::NAN },
            averages: if back == 0 {
                self.averages.get()
            } else {
                [f64::NAN; 3]
            },
        }
    }

    /// Add what graphs show, the latest first, beginning with some pictures back: the rate, or the
    /// value of what does not only grow. `seconds` is how long each picture is after the one before.
    pub fn draw(&self, back: usize, seconds: &[f64], sums: &mut [f64]) {
        let mut values = self.values.iter().rev().skip(back).copied().peekable();
        for (sum, seconds) in sums.iter_mut().zip(seconds) {
            let Some(value) = values.next() else {
                return;
            };
            if !self.grows() {
                add(sum, value);
                continue;
            }
            let change = value - values.peek().copied().unwrap_or(f64::NAN);
            if change >= 0.0 && *seconds > 0.0 {
                add(sum, change / seconds);
            }
        }
    }

    /// Details of the picture with that number, and of earlier ones, the latest first.
    pub fn fine(&self, number: u64) -> impl Iterator<Item = &Fine> + Clone {
        self.fine
            .iter()
            .rev()
            .skip_while(move |f| f.number > number)
    }

    /// What was observed in the last minute before a picture, or since the first picture, and over
    /// how many seconds that is. `None` before the second picture, and where that is not kept.
    pub fn recent(&self, number: u64) -> Option<(Distribution, f64)> {
        let now = self.fine(number).next().filter(|f| f.number == number)?;
        let distribution = now.distribution.as_ref()?;
        let fine = self.fine(number).skip(1);
        let fine = fine.filter_map(|f| Some((f.moment, f.distribution.as_ref()?)));
        let coarse = self.coarse.iter().map(|(at, d)| (*at, d));
        let (start, earlier) = fine
            .chain(coarse)
            .filter(|(at, _)| *at < now.moment && now.moment - *at <= WINDOW)
            .min_by_key(|(at, _)| *at)?;
        let seconds = (now.moment - start).as_secs_f64();
        Some((distribution.since(earlier)?, seconds))
    }

    /// The same between the picture before that one, and that one.
    pub fn latest(&self, number: u64) -> Option<(Distribution, f64)> {
        let mut fine = self.fine(number);
        let (now, before) = (fine.next().filter(|f| f.number == number)?, fine.next()?);
        let d = now
            .distribution
            .as_ref()?
            .since(before.distribution.as_ref()?)?;
        Some((d, (now.moment - before.moment).as_secs_f64()))
    }
}

/// The seconds between a picture and the one before it.
pub fn seconds_at(moments: &VecDeque<Instant>, back: usize) -> Option<f64> {
    let (now, before) = (nth_back(moments, back)?, nth_back(moments, back + 1)?);
    Some((now - before).as_secs_f64())
}

pub fn nth_back<T: Copy>(all: &VecDeque<T>, n: usize) -> Option<T> {
    all.get(all.len().checked_sub(n + 1)?).copied()
}

/// Append, and drop the oldest if there are more than so many.
pub fn push<T>(all: &mut VecDeque<T>, x: T, most: usize) {
    while all.len() >= most {
        all.pop_front();
    }
    // Not by doubling: there are as many of these as series.
    if all.len() == all.capacity() {
        all.reserve_exact((most - all.len()).min(60));
    }
    all.push_back(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_plain_at_first_and_then_forget() {
        let mut a = Averages::default();
        assert!(a.get()[0].is_nan());
        for x in [1.0, 2.0, 3.0] {
            a.update(x, 1.0);
        }
        assert_eq!(a.get(), [2.0; 3]);
        for _ in 0..200 {
            a.update(0.0, 1.0);
        }
        let [ten, hundred, thousand] = a.get();
        assert!(ten < 1e-6, "{ten}");
        // 6 in all over 100 s, and then 103 steps of 99 %.
        assert!(
            (hundred - 0.06 * 0.99_f64.powi(103)).abs() < 1e-9,
            "{hundred}"
        );
        assert!((thousand - 6.0 / 203.0).abs() < 1e-9, "{thousand}");
    }

    #[test]
    fn a_long_step_is_one_average() {
        let mut a = Averages::default();
        a.update(5.0, 1.0);
        a.update(7.0, 60.0);
        assert_eq!(a.get()[0], 7.0);
        a.update(f64::NAN, 1.0);
        assert_eq!(a.get()[0], 7.0);
    }

    #[test]
    fn rings_are_bounded() {
        let mut ring = VecDeque::new();
        for i in 0..1000 {
            push(&mut ring, i, KEPT);
        }
        assert_eq!((ring.len(), nth_back(&ring, 0)), (KEPT, Some(999)));
        assert_eq!(nth_back(&ring, KEPT), None);
    }
}
