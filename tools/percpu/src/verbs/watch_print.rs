// SPDX-License-Identifier: MIT
//! The looks of `percpu watch` as columns, as CSV, or as JSON.

use std::fmt::Write;
use std::time::SystemTime;

use serde::Serialize;

use crate::args::Watch;
use crate::failure::Failure;
use crate::model::snapshot::{seconds, FORMAT};
use crate::model::{labels_text, Number};
use crate::terminal::Terminal;
use crate::text::plain;

use super::changed::{Changed, Event};
use super::json;
use super::table::{Line, Table};
use super::watch::Look;

enum Form {
    Columns,
    Csv,
    Json,
}

pub struct Printer {
    form: Form,
    terminal: Terminal,
    /// When the first look was.
    begin: Option<SystemTime>,
}

impl Printer {
    pub fn new(args: &Watch) -> Self {
        let form = match (args.csv, args.json) {
            (true, _) => Form::Csv,
            (_, true) => Form::Json,
            _ => Form::Columns,
        };
        Self {
            form,
            terminal: Terminal::new(),
            begin: None,
        }
    }

    pub fn text(&mut self, look: &Look) -> Result<String, Failure> {
        let first = self.begin.is_none();
        let begin = *self.begin.get_or_insert(look.time);
        let since = look.time.duration_since(begin).unwrap_or_default();
        Ok(match self.form {
            Form::Columns => self.columns(look, first, since.as_secs_f64()),
            Form::Csv => csv(look, first),
            Form::Json => json(&Object::new(look), false)?,
        })
    }

    fn columns(&self, look: &Look, first: bool, since: f64) -> String {
        let mut out = String::new();
        if !first {
            let nothing = look.series.is_empty() && look.event.is_none();
            let words = if nothing { ": nothing changed" } else { "" };
            let _ = writeln!(out, "-- after {since:.1} s{words}");
        }
        if let Some(event) = &look.event {
            let _ = writeln!(out, "-- {}", self.terminal.text(event));
        }
        let mut lines = Vec::new();
        for s in &look.series {
            let mut row = vec![self.terminal.safe(s.series.clone())];
            row.extend(s.columns());
            lines.push(Line::Row(row));
            lines.extend(s.below(&self.terminal));
        }
        let table = Table {
            terminal: &self.terminal,
            heads: &["SERIES", "VALUE", "CHANGE", "PER SECOND"],
            right: &[false, true, true, true],
            headed: first,
            lines,
        };
        out + &table.text()
    }
}

/// A field by RFC 4180. Texts are plain: they have no line ends.
fn field(plain: &str) -> String {
    if plain.contains([',', '"']) {
        format!("\"{}\"", plain.replace('"', "\"\""))
    } else {
        plain.to_string()
    }
}

fn csv(look: &Look, first: bool) -> String {
    let mut out = String::new();
    if first {
        out.push_str("time,event,name,labels,kind,value,delta,rate\n");
    }
    let time = seconds(look.time);
    if let Some(event) = &look.event {
        let _ = writeln!(out, "{time:.3},{},,,,,,", field(&plain(event)));
    }
    let text = |n: Option<Number>| n.map_or_else(String::new, |n| n.to_string());
    for s in &look.series {
        let labels = labels_text(&s.labels);
        let kind = format!("{:?}", s.kind).to_lowercase();
        let event = s.event.map_or("", Event::word);
        let _ = write!(
            out,
            "{time:.3},{event},{},{},{kind},",
            field(&plain(&s.name)),
            field(&labels)
        );
        // Of extrema: the greatest.
        let value = s.value.or(s.max);
        let _ = writeln!(out, "{},{},{}", text(value), text(s.delta), text(s.rate));
    }
    out
}

#[derive(Serialize)]
struct Object<'a> {
    format: u32,
    time: f64,
    seconds: Option<f64>,
    event: Option<&'a str>,
    series: &'a [Changed],
}

impl<'a> Object<'a> {
    fn new(look: &'a Look) -> Self {
        Self {
            format: FORMAT,
            time: seconds(look.time),
            seconds: look.seconds,
            event: look.event.as_deref(),
            series: &look.series,
        }
    }
}
