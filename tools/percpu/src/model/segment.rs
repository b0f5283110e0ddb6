// SPDX-License-Identifier: MIT
//! Pictures of segments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{
    About, Details, Distribution, Family, Kind, Owner, Picture, Series, Share, Source, Value,
};
use crate::failure::Failure;

/// A segment of libpercpu.
pub struct Segment {
    reader: percpu::Reader,
    /// Of the latest picture, in its order.
    known: Vec<Known>,
}

/// A series, and how long after the generation its counts began. Times of two pictures cannot be
/// compared: the clock may be set in between.
type Known = (Arc<About>, Duration);

impl Segment {
    pub fn open(name: &str) -> Result<Self, Failure> {
        Ok(Self {
            reader: percpu::Reader::open(name)?,
            known: Vec::new(),
        })
    }
}

/// A number that no other series of this process has.
pub fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Source for Segment {
    fn read(&mut self, wanted: &dyn Fn(&About) -> bool) -> Result<Picture, Failure> {
        let picture = self.reader.read()?;
        let moment = Instant::now();
        let mut names = Names::new(std::mem::take(&mut self.known), picture.since());
        let mut series = Vec::with_capacity(names.old.len());
        for s in picture.series() {
            add(&mut series, &s, &mut names, wanted);
        }
        self.known = names.new;
        Ok(Picture {
            program: picture.program(),
            generation: picture.generation(),
            since: picture.since(),
            taken: picture.taken(),
            moment,
            cpus: picture.cpus(),
            pending: picture.pending(),
            owners: picture.owners().into_iter().map(owner).collect(),
            series,
        })
    }
}

fn owner(o: percpu::Owner) -> Owner {
    Owner {
        pid: o.pid,
        alive: o.alive,
        name: o.name,
    }
}

/// Finds descriptions of the previous picture: most series follow each other as they did there.
struct Names {
    old: Vec<Known>,
    next: usize,
    new: Vec<Known>,
    /// When the generation began.
    began: SystemTime,
}

impl Names {
    fn new(old: Vec<Known>, began: SystemTime) -> Self {
        let new = Vec::with_capacity(old.len());
        Self {
            old,
            next: 0,
            new,
            began,
        }
    }

    /// The description of a series, with one more label if it has one.
    fn about(&mut self, s: &percpu::PictureSeries, kind: Kind, field: Label<'_>) -> Arc<About> {
        // After a series that is new, or one that is gone, look a little ahead.
        const AHEAD: usize = 64;
        let age = s.since().duration_since(self.began).unwrap_or_default();
        let known = self.old.iter().skip(self.next).take(AHEAD).enumerate();
        let mut known = known.filter(|(_, (_, a))| is_near(*a, age));
        let about = match known.find(|(_, (about, _))| is(about, s, kind, field)) {
            Some((i, (about, _))) => {
                self.next += i + 1;
                about.clone()
            }
            None => Arc::new(describe(s, kind, field)),
        };
        self.new.push((about.clone(), age));
        about
    }
}

/// The label by which the values of a series are told from each other, and its value.
type Label<'a> = Option<(&'a str, &'a str)>;

/// The label by which the values of owners are told from each other.
pub const OWNER: &str = "pid";

/// Whether that is the description of a series.
fn is(about: &About, s: &percpu::PictureSeries, kind: Kind, field: Label<'_>) -> bool {
    let mut labels = about
        .labels
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    about.name == s.name()
        && about.kind == kind
        && s.labels().all(|l| labels.next() == Some(l))
        && labels.next() == field
        && labels.next().is_none()
        && about.help == s.help()
        && about.unit == s.unit()
}

/// Whether two ages mean the same start. They are equal, unless the generation is of an earlier boot:
/// then the library finds out by two clocks, one after the other, and the kernel adjusts one of them.
fn is_near(a: Duration, b: Duration) -> bool {
    a.abs_diff(b) < Duration::from_millis(10)
}

