// SPDX-License-Identifier: MIT
//! Which exemplars are sent.

use percpu::Exemplar;

/// The most characters that all names and values of its labels may have, in OpenMetrics.
const MOST: usize = 128;

/// Whether it may be sent at all. Its names count as the program gave them.
fn fits(e: &&Exemplar) -> bool {
    let texts = e.labels.iter().flat_map(|(name, value)| [name, value]);
    texts.map(|text| text.chars().count()).sum::<usize>() <= MOST
}

pub fn latest(all: &[Exemplar]) -> Option<&Exemplar> {
    all.iter().filter(fits).max_by_key(|e| e.time)
}

/// The latest whose value is above `lower`, and not above `upper`.
pub fn between(all: &[Exemplar], lower: f64, upper: f64) -> Option<&Exemplar> {
    let within = |e: &&Exemplar| {
        e.value <= upper && (e.value > lower || e.value == f64::NEG_INFINITY && lower == e.value)
    };
    all.iter()
        .filter(fits)
        .filter(within)
        .max_by_key(|e| e.time)
}

/// All, the oldest first.
pub fn by_time(all: &[Exemplar]) -> Vec<&Exemplar> {
    let mut found: Vec<_> = all.iter().filter(fits).collect();
    found.sort_by_key(|e| e.time);
    found
}

pub fn labels(e: &Exemplar) -> Vec<(&str, &str)> {
    let labels = e.labels.iter();
    labels
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// Exemplars of these values and seconds. Only a segment makes one.
    fn exemplars(all: &[(f64, u64)]) -> Vec<Exemplar> {
        let name = format!("percpu-exemplar-{}-{}", std::process::id(), all.len());
        let path = std::env::temp_dir().join(name);
        let segment = percpu::Segment::create(path.to_str().unwrap()).unwrap();
        let metric = percpu::Metric::new("n_total");
        segment.counter(&metric).unwrap().add(1);
        let stored = segment.exemplars(&metric).unwrap();
        stored.store(1.0, &[("a", "b")]).unwrap();
        let one = stored.fetch(0).unwrap();
        std::fs::remove_file(path).unwrap();
        let of = |(value, seconds): &(f64, u64)| {
            let mut e = one.clone();
            e.value = *value;
            e.time = SystemTime::UNIX_EPOCH + Duration::from_secs(*seconds);
            e
        };
        all.iter().map(of).collect()
    }

    #[test]
    fn the_latest_that_belongs_to_a_bucket() {
        let all = exemplars(&[(1.0, 9), (2.0, 5), (3.0, 7), (f64::NEG_INFINITY, 1)]);
        let value = |e: Option<&Exemplar>| e.map(|e| e.value);
        assert_eq!(value(latest(&all)), Some(1.0));
        let values: Vec<_> = by_time(&all).iter().map(|e| e.value).collect();
        assert_eq!(values, [f64::NEG_INFINITY, 2.0, 3.0, 1.0]);
        // A bound belongs to the bucket below it.
        assert_eq!(value(between(&all, 0.0, 1.0)), Some(1.0));
        assert_eq!(value(between(&all, 1.0, 2.0)), Some(2.0));
        assert_eq!(value(between(&all, 1.0, 3.0)), Some(3.0));
        assert_eq!(value(between(&all, 3.0, f64::INFINITY)), None);
        let least = between(&all, f64::NEG_INFINITY, 0.0);
        assert_eq!(value(least), Some(f64::NEG_INFINITY));
    }

    #[test]
    fn long_labels_are_not_sent() {
        let mut all = exemplars(&[(1.0, 1)]);
        for (letters, sent) in [(127, true), (128, false)] {
            all[0].labels = vec![("a".to_string(), "ü".repeat(letters))];
            assert_eq!(latest(&all).is_some(), sent);
            assert_eq!(between(&all, 0.0, 1.0).is_some(), sent);
            assert_eq!(by_time(&all).len(), usize::from(sent));
        }
    }
}
