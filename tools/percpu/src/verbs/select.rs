// SPDX-License-Identifier: MIT
//! Which series a command line asks for.

use glob::Pattern;

use crate::failure::{Exit, Failure};
use crate::model::About;

/// Patterns of names; one with a '{' is compared with name and labels. Without any: all.
#[derive(Default)]
pub struct Select(Vec<(Pattern, bool)>);

impl Select {
    pub fn new(globs: &[String]) -> Result<Self, Failure> {
        let pattern = |text: &String| match Pattern::new(text) {
            Ok(pattern) => Ok((pattern, text.contains('{'))),
            Err(e) => Err(Failure::new(
                Exit::Usage,
                format!(
                    "the pattern {text:?} is wrong at letter {}: {}",
                    e.pos + 1,
                    e.msg
                ),
            )),
        };
        globs
            .iter()
            .map(pattern)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn has(&self, about: &About) -> bool {
        self.matches(&about.name, &|| about.to_string())
    }

    /// Whether it asks for a series of that name. `full` makes the text of name and labels.
    pub fn matches(&self, name: &str, full: &dyn Fn() -> String) -> bool {
        let matches = |(pattern, labels): &(Pattern, bool)| {
            if *labels {
                pattern.matches(&full())
            } else {
                pattern.matches(name)
            }
        };
        self.0.is_empty() || self.0.iter().any(matches)
    }

    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }
}
