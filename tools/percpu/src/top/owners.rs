// SPDX-License-Identifier: MIT
//! Which process and which CPU has how much.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::look::Ink;
use super::pane::{last, Room};
use super::plot::{bar, heat};
use super::table::number;
use crate::model::board::Board;
use crate::model::track::Track;
use crate::model::{shares, Owner, Share};

/// The processes that have a slot in a file.
pub fn list(board: &Board, room: Room) -> Vec<Line<'static>> {
    if board.owners.is_empty() {
        return Vec::new();
    }
    let text = format!("Workers: {} of {} live", board.alive(), board.owners.len());
    let mut out = vec![Line::styled(text, room.look.style(Ink::Title))];
    let lines = board.owners.iter().map(|o| {
        let ink = if o.alive { Ink::Plain } else { Ink::Alarm };
        let text = room.look.fit(&room.look.clean(&called(o)), room.columns);
        Line::styled(text, room.look.style(ink))
    });
    out.extend(lines);
    out
}

fn called(o: &Owner) -> String {
    let name = if o.name.is_empty() {
        String::new()
    } else {
        format!(" {}", o.name)
    };
    let dead = if o.alive { "" } else { " dead" };
    format!("{}{name}{dead}", o.pid)
}

/// What each process has of owned gauges, those that died marked. A process that is no longer in
/// the file, and was when the cursor came here, keeps what it had last.
pub fn by_process(tracks: &[&Track], number: u64, room: Room) -> Vec<Line<'static>> {
    let mut all: Vec<(Share, &str)> = Vec::new();
    for (share, now) in tracks.iter().flat_map(|t| shares::of_processes(t, number)) {
        let same = |s: &Share| s.owner.pid == share.owner.pid && s.owner.name == share.owner.name;
        match all.iter_mut().find(|(s, _)| same(s)) {
            Some((sum, _)) => sum.value += share.value,
            None => all.push((share, if now { "" } else { ", gone" })),
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    all.sort_by(|a, b| b.0.value.total_cmp(&a.0.value));
    let sum = all
        .iter()
        .filter(|(s, _)| s.owner.alive)
        .map(|(s, _)| s.value)
        .sum();
    let mut out = vec![Line::styled("By process", room.look.style(Ink::Title))];
    for (s, gone) in &all {
        let line = share(&called(&s.owner), s.value, sum, gone, room);
        let ink = if s.owner.alive {
            Ink::Plain
        } else {
            Ink::Alarm
        };
        out.push(line.style(room.look.style(ink)));
    }
    out
}

/// A name, a number, and its part of a sum.
pub fn share(name: &str, x: f64, sum: f64, note: &str, room: Room) -> Line<'static> {
    const NUMBER: usize = 8;
    let look = room.look;
    let name = look.clean(&format!("{name}{note}"));
    let width = room.columns.saturating_sub(NUMBER + 2);
    let names = (width * 2 / 3).max(width.saturating_sub(20));
    let text = format!(
        "{} {} ",
        look.fit(&name, names),
        look.right(&number(x, "", look), NUMBER)
    );
    let rest = room.columns.saturating_sub(text.width());
    Line::from(vec![
        Span::raw(text),
        Span::styled(bar(x / sum, rest, look), look.style(Ink::Graph)),
    ])
}

/// A strip with a cell for each CPU: what it added lately, or, where that is not known, in all.
pub fn cpus(tracks: &[&Track], number: u64, room: Room) -> Vec<Line<'static>> {
    let Some((cells, seconds)) = shares::of_cpus(tracks, number) else {
        return Vec::new();
    };
    let when = seconds.map_or("in all".to_string(), last);
    let Some(most) = (0..cells.len()).max_by(|a, b| cells[*a].total_cmp(&cells[*b])) else {
        return Vec::new();
    };
    let sum: f64 = cells.iter().sum();
    let title = if sum > 0.0 {
        let part = cells[most] / sum * 100.0;
        format!("By CPU, {when}: most on CPU {most} ({part:.0} %)")
    } else {
        format!("By CPU, {when}: nothing")
    };
    let title = room.look.fit(&title, room.columns);
    let mut out = vec![Line::styled(title, room.look.style(Ink::Title))];
    let levels = room.look.levels();
    let strip: Vec<_> = heat(&cells)
        .into_iter()
        .map(|n| Span::styled(levels[n].to_string(), room.look.style(Ink::Heat(n as u8))))
        .collect();
    out.extend(
        strip
            .chunks(room.columns.max(1))
            .map(|c| Line::from(c.to_vec())),
    );
    out
}
