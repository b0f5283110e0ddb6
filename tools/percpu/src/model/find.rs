// SPDX-License-Identifier: MIT
//! Which files there are, and which one a name means.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::haproxy::Haproxy;
use super::segment::Segment;
use super::Source;
use crate::failure::{Exit, Failure};

/// Where segments without a '/' in their names are, and how their files begin.
const PLACES: [(&str, &str); 2] = [("/dev/shm", "percpu."), ("/run/percpu", "")];

/// A file that has metrics, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// As people say it: `NAME` of /dev/shm/percpu.NAME, or a path.
    pub name: String,
    pub path: PathBuf,
}

/// All segments of this machine by their names, and HAProxy's files in /dev/shm by their paths. A
/// name that is in both places is the first one's. Fails if they cannot be listed, as without a
/// free descriptor: nobody is to take that for a machine without segments.
pub fn all() -> Result<Vec<Found>, Failure> {
    let mut found: Vec<Found> = Vec::new();
    for (folder, prefix) in PLACES {
        for (file, path) in files(folder)? {
            let name = match file.strip_prefix(prefix) {
                Some(name) => name.to_string(),
                None if matches!(Haproxy::open(&path), Some(Ok(_))) => path.display().to_string(),
                None => continue,
            };
            if !found.iter().any(|f| f.name == name) {
                found.push(Found { name, path });
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The regular files of a folder, if there is one that this user may list. A name that is not UTF-8
/// is nobody's.
fn files(folder: &str) -> Result<Vec<(String, PathBuf)>, Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Ok(Vec::new());
        }
        Err(e) => {
            let sentence = format!("{folder} cannot be listed: {e}");
            return Err(Failure::new(Exit::System, sentence));
        }
    };
    let files = entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_file()))
        .filter_map(|e| Some((e.file_name().into_string().ok()?, e.path())));
    Ok(files.collect())
}

/// What a path or a whole name on the command line means.
pub fn exactly(text: &str) -> Result<Found, Failure> {
    among(text, &known(text)?)
}

/// The same, if that are all segments.
pub fn among(text: &str, all: &[Found]) -> Result<Found, Failure> {
    if text.contains('/') {
        return Ok(path(text));
    }
    whole(text, all).ok_or_else(|| none(text))
}

fn path(text: &str) -> Found {
    Found {
        name: text.to_string(),
        path: PathBuf::from(text),
    }
}

/// All segments that a text may name: a path names itself.
fn known(text: &str) -> Result<Vec<Found>, Failure> {
    if text.contains('/') {
        return Ok(vec![path(text)]);
    }
    all()
}

fn whole(text: &str, all: &[Found]) -> Option<Found> {
    all.iter().find(|f| f.name == text).cloned()
}

fn none(text: &str) -> Failure {
    Failure::new(
        Exit::NotFound,
        format!("there is no segment \"{text}\": percpu ls lists those that there are"),
    )
}

/// What a name on the command line means: a path, a name, or the beginning of just one.
pub fn one(text: &str) -> Result<Found, Failure> {
    let all = known(text)?;
    if let Some(found) = whole(text, &all) {
        return Ok(found);
    }
    // Nobody means all names by none.
    let begins = |f: &&Found| !text.is_empty() && f.name.starts_with(text);
    let matches: Vec<_> = all.iter().filter(begins).collect();
    match matches.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(none(text)),
        several => {
            let names: Vec<_> = several.iter().take(8).map(|f| f.name.as_str()).collect();
            let more = if several.len() > 8 { ", ..." } else { "" };
            Err(Failure::new(
                Exit::NotFound,
                format!(
                    "\"{text}\" may be {}{more}: give one of these names",
                    names.join(", ")
                ),
            ))
        }
    }
}

/// Open what was found, whatever kind of file it is.
pub fn open(found: &Found) -> Result<Box<dyn Source>, Failure> {
    match Segment::open(&found.path.to_string_lossy()) {
        Ok(segment) => Ok(Box::new(segment)),
        Err(failure) => match Haproxy::open(&found.path) {
            Some(file) => Ok(Box::new(file?)),
            None => Err(failure),
        },
    }
}
