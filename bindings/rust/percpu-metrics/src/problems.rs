// SPDX-License-Identifier: MIT
//! What was dropped: counted in the segment, and said in words.

use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::race::OnceBox;
use percpu::{Counter, Family, Metric, Segment};

use crate::names::{Entry, Names, NAMES};

/// What a metric of the facade cannot be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    Labels,
    Kind,
    Declaration,
    Value,
}

impl Problem {
    pub(crate) const ALL: [Self; 4] = [Self::Labels, Self::Kind, Self::Declaration, Self::Value];

    /// The value of the label.
    fn text(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Kind => "kind",
            Self::Declaration => "declaration",
            Self::Value => "value",
        }
    }
}

const TOO_MANY: &str = "names";

/// Counts problems, and keeps the first sentence about each problem of each name.
pub(crate) struct Problems {
    /// `None`: the segment has the name for another metric.
    counts: Option<Family<Counter>>,
    too_many: OnceBox<String>,
    /// Which sentence was kept last: 0 is none, 1 that about too many names, and others are a place
    /// in the table of names, and a problem.
    last: AtomicUsize,
}

impl Problems {
    pub(crate) fn new(segment: &Segment) -> Self {
        let metric = Metric::new("metrics_problems_total")
            .help("Uses of the metrics facade of which something was dropped.");
        let cap = (NAMES + 1) * (Problem::ALL.len() + 1);
        Self {
            counts: segment.family(&metric, &["metric", "problem"], cap).ok(),
            too_many: OnceBox::new(),
            last: AtomicUsize::new(0),
        }
    }

    /// Count a problem of the name at a place. The sentence is made the first time.
    pub(crate) fn tell(
        &self,
        (place, entry): (usize, &Entry),
        problem: Problem,
        sentence: impl FnOnce() -> String,
    ) {
        self.count(&entry.name, problem.text());
        let number = problem as usize;
        let kept = &entry.sentences[number];
        if kept.get().is_none() && kept.set(Box::new(sentence())).is_ok() {
            let at = 2 + place * Problem::ALL.len() + number;
            self.last.store(at, Ordering::Release);
        }
    }

    /// Count a use of a name for which there is no room.
    pub(crate) fn tell_too_many(&self, name: &str) {
        self.count("", TOO_MANY);
        if self.too_many.get().is_none() {
            let sentence = format!(
                "the program uses more than {NAMES} names of metrics: \"{name}\" and further ones \
                 count nothing"
            );
            if self.too_many.set(Box::new(sentence)).is_ok() {
                self.last.store(1, Ordering::Release);
            }
        }
    }

    fn count(&self, metric: &str, problem: &str) {
        if let Some(counts) = &self.counts {
            // It fails only if the file is damaged, and then there is nowhere to count.
            let _ = counts.add(&[metric, problem], 1);
        }
    }

    /// The sentence that was kept last.
    pub(crate) fn last<'a>(&'a self, names: &'a Names) -> Option<&'a str> {
        match self.last.load(Ordering::Acquire) {
            0 => None,
            1 => self.too_many.get().map(String::as_str),
            n => {
                let entry = names.at((n - 2) / Problem::ALL.len())?;
                let kept = &entry.sentences[(n - 2) % Problem::ALL.len()];
                kept.get().map(String::as_str)
            }
        }
    }
}
