// SPDX-License-Identifier: MIT
//! `percpu reset`: all counts of a segment become 0.

use super::{ask, print};
use crate::args::Reset;
use crate::failure::{Exit, Failure};
use crate::model::find;
use crate::text::clean;

pub fn run(a: &Reset) -> Result<Exit, Failure> {
    let find = if a.yes { find::exactly } else { find::one };
    let found = find(&a.segment)?;
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
    print(&format!("{}: reset\n", clean(&found.name)))?;
    Ok(Exit::Done)
}
