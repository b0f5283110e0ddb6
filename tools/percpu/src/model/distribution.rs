// SPDX-License-Identifier: MIT
//! The contents of a histogram.

use serde::{Deserialize, Serialize};

use super::float;

/// Observations by buckets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    count: u64,
    #[serde(with = "float")]
    sum: f64,
    layout: Layout,
    /// Whole numbers of these are observed: so many for 1; or 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    ticks: u64,
    /// By rising ends, those that are not empty.
    buckets: Vec<Bucket>,
}

// serde gives a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The observations above `lower`, up to and with `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    #[serde(with = "float")]
    pub lower: f64,
    #[serde(with = "float")]
    pub upper: f64,
    pub count: u64,
    #[serde(with = "float")]
    pub sum: f64,
}

/// Where buckets end, empty ones included. The last one ends at infinity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// There is one bucket for all values.
    #[default]
    Summary,
    /// The first one ends at 2^low. From there to 2^high are so many, of equal ratios.
    Octaves { low: i32, high: i32, buckets: u32 },
    /// At bounds of the program's own.
    Own(Vec<f64>),
}

impl Layout {
    fn new(snapshot: &percpu::Snapshot) -> Self {
        let n = snapshot.buckets().len();
        if n < 2 {
            return Self::Summary;
        }
        if let Some(bounds) = snapshot.own_bounds() {
            return Self::Own(bounds.to_vec());
        }
        let octave = |b: Option<percpu::Bucket>| b.map_or(0, |b| b.upper.log2().round() as i32);
        Self::Octaves {
            low: octave(snapshot.buckets().next()),
            high: octave(snapshot.buckets().nth(n - 2)),
            buckets: (n - 2) as u32,
        }
    }

    /// The ends that formats with cumulative buckets have: own bounds, or powers of two.
    pub fn printed(&self) -> Vec<f64> {
        match self {
            Self::Summary => Vec::new(),
            Self::Octaves { low, high, .. } => {
                (*low..=*high).map(|k| f64::from(k).exp2()).collect()
            }
            Self::Own(bounds) => bounds.clone(),
        }
    }

    /// Where all buckets end but the last.
    pub fn all_ends(&self) -> Vec<f64> {
        (0..self.ends()).map(|i| self.end(i)).collect()
    }

    /// How many buckets there are but the last.
    fn ends(&self) -> usize {
        match self {
            Self::Summary => 0,
            Self::Octaves { buckets, .. } => *buckets as usize + 1,
            Self::Own(bounds) => bounds.len(),
        }
    }

    /// Where a bucket ends, by its number.
    fn end(&self, i: usize) -> f64 {
        match self {
            Self::Octaves { low, high, buckets } if i <= *buckets as usize => {
                let octaves = f64::from(*high) - f64::from(*low);
                (f64::from(*low) + octaves * i as f64 / f64::from((*buckets).max(1))).exp2()
            }
            Self::Own(bounds) => bounds.get(i).copied().unwrap_or(f64::INFINITY),
            _ => f64::INFINITY,
        }
    }

    /// The number of the bucket that ends there.
    pub fn number(&self, upper: f64) -> usize {
        let n = match self {
            Self::Octaves { low, high, buckets } => {
                let octaves = f64::from(*high) - f64::from(*low);
                let part = (upper.log2() - f64::from(*low)) / octaves.max(1.0);
                (part * f64::from(*buckets)).round() as usize
            }
            _ => (0..self.ends())
                .take_while(|i| self.end(*i) < upper)
                .count(),
        };
        n.min(self.ends())
    }
}

