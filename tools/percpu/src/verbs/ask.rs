// SPDX-License-Identifier: MIT
//! A question to a person.

use std::io::{BufRead, IsTerminal, Write};

use crate::failure::{Exit, Failure};
use crate::text::clean;

/// Ask, and return whether the answer is "y" or "yes". Without a terminal to ask at, it fails.
pub fn yes(question: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "there is no terminal to ask at: say --yes",
        ));
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{} [y/N] ", clean(question))?;
    out.flush()?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
