// SPDX-License-Identifier: MIT
//! The state of the screen: changed by pictures and keys, drawn by `view`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::board::Board;
use super::rows::{self, Choice, Id, Order, Row, What};
use super::track::Track;
use crate::model::{Change, Picture};

/// How long the last values of a file that is gone are shown.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Where the details are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Beside,
    Alone,
    Hidden,
}

pub struct App {
    pub boards: Vec<Board>,
    pub choice: Choice,
    pub interval: Duration,
    /// No pictures are taken.
    pub frozen: bool,
    /// Keys go to the text that is searched for.
    pub typing: bool,
    pub help: bool,
    pub pane: Pane,
    /// The first line of the details, and of the help, that is shown.
    pub pane_top: usize,
    pub rows: Vec<Row>,
    /// The number of the row under the cursor, and of the first row that is shown.
    pub cursor: usize,
    pub top: usize,
    /// How many rows there was room for.
    pub height: usize,
    pub said: Option<String>,
    under: Option<Id>,
    /// Whether all files were looked at once.
    begun: bool,
}

impl App {
    pub fn new(interval: Duration) -> Self {
        Self {
            boards: Vec::new(),
            choice: Choice {
                order: Order::Name,
                filter: String::new(),
                toggled: HashSet::new(),
                at: None,
                tolerance: interval / 2,
            },
            interval,
            frozen: false,
            typing: false,
            help: false,
            pane: Pane::Beside,
            pane_top: 0,
            rows: Vec::new(),
            cursor: 0,
            top: 0,
            height: 1,
            said: None,
            under: None,
            begun: false,
        }
    }

    /// Take over a picture of a file.
    pub fn update(&mut self, name: &str, picture: Picture, change: Change) {
        let first = !self.boards.iter().any(|b| b.name == name);
        let begun = self.begun;
        let board = self.board(name);
        let was_lost = board.lost.is_some();
        board.update(picture, change);
        let what = match change {
            Change::Replaced => "was replaced: the new one is shown",
            Change::Reset => "was reset: it counts from 0",
            Change::None if was_lost => "can be read again",
            Change::None if first && begun => "appeared",
            Change::None => return,
        };
        self.said = Some(format!("segment {name} {what}"));
    }

    /// A file cannot be read, or is gone. Its last values stay for a while.
    pub fn lose(&mut self, name: &str, sentence: &str, now: Instant) {
        let board = self.board(name);
        let before = board.lost.as_ref();
        let at = before.map_or(now, |(_, at)| *at);
        if before.is_none_or(|(s, _)| s != sentence) {
            board.lost = Some((sentence.to_string(), at));
            self.said = Some(format!("segment {name}: {sentence}"));
        }
    }

    /// The board of that name, a new one if there is none.
    fn board(&mut self, name: &str) -> &mut Board {
        let i = match self.boards.iter().position(|b| b.name == name) {
            Some(i) => i,
            None => {
                let i = self.boards.partition_point(|b| b.name.as_str() < name);
                self.boards.insert(i, Board::new(name));
                i
            }
        };
        &mut self.boards[i]
    }

    /// Forget files that are gone for long, but those that `keep` says; and make the rows anew.
    pub fn settle(&mut self, now: Instant, keep: &dyn Fn(&str) -> bool) {
        self.boards.retain(|b| match &b.lost {
            Some((_, at)) => keep(&b.name) || now.saturating_duration_since(*at) < REMEMBERED,
            None => true,
        });
        self.begun = true;
        if !self.frozen {
            self.arrange();
        }
    }

    /// Make the rows anew. The cursor stays on what it is on.
    pub fn arrange(&mut self) {
        self.rows = rows::build(&self.boards, &self.choice);
        if let Some(under) = &self.under {
            let same = |r: &Row| r.is(&self.boards, under);
            // Most often it is where it was.
            if !self.rows.get(self.cursor).is_some_and(same) {
                if let Some(i) = self.rows.iter().position(same) {
                    self.cursor = i;
                }
            }
        }
        self.move_to(self.cursor);
    }

    /// Put the cursor on a row.
    pub fn move_to(&mut self, row: usize) {
        self.cursor = row.min(self.rows.len().saturating_sub(1));
        let under = self.row().and_then(|r| r.id(&self.boards));
        if under != self.under {
            self.under = under;
            self.pane_top = 0;
        }
        self.scroll(self.height);
    }

    /// Show the row under the cursor, where there is room for so many rows.
    pub fn scroll(&mut self, height: usize) {
        self.height = height.max(1);
        let last = self.rows.len().saturating_sub(self.height);
        let least = (self.cursor + 1).saturating_sub(self.height);
        self.top = self.top.clamp(least, self.cursor.max(least)).min(last);
    }

    pub fn row(&self) -> Option<&Row> {
        self.rows.get(self.cursor)
    }

    /// The series under the cursor: those of a name, or one.
    pub fn tracks(&self) -> Vec<&Track> {
        let row = self.row();
        let Some((row, board)) = row.and_then(|r| Some((r, self.boards.get(r.board)?))) else {
            return Vec::new();
        };
        let numbers = match &row.what {
            What::Board => return Vec::new(),
            What::Group { members, .. } => members.as_slice(),
            What::Series { track, .. } => std::slice::from_ref(track),
        };
        let tracks = numbers.iter().filter_map(|i| board.tracks.get(*i));
        tracks.collect()
    }

    /// Of which series details are wanted, by the numbers of their descriptions. Of a name with
    /// more series there are none.
    pub fn wanted(&self) -> Vec<u64> {
        const MOST: usize = 64;
        let tracks = self.tracks();
        let few = tracks.len() <= MOST;
        let mut wanted: Vec<u64> = tracks.iter().filter(|_| few).map(|t| t.about.id).collect();
        wanted.sort_unstable();
        wanted
    }

    /// Stop taking pictures, or go on with the latest.
    pub fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
        self.choice.at = None;
        self.arrange();
    }

    /// While nothing moves, show an earlier or a later picture.
    pub fn step(&mut self, pictures: isize) {
        let mut moments = self.moments();
        moments.sort_unstable();
        moments.dedup_by(|later, earlier| *later - *earlier <= self.choice.tolerance);
        let Some(last) = moments.len().checked_sub(1) else {
            return;
        };
        let now = match self.choice.at {
            Some(at) => moments.partition_point(|m| *m <= at).saturating_sub(1),
            None => last,
        };
        let then = now.saturating_add_signed(pictures).min(last);
        self.choice.at = (then < last).then(|| moments[then]);
        self.arrange();
    }

    fn moments(&self) -> Vec<Instant> {
        let all = self.boards.iter().flat_map(|b| b.moments.iter());
        all.copied().collect()
    }

    /// How long before the latest picture that is what is shown.
    pub fn ago(&self) -> Duration {
        let latest = self.boards.iter().filter_map(|b| b.moments.back()).max();
        match (latest, self.choice.at) {
            (Some(latest), Some(at)) => latest.saturating_duration_since(at),
            _ => Duration::ZERO,
        }
    }
}
