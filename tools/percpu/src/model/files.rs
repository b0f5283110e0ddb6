// SPDX-License-Identifier: MIT
//! The files that are watched: they come, go, and are replaced.

use std::time::{Duration, Instant};

use super::boards::Boards;
use super::find::{self, Found};
use super::{Change, Live, Picture};
use crate::failure::{Exit, Failure};
use crate::verbs::select::Select;

/// How long to wait before files are looked for, or opened, again.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct Files {
    /// Of which series.
    select: Select,
    /// Whether files that appear are watched, too.
    all: bool,
    files: Vec<File>,
    /// Names of files that there were not.
    missing: Vec<String>,
    searched: Option<Instant>,
}

struct File {
    found: Found,
    live: Option<Live>,
    /// When it was tried to open it.
    tried: Option<Instant>,
    /// Whether it was read before.
    known: bool,
}

impl File {
    fn new(found: Found) -> Self {
        Self {
            found,
            live: None,
            tried: None,
            known: false,
        }
    }
}

fn due(before: Option<Instant>, now: Instant) -> bool {
    before.is_none_or(|at| now.saturating_duration_since(at) >= PATIENCE)
}

impl Files {
    /// Watch these, or all of this machine. Fails if one of them cannot be opened.
    pub fn new(names: &[String]) -> Result<Self, Failure> {
        let mut files: Vec<File> = Vec::new();
        for name in names {
            let mut file = File::new(find::one(name)?);
            file.live = Some(Live::open(file.found.clone())?);
            if !files.iter().any(|f| f.found.name == file.found.name) {
                files.push(file);
            }
        }
        Ok(Self {
            select: Select::default(),
            all: names.is_empty(),
            files,
            missing: Vec::new(),
            searched: None,
        })
    }

    /// Watch some series of these, also of those that come later, or of all of this machine.
    pub fn patient(names: &[String], select: Select) -> Self {
        Self {
            select,
            all: names.is_empty(),
            files: Vec::new(),
            missing: names.to_vec(),
            searched: None,
        }
    }

    /// Take pictures of all of them, with details of the series whose descriptions have these
    /// numbers, which rise. Returns what happened, in sentences.
    pub fn look(&mut self, boards: &mut Boards, wanted: &[u64]) -> Vec<String> {
        let now = Instant::now();
        let mut said = Vec::new();
        if due(self.searched, now) {
            self.searched = Some(now);
            if self.all {
                self.search();
            }
            said.extend(self.search_missing(boards, now));
        }
        for file in &mut self.files {
            if file.live.is_none() && !due(file.tried, now) {
                continue;
            }
            said.extend(match read(file, wanted, now) {
                Ok((mut picture, change)) => {
                    if !self.select.is_all() {
                        picture.series.retain(|s| self.select.has(&s.about));
                    }
                    boards.update(&file.found.name, picture, change)
                }
                Err(f) => boards.lose(&file.found.name, &f.sentence, now),
            });
        }
        let all = self.all;
        let exists = |name: &str| {
            let file = self.files.iter().find(|f| f.found.name == name);
            !all || file.is_some_and(|f| f.found.path.exists())
        };
        boards.settle(now, &exists);
        if self.all {
            let remembered = |f: &File| boards.iter().any(|b| b.name == f.found.name);
            self.files.retain(remembered);
        }
        said
    }

    /// Watch what came of what was missing.
    fn search_missing(&mut self, boards: &mut Boards, now: Instant) -> Vec<String> {
        let mut said = Vec::new();
        for name in std::mem::take(&mut self.missing) {
            match find::exactly(&name) {
                Ok(found) if self.files.iter().any(|f| f.found == found) => {}
                Ok(found) => self.files.push(File::new(found)),
                Err(f) => {
                    said.extend(boards.lose(&name, &f.sentence, now));
                    self.missing.push(name);
                }
            }
        }
        said
    }

    /// Watch what appeared.
    fn search(&mut self) {
        for found in find::all().unwrap_or_default() {
            if !self.files.iter().any(|f| f.found == found) {
                self.files.push(File::new(found));
            }
        }
    }
}

/// Take a picture. A file that is gone is opened again later.
fn read(file: &mut File, wanted: &[u64], now: Instant) -> Result<(Picture, Change), Failure> {
    let mut live = match file.live.take() {
        Some(live) => live,
        None => {
            file.tried = Some(now);
            Live::open(file.found.clone())?
        }
    };
    let result = live.read(&|about| wanted.binary_search(&about.id).is_ok());
    match &result {
        Err(f) if matches!(f.exit, Exit::NotFound | Exit::BadFile | Exit::Denied) => {
            file.tried = Some(now);
        }
        _ => file.live = Some(live),
    }
    let (picture, change) = result?;
    let opened = file.tried.take().is_some();
    let known = std::mem::replace(&mut file.known, true);
    Ok((
        picture,
        if opened && known {
            Change::Replaced
        } else {
            change
        },
    ))
}
