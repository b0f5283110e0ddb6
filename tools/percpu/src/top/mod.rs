// SPDX-License-Identifier: MIT
//! `percpu top`: the full screen.

use crate::args::Top;
use crate::failure::{Exit, Failure};

pub fn run(_: &Top) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::System, "this verb is not there yet"))
}
