// SPDX-License-Identifier: MIT
//! `percpu doctor`: what this machine offers, or what state a segment is in, and what to change.

mod machine;
mod segment;
mod shm;

use std::fmt;
use std::io::Write;

use crate::args::Doctor;
use crate::failure::{Exit, Failure};

/// What is printed: lines of a name and a text. Those named "to do" are advice.
#[derive(Default)]
struct Report {
    lines: Vec<(&'static str, String)>,
}

impl Report {
    fn line(&mut self, name: &'static str, text: impl fmt::Display) {
        self.lines.push((name, text.to_string()));
    }

    /// What to change, as a sentence.
    fn advise(&mut self, sentence: &str) {
        self.line("to do", sentence);
    }

    /// The last line is the verdict, which the exit code repeats.
    fn print(mut self) -> Result<Exit, Failure> {
        let advised = self.lines.iter().filter(|l| l.0 == "to do").count();
        match advised {
            0 => self.line("verdict", "nothing to do"),
            n => self.line("verdict", format!("{n} to change: see \"to do\"")),
        }
        let mut out = std::io::stdout().lock();
        for (name, text) in &self.lines {
            writeln!(out, "{name:18}{text}")?;
        }
        out.flush()?;
        Ok(if advised == 0 {
            Exit::Done
        } else {
            Exit::Advice
        })
    }
}

pub fn run(a: &Doctor) -> Result<Exit, Failure> {
    match &a.segment {
        None => machine::look(),
        Some(name) => segment::look(name),
    }
}

/// What an error number means, without the number.
fn meaning(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}
