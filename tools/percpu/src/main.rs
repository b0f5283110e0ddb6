// SPDX-License-Identifier: MIT
//! `percpu`: look at the metrics of programs that count with libpercpu.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod args;
mod expose;
mod failure;
mod model;
mod numbers;
mod push;
mod serve;
mod terminal;
mod text;
mod told;
mod top;
mod verbs;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use clap::Parser;

use crate::args::{Args, Verb};
use crate::failure::{Exit, Failure};

fn run(args: Args) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Ls(a) => verbs::ls::run(&a),
        Verb::Show(a) => verbs::show::run(&a),
        Verb::Watch(a) => verbs::watch::run(&a),
        Verb::Top(a) => top::run(&a),
        Verb::Serve(a) => serve::run(&a),
        Verb::Push(a) => push::run(&a),
        Verb::Textfile(a) => verbs::textfile::run(&a),
        Verb::Doctor(a) => verbs::doctor::run(&a),
        Verb::Gc(a) => verbs::gc::run(&a),
        Verb::Reset(a) => verbs::reset::run(&a),
        Verb::Diff(a) => verbs::diff::run(&a),
        Verb::Completions(a) => verbs::completions::run(&a),
        Verb::Man(a) => verbs::man::run(&a),
    }
}

/// What clap has to say: help or a version on stdout, or what is wrong with the command line.
fn tell_usage(e: &clap::Error) -> Result<Exit, Failure> {
    e.print()?;
    Ok(if e.use_stderr() {
        Exit::Usage
    } else {
        Exit::Done
    })
}

/// A file that grows beyond RLIMIT_FSIZE is to be an error of the output, and no signal's death.
fn catch_file_limit() {
    let caught = Arc::new(AtomicBool::new(false));
    // Without it the signal ends the program, as any other.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, caught);
}

fn main() -> ExitCode {
    catch_file_limit();
    let result = match Args::try_parse() {
        Ok(args) => run(args),
        Err(e) => tell_usage(&e),
    };
    ExitCode::from(result.unwrap_or_else(Failure::tell) as u8)
}