fn describe(s: &percpu::PictureSeries, kind: Kind, field: Label<'_>) -> About {
    let labels = s.labels().chain(field);
    About {
        id: next_id(),
        name: s.name().to_string(),
        help: s.help().to_string(),
        unit: s.unit().to_string(),
        kind,
        labels: labels
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
        since: s.since(),
    }
}

/// Add a series, or one for each field of statistics, or for each owner.
fn add(
    all: &mut Vec<Series>,
    s: &percpu::PictureSeries,
    names: &mut Names,
    wanted: &dyn Fn(&About) -> bool,
) {
    use percpu::Value as V;
    let family = family(s);
    let mut push = |kind, field: Label<'_>, value| {
        let about = names.about(s, kind, field);
        let details = wanted(&about).then(|| Box::new(details(s)));
        all.push(Series {
            about,
            value,
            family,
            details,
        });
    };
    let kind = kind(s);
    if s.is_for_each_owner() {
        match s.owned_shown() {
            Ok(owners) => owners.iter().for_each(|o| {
                let value = single(&o.value).ok_or_else(|| LATER.into());
                push(kind, Some((OWNER, &o.name)), value);
            }),
            Err(e) => push(kind, None, Err(e.to_string())),
        }
        return;
    }
    match s.value() {
        Ok(V::Stats(counts)) => {
            for (field, n) in s.fields().zip(counts) {
                push(kind, Some((s.field_label(), field)), Ok(Value::Count(n)));
            }
        }
        Ok(value) => push(kind, None, single(&value).ok_or_else(|| LATER.into())),
        Err(e) if s.fields().len() > 0 => {
            for field in s.fields() {
                push(kind, Some((s.field_label(), field)), Err(e.to_string()));
            }
        }
        Err(e) => push(kind, None, Err(e.to_string())),
    }
}

const LATER: &str = "this kind is of a later version";

/// A value that is one, as all but statistics are. `None` if its kind is of a later version.
pub fn single(value: &percpu::Value) -> Option<Value> {
    use percpu::Value as V;
    Some(match value {
        V::Counter(n) => Value::Count(*n),
        V::FCounter(x) => Value::Amount(*x),
        V::Gauge(n) | V::OwnedGauge(n) => Value::Level(*n),
        V::FGauge(x) | V::OwnedFGauge(x) => Value::Measure(*x),
        V::Latest(x, when) => Value::Latest(*x, *when),
        V::Histogram(h) => Value::Distribution(Distribution::new(h)),
        V::Extrema(min, max) => Value::Extrema {
            min: *min,
            max: *max,
        },
        V::Info => Value::Info,
        _ => return None,
    })
}

/// How often its family had no room, if it has one.
pub fn family(s: &percpu::PictureSeries) -> Option<Family> {
    let cap = s.family_cap()?;
    let (overflows, invalid) = s.overflows();
    Some(Family {
        cap,
        overflows,
        invalid,
    })
}

/// What the values of a series mean, also if it has none now.
pub fn kind(s: &percpu::PictureSeries) -> Kind {
    use percpu::Kind as K;
    match s.kind() {
        Some(K::Counter | K::FCounter | K::Stats) => Kind::Counter,
        Some(K::Gauge | K::FGauge | K::Latest | K::OwnedGauge | K::OwnedFGauge) => Kind::Gauge,
        Some(K::Histogram) => Kind::Histogram,
        Some(K::Extrema) => Kind::Extrema,
        Some(_) | None => Kind::Info,
    }
}

/// What costs more. What a kind does not have stays empty. A gauge that is shown for each owner is
/// not folded.
fn details(s: &percpu::PictureSeries) -> Details {
    if s.is_for_each_owner() {
        return Details::default();
    }
    let shares = s.owned_each().unwrap_or_default();
    Details {
        cpus: s.cpus().unwrap_or_default(),
        shares: shares
            .into_iter()
            .map(|v| Share {
                owner: Owner {
                    pid: v.pid,
                    alive: v.alive,
                    name: v.name,
                },
                value: v.value,
            })
            .collect(),
        rule: s.rule(),
        keeps: s.keeps_owners(),
        exemplars: s.exemplars(),
    }
}
