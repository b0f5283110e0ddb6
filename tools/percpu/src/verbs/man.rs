// SPDX-License-Identifier: MIT

use crate::args::Man;
use crate::failure::{Exit, Failure};

pub fn run(_: &Man) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
