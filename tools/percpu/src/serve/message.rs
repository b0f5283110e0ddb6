// SPDX-License-Identifier: MIT
//! What pages are sent: JSON in server-sent events.

use std::collections::HashMap;
use std::time::SystemTime;

use axum::body::Bytes;
use serde::{Serialize, Serializer};

use crate::model::board::Board;
use crate::model::boards::Boards;
use crate::model::snapshot::seconds;
use crate::model::track::Track;
use crate::model::{float, About, Kind, Number, Value};
use crate::text::clean;

/// More series and segments are left out.
const SERIES: usize = 20_000;
const SEGMENTS: usize = 1000;
/// Families that are named as having had no room, of each segment.
const FAMILIES: usize = 20;
/// So many characters has a text, and all labels of a series.
const TEXT: usize = 200;
const LABELS: usize = 1000;

/// A number that a browser does not round: beyond 2^53 it is a string, as what is not finite.
#[derive(Clone, Copy, Debug)]
pub struct Exact(pub Number);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        const SAFE: u64 = (1 << 53) - 1;
        match self.0 {
            Number::Whole(n) if n <= SAFE => to.serialize_u64(n),
            Number::Signed(n) if n.unsigned_abs() <= SAFE => to.serialize_i64(n),
            Number::Float(x) => float::serialize(&x, to),
            n => to.collect_str(&n),
        }
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Number::Float(a), Number::Float(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    Number(Exact),
    /// Of extrema.
    Range([Exact; 2]),
    None,
    /// Why there is none.
    Missing {
        missing: String,
    },
}

impl Cell {
    pub fn of(value: &Result<Value, String>) -> Self {
        match value {
            Ok(Value::Extrema { min, max }) => {
                Self::Range([*min, *max].map(|x| Exact(Number::Float(x))))
            }
            Ok(value) => value.exact().map_or(Self::None, |n| Self::Number(Exact(n))),
            Err(why) => Self::Missing {
                missing: short(why, TEXT),
            },
        }
    }
}

/// What was sent of a series.
struct Sent {
    /// The number of its description.
    about: u64,
    value: Cell,
    rate: Option<f64>,
    /// With which picture it was seen.
    number: u64,
}

#[derive(Serialize)]
struct Message<'a> {
    /// The number of the picture.
    number: u64,
    /// Of which run of the thread: numbers of series are of one run.
    run: f64,
    /// Whether all series are in it, so that others are gone.
    whole: bool,
    taken: f64,
    /// What happened to files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    said: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segments: Option<&'a [Segment]>,
    /// Series that are new, or whose descriptions are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    about: Vec<Group<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<u64>,
    /// Series that changed, and what they have now.
    ids: Vec<u64>,
    values: Vec<&'a Cell>,
    rates: Vec<Option<f64>>,
}

/// Series of a segment.
#[derive(Serialize)]
struct Group<'a> {
    segment: &'a str,
    series: Vec<Described>,
}

/// Its number, name, labels, kind and unit.
#[derive(Serialize)]
struct Described(u64, String, Vec<(String, String)>, Kind, String);

/// A family that had no room, or got wrong texts.
#[derive(PartialEq, Serialize)]
struct Full {
    name: String,
    cap: u32,
    overflows: Exact,
    invalid: Exact,
}

#[derive(PartialEq, Serialize)]
struct Segment {
    name: String,
    program: String,
    generation: Exact,
    since: f64,
    pending: u32,
    alive: usize,
    dead: usize,
    series: usize,
    /// Series that there was no room for in messages.
    left_out: usize,
    lost: Option<String>,
    families: Vec<Full>,
}

/// What was sent to pages.
#[derive(Default)]
pub struct Table {
    number: u64,
    run: f64,
    taken: f64,
    sent: HashMap<u64, Sent>,
    segments: Vec<Segment>,
}

/// A text that is harmless, and has no more than so many characters.
pub fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", clean(&text[..end])),
        None => clean(text).into_owned(),
    }
}

/// Labels with so many characters in all, at least one of each.
pub fn labels(about: &About, most: usize) -> Vec<(String, String)> {
    let mut left = LABELS.max(most);
    let mut labels = Vec::new();
    for (name, value) in &about.labels {
        if left == 0 {
            break;
        }
        let label = (short(name, TEXT.min(left)), short(value, most.min(left)));
        left = left.saturating_sub(label.0.len() + label.1.len());
        labels.push(label);
    }
    labels
}

/// With 4 digits: rates of two pictures differ by chance.
fn rounded(x: f64) -> Option<f64> {
    if x == 0.0 || !x.is_finite() {
        return x.is_finite().then_some(0.0);
    }
    format!("{x:.3e}").parse().ok()
}

fn shown(boards: &Boards) -> impl Iterator<Item = (&Board, &[Track])> {
    let mut left = SERIES;
    boards.iter().take(SEGMENTS).map(move |board| {
        let n = board.tracks.len().min(left);
        left -= n;
        (board, &board.tracks[..n])
    })
}

