// SPDX-License-Identifier: MIT

use crate::args::Watch;
use crate::failure::{Exit, Failure};

pub fn run(_: &Watch) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
