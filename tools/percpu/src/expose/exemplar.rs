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