impl Table {
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Take over the latest pictures. Returns what changed, as an event.
    pub fn update(&mut self, boards: &Boards, taken: f64, said: Vec<String>) -> Bytes {
        self.number += 1;
        self.taken = taken;
        if self.number == 1 {
            self.run = taken;
        }
        let segments: Vec<_> = shown(boards).map(|(b, t)| segment(b, t)).collect();
        let news = segments != self.segments;
        self.segments = segments;
        let (mut changed, mut described) = (Vec::new(), Vec::new());
        for (board, tracks) in shown(boards) {
            for track in tracks {
                let (is_changed, is_new) = self.take(track, board);
                changed.extend(is_changed.then_some(track.id));
                described.extend(is_new.then_some((board.name.as_str(), track)));
            }
        }
        let number = self.number;
        let mut gone = Vec::new();
        self.sent.retain(|id, sent| {
            let stays = sent.number == number;
            gone.extend((!stays).then_some(*id));
            stays
        });
        let mut message = self.message(false, changed.iter().copied());
        message.said = said.iter().map(|s| short(s, 2 * TEXT)).collect();
        message.segments = news.then_some(&self.segments);
        message.about = groups(&described);
        message.gone = gone;
        event(&message)
    }

    /// Whether a series has another value than before, and whether it has another description.
    fn take(&mut self, track: &Track, board: &Board) -> (bool, bool) {
        let new = Sent {
            about: track.about.id,
            value: Cell::of(&track.value),
            rate: rounded(track.numbers(0, &board.moments).rate),
            number: self.number,
        };
        match self.sent.insert(track.id, new) {
            Some(old) => {
                let new = &self.sent[&track.id];
                let same = old.value == new.value && old.rate == new.rate;
                (!same, old.about != new.about)
            }
            None => (true, true),
        }
    }

    /// All of the latest picture, as an event.
    pub fn whole(&self, boards: &Boards) -> Bytes {
        let tracks = shown(boards).flat_map(|(b, tracks)| tracks.iter().map(move |t| (b, t)));
        let described: Vec<_> = tracks.map(|(b, t)| (b.name.as_str(), t)).collect();
        let mut message = self.message(true, described.iter().map(|(_, t)| t.id));
        message.segments = Some(&self.segments);
        message.about = groups(&described);
        event(&message)
    }

    /// A message with the values of some series.
    fn message(&self, whole: bool, series: impl Iterator<Item = u64>) -> Message<'_> {
        let mut message = Message {
            number: self.number,
            run: self.run,
            whole,
            taken: self.taken,
            said: Vec::new(),
            segments: None,
            about: Vec::new(),
            gone: Vec::new(),
            ids: Vec::new(),
            values: Vec::new(),
            rates: Vec::new(),
        };
        for id in series {
            if let Some(sent) = self.sent.get(&id) {
                message.ids.push(id);
                message.values.push(&sent.value);
                message.rates.push(sent.rate);
            }
        }
        message
    }
}

fn event(message: &Message<'_>) -> Bytes {
    // JSON has no line breaks. It cannot fail: all keys are strings.
    let json = serde_json::to_string(message).unwrap_or_default();
    Bytes::from(format!("data: {json}\n\n"))
}

fn groups<'a>(described: &[(&'a str, &Track)]) -> Vec<Group<'a>> {
    let of = |(_, t): &(&str, &Track)| {
        let a = &t.about;
        let name = short(&a.name, TEXT);
        Described(t.id, name, labels(a, TEXT), a.kind, short(&a.unit, TEXT))
    };
    let groups = described.chunk_by(|a, b| a.0 == b.0);
    let group = |same: &[(&'a str, &Track)]| Group {
        segment: same.first().map_or("", |(name, _)| name),
        series: same.iter().map(of).collect(),
    };
    groups.map(group).collect()
}

fn segment(board: &Board, shown: &[Track]) -> Segment {
    let alive = board.alive();
    Segment {
        name: board.name.clone(),
        program: short(&board.program, TEXT),
        generation: Exact(Number::Whole(board.generation)),
        since: if board.since == SystemTime::UNIX_EPOCH {
            0.0
        } else {
            seconds(board.since).floor()
        },
        pending: board.pending,
        alive,
        dead: board.owners.len() - alive,
        series: board.tracks.len(),
        left_out: board.tracks.len() - shown.len(),
        lost: board.lost.as_ref().map(|(why, _)| short(why, TEXT)),
        families: families(board),
    }
}

fn families(board: &Board) -> Vec<Full> {
    let first = |range: &std::ops::Range<usize>| board.tracks.get(range.start);
    let all = board.groups.iter().filter_map(first);
    let full = all.filter_map(|t| {
        let f = t.family.filter(|f| f.overflows > 0 || f.invalid > 0)?;
        Some(Full {
            name: short(&t.about.name, TEXT),
            cap: f.cap,
            overflows: Exact(Number::Whole(f.overflows)),
            invalid: Exact(Number::Whole(f.invalid)),
        })
    });
    full.take(FAMILIES).collect()
}

#[cfg(test)]
#[path = "message_tests.rs"]
pub mod tests;
