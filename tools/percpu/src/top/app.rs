// SPDX-License-Identifier: MIT
//! The state of the screen: changed by pictures and keys, drawn by `view`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::rows::{self, Choice, Id, Order, Row, What};
use crate::model::boards::Boards;
use crate::model::files::Files;
use crate::model::track::Track;

/// Where the details are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Beside,
    Alone,
    Hidden,
}

pub struct App {
    pub boards: Boards,
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
}

impl App {
    pub fn new(interval: Duration) -> Self {
        Self {
            boards: Boards::default(),
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
        }
    }

    /// Take pictures of files, and make the rows anew.
    pub fn look(&mut self, files: &mut Files) {
        let wanted = self.wanted();
        if let Some(said) = files.look(&mut self.boards, &wanted).pop() {
            self.said = Some(said);
        }
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
