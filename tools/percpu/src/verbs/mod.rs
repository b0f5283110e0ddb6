// SPDX-License-Identifier: MIT
//! The verbs that print lines.

mod ask;
mod changed;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod gc;
pub mod ls;
pub mod man;
pub mod reset;
pub mod select;
pub mod show;
mod show_table;
mod table;
pub mod textfile;
pub mod watch;
mod watch_print;

use std::io::Write;

use crate::failure::{Exit, Failure};
use crate::text::plain_json;

/// Write to stdout.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn json(value: &impl serde::Serialize, pretty: bool) -> Result<String, Failure> {
    let text = if pretty {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    let text = text.map_err(|e| Failure::new(Exit::System, format!("JSON cannot be made: {e}")))?;
    Ok(plain_json(text) + "\n")
}

/// `one series`, `3 series`.
fn many(n: u64, one: &str, several: &str) -> String {
    if n == 1 {
        format!("one {one}")
    } else {
        format!("{n} {several}")
    }
}
