// SPDX-License-Identifier: MIT
//! `percpu top`: the full screen.
//!
//! `app` and `keys` have the state, `view` draws it, `terminal` has the terminal and signals, and
//! `files` takes pictures. The state knows neither a file nor a terminal.

mod app;
mod board;
mod files;
mod keys;
mod look;
mod owners;
mod pane;
mod plot;
mod rows;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod track;
mod view;

use std::time::Instant;

pub use keys::KEYS;

use crate::args::Top;
use crate::failure::{Exit, Failure};

use app::App;
use files::Files;
use keys::Outcome;
use look::Look;
use terminal::{Event, Terminal};

pub fn run(args: &Top) -> Result<Exit, Failure> {
    terminal::check()?;
    let look = Look::new(&|name| std::env::var(name).ok())?;
    let mut files = Files::new(&args.segments)?;
    let mut app = App::new(args.interval);
    files.look(&mut app);
    let mut terminal = Terminal::new()?;
    let mut next = Instant::now() + args.interval;
    loop {
        terminal.draw(|frame| view::draw(frame, &mut app, look))?;
        let until = (!app.frozen).then_some(next);
        match terminal.wait(until) {
            Some(Event::Key(key)) => match app.key(key) {
                Outcome::None => {}
                Outcome::Quit => return Ok(Exit::Done),
                Outcome::Stop => terminal.obey(signal_hook::consts::SIGTSTP)?,
                Outcome::Redraw => terminal.redraw()?,
            },
            Some(Event::Signal(signal)) => terminal.obey(signal)?,
            // Also if the size is what it was: the terminal may have cut lines meanwhile.
            Some(Event::Resize) => terminal.redraw()?,
            Some(Event::Gone) => return Ok(Exit::Done),
            None => {
                files.look(&mut app);
                next += args.interval;
                if next < Instant::now() {
                    next = Instant::now() + args.interval;
                }
            }
        }
    }
}
