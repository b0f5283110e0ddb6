// SPDX-License-Identifier: MIT
//! Series of whatever kind of file, without a copy of their texts.

use std::time::SystemTime;

use percpu::{PictureSeries, Value as V};

use crate::model::{segment, Family, Kind, Layout, Series, Value};

/// The series of a file, by their names.
pub enum Table<'a> {
    Segment {
        picture: &'a percpu::Picture<'a>,
        /// When its generation began, as earlier pictures had it: the library may find another time
        /// each time, by two clocks.
        began: SystemTime,
    },
    Series(Vec<&'a Series>),
}

/// When a generation began: by this picture, and as it is printed.
pub struct Began {
    now: SystemTime,
    printed: SystemTime,
}

/// Gets the field of statistics, or the owner of an owned gauge, if it is one, with its label, and a
/// value.
pub type ToValue<'a> = &'a mut dyn FnMut(Option<(&str, &str)>, &Value);

/// A series in a table. Statistics have a row for each field, and some owned gauges one for each
/// owner.
pub enum Entry<'a> {
    Segment(PictureSeries<'a>, Began),
    Series(&'a Series),
}

impl Table<'_> {
    /// A series by its number in the order of names, from 0; `None` behind the last.
    pub fn get(&self, number: usize) -> Option<Entry<'_>> {
        match self {
            Self::Segment { picture, began } => {
                let began = Began {
                    now: picture.since(),
                    printed: *began,
                };
                Some(Entry::Segment(picture.get(number)?, began))
            }
            Self::Series(all) => all.get(number).map(|s| Entry::Series(s)),
        }
    }
}

impl Entry<'_> {
    pub fn name(&self) -> &str {
        match self {
            Self::Segment(s, _) => s.name(),
            Self::Series(s) => &s.about.name,
        }
    }

    pub fn help(&self) -> &str {
        match self {
            Self::Segment(s, _) => s.help(),
            Self::Series(s) => &s.about.help,
        }
    }

    pub fn unit(&self) -> &str {
        match self {
            Self::Segment(s, _) => s.unit(),
            Self::Series(s) => &s.about.unit,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Segment(s, _) => segment::kind(s),
            Self::Series(s) => s.about.kind,
        }
    }

    pub fn family(&self) -> Option<Family> {
        match self {
            Self::Segment(s, _) => segment::family(s),
            Self::Series(s) => s.family,
        }
    }

    /// Whether its value is a histogram with buckets; `None` if it has no value. To read a histogram
    /// takes as long as to print it.
    pub fn has_buckets(&self) -> Option<bool> {
        match self {
            Self::Segment(s, _) if s.is_for_each_owner() => {
                let has_any = s.owned_shown().is_ok_and(|owners| !owners.is_empty());
                has_any.then_some(false)
            }
            Self::Segment(s, _) => {
                let value = s.value().ok()?;
                Some(matches!(value, V::Histogram(h) if h.buckets().len() > 1))
            }
            Self::Series(s) => {
                let value = s.value.as_ref().ok()?;
                Some(matches!(value, Value::Distribution(d) if *d.layout() != Layout::Summary))
            }
        }
    }

    /// When its counts began.
    pub fn since(&self) -> SystemTime {
        match self {
            Self::Segment(s, began) => {
                let age = s.since().duration_since(began.now).unwrap_or_default();
                began.printed + age
            }
            Self::Series(s) => s.about.since,
        }
    }

    pub fn exemplars(&self) -> Vec<percpu::Exemplar> {
        match self {
            Self::Segment(s, _) => s.exemplars(),
            Self::Series(_) => Vec::new(),
        }
    }

    /// Append its labels.
    pub fn labels<'b>(&'b self, to: &mut Vec<(&'b str, &'b str)>) {
        match self {
            Self::Segment(s, _) => to.extend(s.labels()),
            Self::Series(s) => {
                let labels = s.about.labels.iter();
                to.extend(labels.map(|(name, value)| (name.as_str(), value.as_str())));
            }
        }
    }

    /// Its values, if there are any: of statistics one for each field, with the field as a label; of
    /// an owned gauge that is shown for each owner one for each.
    pub fn values(&self, to: ToValue<'_>) {
        match self {
            Self::Segment(s, _) if s.is_for_each_owner() => {
                for owner in s.owned_shown().unwrap_or_default() {
                    if let Some(value) = segment::single(&owner.value) {
                        to(Some((segment::OWNER, &owner.name)), &value);
                    }
                }
            }
            Self::Segment(s, _) => match s.value() {
                Ok(V::Stats(counts)) => {
                    for (field, n) in s.fields().zip(counts) {
                        to(Some((s.field_label(), field)), &Value::Count(n));
                    }
                }
                Ok(value) => {
                    if let Some(value) = segment::single(&value) {
                        to(None, &value);
                    }
                }
                Err(_) => {}
            },
            Self::Series(s) => {
                if let Ok(value) = &s.value {
                    to(None, value);
                }
            }
        }
    }
}
