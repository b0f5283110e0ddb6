// SPDX-License-Identifier: MIT
//! A file that is watched: its series, and what became of it.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

use super::track::{push, Track, KEPT};
use super::{Change, Owner, Picture, Series};

pub struct Board {
    pub name: String,
    pub program: String,
    pub generation: u64,
    pub since: SystemTime,
    pub taken: SystemTime,
    pub pending: u32,
    pub owners: Vec<Owner>,
    pub tracks: Vec<Track>,
    /// The tracks of each name.
    pub groups: Vec<Range<usize>>,
    /// Of the pictures that are kept.
    pub moments: VecDeque<Instant>,
    /// Of the latest picture.
    pub number: u64,
    /// Why it cannot be read, and since when.
    pub lost: Option<(String, Instant)>,
}

impl Board {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            program: String::new(),
            generation: 0,
            since: SystemTime::UNIX_EPOCH,
            taken: SystemTime::UNIX_EPOCH,
            pending: 0,
            owners: Vec::new(),
            tracks: Vec::new(),
            groups: Vec::new(),
            moments: VecDeque::new(),
            number: 0,
            lost: None,
        }
    }

    /// Take over a picture. Series that it does not have are forgotten.
    pub fn update(&mut self, picture: Picture, change: Change) {
        if let (true, Some(last)) = (change != Change::None, self.moments.back().copied()) {
            self.gap(last);
        }
        push(&mut self.moments, picture.moment, KEPT);
        self.number += 1;
        self.lost = None;
        self.program = picture.program;
        self.generation = picture.generation;
        self.since = picture.since;
        self.taken = picture.taken;
        self.pending = picture.pending;
        self.owners = picture.owners;
        let detailed = picture
            .series
            .iter()
            .filter(|s| s.details.is_some())
            .count();
        let kept = (KEPT / detailed.max(1)).max(2);
        let mut old = Old::new(std::mem::take(&mut self.tracks));
        let mut tracks = Vec::with_capacity(picture.series.len());
        for series in picture.series {
            let mut track = old
                .take(&series)
                .unwrap_or_else(|| Track::new(&series.about));
            track.update(series, (self.number, kept), &self.moments);
            tracks.push(track);
        }
        self.tracks = tracks;
        self.groups = groups(&self.tracks);
    }

    /// A moment at which no value is known: what follows is not compared with what was before.
    fn gap(&mut self, moment: Instant) {
        push(&mut self.moments, moment, KEPT);
        self.number += 1;
        for track in &mut self.tracks {
            track.gap();
        }
    }

    /// How many pictures are later than a moment by more than so much.
    pub fn back(&self, at: Option<Instant>, tolerance: Duration) -> usize {
        let Some(at) = at else {
            return 0;
        };
        let later = self.moments.iter().rev();
        later.take_while(|m| **m > at + tolerance).count()
    }

    pub fn alive(&self) -> usize {
        self.owners.iter().filter(|o| o.alive).count()
    }
}

/// The tracks of the picture before. Most series follow each other as they did there.
struct Old {
    in_order: std::iter::Peekable<std::vec::IntoIter<Track>>,
    /// When one was elsewhere, by the number of its description.
    rest: HashMap<u64, Track>,
    /// When that was of no use either, by name and labels: the file was reset or replaced.
    numbers: HashMap<String, u64>,
}

impl Old {
    fn new(tracks: Vec<Track>) -> Self {
        Self {
            in_order: tracks.into_iter().peekable(),
            rest: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    fn take(&mut self, series: &Series) -> Option<Track> {
        let id = series.about.id;
        if let Some(track) = self.in_order.next_if(|t| t.about.id == id) {
            return Some(track);
        }
        self.rest
            .extend(self.in_order.by_ref().map(|t| (t.about.id, t)));
        if self.rest.is_empty() {
            return None;
        }
        if let Some(track) = self.rest.remove(&id) {
            return Some(track);
        }
        if self.numbers.is_empty() {
            let tracks = self.rest.values();
            self.numbers = tracks.map(|t| (t.about.to_string(), t.about.id)).collect();
        }
        let number = self.numbers.get(&series.about.to_string())?;
        self.rest.remove(number)
    }
}

fn groups(tracks: &[Track]) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut start = 0;
    for same in tracks.chunk_by(|a, b| a.about.name == b.about.name) {
        groups.push(start..start + same.len());
        start += same.len();
    }
    groups
}
