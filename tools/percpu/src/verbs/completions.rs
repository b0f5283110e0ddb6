// SPDX-License-Identifier: MIT

use crate::args::Completions;
use crate::failure::{Exit, Failure};

pub fn run(_: &Completions) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
