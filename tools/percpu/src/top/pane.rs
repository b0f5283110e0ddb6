// SPDX-License-Identifier: MIT
//! The details of what is under the cursor.

use std::time::SystemTime;

use ratatui::text::{Line, Span};

use super::app::App;
use super::look::{Ink, Look};
use super::owners;
use super::plot;
use super::rows::{Row, What};
use super::table::{drawn, is_time, number, unit_of};
use crate::model::board::Board;
use crate::model::track::{nth_back, Track, KEPT};
use crate::model::{Distribution, Family, Kind, Value};
use crate::numbers::{duration, short, with_unit};
use crate::text::wrap;

/// What the pane has: facts, and graphs beside or below them.
#[derive(Default)]
pub struct Details {
    pub title: String,
    pub facts: Vec<Line<'static>>,
    pub graphs: Vec<Line<'static>>,
}

/// Where a detail is drawn.
#[derive(Clone, Copy)]
pub struct Room {
    pub look: Look,
    pub columns: usize,
}

impl Room {
    /// Lines of a text of a file.
    pub fn text(self, text: &str) -> Vec<Line<'static>> {
        let lines = wrap(&self.look.clean(text), self.columns.max(1));
        lines.into_iter().map(Line::from).collect()
    }

    fn title(self, text: &str) -> Line<'static> {
        Line::styled(self.look.clean(text), self.look.style(Ink::Title))
    }
}

/// The details in columns of that width for facts, and for graphs with so many lines each.
pub fn details(app: &App, (facts, graphs): (usize, usize), lines: usize, look: Look) -> Details {
    let Some((row, board)) = app.row().and_then(|r| Some((r, app.boards.get(r.board)?))) else {
        return Details::default();
    };
    let back = board.back(app.choice.at, app.choice.tolerance);
    let room = |columns| Room { look, columns };
    match &row.what {
        What::Board => Details {
            title: board.name.clone(),
            facts: board_facts(board, room(facts)),
            graphs: owners::list(board, room(graphs)),
        },
        What::Group {
            members: tracks, ..
        } => {
            let tracks = tracks.iter().filter_map(|i| board.tracks.get(*i));
            let shown = Shown {
                board,
                row,
                back,
                tracks: tracks.collect(),
            };
            shown.details((facts, graphs), lines, look)
        }
        What::Series { track, .. } => {
            let tracks = board.tracks.get(*track).into_iter().collect();
            let shown = Shown {
                board,
                row,
                back,
                tracks,
            };
            shown.details((facts, graphs), lines, look)
        }
    }
}

fn board_facts(board: &Board, room: Room) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    if let Some((sentence, _)) = &board.lost {
        out.extend(room.text(&format!("! {sentence}")));
    }
    if board.number == 0 {
        return out;
    }
    if !board.program.is_empty() {
        out.extend(room.text(&format!("program {}", board.program)));
    }
    let age = ago(board.since, board.taken);
    out.extend(room.text(&format!("generation {}, began {age}", board.generation)));
    out.extend(room.text(&format!("{} series", board.tracks.len())));
    if board.pending > 0 {
        let text = format!(
            "{} records without a metric: being declared, left by a killed process, or damaged",
            board.pending
        );
        out.extend(room.text(&text));
    }
    out
}

/// How long before the picture something was.
fn ago(when: SystemTime, taken: SystemTime) -> String {
    let age = taken.duration_since(when).unwrap_or_default();
    format!("{} ago", duration(age.as_secs_f64()))
}

fn kind_and_unit(track: &Track) -> String {
    let kind = match track.about.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Extrema => "least and greatest value",
        Kind::Info => "labels alone",
    };
    if track.about.unit.is_empty() {
        kind.to_string()
    } else {
        format!("{kind}, unit {}", track.about.unit)
    }
}

/// What a family had no room for, in words.
fn family(family: Option<Family>, room: Room) -> Vec<Line<'static>> {
    let Some(f) = family else {
        return Vec::new();
    };
    let mut text = format!("a family of at most {} series", f.cap);
    if f.overflows > 0 {
        text += &format!(
            "; counted without labels, as there was no room: {}",
            f.overflows
        );
    }
    if f.invalid > 0 {
        text += &format!("; as a text cannot be a label's value: {}", f.invalid);
    }
    let mut lines = room.text(&text);
    if f.overflows + f.invalid > 0 {
        let alarm = room.look.style(Ink::Alarm);
        lines = lines.into_iter().map(|l| l.style(alarm)).collect();
    }
    lines
}

