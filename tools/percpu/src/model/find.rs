// SPDX-License-Identifier: MIT
//! Which files there are, and which one a name means.

use std::path::PathBuf;

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

/// All segments of this machine by their names. A name that is in both places is the first one's.
pub fn all() -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (folder, prefix) in PLACES {
        let Ok(files) = std::fs::read_dir(folder) else {
            continue;
        };
        for file in files.flatten() {
            let is_file = file.file_type().is_ok_and(|t| t.is_file());
            let text = file.file_name().into_string();
            if let (true, Ok(text)) = (is_file, text) {
                let Some(name) = text.strip_prefix(prefix) else {
                    continue;
                };
                if !found.iter().any(|f| f.name == name) {
                    found.push(Found {
                        name: name.to_string(),
                        path: file.path(),
                    });
                }
            }
        }
    }
    found.sort();
    found
}

/// What a name on the command line means: a path, a name, or the beginning of just one.
pub fn one(text: &str) -> Result<Found, Failure> {
    if text.contains('/') {
        return Ok(Found {
            name: text.to_string(),
            path: PathBuf::from(text),
        });
    }
    let all = all();
    if let Some(exact) = all.iter().find(|f| f.name == text) {
        return Ok(exact.clone());
    }
    let matches: Vec<_> = all.iter().filter(|f| f.name.starts_with(text)).collect();
    match matches.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Failure::new(
            Exit::NotFound,
            format!("there is no segment \"{text}\": percpu ls lists those that there are"),
        )),
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
    let name = found.path.to_string_lossy();
    Ok(Box::new(Segment::open(&name)?))
}
