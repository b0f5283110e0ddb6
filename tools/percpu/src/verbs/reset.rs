// SPDX-License-Identifier: MIT

use crate::args::Reset;
use crate::failure::{Exit, Failure};

pub fn run(_: &Reset) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