/// A row of the table with its series: several of one name, or one.
struct Shown<'a> {
    board: &'a Board,
    row: &'a Row,
    back: usize,
    tracks: Vec<&'a Track>,
}

impl Shown<'_> {
    fn details(&self, (facts, graphs): (usize, usize), lines: usize, look: Look) -> Details {
        let Some(first) = self.tracks.first() else {
            return Details::default();
        };
        let several = match self.tracks.len() {
            1 => String::new(),
            n => format!(" ({n} series)"),
        };
        Details {
            title: format!("{}{several}", first.about.name),
            facts: self.facts(
                first,
                Room {
                    look,
                    columns: facts,
                },
            ),
            graphs: self.graphs(
                first,
                lines,
                Room {
                    look,
                    columns: graphs,
                },
            ),
        }
    }

    fn at(&self) -> u64 {
        self.board.number.saturating_sub(self.back as u64)
    }

    fn facts(&self, first: &Track, room: Room) -> Vec<Line<'static>> {
        let about = &first.about;
        let mut out = Vec::new();
        if !about.help.is_empty() {
            out.extend(room.text(&about.help));
        }
        out.extend(self.quantiles(first, room));
        if self.tracks.len() == 1 {
            out.extend(room.text(&value(first, self.row, self.back, self.board.taken)));
            for (name, value) in &about.labels {
                out.extend(room.text(&format!("{name} = {value:?}")));
            }
        }
        out.extend(family(first.family, room));
        out.extend(owners::by_process(&self.tracks, self.at(), room));
        if self.tracks.len() == 1 {
            let since = ago(about.since, self.board.taken);
            out.extend(room.text(&format!("{}, since {since}", kind_and_unit(first))));
        } else {
            out.extend(room.text(&kind_and_unit(first)));
        }
        if about.kind != Kind::Info && !is_time(first, self.row.numbers.value) {
            out.extend(room.text(&averages(first, self.row, room.look)));
        }
        if self.tracks.len() > 1 {
            out.extend(self.by_labels(room));
        }
        out
    }

    /// The series of one name, the largest first.
    fn by_labels(&self, room: Room) -> Vec<Line<'static>> {
        let by_rate = self.row.numbers.rate > 0.0;
        let share = |t: &&Track| {
            let labels = t.about.labels.iter().map(|(n, v)| format!("{n}={v:?}"));
            let n = t.numbers(self.back, &self.board.moments);
            let x = if by_rate { n.rate } else { n.value };
            (labels.collect::<Vec<_>>().join(","), x)
        };
        let mut shares: Vec<_> = self.tracks.iter().map(share).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let all = shares.iter().map(|s| s.1).filter(|x| x.is_finite()).sum();
        let title = if by_rate {
            "By labels, per second"
        } else {
            "By labels"
        };
        let mut out = vec![room.title(title)];
        let lines = shares.iter().take(40);
        out.extend(lines.map(|(labels, x)| owners::share(labels, *x, all, "", room)));
        out
    }

    /// What was observed in an interval, of all of them.
    fn observed(&self, of: impl Fn(&Track) -> Option<(Distribution, f64)>) -> Observed {
        let mut all: Observed = None;
        for (d, seconds) in self.tracks.iter().filter_map(|t| of(t)) {
            match &mut all {
                Some((sum, most)) => {
                    sum.add(&d);
                    *most = most.max(seconds);
                }
                None => all = Some((d, seconds)),
            }
        }
        all
    }

    /// Of the interval between two pictures, and of the last minute.
    fn quantiles(&self, first: &Track, room: Room) -> Vec<Line<'static>> {
        if first.about.kind != Kind::Histogram {
            return Vec::new();
        }
        let at = self.at();
        let parts = [
            self.observed(|t| t.latest(at)),
            self.observed(|t| t.recent(at)),
        ];
        if parts.iter().all(Option::is_none) {
            return room.text("distribution: with the next pictures");
        }
        let cells = |name: &str, f: &dyn Fn(&(Distribution, f64)) -> String| {
            let cell = |p: &Observed| p.as_ref().map_or("-".to_string(), f);
            let [a, b] = [cell(&parts[0]), cell(&parts[1])].map(|t| room.look.clean(&t));
            Line::from(format!("{name:<6} {a:>12} {b:>12}"))
        };
        let unit = first.about.unit.as_str();
        let value = |x: Option<f64>| x.map_or("-".to_string(), |x| with_unit(x, unit));
        let mut out = vec![cells("", &|p| last(p.1)).style(room.look.style(Ink::Title))];
        out.push(cells("count", &|p| short(p.0.count() as f64)));
        out.push(cells("mean", &|p| value(p.0.mean())));
        for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
            out.push(cells(name, &|p| value(p.0.quantile(q))));
        }
        out
    }

    fn graphs(&self, first: &Track, lines: usize, room: Room) -> Vec<Line<'static>> {
        let at = self.at();
        let mut out = Vec::new();
        if let Some((d, seconds)) = self.observed(|t| t.recent(at)) {
            out.push(room.title(&format!("Distribution, {}", last(seconds))));
            let size = (room.columns, lines.saturating_sub(1).clamp(3, 20));
            let bars = plot::distribution(&d, &first.about.unit, size, room.look);
            out.extend(graph(bars, room.look));
        }
        let cpus = owners::cpus(&self.tracks, at, room);
        let left = if out.is_empty() {
            lines.saturating_sub(cpus.len())
        } else {
            lines
        };
        out.extend(self.rate_plot(first, left, room));
        out.extend(cpus);
        out
    }

    /// The rate, or the value of what does not only grow, over time.
    fn rate_plot(&self, first: &Track, lines: usize, room: Room) -> Vec<Line<'static>> {
        if first.about.kind == Kind::Info || is_time(first, self.row.numbers.value) {
            return Vec::new();
        }
        let (moments, back) = (&self.board.moments, self.back);
        let values = drawn(self.board, &self.row.what, back, room.columns.min(KEPT));
        let now = nth_back(moments, back);
        let seconds = |n: usize| Some((now? - nth_back(moments, back + n)?).as_secs_f64());
        let title = if first.grows() {
            "Rate per second"
        } else {
            "Value"
        };
        let mut out = vec![room.title(title)];
        let size = (room.columns, lines.saturating_sub(1).clamp(4, 12));
        out.extend(graph(
            plot::plot(&values, size, &seconds, unit_of(first), room.look),
            room.look,
        ));
        out
    }
}

