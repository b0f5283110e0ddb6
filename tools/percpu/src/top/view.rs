// SPDX-License-Identifier: MIT
//! The screen, drawn from the state.

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Clear;
use ratatui::Frame;
use unicode_width::UnicodeWidthStr;

use super::app::{App, Pane};
use super::keys::KEYS;
use super::look::{Ink, Look};
use super::pane::{self, Details};
use super::table;
use crate::numbers::{duration, with_unit};

/// Fewer lines than that have no room for details beside a table.
const FOR_BOTH: u16 = 16;
/// From that width on, facts and graphs of the details are beside each other.
const TWO_COLUMNS: u16 = 76;
/// From that width on, details are at the right of the table.
const AT_RIGHT: u16 = 150;

pub fn draw(frame: &mut Frame, app: &mut App, look: Look) {
    let rows = [
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [title, middle, status] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(title_line(app, title.width.into(), look), title);
    if app.help {
        draw_help(frame, app, middle, look);
    } else {
        let (table, details) = split(app, middle);
        draw_table(frame, app, table, look);
        draw_details(frame, app, details, look);
    }
    frame.render_widget(status_line(app, status.width.into(), look), status);
}

/// Where the table is, and where the details are.
fn split(app: &App, area: Rect) -> (Rect, Rect) {
    let [none, all] = Layout::vertical([Constraint::Length(0), Constraint::Fill(1)]).areas(area);
    match app.pane {
        Pane::Hidden => (all, none),
        Pane::Alone => (none, all),
        Pane::Beside if area.width >= AT_RIGHT => {
            let parts = [
                Constraint::Fill(3),
                Constraint::Length(1),
                Constraint::Fill(2),
            ];
            let [table, _, details] = Layout::horizontal(parts).areas(area);
            (table, details)
        }
        Pane::Beside if area.height >= FOR_BOTH => {
            let parts = [
                Constraint::Fill(1),
                Constraint::Length(details_height(area.height)),
            ];
            Layout::vertical(parts).areas::<2>(area).into()
        }
        Pane::Beside => (all, none),
    }
}

fn details_height(lines: u16) -> u16 {
    (lines * 11 / 22).clamp(8, 20)
}

fn title_line(app: &App, width: usize, look: Look) -> Line<'static> {
    let series: usize = app.boards.iter().map(|b| b.tracks.len()).sum();
    let what = match &app.boards[..] {
        [one] => look.clean(&one.name),
        several => format!("{} segments", several.len()),
    };
    let every = match app.interval.as_secs_f64() {
        s if s < 10.0 && s.fract() != 0.0 => with_unit(s, "seconds"),
        s => duration(s),
    };
    let text = format!(
        "percpu top  {what}  {series} series  by {}  every {}",
        app.choice.order.name(),
        look.clean(&every)
    );
    if !app.frozen {
        return Line::styled(look.fit(&text, width), look.style(Ink::Title));
    }
    let ago = app.ago().as_secs_f64();
    let frozen = if app.choice.at.is_some() {
        let ago = if ago < 60.0 {
            format!("{ago:.1}s")
        } else {
            duration(ago)
        };
        format!("  FROZEN, {ago} back")
    } else {
        "  FROZEN".to_string()
    };
    let left = width.saturating_sub(frozen.width());
    let text = look.fit(&text, left.min(text.width()));
    Line::from(vec![
        Span::styled(text, look.style(Ink::Title)),
        Span::styled(frozen, look.style(Ink::Alarm)),
    ])
}

