// SPDX-License-Identifier: MIT
//! The names that a program uses, and what is known of each.
//!
//! The table is as large as it will be, and nothing leaves it. So a look-up takes no lock: not
//! even a child of fork can find one that a thread of its parent holds.

use std::hash::Hasher;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{Key, SharedString, Unit};
use once_cell::race::OnceBox;
use percpu::{Counter, Error, FGauge, Histogram, Metric};
use rustc_hash::FxHasher;

use crate::handles::Turn;
use crate::kinds::{Kind, Series};
use crate::problems::Problem;

/// The most names, beside those that the builder has named.
pub(crate) const NAMES: usize = 4096;

/// The most bytes of a help text.
const HELP: usize = 1023;

/// What the builder says of a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preset {
    pub(crate) labels: Option<Vec<Box<str>>>,
    pub(crate) bounds: Option<Box<[f64]>>,
}

/// What the program has described.
struct Description {
    unit: &'static str,
    help: Box<str>,
}

/// What all processes must declare of a name alike.
#[derive(Clone)]
pub(crate) struct Form {
    /// The names of labels, rising.
    pub(crate) labels: Vec<Box<str>>,
    pub(crate) unit: Box<str>,
    /// Of the family, if there are labels.
    pub(crate) cap: usize,
}

/// What the first use has fixed.
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) form: Form,
}

/// A name.
#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) name: Box<str>,
    pub(crate) preset: Preset,
    description: OnceBox<Description>,
    shape: OnceBox<Shape>,
    /// Only that of the shape's kind is ever there.
    pub(crate) counter: OnceBox<Series<Counter>>,
    pub(crate) gauge: OnceBox<Series<FGauge>>,
    pub(crate) histogram: OnceBox<Series<Histogram>>,
    /// Why the segment has refused the metric, and would do so again.
    pub(crate) refused: OnceBox<Error>,
    /// The first sentence about each problem.
    pub(crate) sentences: [OnceBox<String>; Problem::ALL.len()],
    /// Of the threads that set counters of this name to at least a value.
    pub(crate) turn: Turn,
}

impl Entry {
    fn new(name: &str, preset: Preset) -> Self {
        Self {
            name: name.into(),
            preset,
            ..Self::default()
        }
    }

    /// Keep the first description.
    pub(crate) fn describe(&self, unit: Option<Unit>, help: &SharedString) {
        if self.description.get().is_none() {
            let _ = self.description.set(Box::new(Description {
                unit: unit.map_or("", |u| u.as_str()),
                help: cut(help, HELP).into(),
            }));
        }
    }

    /// The kind and the form: those of the first use, which may be this one.
    pub(crate) fn shape(&self, kind: Kind, key: &Key, cap: usize) -> &Shape {
        self.shape.get_or_init(|| {
            let mut labels = match &self.preset.labels {
                Some(labels) => labels.clone(),
                None => key.labels().map(|l| l.key().into()).collect(),
            };
            labels.sort_unstable();
            labels.dedup();
            let unit = self.description.get().map_or("", |d| d.unit).into();
            let form = Form { labels, unit, cap };
            Box::new(Shape { kind, form })
        })
    }

    /// Its description for the segment.
    pub(crate) fn metric<'a>(&'a self, form: &'a Form) -> Metric<'a> {
        let help = self.description.get().map_or("", |d| &d.help);
        Metric::new(&self.name).help(help).unit(&form.unit)
    }
}

impl Form {
    /// Set the values of the labels, which are "" before, to those of a key. Returns the name of a
    /// label that is not there.
    pub(crate) fn values<'k>(&self, key: &'k Key, values: &mut [&'k str]) -> Option<&'k str> {
        let mut unknown = None;
        for (i, label) in key.labels().enumerate() {
            let at = self.find(label.key(), i);
            match at.and_then(|at| values.get_mut(at)) {
                Some(value) => *value = label.value(),
                None => unknown = Some(label.key()),
            }
        }
        unknown
    }

    /// Which label has the name: often the one at the same place.
    fn find(&self, name: &str, place: usize) -> Option<usize> {
        if self.labels.get(place).is_some_and(|l| **l == *name) {
            return Some(place);
        }
        self.labels.iter().position(|l| **l == *name)
    }
}

/// The first bytes of a text, at most n of them, and no part of a character.
fn cut(s: &str, n: usize) -> &str {
    let mut end = n.min(s.len());
    while !s.is_char_boundary(end) {
        end -= 1;
    }
    &s[..end]
}

/// The table: an entry is in the first free slot from that of its name's hash on.
pub(crate) struct Names {
    slots: Box<[OnceBox<Entry>]>,
    free: AtomicUsize,
}

impl Names {
    pub(crate) fn new(presets: Vec<(&str, Preset)>) -> Self {
        let room = NAMES + presets.len();
        let names = Self {
            // Half of the slots stay free.
            slots: std::iter::repeat_with(OnceBox::new)
                .take((2 * room).next_power_of_two())
                .collect(),
            free: AtomicUsize::new(room),
        };
        for (name, preset) in presets {
            names.find_or_add(name, &preset);
        }
        names
    }

    /// The entry of a name, with its place. It is added if there is none. `None`: there is no room.
    pub(crate) fn find(&self, name: &str) -> Option<(usize, &Entry)> {
        self.find_or_add(name, &Preset::default())
    }

    /// The entry at a place.
    pub(crate) fn at(&self, place: usize) -> Option<&Entry> {
        self.slots.get(place)?.get()
    }

    fn find_or_add(&self, name: &str, preset: &Preset) -> Option<(usize, &Entry)> {
        let last = self.slots.len() - 1;
        let mut place = hash(name) & last;
        loop {
            let slot = self.slots.get(place)?;
            match slot.get() {
                Some(entry) if *entry.name == *name => return Some((place, entry)),
                Some(_) => place = (place + 1) & last,
                None => self.fill(slot, name, preset)?,
            }
        }
    }

    /// Put an entry into a free slot, unless another thread is faster. `None`: there is no room.
    fn fill(&self, slot: &OnceBox<Entry>, name: &str, preset: &Preset) -> Option<()> {
        self.free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            .ok()?;
        if slot
            .set(Box::new(Entry::new(name, preset.clone())))
            .is_err()
        {
            self.free.fetch_add(1, Ordering::Relaxed);
        }
        Some(())
    }
}

fn hash(name: &str) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish() as usize
}