/// A distribution, and of how many seconds it is.
type Observed = Option<(Distribution, f64)>;

fn averages(track: &Track, row: &Row, look: Look) -> String {
    let unit = unit_of(track);
    let [ten, hundred, thousand] = row.numbers.averages.map(|x| number(x, unit, look));
    let rate = if track.grows() {
        format!("rate {}/s, ", number(row.numbers.rate, unit, look))
    } else {
        String::new()
    };
    format!("{rate}over 10 s {ten}, 100 s {hundred}, 1000 s {thousand}")
}

/// The value, whole.
fn value(track: &Track, row: &Row, back: usize, taken: SystemTime) -> String {
    let unit = track.about.unit.as_str();
    if back > 0 {
        return format!("value {}", with_unit(row.numbers.value, unit));
    }
    match &track.value {
        Err(sentence) => format!("no value: {sentence}"),
        Ok(Value::Count(n)) => format!("value {n} {unit}"),
        Ok(Value::Level(n)) => format!("value {n} {unit}"),
        Ok(Value::Amount(x) | Value::Measure(x)) => format!("value {x} {unit}"),
        Ok(Value::Latest(x, when)) => format!("value {x} {unit}, set {}", ago(*when, taken)),
        Ok(Value::Distribution(d)) => {
            let mean = d.mean().map_or("none".to_string(), |m| with_unit(m, unit));
            format!("{} observations in all, mean {mean}", d.count())
        }
        Ok(Value::Extrema { min, max }) => {
            format!(
                "least {}, greatest {}",
                with_unit(*min, unit),
                with_unit(*max, unit)
            )
        }
        Ok(Value::Info) => "no value but its labels".to_string(),
    }
}

/// How long an interval was.
pub fn last(seconds: f64) -> String {
    format!("last {}", plot::span(seconds))
}

fn graph(lines: Vec<String>, look: Look) -> impl Iterator<Item = Line<'static>> {
    let style = look.style(Ink::Graph);
    lines
        .into_iter()
        .map(move |l| Line::from(Span::styled(l, style)))
}