impl Distribution {
    /// What a snapshot has. Only histograms of doubles with own bounds take values below 0.
    pub fn new(snapshot: &percpu::Snapshot) -> Self {
        let negative = snapshot.own_bounds().is_some() && snapshot.ticks_per_unit() == 0;
        let mut lower = if negative { f64::NEG_INFINITY } else { 0.0 };
        let mut buckets = Vec::new();
        for b in snapshot.buckets() {
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
            layout: Layout::new(snapshot),
            ticks: snapshot.ticks_per_unit(),
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

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the buckets of formats with cumulative buckets end, but the last, and how many
    /// observations are not above that.
    pub fn cumulative(&self) -> Vec<(f64, u64)> {
        let mut buckets = self.buckets.iter().peekable();
        let mut below = 0u64;
        let ends = self.layout.printed().into_iter();
        ends.map(|end| {
            while let Some(b) = buckets.next_if(|b| b.upper <= end) {
                below = below.saturating_add(b.count);
            }
            (end, below)
        })
        .collect()
    }

    /// Join neighbors until at most that many rows are left, 2 or more, and one for what is beyond all ends:
    /// where each ends, and how many observations it has. Rows in between may be empty.
    pub fn rows(&self, most: usize) -> Vec<(f64, u64)> {
        let finite = self.layout.ends();
        let numbered = self.buckets.iter();
        let (inner, beyond): (Vec<_>, Vec<_>) = numbered
            .map(|b| (self.layout.number(b.upper), b.count))
            .partition(|(i, _)| *i < finite);
        let mut rows: Vec<(f64, u64)> = Vec::new();
        if let (Some((first, _)), Some((last, _))) = (inner.first(), inner.last()) {
            let mut width = 1;
            // Rows end at multiples of the width: so do octaves.
            while width < finite && last.div_ceil(width) - first.div_ceil(width) >= most {
                width *= 2;
            }
            let begin = first.div_ceil(width);
            let end = |row: usize| self.layout.end((row * width).min(finite - 1));
            rows.extend((begin..=last.div_ceil(width)).map(|row| (end(row), 0)));
            for (i, n) in &inner {
                if let Some(row) = rows.get_mut(i.div_ceil(width) - begin) {
                    row.1 = row.1.saturating_add(*n);
                }
            }
        }
        rows.extend(beyond.first().map(|(_, n)| (f64::INFINITY, *n)));
        rows
    }

    /// Whether buckets are in their order, as everything here needs it: for what others wrote.
    pub fn is_sound(&self) -> bool {
        let layout = match &self.layout {
            Layout::Own(bounds) => bounds.windows(2).all(|w| w[0] < w[1]),
            Layout::Octaves { low, high, .. } => -1100 < *low && low < high && *high < 1100,
            Layout::Summary => true,
        };
        let numbers = self.buckets.iter().map(|b| self.layout.number(b.upper));
        layout
            && self
                .buckets
                .iter()
                .all(|b| b.lower < b.upper && b.count > 0)
            && numbers.collect::<Vec<_>>().windows(2).all(|w| w[0] < w[1])
    }

    /// `None` if nothing was observed.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Estimate a quantile, 0 to 1, by the ends of its bucket and by the sum in there. `None` if
    /// there are no buckets with observations.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.layout == Layout::Summary {
            return None;
        }
        let counts = self.buckets.iter().map(|b| b.count);
        let all = counts.fold(0u64, u64::saturating_add);
        let mut rank = ((q * all as f64).ceil() as u64).clamp(1, all.max(1));
        for b in &self.buckets {
            if rank <= b.count {
                return Some(b.observation(rank, self.ticks as f64));
            }
            rank -= b.count;
        }
        None
    }

    /// Add the observations of another one.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        let mut all = std::mem::take(&mut self.buckets);
        all.extend(&other.buckets);
        all.sort_by(|a, b| a.upper.total_cmp(&b.upper));
        for b in all {
            match self.buckets.last_mut() {
                Some(last) if last.upper == b.upper => {
                    last.lower = last.lower.min(b.lower);
                    last.count += b.count;
                    last.sum += b.sum;
                }
                _ => self.buckets.push(b),
            }
        }
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
            layout: self.layout.clone(),
            ticks: self.ticks,
            buckets,
        })
    }
}

impl Bucket {
    /// The middle of where the observation of that rank can be, 1 being the least. It is a whole
    /// number of ticks, if there are any.
    fn observation(&self, rank: u64, ticks: f64) -> f64 {
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
        let low = ((self.sum - behind) / rank).max(self.lower);
        let (low, high) = if ticks > 0.0 {
            let (up, down) = ((1.0 - 1e-12) * ticks, (1.0 + 1e-12) * ticks);
            ((low * up).ceil() / ticks, (high * down).floor() / ticks)
        } else {
            (low, high)
        };
        // What is below the first bound is most likely not below 0, if it need not be.
        let likely = self.lower == f64::NEG_INFINITY && high > 0.0;
        let low = if likely { low.max(0.0) } else { low }.min(high);
        low + (high - low) / 2.0
    }
}

#[cfg(test)]
mod tests;
