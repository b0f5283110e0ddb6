// SPDX-License-Identifier: MIT
//! The contents of a histogram.

use serde::{Deserialize, Serialize};

/// Observations by buckets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    count: u64,
    sum: f64,
    /// By rising ends, those that are not empty.
    buckets: Vec<Bucket>,
}

/// The observations above `lower`, up to and with `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub lower: f64,
    pub upper: f64,
    pub count: u64,
    pub sum: f64,
}

impl Distribution {
    /// What a snapshot has. Values are not below 0, unless there are bounds below 0.
    pub fn new(snapshot: &percpu::Snapshot) -> Self {
        let mut lower = f64::NAN;
        let mut buckets = Vec::new();
        for b in snapshot.buckets() {
            if lower.is_nan() {
                lower = if b.upper > 0.0 {
                    0.0
                } else {
                    f64::NEG_INFINITY
                };
            }
            if b.count > 0 {
                buckets.push(Bucket {
                    lower,
                    upper: b.upper,
                    count: b.count,
                    sum: b.sum,
                });
            }
            lower = b.upper;
        }
        Self {
            count: snapshot.count(),
            sum: snapshot.sum(),
            buckets,
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }

    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// `None` if nothing was observed.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Estimate a quantile, 0 to 1, by the ends of its bucket and by the sum in there. `None` if
    /// there are no buckets with observations.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let all: u64 = self.buckets.iter().map(|b| b.count).sum();
        let mut rank = ((q * all as f64).ceil() as u64).clamp(1, all.max(1));
        for b in &self.buckets {
            if rank <= b.count {
                return Some(b.observation(rank));
            }
            rank -= b.count;
        }
        None
    }

    /// What was observed since an earlier picture. `None` if it was reset in between.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut buckets = Vec::new();
        let mut before = earlier.buckets.iter().peekable();
        for b in &self.buckets {
            let old = before.next_if(|o| o.upper == b.upper);
            let count = b.count.checked_sub(old.map_or(0, |o| o.count))?;
            if count > 0 {
                let sum = b.sum - old.map_or(0.0, |o| o.sum);
                buckets.push(Bucket { count, sum, ..*b });
            }
        }
        // A bucket that is empty now had observations before.
        if before.next().is_some() {
            return None;
        }
        Some(Self {
            count: self.count.checked_sub(earlier.count)?,
            sum: self.sum - earlier.sum,
            buckets,
        })
    }
}

impl Bucket {
    /// The middle of where the observation of that rank can be, 1 being the least.
    fn observation(&self, rank: u64) -> f64 {
        if !self.sum.is_finite() {
            return self.lower.max(f64::MIN);
        }
        let (n, rank) = (self.count as f64, rank as f64);
        let in_front = if rank > 1.0 {
            (rank - 1.0) * self.lower
        } else {
            0.0
        };
        let behind = if rank < n {
            (n - rank) * self.upper
        } else {
            0.0
        };
        let high = ((self.sum - in_front) / (n - rank + 1.0)).min(self.upper);
        let low = ((self.sum - behind) / rank).max(self.lower).min(high);
        low + (high - low) / 2.0
    }
}
