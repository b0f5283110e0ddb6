// SPDX-License-Identifier: MIT

use crate::args::Doctor;
use crate::failure::{Exit, Failure};

pub fn run(_: &Doctor) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
