// SPDX-License-Identifier: MIT
//! `percpu completions`: scripts for shells.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{Args, Completions};
use crate::failure::{Exit, Failure};

pub fn run(a: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(a.shell, &mut Args::command(), "percpu", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Exit::Done)
}
