// SPDX-License-Identifier: MIT

use crate::args::Gc;
use crate::failure::{Exit, Failure};

pub fn run(_: &Gc) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
