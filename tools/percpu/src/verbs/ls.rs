// SPDX-License-Identifier: MIT
//! `percpu ls`: which segments there are.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::Serialize;

use crate::args::Ls;
use crate::failure::{Exit, Failure};
use crate::model::find::{self, Found};
use crate::model::snapshot::{seconds, FORMAT};
use crate::model::writers::{self, Writers};
use crate::model::Picture;
use crate::numbers::with_unit;
use crate::terminal::Terminal;

use super::show_table::ago;
use super::table::{Line, Table};
use super::{json, print};

/// A file, and what is known of it.
struct Listed {
    found: Found,
    picture: Result<Picture, Failure>,
    file: Option<fs::Metadata>,
    writers: Writers,
}

pub fn run(args: &Ls) -> Result<Exit, Failure> {
    let listed = list(args)?;
    if args.json {
        print(&json(&Output::new(&listed), true)?)?;
    } else {
        print(&text(&Terminal::new(), &listed))?;
    }
    // Who named a file wants to know that it cannot be read.
    let failed = listed.iter().find_map(|l| l.picture.as_ref().err());
    let named = failed.filter(|_| !args.segments.is_empty());
    Ok(named.map_or(Exit::Done, |failure| failure.exit))
}

fn list(args: &Ls) -> Result<Vec<Listed>, Failure> {
    let named = args
        .segments
        .iter()
        .map(|text| find::one(text).map_err(|f| (text, f)));
    let all: Vec<_> = if args.segments.is_empty() {
        find::all()?.into_iter().map(Ok).collect()
    } else {
        named.collect()
    };
    let mut listed: Vec<_> = all.into_iter().map(look).collect();
    let files: Vec<_> = listed.iter().filter_map(|l| l.file.clone()).collect();
    let writers = writers::of(&files);
    let with_file = listed.iter_mut().filter(|l| l.file.is_some());
    for (l, writers) in with_file.zip(writers) {
        l.writers = writers.with_counting(counting(&l.found));
    }
    Ok(listed)
}

fn look(found: Result<Found, (&String, Failure)>) -> Listed {
    let (found, failure) = match found {
        Ok(found) => (found, None),
        Err((text, failure)) => {
            let (name, path) = (text.clone(), text.into());
            (Found { name, path }, Some(failure))
        }
    };
    let read = || find::open(&found)?.read(&|_| false);
    let picture = failure.map_or_else(read, Err);
    let file = fs::metadata(&found.path).ok();
    Listed {
        file: file.filter(|_| picture.is_ok() || found.path.is_absolute()),
        writers: Writers::default(),
        picture,
        found,
    }
}

/// Whether a process has the segment open to count, if the library can tell.
fn counting(found: &Found) -> Option<bool> {
    let path = found.path.to_string_lossy();
    percpu::Reader::open(&path).ok()?.facts().ok()?.counting
}

fn size(file: &fs::Metadata) -> u64 {
    file.blocks() * 512
}

/// Why a file cannot be read, without its path: the row begins with its name, and its end may be cut.
fn reason<'a>(found: &Found, why: &'a Failure) -> &'a str {
    let path = format!("segment \"{}\": ", found.path.display());
    why.sentence.strip_prefix(&path).unwrap_or(&why.sentence)
}

fn text(terminal: &Terminal, listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "There are no segments in /dev/shm or /run/percpu.\n".to_string();
    }
    let row = |l: &Listed| {
        let size = |f: &fs::Metadata| with_unit(size(f) as f64, "bytes");
        let size = l.file.as_ref().map_or_else(String::new, size);
        let (name, none) = (terminal.text(&l.found.name).into_owned(), String::new);
        Line::Row(match &l.picture {
            Ok(p) => vec![
                name,
                p.generation.to_string(),
                ago(p.taken, p.since),
                l.writers.text(terminal.utf8),
                p.series.len().to_string(),
                size,
                terminal.text(&p.program).into_owned(),
            ],
            Err(why) => {
                let why = terminal.text(reason(&l.found, why)).into_owned();
                vec![name, none(), none(), none(), none(), size, why]
            }
        })
    };
    Table {
        terminal,
        heads: &["NAME", "GEN", "AGE", "WRITERS", "SERIES", "SIZE", "PROGRAM"],
        right: &[false, true, true, true, true, true, false],
        headed: true,
        lines: listed.iter().map(row).collect(),
    }
    .text()
}

#[derive(Serialize)]
struct Output<'a> {
    format: u32,
    segments: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    path: String,
    /// Its blocks on the disk or in memory.
    bytes: Option<u64>,
    /// Why it cannot be read; then what follows is null.
    error: Option<&'a str>,
    program: Option<&'a str>,
    generation: Option<u64>,
    since: Option<f64>,
    age_seconds: Option<f64>,
    writers: Option<Writers>,
    series: Option<usize>,
}

impl<'a> Output<'a> {
    fn new(listed: &'a [Listed]) -> Self {
        let entry = |l: &'a Listed| {
            let p = l.picture.as_ref().ok();
            Entry {
                name: &l.found.name,
                path: l.found.path.display().to_string(),
                bytes: l.file.as_ref().map(size),
                error: l.picture.as_ref().err().map(|f| f.sentence.as_str()),
                program: p.map(|p| p.program.as_str()),
                generation: p.map(|p| p.generation),
                since: p.map(|p| seconds(p.since)),
                age_seconds: p.map(|p| seconds(p.taken) - seconds(p.since)),
                writers: p.map(|_| l.writers),
                series: p.map(|p| p.series.len()),
            }
        };
        Self {
            format: FORMAT,
            segments: listed.iter().map(entry).collect(),
        }
    }
}
