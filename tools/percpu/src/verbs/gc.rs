// SPDX-License-Identifier: MIT
//! `percpu gc`: remove segments in which no process counts.

use std::path::Path;

use percpu::{Facts, Reader, Segment};

use super::{ask, print};
use crate::args::Gc;
use crate::failure::{Exit, Failure};
use crate::model::find::{self, Found};
use crate::numbers;
use crate::text::clean;

/// A file that may be removed.
struct Idle {
    found: Found,
    line: String,
    bytes: u64,
}

pub fn run(a: &Gc) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let mut idle = Vec::new();
    for found in candidates(a)? {
        match look(&found) {
            Ok(one) => idle.push(one),
            Err(kept) => {
                say(&found, &format!("kept: {kept}"))?;
                // Of segments that were not named, to be kept is no failure.
                if !a.segments.is_empty() {
                    exit = kept.exit;
                }
            }
        }
    }
    if idle.is_empty() {
        print("nothing to remove\n")?;
        return Ok(exit);
    }
    if !a.yes && !asked(&idle)? {
        return Ok(Exit::Advice);
    }
    for one in idle {
        // A process that has begun to count meanwhile keeps the file.
        match Segment::remove_foreign(&one.found.path.to_string_lossy()) {
            Ok(()) => say(&one.found, "removed")?,
            Err(e) => {
                let failure = Failure::from(e);
                say(&one.found, &format!("kept: {failure}"))?;
                exit = failure.exit;
            }
        }
    }
    Ok(exit)
}

/// Print a line about a file.
fn say(found: &Found, what: &str) -> Result<(), Failure> {
    let line = format!("{}: {what}", found.name);
    print(&(clean(&line).into_owned() + "\n"))
}

/// The segments that are named, or all.
fn candidates(a: &Gc) -> Result<Vec<Found>, Failure> {
    if a.segments.is_empty() {
        // Files of HAProxy are found by their paths.
        let mut all = find::all()?;
        all.retain(|found| found.path != Path::new(&found.name));
        return Ok(all);
    }
    let find = if a.yes { find::exactly } else { find::one };
    a.segments.iter().map(|text| find(text)).collect()
}

/// Look whether a file may be removed. Why not is the error.
fn look(found: &Found) -> Result<Idle, Failure> {
    let mut reader = Reader::open(&found.path.to_string_lossy())?;
    let facts = reader.facts()?;
    match facts.counting {
        Some(false) => {}
        Some(true) => return Err(Failure::new(Exit::InUse, "a process counts in it")),
        None => {
            let sentence = "it cannot be known whether a process counts in it";
            return Err(Failure::new(Exit::InUse, sentence));
        }
    }
    Ok(Idle {
        line: describe(&mut reader, &facts),
        bytes: facts.disk_bytes,
        found: found.clone(),
    })
}

fn describe(reader: &mut Reader, facts: &Facts) -> String {
    let size = numbers::with_unit(facts.disk_bytes as f64, "bytes");
    let Ok(picture) = reader.read() else {
        return size;
    };
    let age = picture.since().elapsed().unwrap_or_default();
    format!(
        "{size}, program \"{}\", {} series, begun {} ago",
        picture.program().escape_debug(),
        picture.series().count(),
        numbers::duration(age.as_secs_f64())
    )
}

fn asked(idle: &[Idle]) -> Result<bool, Failure> {
    for one in idle {
        say(&one.found, &one.line)?;
    }
    let bytes: u64 = idle.iter().map(|one| one.bytes).sum();
    let size = numbers::with_unit(bytes as f64, "bytes");
    let s = if idle.len() == 1 { "" } else { "s" };
    ask::yes(&format!("Remove {} segment{s} ({size})?", idle.len()))
}
