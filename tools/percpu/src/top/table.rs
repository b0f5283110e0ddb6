// SPDX-License-Identifier: MIT
//! The rows of the table as text.

use std::time::SystemTime;

use ratatui::text::{Line, Span};

use super::app::App;
use super::look::{Ink, Look};
use super::plot::sparkline;
use super::rows::{Id, Row, What};
use crate::model::board::Board;
use crate::model::track::{seconds_at, Track};
use crate::model::Kind;
use crate::numbers::{duration, with_unit};

const NUMBER: usize = 8;
/// Three digits, a prefix, a space and a unit.
const VALUE: usize = 10;

/// The columns of averages.
const AVERAGES: [&str; 3] = ["10 s", "100 s", "1000 s"];

/// Which columns there is room for.
struct Columns {
    name: usize,
    change: bool,
    /// How many of [`AVERAGES`].
    averages: usize,
    trend: usize,
}

impl Columns {
    fn new(width: usize) -> Self {
        let change = width >= 110;
        // In 80 columns a name needs the room of the last one.
        let averages = match width {
            0..72 => 0,
            72..100 => 2,
            _ => 3,
        };
        let trend = match width {
            0..60 => 0,
            60..110 => 10,
            _ => 10 + (width - 110) / 4,
        };
        let numbers = 1 + usize::from(change) + averages;
        let taken = 2 + VALUE + 1 + numbers * (NUMBER + 1) + if trend > 0 { trend + 1 } else { 0 };
        let name = width.saturating_sub(taken);
        Self {
            name,
            change,
            averages,
            trend,
        }
    }
}

impl Columns {
    /// What is behind the value of a row without other numbers.
    fn without_numbers(&self) -> String {
        let n = 1 + usize::from(self.change) + self.averages;
        format!(" {:>NUMBER$}", "-").repeat(n)
    }
}

/// The names of the columns.
pub fn head(width: usize, look: Look) -> Line<'static> {
    let columns = Columns::new(width);
    let mut text = format!("  {} ", look.fit("name", columns.name));
    text += &look.right("value", VALUE);
    let mut add = |name: &str| text += &format!(" {}", look.right(name, NUMBER));
    if columns.change {
        add("change");
    }
    add("rate/s");
    let averages = AVERAGES.into_iter().take(columns.averages);
    averages.for_each(&mut add);
    if columns.trend > 0 {
        text += &format!(" {}", look.fit("trend", columns.trend));
    }
    Line::styled(text, look.style(Ink::Quiet))
}

/// A row in so many columns. The one under the cursor has a mark as well as a color.
pub fn row(app: &App, row: &Row, cursor: bool, width: usize, look: Look) -> Line<'static> {
    let Some(board) = app.boards.get(row.board) else {
        return Line::default();
    };
    let mark = if cursor {
        look.pick("▶ ", "> ")
    } else {
        "  "
    };
    let mut line = match &row.what {
        What::Board => {
            let closed = app.choice.toggled.contains(&Id::Board(board.name.clone()));
            board_line(board, closed, mark, width, look)
        }
        what => {
            let columns = Columns::new(width);
            let mut text = format!(
                "{mark}{} ",
                look.fit_ends(&name(board, what, look), columns.name)
            );
            text += &numbers(board, row, &columns, look);
            let back = board.back(app.choice.at, app.choice.tolerance);
            let trend = if columns.trend > 0 {
                let drawn = drawn(board, what, back, columns.trend);
                format!(" {}", sparkline(&drawn, columns.trend, look))
            } else {
                String::new()
            };
            Line::from(vec![
                Span::raw(text),
                Span::styled(trend, look.style(Ink::Graph)),
            ])
        }
    };
    if cursor {
        line = line.patch_style(look.style(Ink::Cursor));
    }
    line
}

