// SPDX-License-Identifier: MIT
//! `percpu reset`: all counts of a segment become 0.

use std::io::Write;

use super::ask;
use crate::args::Reset;
use crate::failure::{Exit, Failure};
use crate::model::find;

pub fn run(a: &Reset) -> Result<Exit, Failure> {
    let found = find::one(&a.segment)?;
    let picture = find::open(&found)?.read(&|_| false)?;
    let question = format!(
        "Set the counts of {} ({} series, program \"{}\") to 0, for all processes?",
        found.name,
        picture.series.len(),
        picture.program.escape_debug()
    );
    if !a.yes && !ask::yes(&question)? {
        return Ok(Exit::Advice);
    }
    let path = found.path.to_string_lossy();
    percpu::SegmentOptions::new().foreign().anew().open(&path)?;
    writeln!(std::io::stdout(), "{}: reset", found.name)?;
    Ok(Exit::Done)
}
