// SPDX-License-Identifier: MIT
//! `/detail?id=NUMBER`: what costs more, of the series that a page shows large. A page asks each
//! second; the next pictures then have what each CPU and each process has.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Query, State};
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::message::{labels, short, Cell, Exact};
use super::{hub, Shared};
use crate::model::board::Board;
use crate::model::snapshot::{seconds, Figures};
use crate::model::track::{seconds_at, Track, KEPT};
use crate::model::{shares, Distribution, Kind, Number, Share, Value};

/// So many characters has a text.
const TEXT: usize = 4000;
/// So many processes, and exemplars.
const MOST: usize = 256;
/// The heat map of a histogram.
const ROWS: usize = 24;
const COLUMNS: usize = 120;

#[derive(Deserialize)]
pub struct Ask {
    id: u64,
}

/// A series. What is not known is null or empty.
#[derive(Serialize)]
struct Detail<'a> {
    id: u64,
    segment: &'a str,
    name: String,
    labels: Vec<(String, String)>,
    help: String,
    unit: String,
    kind: Kind,
    since: f64,
    taken: f64,
    value: Cell,
    /// When a latest value was set.
    set: Option<f64>,
    rate: Option<f64>,
    /// Over 10, 100 and 1000 s: of the rate, or of the value of what has none.
    averages: [Option<f64>; 3],
    /// Seconds before the latest picture, and the rate or value then, the latest first.
    ago: Vec<f64>,
    history: Vec<Option<f64>>,
    cpus: Option<Cpus>,
    rule: Option<String>,
    owners: Vec<OwnersShare>,
    exemplars: Vec<Exemplar>,
    family: Option<Family>,
    /// Of the time between the last two pictures, and of the last minute.
    latest: Option<Observed>,
    minute: Option<Observed>,
    heat: Option<Heat>,
}

#[derive(Serialize)]
struct Cpus {
    cells: Vec<f64>,
    /// In how many seconds; null: in all.
    seconds: Option<f64>,
}

#[derive(Serialize)]
struct OwnersShare {
    pid: u32,
    name: String,
    alive: bool,
    /// It is no longer in the file.
    gone: bool,
    value: Exact,
}

#[derive(Serialize)]
struct Exemplar {
    labels: Vec<(String, String)>,
    value: Exact,
    time: f64,
}

#[derive(Serialize)]
struct Family {
    cap: u32,
    overflows: Exact,
    invalid: Exact,
}

#[derive(Serialize)]
struct Observed {
    seconds: f64,
    count: Exact,
    #[serde(flatten)]
    figures: Figures,
}

/// Observations by time and by value.
#[derive(Serialize)]
struct Heat {
    /// Where rows end, rising.
    ends: Vec<Exact>,
    /// Seconds before the latest picture, and how many were in each row, the latest first.
    columns: Vec<(f64, Vec<u64>)>,
}

