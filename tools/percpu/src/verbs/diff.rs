// SPDX-License-Identifier: MIT

use crate::args::Diff;
use crate::failure::{Exit, Failure};

pub fn run(_: &Diff) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
