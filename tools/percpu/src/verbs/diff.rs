// SPDX-License-Identifier: MIT
//! `percpu diff`: what changed between two pictures.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::args::Diff;
use crate::failure::{Exit, Failure};
use crate::model::find::{self, Found};
use crate::model::snapshot::{Entry, Snapshot, FORMAT};
use crate::model::{Kind, Step};
use crate::terminal::Terminal;

use super::changed::{Changed, Event};
use super::table::{Line, Table};
use super::{json, print};

/// Two series are the same if their counts began at the same time, but for rounding.
const ROUNDING: f64 = 0.001;

pub fn run(args: &Diff) -> Result<Exit, Failure> {
    let (before, after) = (take(&args.before)?, take(&args.after)?);
    if after.taken < before.taken {
        let (first, second) = (&args.before, &args.after);
        return Err(Failure::new(
            Exit::Usage,
            format!("{second} is older than {first}: give the older one first"),
        ));
    }
    let difference = Difference::new(&before, &after);
    let text = if args.json {
        json(&difference, true)?
    } else {
        difference.text(&Terminal::new())
    };
    print(&text)?;
    Ok(Exit::Done)
}

/// A file with JSON, or else a segment.
fn take(text: &str) -> Result<Snapshot, Failure> {
    let path = Path::new(text);
    let mut found = None;
    if fs::metadata(path).is_ok_and(|m| m.is_file()) {
        let mut first = [0; 1];
        let file = fs::File::open(path).and_then(|mut f| f.read(&mut first));
        match file {
            Ok(0) => {
                let what = "is empty: it is neither a snapshot nor a segment";
                return Err(Failure::new(Exit::BadFile, format!("{text} {what}")));
            }
            Ok(_) if b"{[ \n".contains(&first[0]) => return Snapshot::read(path),
            _ => {
                let path = PathBuf::from(".").join(path);
                let name = text.to_string();
                found = Some(Found { name, path });
            }
        }
    }
    let found = found.map_or_else(|| find::one(text), Ok)?;
    let picture = find::open(&found)?.read(&|_| false)?;
    Ok(Snapshot::new(
        &found.name,
        &picture,
        picture.series.iter(),
        false,
    ))
}

#[derive(Serialize)]
struct Side<'a> {
    segment: &'a str,
    program: &'a str,
    generation: u64,
    taken: f64,
}

impl<'a> Side<'a> {
    fn new(s: &'a Snapshot) -> Self {
        Self {
            segment: &s.segment,
            program: &s.program,
            generation: s.generation,
            taken: s.taken,
        }
    }
}

#[derive(Serialize)]
struct Difference<'a> {
    format: u32,
    seconds: f64,
    before: Side<'a>,
    after: Side<'a>,
    /// All counts began anew in between.
    reset: bool,
    series: Vec<Changed>,
}

impl<'a> Difference<'a> {
    fn new(before: &'a Snapshot, after: &'a Snapshot) -> Self {
        let seconds = after.taken - before.taken;
        let reset = before.generation != after.generation || after.since > before.taken;
        let mut old: HashMap<_, _> = before
            .series
            .iter()
            .map(|e| ((e.name.as_str(), e.labels.as_slice()), e))
            .collect();
        let mut series = Vec::new();
        for e in &after.series {
            let earlier = old.remove(&(e.name.as_str(), e.labels.as_slice()));
            series.extend(match earlier {
                None => new(e, before, seconds),
                Some(o) => {
                    let age = |e: &Entry, s: &Snapshot| e.since - s.since;
                    let anew = (age(o, before) - age(e, after)).abs() > ROUNDING;
                    changed(o, e, reset || anew || e.since > before.taken, seconds)
                }
            });
        }
        let gone = before
            .series
            .iter()
            .filter(|e| old.contains_key(&(e.name.as_str(), e.labels.as_slice())));
        series.extend(gone.map(|e| with_value(e).with_event(Event::Gone)));
        Self {
            format: FORMAT,
            seconds,
            before: Side::new(before),
            after: Side::new(after),
            reset,
            series,
        }
    }

    fn text(&self, terminal: &Terminal) -> String {
        let (a, b) = (
            terminal.text(self.before.segment),
            terminal.text(self.after.segment),
        );
        let time = match self.seconds {
            s if s < 1e9 => format!("{s:.1} s"),
            s => format!("{s:.0e} s"),
        };
        let mut out = if a == b {
            format!("{b}, {time}\n")
        } else {
            format!("from {a} to {b}, {time}\n")
        };
        if self.reset {
            out.push_str("All counts began anew in between.\n");
        }
        if self.series.is_empty() {
            return out + "Nothing changed.\n";
        }
        let mut lines = Vec::new();
        for s in &self.series {
            let mut row = vec![terminal.safe(s.series.clone())];
            row.extend(s.columns());
            lines.push(Line::Row(row));
            lines.extend(s.below(terminal));
        }
        let table = Table {
            terminal,
            heads: &["SERIES", "VALUE", "CHANGE", "PER SECOND"],
            right: &[false, true, true, true],
            headed: true,
            lines,
        };
        out + &table.text()
    }
}

fn with_value(e: &Entry) -> Changed {
    let changed = Changed::new(&e.name, &e.labels, e.kind, &e.unit);
    match e.value() {
        Some(Ok(value)) => changed.with_value(&value),
        _ => changed,
    }
}

/// A series that was not there. If it is younger than the earlier picture, all of it is growth.
fn new(e: &Entry, before: &Snapshot, seconds: f64) -> Option<Changed> {
    let mut changed = with_value(e).with_event(Event::New);
    let counts = matches!(e.kind, Kind::Counter | Kind::Histogram);
    if counts && e.since >= before.taken {
        changed.grow(changed.value, seconds);
    }
    Some(changed)
}

/// How a series is printed that is in both. Its counts may have begun anew.
fn changed(old: &Entry, new: &Entry, anew: bool, seconds: f64) -> Option<Changed> {
    let (before, after) = (old.value()?.ok(), new.value()?.ok());
    match (before, after) {
        (None, None) => None,
        (None, Some(_)) => Some(with_value(new).with_event(Event::New)),
        (Some(_), None) => Some(with_value(new).with_event(Event::Gone)),
        (Some(a), Some(b)) => match Step::between(&a, &b) {
            Step::Same if b.number() == 0.0 => None,
            _ if anew && matches!(new.kind, Kind::Counter | Kind::Histogram) => {
                Some(with_value(new).with_step(&a, Step::Reset, seconds))
            }
            Step::Same => None,
            step => Some(with_value(new).with_step(&a, step, seconds)),
        },
    }
}
