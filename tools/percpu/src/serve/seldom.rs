// SPDX-License-Identifier: MIT
//! Lines of the log that any client can cause: each at most once a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::say;

const MINUTE: Duration = Duration::from_secs(60);

/// When each of the sentences was said.
#[derive(Default)]
pub struct Seldom(Mutex<HashMap<String, Instant>>);

impl Seldom {
    pub fn say(&self, sentence: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|_, when| when.elapsed() < MINUTE);
        if !said.contains_key(sentence) {
            said.insert(sentence.to_string(), Instant::now());
            say(sentence);
        }
    }
}
