// SPDX-License-Identifier: MIT

use crate::args::Ls;
use crate::failure::{Exit, Failure};

pub fn run(_: &Ls) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
