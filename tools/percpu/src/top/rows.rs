// SPDX-License-Identifier: MIT
//! Which rows the table has, in which order.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::model::board::Board;
use crate::model::track::{Numbers, Track};
use crate::model::{Kind, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Name,
    Rate,
    Change,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Rate => "rate",
            Self::Change => "change",
        }
    }
}

/// What a row is about, whatever its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// The name of a segment.
    Board(String),
    /// And that of a metric.
    Group(String, String),
    /// And the number of a track.
    Series(String, u64),
}

#[derive(Clone, Debug)]
pub struct Row {
    pub board: usize,
    pub what: What,
    pub numbers: Numbers,
}

#[derive(Clone, Debug)]
pub enum What {
    Board,
    /// Series of one name, those that match, and whether they follow.
    Group {
        members: Vec<usize>,
        open: bool,
    },
    /// A series, and whether it is one of several.
    Series {
        track: usize,
        member: bool,
    },
}

/// What the user chose.
pub struct Choice {
    pub order: Order,
    /// In lower case.
    pub filter: String,
    /// What is opened, of metrics; what is closed, of segments.
    pub toggled: HashSet<Id>,
    /// The moment that is shown, if it is not the latest.
    pub at: Option<Instant>,
    /// How far apart pictures are that are shown together.
    pub tolerance: Duration,
}

impl Row {
    pub fn id(&self, boards: &[Board]) -> Option<Id> {
        let board = boards.get(self.board)?;
        let name = board.name.clone();
        Some(match &self.what {
            What::Board => Id::Board(name),
            What::Group { members, .. } => {
                let first = board.tracks.get(*members.first()?)?;
                Id::Group(name, first.about.name.clone())
            }
            What::Series { track, .. } => Id::Series(name, board.tracks.get(*track)?.id),
        })
    }
}

impl Row {
    /// Whether it is about that.
    pub fn is(&self, boards: &[Board], id: &Id) -> bool {
        let Some(board) = boards.get(self.board) else {
            return false;
        };
        match (&self.what, id) {
            (What::Board, Id::Board(name)) => board.name == *name,
            (What::Group { members, .. }, Id::Group(name, metric)) => {
                let first = members.first().and_then(|i| board.tracks.get(*i));
                board.name == *name && first.is_some_and(|t| t.about.name == *metric)
            }
            (What::Series { track, .. }, Id::Series(name, number)) => {
                let track = board.tracks.get(*track);
                track.is_some_and(|t| t.id == *number) && board.name == *name
            }
            _ => false,
        }
    }
}

pub fn build(boards: &[Board], choice: &Choice) -> Vec<Row> {
    let mut rows = Vec::new();
    for (i, board) in boards.iter().enumerate() {
        let before = rows.len();
        if boards.len() > 1 {
            rows.push(Row {
                board: i,
                what: What::Board,
                numbers: Numbers::NONE,
            });
            if choice.toggled.contains(&Id::Board(board.name.clone())) {
                continue;
            }
        }
        let first = rows.len();
        add_board(&mut rows, i, board, choice);
        if rows.len() == first && !choice.filter.is_empty() {
            rows.truncate(before);
        }
    }
    rows
}

fn add_board(rows: &mut Vec<Row>, number: usize, board: &Board, choice: &Choice) {
    let back = board.back(choice.at, choice.tolerance);
    let mut found = Vec::new();
    for range in &board.groups {
        let matches = |i: &usize| {
            let track = board.tracks.get(*i);
            track.is_some_and(|t| t.text.contains(&choice.filter))
        };
        let mut members: Vec<usize> = if choice.filter.is_empty() {
            range.clone().collect()
        } else {
            range.clone().filter(matches).collect()
        };
        if members.is_empty() {
            continue;
        }
        let what = if range.len() > 1 {
            sort(&mut members, board, back, choice.order);
            let open = is_open(board, &members, choice);
            What::Group { members, open }
        } else {
            let (track, member) = (range.start, false);
            What::Series { track, member }
        };
        let numbers = numbers(board, &what, back);
        found.push(Row {
            board: number,
            what,
            numbers,
        });
    }
    if choice.order != Order::Name {
        found.sort_by(|a, b| compare(&a.numbers, &b.numbers, choice.order));
    }
    for row in found {
        let below = members_of(&row, board, back);
        rows.push(row);
        rows.extend(below);
    }
}

/// The rows of the members of a group that is open.
fn members_of(row: &Row, board: &Board, back: usize) -> Vec<Row> {
    let What::Group {
        members,
        open: true,
    } = &row.what
    else {
        return Vec::new();
    };
    let member = |track: &usize| {
        let what = What::Series {
            track: *track,
            member: true,
        };
        Row {
            board: row.board,
            numbers: numbers(board, &what, back),
            what,
        }
    };
    members.iter().map(member).collect()
}

/// Opened by the user, or because the labels match what is searched for, and not the name.
fn is_open(board: &Board, members: &[usize], choice: &Choice) -> bool {
    let Some(first) = members.first().and_then(|i| board.tracks.get(*i)) else {
        return false;
    };
    let name = &first.about.name;
    let searched = !choice.filter.is_empty() && !name.to_lowercase().contains(&choice.filter);
    let id = Id::Group(board.name.clone(), name.clone());
    searched || choice.toggled.contains(&id)
}

fn sort(members: &mut [usize], board: &Board, back: usize, order: Order) {
    if order != Order::Name {
        members.sort_by_cached_key(|i| {
            let track = board.tracks.get(*i);
            let n = track.map_or(Numbers::NONE, |t| t.numbers(back, &board.moments));
            Largest(key(&n, order))
        });
    }
}

/// Numbers, the largest first, and NaN last.
#[derive(PartialEq)]
struct Largest(f64);

impl Eq for Largest {}

impl PartialOrd for Largest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Largest {
    fn cmp(&self, other: &Self) -> Ordering {
        let of = |x: f64| if x.is_nan() { f64::NEG_INFINITY } else { x };
        of(other.0).total_cmp(&of(self.0))
    }
}

fn compare(a: &Numbers, b: &Numbers, order: Order) -> Ordering {
    Largest(key(a, order)).cmp(&Largest(key(b, order)))
}

fn key(n: &Numbers, order: Order) -> f64 {
    match order {
        Order::Name => f64::NAN,
        Order::Rate => n.rate,
        Order::Change => n.change.abs(),
    }
}

fn numbers(board: &Board, what: &What, back: usize) -> Numbers {
    let of = |i: &usize| {
        let track = board.tracks.get(*i);
        track.map_or(Numbers::NONE, |t| t.numbers(back, &board.moments))
    };
    match what {
        What::Board => Numbers::NONE,
        What::Series { track, .. } => of(track),
        What::Group { members, .. } => {
            let mut sum = Numbers::NONE;
            let tracks = members
                .iter()
                .filter(|i| board.tracks.get(**i).is_some_and(adds));
            for i in tracks {
                sum.add(&of(i));
            }
            sum
        }
    }
}

/// Whether the sum over labels says something.
pub fn adds(track: &Track) -> bool {
    let latest = matches!(track.value, Ok(Value::Latest(..)));
    track.grows() || (track.about.kind == Kind::Gauge && !latest)
}
