// SPDX-License-Identifier: MIT
//! Which process and which CPU has how much.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::board::Board;
use super::look::Ink;
use super::pane::{last, Room};
use super::plot::{bar, heat};
use super::table::number;
use super::text::{clean, fit, right};
use super::track::{Fine, Track};
use crate::model::{Owner, Share};

/// The processes that have a slot in a file.
pub fn list(board: &Board, room: Room) -> Vec<Line<'static>> {
    if board.owners.is_empty() {
        return Vec::new();
    }
    let text = format!("Workers: {} of {} live", board.alive(), board.owners.len());
    let mut out = vec![Line::styled(text, room.look.style(Ink::Title))];
    let lines = board.owners.iter().map(|o| {
        let ink = if o.alive { Ink::Plain } else { Ink::Alarm };
        let text = fit(&clean(&called(o), room.look), room.columns, room.look);
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

/// What each process has of an owned gauge, those that died marked. A process that is no longer in
/// the file, and was when the cursor came here, keeps what it had last.
pub fn shares(track: &Track, number: u64, room: Room) -> Vec<Line<'static>> {
    let mut all: Vec<(Share, &str)> = Vec::new();
    for (i, fine) in track.fine(number).enumerate() {
        for share in &fine.details.shares {
            let same = |o: &Owner| o.pid == share.owner.pid && o.name == share.owner.name;
            if all.iter().any(|(s, _)| same(&s.owner)) {
                continue;
            }
            let mut share = share.clone();
            let gone = if i > 0 { ", gone" } else { "" };
            share.owner.alive &= i == 0;
            all.push((share, gone));
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
    let name = clean(&format!("{name}{note}"), look);
    let width = room.columns.saturating_sub(NUMBER + 2);
    let names = (width * 2 / 3).max(width.saturating_sub(20));
    let text = format!(
        "{} {} ",
        fit(&name, names, look),
        right(&number(x, "", look), NUMBER, look)
    );
    let rest = room.columns.saturating_sub(text.width());
    Line::from(vec![
        Span::raw(text),
        Span::styled(bar(x / sum, rest, look), look.style(Ink::Graph)),
    ])
}

/// A strip with a cell for each CPU: what it added lately, or, where that is not known, in all.
pub fn cpus(track: &Track, number: u64, room: Room) -> Vec<Line<'static>> {
    let Some(now) = track.fine(number).next().filter(|f| f.number == number) else {
        return Vec::new();
    };
    let all = &now.details.cpus;
    let Some(most) = (0..all.len()).max_by(|a, b| all[*a].total_cmp(&all[*b])) else {
        return Vec::new();
    };
    let recent = track
        .fine(number)
        .skip(1)
        .last()
        .and_then(|then| since(now, then));
    let (cells, most, when) = match recent {
        Some((cells, most, seconds)) => (cells, most, last(seconds)),
        None => (all.clone(), most, "in all".to_string()),
    };
    let sum: f64 = cells.iter().sum();
    let part = if sum > 0.0 {
        cells[most] / sum * 100.0
    } else {
        0.0
    };
    let title = format!("By CPU, {when}: most on CPU {most} ({part:.0} %)");
    let title = fit(&title, room.columns, room.look);
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

/// What CPUs added between two moments, which one the most, and how many seconds that were.
fn since(now: &Fine, then: &Fine) -> Option<(Vec<f64>, usize, f64)> {
    let pairs = now.details.cpus.iter().zip(&then.details.cpus);
    let cells: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
    let most = (0..cells.len()).max_by(|a, b| cells[*a].total_cmp(&cells[*b]))?;
    let grew = cells[most] > 0.0 && cells.iter().all(|c| *c >= 0.0);
    grew.then(|| (cells, most, (now.moment - then.moment).as_secs_f64()))
}
