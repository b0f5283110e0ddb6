// SPDX-License-Identifier: MIT
//! `percpu`: look at the metrics of programs that count with libpercpu.

#![forbid(unsafe_code)]

mod args;
mod failure;
mod model;
mod numbers;
mod top;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Verb};
use crate::failure::{Exit, Failure};

fn run(args: Args) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Ls(a) => verbs::ls::run(&a),
        Verb::Show(a) => verbs::show::run(&a),
        Verb::Watch(a) => verbs::watch::run(&a),
        Verb::Top(a) => top::run(&a),
        Verb::Doctor(a) => verbs::doctor::run(&a),
        Verb::Gc(a) => verbs::gc::run(&a),
        Verb::Reset(a) => verbs::reset::run(&a),
        Verb::Diff(a) => verbs::diff::run(&a),
        Verb::Completions(a) => verbs::completions::run(&a),
        Verb::Man(a) => verbs::man::run(&a),
    }
}

fn main() -> ExitCode {
    let exit = run(Args::parse()).unwrap_or_else(|failure| failure.tell());
    ExitCode::from(exit as u8)
}
