// SPDX-License-Identifier: MIT

use crate::args::Show;
use crate::failure::{Exit, Failure};

pub fn run(_: &Show) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
