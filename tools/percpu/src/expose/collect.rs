// SPDX-License-Identifier: MIT
//! Pictures of all files that are asked for, which come, go, and are replaced.

mod each;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use each::Origin;

use rustix::fs::{accessat, Access, AtFlags, CWD};

use super::{walk, Format, Labels, Row, Table, Walk, UP};
use crate::args::Exposed;
use crate::failure::{Exit, Failure};
use crate::model::find::{self, Found};
use crate::model::haproxy::Haproxy;
use crate::model::{Picture, Source, Value};
use crate::verbs::select::Select;

/// More files that stay open would take too many of the descriptors that a process may have.
const MOST: usize = 256;

/// What is exposed, and what is remembered of it from one time to the next.
pub struct Collector {
    segments: Vec<String>,
    select: Select,
    labels: Labels,
    /// The files that were read last time: what a reader knows makes its next picture cheaper.
    open: HashMap<PathBuf, File>,
    /// When the generation of each file began.
    began: HashMap<PathBuf, SystemTime>,
    /// Why files cannot be read, by their names: what was said already.
    said: HashMap<String, String>,
}

/// What is said not to be there if segments cannot be listed.
const ALL: &str = "*";

/// A file that is open. Others may replace it meanwhile.
enum File {
    Segment(percpu::Reader),
    Haproxy(Haproxy),
}

/// What was read of a file.
enum Content<'a> {
    Segment(percpu::Picture<'a>),
    Other(Picture),
}

impl File {
    fn open(path: &Path) -> Result<Self, Failure> {
        match percpu::Reader::open(&path.to_string_lossy()) {
            Ok(reader) => Ok(Self::Segment(reader)),
            Err(e) => match Haproxy::open(path) {
                Some(file) => Ok(Self::Haproxy(file?)),
                None => Err(e.into()),
            },
        }
    }

    fn read(&mut self) -> Result<Content<'_>, Failure> {
        Ok(match self {
            Self::Segment(reader) => Content::Segment(reader.read()?),
            Self::Haproxy(file) => Content::Other(file.read(&|_| false)?),
        })
    }
}

impl Collector {
    /// Fails if a pattern is wrong.
    pub fn new(exposed: &Exposed) -> Result<Self, Failure> {
        Ok(Self {
            segments: exposed.segments.clone(),
            select: Select::new(&exposed.globs)?,
            labels: exposed.labels.clone(),
            open: HashMap::new(),
            began: HashMap::new(),
            said: HashMap::new(),
        })
    }