fn status_line(app: &App, width: usize, look: Look) -> Line<'static> {
    let filter = look.clean(&app.choice.filter);
    if app.typing {
        let cursor = look.pick("▏", "_");
        return Line::styled(format!("/{filter}{cursor}"), look.style(Ink::Title));
    }
    let lost = app
        .boards
        .iter()
        .find_map(|b| Some(format!("segment {}: {}", b.name, b.lost.as_ref()?.0)));
    if let Some(said) = app.said.as_ref().or(lost.as_ref()) {
        let text = look.fit(&look.clean(said), width);
        return Line::styled(text, look.style(Ink::Alarm));
    }
    let mut text = String::new();
    if !filter.is_empty() {
        text += &format!("/{filter}  ");
    }
    text += if app.frozen {
        "Left Right back and on  Space go on  ? help  q quit"
    } else {
        "? help  / search  n r c sort  Space freeze  Tab details  q quit"
    };
    Line::styled(look.fit(&text, width), look.style(Ink::Quiet))
}

fn draw_table(frame: &mut Frame, app: &mut App, area: Rect, look: Look) {
    if area.is_empty() {
        return;
    }
    let width = usize::from(area.width);
    app.scroll(usize::from(area.height.saturating_sub(1)));
    let mut lines = vec![table::head(width, look)];
    let rows = app.rows.iter().enumerate().skip(app.top).take(app.height);
    lines.extend(rows.map(|(i, row)| table::row(app, row, i == app.cursor, width, look)));
    if app.rows.is_empty() {
        let text = if !app.choice.filter.is_empty() {
            "  nothing matches: / searches anew"
        } else if app.boards.is_empty() {
            "  there is no segment yet"
        } else {
            "  no series yet"
        };
        lines.push(Line::from(text));
    }
    frame.render_widget(Text::from(lines), area);
}

fn draw_details(frame: &mut Frame, app: &mut App, area: Rect, look: Look) {
    if area.is_empty() {
        return;
    }
    let [border, area] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let gap = 2;
    let two = area.width >= TWO_COLUMNS;
    let parts = if two {
        [
            Constraint::Fill(4),
            Constraint::Length(gap),
            Constraint::Fill(5),
        ]
    } else {
        [
            Constraint::Fill(1),
            Constraint::Length(0),
            Constraint::Length(0),
        ]
    };
    let [left, _, right] = Layout::horizontal(parts).areas(area);
    let graphs = if two { right.width } else { left.width };
    let widths = (usize::from(left.width), usize::from(graphs));
    let mut details = pane::details(app, widths, usize::from(area.height), look);
    let title = format!(" {} ", look.clean(&details.title));
    let title = look.fit(
        &title,
        title.width().min(border.width.saturating_sub(2).into()),
    );
    let line = look.pick("─", "-");
    let rest = usize::from(border.width).saturating_sub(title.width() + 1);
    let text = format!("{line}{title}{}", line.repeat(rest));
    frame.render_widget(Line::styled(text, look.style(Ink::Title)), border);
    if !two {
        details.facts.append(&mut details.graphs);
    }
    let Details { facts, graphs, .. } = details;
    let longest = facts.len().max(graphs.len());
    app.pane_top = app.pane_top.min(longest.saturating_sub(area.height.into()));
    for (lines, area) in [(facts, left), (graphs, right)] {
        let lines: Vec<_> = lines.into_iter().skip(app.pane_top).collect();
        frame.render_widget(Text::from(lines), area);
    }
}

fn draw_help(frame: &mut Frame, app: &mut App, area: Rect, look: Look) {
    frame.render_widget(Clear, area);
    let width = usize::from(area.width).max(1);
    let mut lines = vec![Line::default()];
    for line in KEYS.lines() {
        let (key, text) = line.split_at(line.len().min(20));
        if width >= 70 {
            lines.push(Line::from(vec![
                Span::styled(format!("  {key}"), look.style(Ink::Title)),
                Span::raw(text.to_string()),
            ]));
        } else {
            lines.push(Line::styled(key.trim().to_string(), look.style(Ink::Title)));
            let text = crate::text::wrap(text, width.saturating_sub(2).max(1));
            lines.extend(text.into_iter().map(|t| Line::from(format!("  {t}"))));
        }
    }
    app.pane_top = app
        .pane_top
        .min(lines.len().saturating_sub(area.height.into()));
    lines.drain(..app.pane_top);
    frame.render_widget(Text::from(lines), area);
}
