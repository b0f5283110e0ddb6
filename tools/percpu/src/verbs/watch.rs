// SPDX-License-Identifier: MIT
//! `percpu watch`: what changes, again and again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::args::Watch;
use crate::failure::{Exit, Failure};
use crate::model::{find, About, Change, Live, Picture, Step, Value};

use super::changed::{Changed, Event};
use super::print;
use super::select::Select;
use super::watch_print::Printer;

/// What one look found.
pub struct Look {
    pub time: SystemTime,
    /// Since the look before.
    pub seconds: Option<f64>,
    /// What happened to the segment, in words.
    pub event: Option<String>,
    pub series: Vec<Changed>,
}

pub fn run(args: &Watch) -> Result<Exit, Failure> {
    let select = Select::new(&args.globs)?;
    let mut live = Live::open(find::one(&args.segment)?)?;
    let mut printer = Printer::new(args);
    let mut seen = Seen::default();
    let (begin, mut next) = (Instant::now(), Duration::ZERO);
    for looks in 1.. {
        let look = match live.read(&|_| false) {
            Ok((picture, change)) => seen.look(picture, change, &select),
            Err(failure) if looks == 1 => return Err(failure),
            Err(failure) => seen.nothing(failure),
        };
        print(&printer.text(&look)?)?;
        if args.count.is_some_and(|n| looks >= n) {
            break;
        }
        // By the clock, whatever looks take; those that come late move all that follow.
        next = (next + args.interval).max(begin.elapsed());
        std::thread::sleep(next.saturating_sub(begin.elapsed()));
    }
    Ok(Exit::Done)
}

/// What there was at the look before.
#[derive(Default)]
struct Seen {
    series: HashMap<u64, Known>,
    moment: Option<Instant>,
    /// The latest failure, which is said once.
    failure: String,
}

/// A series when it had a value last.
struct Known {
    about: Arc<About>,
    value: Value,
    moment: Instant,
}

impl Seen {
    fn look(&mut self, picture: Picture, change: Change, select: &Select) -> Look {
        let event = match change {
            Change::None => (!self.failure.is_empty()).then_some("the segment can be read again"),
            Change::Reset => Some("the segment was reset: its counts began anew"),
            Change::Replaced => Some("another file has the name now: it is read from here on"),
        };
        self.failure.clear();
        if change != Change::None {
            self.series.clear();
            self.moment = None;
        }
        let before = self.moment.replace(picture.moment);
        let (time, moment) = (picture.taken, picture.moment);
        let series = self.changes(picture, before.is_none(), select);
        let unmatched = before.is_none() && self.series.is_empty() && !select.is_all();
        let event = event.or(unmatched.then_some("no series matches a pattern yet"));
        Look {
            time,
            seconds: before.map(|t| (moment - t).as_secs_f64()),
            event: event.map(String::from),
            series,
        }
    }

    /// Remember the values of a picture, and return those that are not what they were.
    fn changes(&mut self, picture: Picture, first: bool, select: &Select) -> Vec<Changed> {
        let mut known = std::mem::take(&mut self.series);
        let mut changes = Vec::new();
        for s in picture.series {
            if !select.has(&s.about) {
                continue;
            }
            let old = known.remove(&s.about.id);
            let Ok(value) = s.value else {
                // It is there, and may have a value at the next look.
                self.series.extend(old.map(|old| (s.about.id, old)));
                continue;
            };
            let (about, moment) = (s.about, picture.moment);
            changes.extend(changed(&about, old.as_ref(), &value, moment, first));
            let known = Known {
                about,
                value,
                moment,
            };
            self.series.insert(known.about.id, known);
        }
        let mut gone: Vec<_> = known.into_values().map(|k| k.about).collect();
        gone.sort_by_key(|about| about.id);
        changes.extend(
            gone.iter()
                .map(|about| named(about).with_event(Event::Gone)),
        );
        changes
    }

    /// The segment cannot be read now.
    fn nothing(&mut self, failure: Failure) -> Look {
        let again = self.failure == failure.sentence;
        self.failure = failure.sentence;
        Look {
            time: SystemTime::now(),
            seconds: None,
            event: (!again).then(|| format!("{}: looking again and again", self.failure)),
            series: Vec::new(),
        }
    }
}

fn named(about: &About) -> Changed {
    Changed::new(&about.name, &about.labels, about.kind, &about.unit)
}

/// How a series is printed, if it is.
fn changed(
    about: &About,
    old: Option<&Known>,
    value: &Value,
    now: Instant,
    first: bool,
) -> Option<Changed> {
    let changed = || named(about).with_value(value);
    match old {
        None if first => Some(changed()),
        None => Some(changed().with_event(Event::New)),
        Some(old) => match Step::between(&old.value, value) {
            Step::Same => None,
            step => {
                let seconds = (now - old.moment).as_secs_f64();
                Some(changed().with_step(&old.value, step, seconds))
            }
        },
    }
}
