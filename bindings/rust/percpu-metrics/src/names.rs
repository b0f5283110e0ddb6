// SPDX-License-Identifier: MIT
//! The names that a program uses, and what is known of each.
//!
//! The table is as large as it will be, and nothing leaves it. So a look-up takes no lock: not
//! even a child of fork can find one that a thread of its parent holds.

use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
    room: usize,
    /// Of the thread that adds a name.
    turn: Turn,
    /// How many names have got a slot. It is changed in the turn, before the slot.
    used: AtomicUsize,
    /// There is no room, and all that have a slot are in it.
    full: AtomicBool,
}

impl Names {
    pub(crate) fn new(presets: Vec<(&str, Preset)>) -> Self {
        let names = Self::with_room(NAMES + presets.len());
        for (name, preset) in presets {
            names.find_or_add(name, &preset);
        }
        names
    }

    fn with_room(room: usize) -> Self {
        Self {
            // Half of the slots stay free.
            slots: std::iter::repeat_with(OnceBox::new)
                .take((2 * room).next_power_of_two())
                .collect(),
            room,
            turn: Turn::default(),
            used: AtomicUsize::new(0),
            full: AtomicBool::new(false),
        }
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
        if !self.full.load(Ordering::Acquire) {
            self.turn.take(|| self.fill_in_turn(slot, name, preset));
        }
        slot.get().map(|_| ())
    }

    /// The same, in the turn. A fork by another thread may be anywhere in it: at worst the child has
    /// room for one name less.
    fn fill_in_turn(&self, slot: &OnceBox<Entry>, name: &str, preset: &Preset) {
        let used = self.used.load(Ordering::Relaxed);
        if slot.get().is_some() {
            return;
        }
        if used < self.room {
            self.used.store(used + 1, Ordering::Relaxed);
            let _ = slot.set(Box::new(Entry::new(name, preset.clone())));
        } else {
            self.full.store(true, Ordering::Release);
        }
    }
}

fn hash(name: &str) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    /// Let threads look names up at the same time. Returns which of them found room.
    fn find_at_once(names: &Names, wanted: &[&str]) -> Vec<bool> {
        let start = Barrier::new(wanted.len());
        let find = |name| {
            start.wait();
            names
                .find(name)
                .is_some_and(|(_, entry)| *entry.name == *name)
        };
        thread::scope(|s| {
            let threads: Vec<_> = wanted.iter().map(|name| s.spawn(|| find(name))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    #[test]
    fn threads_that_add_the_last_name_at_once_all_find_it() {
        for _ in 0..1000 {
            let names = Names::with_room(1);
            assert_eq!(find_at_once(&names, &["a"; 3]), [true; 3]);
            assert!(names.find("b").is_none());
        }
    }

    /// A thread is in the middle of adding the last name: it has a slot, which is still empty.
    #[test]
    fn a_name_that_is_being_added_is_waited_for() {
        let names = Names::with_room(1);
        let slot = &names.slots[hash("a") & (names.slots.len() - 1)];
        let begun = AtomicBool::new(false);
        let mut found = false;
        thread::scope(|s| {
            let mut other = None;
            names.turn.take(|| {
                names.used.store(1, Ordering::Relaxed);
                other = Some(s.spawn(|| {
                    begun.store(true, Ordering::Relaxed);
                    names.find("a").is_some()
                }));
                while !begun.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                // If it did not wait, it would be refused by now.
                thread::sleep(std::time::Duration::from_millis(20));
                let _ = slot.set(Box::new(Entry::new("a", Preset::default())));
            });
            found = other.unwrap().join().unwrap();
        });
        assert!(found);
    }

    #[test]
    fn all_room_is_used_and_no_more() {
        for _ in 0..1000 {
            let (names, wanted) = (Names::with_room(2), ["a", "b", "c"]);
            let found = find_at_once(&names, &wanted);
            assert_eq!(found.iter().filter(|f| **f).count(), 2, "{found:?}");
            for (name, found) in wanted.iter().zip(found) {
                assert_eq!(names.find(name).is_some(), found);
            }
        }
    }
}
