// SPDX-License-Identifier: MIT
//! Lines of the log that clients or files can cause as often as they like.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::say;

const MINUTE: Duration = Duration::from_secs(60);

/// Lines in a minute.
const LINES: usize = 60;

#[derive(Default)]
pub struct Seldom(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    /// When each of the sentences was said last.
    said: HashMap<String, Instant>,
    /// When the minute began, and what was said in it.
    minute: Option<(Instant, usize)>,
}

impl Seldom {
    /// Say something that clients cause: the same once a minute.
    pub fn say(&self, sentence: &str) {
        self.lines(|lines| {
            lines.said.retain(|_, when| when.elapsed() < MINUTE);
            if !lines.said.contains_key(sentence) {
                lines.said.insert(sentence.to_string(), Instant::now());
                lines.tell(sentence);
            }
        });
    }

    /// Say what is new.
    pub fn tell(&self, sentence: &str) {
        self.lines(|lines| lines.tell(sentence));
    }

    fn lines(&self, f: impl FnOnce(&mut Lines)) {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Lines {
    fn tell(&mut self, sentence: &str) {
        let minute = self.minute.filter(|(began, _)| began.elapsed() < MINUTE);
        let (began, said) = minute.unwrap_or((Instant::now(), 0));
        self.minute = Some((began, said + 1));
        match said {
            0..LINES => say(sentence),
            LINES => say("more happened than 60 lines in a minute: the rest is left out"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_minute_has_its_lines() {
        let seldom = Seldom::default();
        (0..100).for_each(|_| seldom.say("the same"));
        seldom.lines(|lines| assert_eq!(lines.minute.unwrap().1, 1));
        (0..100).for_each(|_| seldom.tell("something new"));
        seldom.lines(|lines| assert_eq!(lines.minute.unwrap().1, 101));
        let before = Instant::now().checked_sub(MINUTE).unwrap();
        seldom.lines(|lines| {
            lines.minute = Some((before, 101));
            lines.said.values_mut().for_each(|when| *when = before);
        });
        seldom.say("the same");
        seldom.lines(|lines| assert_eq!((lines.minute.unwrap().1, lines.said.len()), (1, 1)));
    }
}
