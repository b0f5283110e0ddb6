// SPDX-License-Identifier: MIT
//! Screens as text, where there is no terminal: `percpu top --frames`.

use std::io::Write;
use std::thread::sleep;

use ratatui::backend::TestBackend;
use ratatui::crossterm::terminal::size;
use unicode_width::UnicodeWidthStr;

use super::app::App;
use super::look::Look;
use super::view;
use crate::failure::{Exit, Failure};
use crate::model::files::Files;
use crate::terminal::Terminal;

/// Print so many screens, each after a time. The first one has rates already.
pub fn print(app: &mut App, files: &mut Files, look: Look, frames: u64) -> Result<Exit, Failure> {
    let (columns, lines) = area(Terminal::new().is_one);
    for i in 0..frames {
        sleep(app.interval);
        app.look(files);
        let gap = if i > 0 { "\n" } else { "" };
        let screen = screen(app, look, columns, lines)?;
        let mut out = std::io::stdout().lock();
        out.write_all(format!("{gap}{screen}").as_bytes())?;
        out.flush()?;
    }
    Ok(Exit::Done)
}

/// Columns and lines: the terminal's, or what the environment says, or 80 and 24.
fn area(is_terminal: bool) -> (u16, u16) {
    if let (true, Ok(area)) = (is_terminal, size()) {
        return area;
    }
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let of = |name, default| number(name).map_or(default, |n: u16| n.clamp(5, 500));
    (of("COLUMNS", 80), of("LINES", 24))
}

/// Draw the screen, and return its lines.
pub fn screen(app: &mut App, look: Look, columns: u16, lines: u16) -> Result<String, Failure> {
    let failed = |_| Failure::new(Exit::System, "the screen cannot be drawn");
    let mut terminal = ratatui::Terminal::new(TestBackend::new(columns, lines)).map_err(failed)?;
    terminal
        .draw(|frame| view::draw(frame, app, look))
        .map_err(failed)?;
    let buffer = terminal.backend().buffer();
    let mut out = String::new();
    for y in 0..lines {
        let mut line = String::new();
        let mut x = 0;
        while x < columns {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += (symbol.width() as u16).max(1);
        }
        out += line.trim_end();
        out.push('\n');
    }
    Ok(out)
}
