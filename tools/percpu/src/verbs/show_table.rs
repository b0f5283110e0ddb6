// SPDX-License-Identifier: MIT
//! A picture in columns.

use std::fmt::Write;
use std::time::SystemTime;

use crate::model::{Details, Distribution, Picture, Series, Share, Value};
use crate::numbers::{digits, duration, short, with_unit};
use crate::terminal::Terminal;

use super::many;
use super::table::{Line, Table};

/// Rows of a drawn distribution, and columns of its longest bar.
const ROWS: usize = 8;
const BAR: usize = 24;
const INDENT: &str = "    ";

pub fn text(
    terminal: &Terminal,
    name: &str,
    picture: &Picture,
    series: &[&Series],
    per_cpu: bool,
) -> String {
    let table = Table {
        terminal,
        heads: &["SERIES", "VALUE", "UNIT", "HELP"],
        right: &[false, true, false, false],
        headed: true,
        lines: lines(terminal, picture, series, per_cpu),
    };
    let mut out = head(terminal, name, picture) + "\n";
    if series.is_empty() {
        out.push_str("There is nothing to show.\n");
    } else {
        out.push_str(&table.text());
    }
    out.push_str(&overflows(terminal, series));
    if picture.pending > 0 {
        let records = many(picture.pending.into(), "record has", "records have");
        let _ = writeln!(out, "{records} no metric: it is being declared, was left by a killed process, or is damaged.");
    }
    out
}

/// A row for each series, and lines for what stands below it.
fn lines(terminal: &Terminal, picture: &Picture, series: &[&Series], per_cpu: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut last_name = "";
    for s in series {
        let about = &s.about;
        // Series of one name have one help text.
        let help = if about.name == last_name {
            ""
        } else {
            &about.help
        };
        last_name = &about.name;
        let mut help = terminal.text(help).into_owned();
        if let Ok(Value::Latest(_, when)) = s.value {
            help = format!("set {} ago. {help}", ago(picture.taken, when));
        }
        lines.push(Line::Row(vec![
            terminal.safe(about.to_string()),
            s.value.as_ref().map_or("-".to_string(), value),
            unit(terminal, s),
            help,
        ]));
        lines.extend(
            below(terminal, s, per_cpu)
                .into_iter()
                .map(|t| Line::Text(INDENT.to_string() + &t)),
        );
    }
    lines
}

fn head(terminal: &Terminal, name: &str, picture: &Picture) -> String {
    let program = match terminal.text(&picture.program) {
        p if p.is_empty() => String::new(),
        p => format!(" of {p}"),
    };
    let age = ago(picture.taken, picture.since);
    let (name, n) = (terminal.text(name), picture.series.len() as u64);
    let generation = picture.generation;
    let line = format!(
        "{name}{program}: generation {generation}, {age} old, {}",
        many(n, "series", "series")
    );
    terminal
        .width
        .map_or(line.clone(), |w| terminal.cut(&line, w))
}

/// How long ago that was. A clock that was set gives 0.
pub fn ago(now: SystemTime, then: SystemTime) -> String {
    duration(now.duration_since(then).unwrap_or_default().as_secs_f64())
}

/// A value in its column.
pub fn value(v: &Value) -> String {
    match v {
        Value::Extrema { min, max } => format!("{} to {}", short(*min), short(*max)),
        Value::Info => String::new(),
        other => other.exact().map_or_else(String::new, digits),
    }
}

/// The unit of a value. That of a histogram is a number of observations, whatever their unit.
fn unit(terminal: &Terminal, s: &Series) -> String {
    match s.value {
        Ok(Value::Distribution(_)) => String::new(),
        _ => terminal.text(&s.about.unit).into_owned(),
    }
}

/// What stands under a series.
fn below(terminal: &Terminal, s: &Series, per_cpu: bool) -> Vec<String> {
    let mut lines = Vec::new();
    match &s.value {
        Err(why) => lines.push(format!("no value: {}", terminal.text(why))),
        Ok(Value::Distribution(d)) => {
            let unit = terminal.text(&s.about.unit);
            lines.extend(figures(d, &unit));
            lines.extend(drawn(terminal, d, &unit));
        }
        Ok(_) => {}
    }
    if let Some(details) = &s.details {
        lines.extend(owners(terminal, details));
        if per_cpu {
            lines.extend(cpus(&details.cpus, terminal.width.unwrap_or(80)));
        }
    }
    lines
}

