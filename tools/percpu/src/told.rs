// SPDX-License-Identifier: MIT
//! A trouble that lasts is said once.

use crate::serve::say;

/// The trouble that was said last, if it lasts.
#[derive(Default)]
pub struct Told(Option<String>);

impl Told {
    /// Say a sentence, unless the trouble is the one that was said last. `kind` is what troubles
    /// that are the same have in common.
    pub fn trouble(&mut self, kind: &str, sentence: &str) {
        if self.0.as_deref() != Some(kind) {
            say(sentence);
            self.0 = Some(kind.to_string());
        }
    }

    /// All is well: say so, if it was not.
    pub fn well(&mut self, sentence: &str) {
        if self.0.take().is_some() {
            say(sentence);
        }
    }
}
