// SPDX-License-Identifier: MIT
//! `percpu top`: the full screen.
//!
//! `app` and `keys` have the state, `view` draws it, and `terminal` has the terminal and signals.
//! The state knows neither a file nor a terminal.

mod app;
mod frames;
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
mod view;

use std::time::Instant;

pub use keys::KEYS;

use crate::args::Top;
use crate::failure::{Exit, Failure};
use crate::model::files::Files;
use crate::terminal::has_utf8;

use app::App;
use keys::Outcome;
use look::Look;
use terminal::{Event, Terminal};

/// How many events one frame is for, at most.
const EVENTS: usize = 1000;

pub fn run(args: &Top) -> Result<Exit, Failure> {
    if let Some(n) = args.frames {
        let look = Look::plain(has_utf8(|name| std::env::var(name).ok()));
        let mut files = Files::new(&args.segments)?;
        let mut app = App::new(args.interval);
        app.look(&mut files);
        return frames::print(&mut app, &mut files, look, n);
    }
    terminal::check()?;
    let look = Look::new(&|name| std::env::var(name).ok())?;
    let mut files = Files::new(&args.segments)?;
    let mut app = App::new(args.interval);
    app.look(&mut files);
    let mut terminal = Terminal::new()?;
    let mut next = Instant::now() + args.interval;
    loop {
        terminal.draw(|frame| view::draw(frame, &mut app, look))?;
        let mut event = terminal.wait((!app.frozen).then_some(next));
        // One frame for what has come meanwhile: the terminal may be slower than keys.
        let mut left = EVENTS;
        while let Some(happened) = event.take() {
            match happened {
                Event::Key(key) => match app.key(key) {
                    Outcome::None => {}
                    Outcome::Quit => return Ok(Exit::Done),
                    Outcome::Stop => terminal.obey(signal_hook::consts::SIGTSTP)?,
                    Outcome::Redraw => terminal.redraw()?,
                },
                Event::Signal(signal) => terminal.obey(signal)?,
                // Also if the size is what it was: the terminal may have cut lines meanwhile.
                Event::Resize => terminal.redraw()?,
                Event::Gone => return Ok(Exit::Done),
            }
            left -= 1;
            if left > 0 {
                event = terminal.waiting();
            }
        }
        if !app.frozen && Instant::now() >= next {
            app.look(&mut files);
            next = (next + args.interval).max(Instant::now());
        }
    }
}
