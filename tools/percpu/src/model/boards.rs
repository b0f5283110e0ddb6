// SPDX-License-Identifier: MIT
//! All files that are watched, by their names.

use std::ops::Deref;
use std::time::{Duration, Instant};

use super::board::Board;
use super::{Change, Picture};

/// How long the last values of a file that is gone are shown.
const REMEMBERED: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Boards {
    all: Vec<Board>,
    /// Whether all files were looked at once.
    begun: bool,
}

impl Deref for Boards {
    type Target = [Board];

    fn deref(&self) -> &[Board] {
        &self.all
    }
}

impl Boards {
    /// Take over a picture of a file. Returns what happened to the file, in a sentence.
    pub fn update(&mut self, name: &str, picture: Picture, change: Change) -> Option<String> {
        let first = !self.all.iter().any(|b| b.name == name);
        let begun = self.begun;
        let board = self.board(name);
        let was_lost = board.lost.is_some();
        board.update(picture, change);
        let what = match change {
            Change::Replaced => "was replaced: the new one is shown",
            Change::Reset => "was reset: it counts from 0",
            Change::None if was_lost => "can be read again",
            Change::None if first && begun => "appeared",
            Change::None => return None,
        };
        Some(format!("segment {name} {what}"))
    }

    /// A file cannot be read, or is gone. Its last values stay for a while. Returns a sentence,
    /// once.
    pub fn lose(&mut self, name: &str, sentence: &str, now: Instant) -> Option<String> {
        let board = self.board(name);
        let before = board.lost.as_ref();
        let at = before.map_or(now, |(_, at)| *at);
        if before.is_some_and(|(s, _)| s == sentence) {
            return None;
        }
        board.lost = Some((sentence.to_string(), at));
        Some(format!("segment {name}: {sentence}"))
    }

    /// The board of that name, a new one if there is none.
    fn board(&mut self, name: &str) -> &mut Board {
        let i = match self.all.iter().position(|b| b.name == name) {
            Some(i) => i,
            None => {
                let i = self.all.partition_point(|b| b.name.as_str() < name);
                self.all.insert(i, Board::new(name));
                i
            }
        };
        &mut self.all[i]
    }

    /// Forget files that are gone for long, but those that `keep` says.
    pub fn settle(&mut self, now: Instant, keep: &dyn Fn(&str) -> bool) {
        self.all.retain(|b| match &b.lost {
            Some((_, at)) => keep(&b.name) || now.saturating_duration_since(*at) < REMEMBERED,
            None => true,
        });
        self.begun = true;
    }
}