fn board_line(board: &Board, closed: bool, mark: &str, width: usize, look: Look) -> Line<'static> {
    let sign = arrow(!closed, look);
    let mut text = format!("{mark}{sign} {}", look.clean(&board.name));
    if !board.program.is_empty() && board.program != board.name {
        text += &format!(" of {}", look.clean(&board.program));
    }
    text += &format!(", {} series", board.tracks.len());
    if !board.owners.is_empty() {
        text += &format!(", {} of {} workers live", board.alive(), board.owners.len());
    }
    let ink = if let Some((sentence, _)) = &board.lost {
        text += &format!(": {}", look.clean(sentence));
        Ink::Alarm
    } else {
        Ink::Title
    };
    Line::styled(look.fit(&text, width), look.style(ink))
}

fn arrow(open: bool, look: Look) -> &'static str {
    if open {
        look.pick("▾", "-")
    } else {
        look.pick("▸", "+")
    }
}

fn name(board: &Board, what: &What, look: Look) -> String {
    let track = |i: usize| board.tracks.get(i).map(|t| &t.about);
    match what {
        What::Board => String::new(),
        What::Group { members, open } => {
            let first = members.first().and_then(|i| track(*i));
            let name = first.map_or("", |a| a.name.as_str());
            format!(
                "{} {} ({})",
                arrow(*open, look),
                look.clean(name),
                members.len()
            )
        }
        What::Series { track: i, member } => {
            let Some(about) = track(*i) else {
                return String::new();
            };
            if !member {
                return look.clean(&about.to_string());
            }
            let labels = about.labels.iter().map(|(n, v)| format!("{n}={v:?}"));
            format!("    {}", look.clean(&labels.collect::<Vec<_>>().join(",")))
        }
    }
}

fn numbers(board: &Board, row: &Row, columns: &Columns, look: Look) -> String {
    let first = match &row.what {
        What::Board => None,
        What::Group { members, .. } => members.first().copied(),
        What::Series { track, .. } => Some(*track),
    };
    let Some(track) = first.and_then(|i| board.tracks.get(i)) else {
        return String::new();
    };
    let (n, unit) = (&row.numbers, unit_of(track));
    if is_time(track, n.value) {
        return look.right(&age(n.value, board.taken), VALUE) + &columns.without_numbers();
    }
    let mut text = look.right(&number(n.value, unit, look), VALUE);
    let mut add = |x: f64| text += &format!(" {}", look.right(&number(x, unit, look), NUMBER));
    if columns.change {
        add(n.change);
    }
    add(n.rate);
    let averages = n.averages.into_iter().take(columns.averages);
    averages.for_each(&mut add);
    text
}

/// Whether a value is a time of the clock: no other gauge in seconds is 30 years.
pub fn is_time(track: &Track, value: f64) -> bool {
    track.about.kind == Kind::Gauge && track.about.unit == "seconds" && value >= 1e9
}

/// How long before a picture a time was, in one unit.
fn age(value: f64, taken: SystemTime) -> String {
    let now = taken.duration_since(SystemTime::UNIX_EPOCH);
    let age = duration(now.unwrap_or_default().as_secs_f64() - value);
    format!("{} ago", age.split(' ').next().unwrap_or(""))
}

/// The unit of the numbers of a series, if it is one that is shown with them.
pub fn unit_of(track: &Track) -> &str {
    match track.about.unit.as_str() {
        unit @ ("seconds" | "bytes" | "ratio") if track.about.kind != Kind::Histogram => unit,
        _ => "",
    }
}

/// A number, or a mark that there is none.
pub fn number(x: f64, unit: &str, look: Look) -> String {
    if x.is_nan() {
        return "-".to_string();
    }
    look.clean(&with_unit(x, unit))
}

/// What graphs show of a row: the latest last.
pub fn drawn(board: &Board, what: &What, back: usize, most: usize) -> Vec<f64> {
    let members = match what {
        What::Board => return Vec::new(),
        What::Group { members, .. } => members.as_slice(),
        What::Series { track, .. } => std::slice::from_ref(track),
    };
    let n = board.moments.len().saturating_sub(back).min(most);
    let seconds: Vec<f64> = (back..back + n)
        .map(|i| seconds_at(&board.moments, i).unwrap_or(f64::NAN))
        .collect();
    let mut sums = vec![f64::NAN; n];
    for track in members.iter().filter_map(|i| board.tracks.get(*i)) {
        track.draw(back, &seconds, &mut sums);
    }
    sums.reverse();
    sums
}