    /// Open files, or take those that are open.
    fn open<'a>(
        &mut self,
        found: &'a [Found],
        failures: &mut HashMap<String, String>,
    ) -> Vec<(&'a Found, File)> {
        let mut before = std::mem::take(&mut self.open);
        let mut files = Vec::new();
        for found in found {
            let open = before.remove(&found.path);
            let open = open.filter(|_| may_read(&found.path)).map(Ok);
            match open.unwrap_or_else(|| File::open(&found.path)) {
                Ok(file) => files.push((found, file)),
                Err(f) => drop(failures.insert(found.name.clone(), f.sentence)),
            }
        }
        files
    }

    /// Take pictures, and print them. What was printed goes to `sink`, part by part. Returns
    /// sentences about files that cannot be read, and those that can again: each is said once.
    pub fn print<F: Format>(
        &mut self,
        format: &mut F,
        sink: &mut dyn FnMut(&mut Vec<u8>),
    ) -> Vec<String> {
        let mut failures = HashMap::new();
        let found = self.find(&mut failures);
        let mut files = self.open(&found, &mut failures);
        let mut contents = Vec::new();
        let replaced = read(&mut files, &mut contents, &mut failures);
        // Another file may have the name now.
        failures.retain(|name, _| !replaced.iter().any(|f| f.name == *name));
        let mut anew = self.open(&replaced, &mut failures);
        read(&mut anew, &mut contents, &mut failures);
        contents.sort_by_key(|(found, _)| *found);
        self.print_contents(&contents, &failures, format, sink);
        drop(contents);
        files.extend(anew);
        self.keep(files, &failures);
        self.news(failures)
    }

    fn print_contents<F: Format>(
        &mut self,
        contents: &[(&Found, Content<'_>)],
        failures: &HashMap<String, String>,
        format: &mut F,
        sink: &mut dyn FnMut(&mut Vec<u8>),
    ) {
        let tables = self.tables(contents);
        let walks: Vec<_> = tables
            .iter()
            .map(|(labels, table)| Walk { table, labels })
            .collect();
        print_up(&walks, &self.failed(failures), format);
        let select = &self.select;
        walk(
            &walks,
            &|name, full| select.matches(name, full),
            format,
            sink,
        );
    }

    /// Keep files open for the next time.
    fn keep(&mut self, files: Vec<(&Found, File)>, failures: &HashMap<String, String>) {
        let good = files
            .into_iter()
            .filter(|(found, _)| !failures.contains_key(&found.name))
            .map(|(found, file)| (found.path.clone(), file));
        self.open = good.take(MOST).collect();
    }

    /// The files that are asked for now.
    fn find(&mut self, failures: &mut HashMap<String, String>) -> Vec<Found> {
        let by_name = self.segments.iter().any(|name| !name.contains('/'));
        let listed = if by_name || self.segments.is_empty() {
            self.list().map_err(|f| f.sentence)
        } else {
            Ok(Vec::new())
        };
        if self.segments.is_empty() {
            return listed.unwrap_or_else(|why| {
                failures.insert(ALL.to_string(), why);
                Vec::new()
            });
        }
        let mut found = Vec::new();
        for name in &self.segments {
            let all = listed.as_deref().map_err(String::clone);
            let one = all.and_then(|all| find::among(name, all).map_err(|f| f.sentence));
            match one {
                Ok(one) if found.contains(&one) => {}
                Ok(one) => found.push(one),
                Err(why) => drop(failures.insert(name.clone(), why)),
            }
        }
        found
    }

    /// All segments of the machine.
    fn list(&mut self) -> Result<Vec<Found>, Failure> {
        find::all().or_else(|_| {
            // Files that were kept open may have all descriptors.
            self.open.clear();
            find::all()
        })
    }

    fn labels_of(&self, name: &str) -> Labels {
        let segment = ("segment".to_string(), name.to_string());
        self.labels.iter().cloned().chain([segment]).collect()
    }

    fn tables<'a>(&mut self, contents: &'a [(&Found, Content<'a>)]) -> Vec<(Labels, Table<'a>)> {
        let before = std::mem::take(&mut self.began);
        let mut tables = Vec::new();
        for (found, content) in contents {
            let table = self.table(&before, found, content);
            tables.push((self.labels_of(&found.name), table));
        }
        tables
    }

    /// The series of a file. `before` has the times of the round before.
    fn table<'a>(
        &mut self,
        before: &HashMap<PathBuf, SystemTime>,
        found: &Found,
        content: &'a Content<'a>,
    ) -> Table<'a> {
        match content {
            Content::Segment(picture) => {
                let old = before.get(&found.path);
                let began = stable(old.copied(), picture.since());
                self.began.insert(found.path.clone(), began);
                Table::Segment { picture, began }
            }
            Content::Other(picture) => Table::Series(picture.series.iter().collect()),
        }
    }

    fn failed(&self, failures: &HashMap<String, String>) -> Vec<Labels> {
        let mut names: Vec<_> = failures.keys().collect();
        names.sort();
        names.into_iter().map(|name| self.labels_of(name)).collect()
    }

    /// What was not said before. What follows is remembered as said.
    fn news(&mut self, failures: HashMap<String, String>) -> Vec<String> {
        let mut news: Vec<_> = failures
            .iter()
            .filter(|(name, why)| self.said.get(*name) != Some(why))
            .map(|(name, why)| format!("{name} cannot be read: {why}"))
            .collect();
        let again = self
            .said
            .keys()
            .filter(|name| !failures.contains_key(*name));
        news.extend(again.map(|name| format!("{name} can be read again, or is gone")));
        news.sort();
        self.said = failures;
        news
    }
}

/// A file that is open could be read on when its mode no longer allows it.
fn may_read(path: &Path) -> bool {
    accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).is_ok()
}

/// Take pictures of files. Returns those that another file may have replaced.
fn read<'a, 'b: 'a>(
    files: &'a mut [(&'b Found, File)],
    contents: &mut Vec<(&'b Found, Content<'a>)>,
    failures: &mut HashMap<String, String>,
) -> Vec<Found> {
    let mut replaced = Vec::new();
    for (found, file) in files {
        match file.read() {
            Ok(content) => contents.push((*found, content)),
            Err(f) => {
                if matches!(f.exit, Exit::NotFound | Exit::BadFile) {
                    replaced.push((*found).clone());
                }
                failures.insert(found.name.clone(), f.sentence);
            }
        }
    }
    replaced
}

/// When a generation began: times that differ by less mean the same.
fn stable(before: Option<SystemTime>, now: SystemTime) -> SystemTime {
    const NEAR: Duration = Duration::from_millis(10);
    let distance = |a: SystemTime| match a.duration_since(now) {
        Ok(d) => d,
        Err(e) => e.duration(),
    };
    before.filter(|b| distance(*b) < NEAR).unwrap_or(now)
}

/// Print which files could be read.
fn print_up<F: Format>(read: &[Walk<'_>], failed: &[Labels], format: &mut F) {
    if read.is_empty() && failed.is_empty() {
        return;
    }
    format.metric(&UP);
    let read = read.iter().map(|w| (w.labels, 1));
    let failed = failed.iter().map(|labels| (labels.as_slice(), 0));
    for (labels, up) in read.chain(failed) {
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        format.row(&Row {
            labels: &labels,
            value: &Value::Level(up),
            since: SystemTime::UNIX_EPOCH,
            exemplars: &[],
        });
    }
}

#[cfg(test)]
mod tests;