pub async fn get(State(shared): State<Arc<Shared>>, Query(ask): Query<Ask>) -> Response {
    let json = tokio::task::spawn_blocking(move || {
        let mut state = shared.hub.state();
        state.want(ask.id);
        print(&state, ask.id)
    });
    match json.await {
        Ok(Some(json)) => {
            let headers = [
                (header::CONTENT_TYPE, "application/json"),
                (header::CACHE_CONTROL, "no-store"),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (headers, json).into_response()
        }
        Ok(None) => (StatusCode::NOT_FOUND, "there is no such series\n").into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn print(state: &hub::State, id: u64) -> Option<String> {
    let mut all = state
        .boards
        .iter()
        .flat_map(|b| b.tracks.iter().map(move |t| (b, t)));
    let (board, track) = all.find(|(_, t)| t.id == id)?;
    serde_json::to_string(&Detail::new(board, track)).ok()
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

/// With so few digits that a graph has them.
fn drawn(x: f64) -> Option<f64> {
    format!("{x:.4e}").parse().ok().and_then(finite)
}

fn tenths(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

impl<'a> Detail<'a> {
    fn new(board: &'a Board, track: &Track) -> Self {
        let (about, numbers) = (&track.about, track.numbers(0, &board.moments));
        let (ago, history) = history(board, track);
        let fine = track.fine(board.number).next();
        let fine = fine.filter(|f| f.number == board.number);
        let exemplars = fine.iter().flat_map(|f| &f.details.exemplars);
        let observed = |of: Option<(Distribution, f64)>| of.map(|(d, s)| Observed::new(&d, s));
        Self {
            id: track.id,
            segment: &board.name,
            name: short(&about.name, TEXT),
            labels: labels(about, TEXT),
            help: short(&about.help, TEXT),
            unit: short(&about.unit, TEXT),
            kind: about.kind,
            since: seconds(about.since),
            taken: seconds(board.taken),
            value: Cell::of(&track.value),
            set: match &track.value {
                Ok(Value::Latest(_, when)) => Some(seconds(*when)),
                _ => None,
            },
            rate: finite(numbers.rate),
            averages: numbers.averages.map(finite),
            ago,
            history,
            cpus: shares::of_cpus(&[track], board.number)
                .filter(|(cells, _)| !cells.is_empty())
                .map(|(cells, seconds)| Cpus { cells, seconds }),
            rule: fine
                .and_then(|f| f.details.rule)
                .map(|rule| format!("{rule:?}").to_lowercase()),
            owners: owners(shares::of_processes(track, board.number)),
            exemplars: exemplars.take(MOST).map(Exemplar::new).collect(),
            family: track.family.map(|f| Family {
                cap: f.cap,
                overflows: Exact(Number::Whole(f.overflows)),
                invalid: Exact(Number::Whole(f.invalid)),
            }),
            latest: observed(track.latest(board.number)),
            minute: observed(track.recent(board.number)),
            heat: heat(board, track),
        }
    }
}

fn history(board: &Board, track: &Track) -> (Vec<f64>, Vec<Option<f64>>) {
    let n = board.moments.len().min(KEPT);
    let steps: Vec<f64> = (0..n)
        .map(|i| seconds_at(&board.moments, i).unwrap_or(f64::NAN))
        .collect();
    let mut values = vec![f64::NAN; n];
    track.draw(0, &steps, &mut values);
    let latest = board.moments.back();
    let ago = |at: &Instant| latest.map_or(0.0, |l| tenths((*l - *at).as_secs_f64()));
    let ago = board.moments.iter().rev().map(ago).collect();
    (ago, values.into_iter().map(drawn).collect())
}

fn owners(all: Vec<(Share, bool)>) -> Vec<OwnersShare> {
    let share = |(s, now): (Share, bool)| OwnersShare {
        pid: s.owner.pid,
        name: short(&s.owner.name, TEXT),
        alive: s.owner.alive,
        gone: !now,
        value: Exact(Number::Float(s.value)),
    };
    all.into_iter().take(MOST).map(share).collect()
}

impl Exemplar {
    fn new(e: &percpu::Exemplar) -> Self {
        let labels = e.labels.iter();
        let clean = |(n, v): &(String, String)| (short(n, TEXT), short(v, TEXT));
        Self {
            labels: labels.map(clean).collect(),
            value: Exact(Number::Float(e.value)),
            time: seconds(e.time),
        }
    }
}

impl Observed {
    fn new(d: &Distribution, seconds: f64) -> Self {
        Self {
            seconds: tenths(seconds),
            count: Exact(Number::Whole(d.count())),
            figures: Figures::of(d),
        }
    }
}

/// What was observed between each two pictures, in common rows.
fn heat(board: &Board, track: &Track) -> Option<Heat> {
    let fine = track.fine(board.number);
    let pairs = fine.clone().zip(fine.skip(1)).take(COLUMNS);
    let now = *board.moments.back()?;
    let steps: Vec<_> = pairs
        .filter_map(|(after, before)| {
            let d = after.distribution.as_ref()?;
            let step = d.since(before.distribution.as_ref()?)?;
            Some((tenths((now - after.moment).as_secs_f64()), step))
        })
        .collect();
    let mut all = steps.first()?.1.clone();
    steps.iter().skip(1).for_each(|(_, step)| all.add(step));
    let ends: Vec<f64> = all.rows(ROWS).into_iter().map(|(end, _)| end).collect();
    let column = |(ago, step): &(f64, Distribution)| {
        let mut counts = vec![0; ends.len()];
        for b in step.buckets() {
            // Ends of rows are ends of buckets, but for rounding.
            let row = ends.partition_point(|end| *end < b.upper * (1.0 - 1e-9));
            if let Some(n) = counts.get_mut(row) {
                *n += b.count;
            }
        }
        (*ago, counts)
    };
    Some(Heat {
        columns: steps.iter().map(column).collect(),
        ends: ends.iter().map(|x| Exact(Number::Float(*x))).collect(),
    })
}