/// The mean and quantiles in words.
pub fn figures(d: &Distribution, unit: &str) -> Option<String> {
    let say = |x: Option<f64>| x.map(|x| with_unit(x, unit));
    let mut text = format!("count {}, mean {}", d.count(), say(d.mean())?);
    for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
        if let Some(x) = say(d.quantile(q)) {
            let _ = write!(text, ", {name} {x}");
        }
    }
    Some(text)
}

/// A bar for each of a few joined buckets.
fn drawn(terminal: &Terminal, d: &Distribution, unit: &str) -> Vec<String> {
    let rows = d.rows(ROWS);
    if rows.len() < 2 {
        return Vec::new();
    }
    let (at_most, above) = if terminal.utf8 {
        ("≤", ">")
    } else {
        ("<=", ">")
    };
    let mut ends: Vec<String> = Vec::new();
    for (i, (end, _)) in rows.iter().enumerate() {
        let before = rows.get(i.wrapping_sub(1)).map(|(end, _)| *end);
        ends.push(match before {
            Some(before) if end.is_infinite() => format!("{above} {}", with_unit(before, unit)),
            _ => format!("{at_most} {}", with_unit(*end, unit)),
        });
    }
    let longest = |texts: &[String]| texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    let counts: Vec<_> = rows.iter().map(|(_, n)| n.to_string()).collect();
    let (wide, deep) = (longest(&ends), longest(&counts));
    let most = rows.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1) as f64;
    let lines = ends.iter().zip(&rows).zip(&counts);
    lines
        .map(|((end, (_, n)), count)| {
            let bar = terminal.bar(*n as f64 / most, BAR);
            format!("{end:<wide$}  {count:>deep$}  {bar}")
                .trim_end()
                .to_string()
        })
        .collect()
}

/// What each process has of an owned gauge.
fn owners(terminal: &Terminal, details: &Details) -> Vec<String> {
    let words = match details.rule {
        None => return Vec::new(),
        Some(percpu::Rule::Sum) => "the sum",
        Some(percpu::Rule::Min) => "the least",
        Some(percpu::Rule::Max) => "the greatest",
        Some(percpu::Rule::Recent) => "the latest",
    };
    let shown = |s: &&Share| s.owner.alive || s.value != 0.0;
    let whose = if details.keeps {
        "all processes that ever were"
    } else {
        "the processes that live"
    };
    let mut lines = vec![format!("{words} of {whose}:")];
    for share in details.shares.iter().filter(shown) {
        let Share { owner, value } = share;
        let who = match (owner.pid, owner.name.as_str()) {
            (0, _) => "earlier processes".to_string(),
            (pid, "") => format!("pid {pid}"),
            (pid, name) => format!("pid {pid} {}", terminal.text(name)),
        };
        let died = if owner.alive { "" } else { ", died" };
        let value = digits(crate::model::Number::Float(*value));
        lines.push(format!("  {who}: {value}{died}"));
    }
    if lines.len() == 1 {
        lines.push("  there are none".to_string());
    }
    lines
}

/// What CPUs have added, in lines of so many columns.
fn cpus(counts: &[f64], columns: usize) -> Vec<String> {
    let counted = counts.iter().enumerate().filter(|(_, x)| **x != 0.0);
    let mut lines: Vec<String> = Vec::new();
    for (cpu, x) in counted {
        let text = format!("CPU {cpu}: {}", digits(crate::model::Number::Float(*x)));
        match lines.last_mut() {
            Some(line) if INDENT.len() + line.len() + 2 + text.len() <= columns => {
                line.push_str(", ");
                line.push_str(&text);
            }
            _ => lines.push(text),
        }
    }
    lines
}

/// What families had no room for, in words.
fn overflows(terminal: &Terminal, series: &[&Series]) -> String {
    let mut out = String::new();
    let mut last = "";
    for s in series {
        let Some(f) = s.family.filter(|_| last != s.about.name) else {
            continue;
        };
        last = &s.about.name;
        let name = terminal.text(last);
        if f.overflows > 0 {
            let calls = many(f.overflows, "call", "calls");
            let cap = many(f.cap.into(), "series", "series");
            let _ = writeln!(
                out,
                "{calls} found no room in {name}, which may have {cap}, and got its overflow."
            );
        }
        if f.invalid > 0 {
            let calls = many(f.invalid, "call", "calls");
            let _ = writeln!(
                out,
                "{calls} gave {name} a text that cannot be a label, and got its overflow."
            );
        }
    }
    out
}
