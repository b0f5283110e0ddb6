// SPDX-License-Identifier: MIT
//! `percpu show`: the values of a segment.

use crate::args::{Order, Show};
use crate::expose::names::Escaping;
use crate::expose::text::Text;
use crate::expose::{walk, Table, Walk};
use crate::failure::{Exit, Failure};
use crate::model::snapshot::Snapshot;
use crate::model::{find, About, Kind, Picture, Series};
use crate::terminal::Terminal;
use crate::text::plain_lines;

use super::select::Select;
use super::{json, print, show_table};

pub fn run(args: &Show) -> Result<Exit, Failure> {
    let select = Select::new(&args.globs)?;
    let found = find::one(&args.segment)?;
    let details = |about: &About| {
        select.has(about) && (args.per_cpu || args.json || about.kind == Kind::Gauge)
    };
    let picture = find::open(&found)?.read(&details)?;
    let series = chosen(&picture, args, &select);
    if series.is_empty() && !select.is_all() {
        return Err(none_matches(&found.name, args.nonzero));
    }
    let terminal = Terminal::new();
    let text = if args.json {
        let all = series.into_iter();
        json(
            &Snapshot::new(&found.name, &picture, all, args.per_cpu),
            true,
        )?
    } else if args.text {
        let mut text = prometheus(series);
        if terminal.is_one {
            text = plain_lines(&text);
        }
        text
    } else {
        show_table::text(&terminal, &found.name, &picture, &series, args.per_cpu)
    };
    print(&text)?;
    Ok(Exit::Done)
}

fn prometheus(series: Vec<&Series>) -> String {
    let table = Table::Series(series);
    let files = [Walk {
        table: &table,
        labels: &[],
    }];
    let mut text = Vec::new();
    let mut format = Text::new(Escaping::Underscores);
    walk(&files, &|_, _| true, &mut format, &mut |more| {
        text.append(more)
    });
    String::from_utf8_lossy(&text).into_owned()
}

fn none_matches(name: &str, nonzero: bool) -> Failure {
    let matches = if nonzero {
        "matches and is not 0"
    } else {
        "matches"
    };
    let sentence = format!(
        "no series of {name} {matches}: a pattern has to match the whole name, as '*part*' does; \
         \"percpu show {name}\" prints all"
    );
    Failure::new(Exit::NotFound, sentence)
}

/// The series that are asked for, in the order that is asked for. Text has its own.
fn chosen<'a>(picture: &'a Picture, args: &Show, select: &Select) -> Vec<&'a Series> {
    let number = |s: &Series| s.value.as_ref().ok().map(|v| v.number());
    let all = picture.series.iter().filter(|s| select.has(&s.about));
    let mut series: Vec<_> = all
        .filter(|s| !args.nonzero || number(s).is_some_and(|x| x != 0.0))
        .collect();
    if args.sort == Order::Value && !args.text {
        let key = |s: &Series| number(s).unwrap_or(f64::NEG_INFINITY);
        series.sort_by(|a, b| key(b).total_cmp(&key(a)));
    }
    series
}
