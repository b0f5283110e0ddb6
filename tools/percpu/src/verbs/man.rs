// SPDX-License-Identifier: MIT
//! `percpu man`: the page of the command, or of a verb.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{Args, Man};
use crate::failure::{Exit, Failure};

pub fn run(a: &Man) -> Result<Exit, Failure> {
    let mut command = Args::command();
    command.build();
    let page = match &a.verb {
        None => command,
        Some(verb) => command
            .get_subcommands()
            .find(|c| c.get_name() == verb)
            .ok_or_else(|| {
                let sentence = format!("there is no verb \"{verb}\": percpu --help lists them");
                Failure::new(Exit::Usage, sentence)
            })?
            .clone(),
    };
    let mut text = Vec::new();
    let source = concat!("percpu ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page)
        .source(source)
        .render(&mut text)?;
    // Examples are commands: man must neither hyphenate nor stretch them.
    let text = String::from_utf8_lossy(&text).replace("\n.SH EXTRA\n", "\n.SH NOTES\n.ad l\n.nh\n");
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}
