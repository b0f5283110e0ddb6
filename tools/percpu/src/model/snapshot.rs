// SPDX-License-Identifier: MIT
//! Pictures as JSON: what `percpu show --json` prints, and `percpu diff` reads.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{Details, Distribution, Kind, Number, Owner, Picture, Series, Value};
use crate::failure::{Exit, Failure};

/// The version of all JSON that this command prints. A field that is added does not change it.
pub const FORMAT: u32 = 1;

/// The largest file that is read.
const LARGEST: u64 = 1 << 28;

/// A picture. Times are in seconds since 1970.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    pub format: u32,
    pub segment: String,
    pub program: String,
    pub generation: u64,
    pub since: f64,
    pub taken: f64,
    pub cpus: usize,
    pub pending: u32,
    pub owners: Vec<Owner>,
    pub families: Vec<Family>,
    pub series: Vec<Entry>,
}

/// What the calls of a family did not find.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    pub name: String,
    pub cap: u32,
    pub overflows: u64,
    pub invalid: u64,
}

/// A series. What its kind does not have is left out.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    pub name: String,
    #[serde(with = "labels")]
    pub labels: Vec<(String, String)>,
    pub kind: Kind,
    pub unit: String,
    pub help: String,
    pub since: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Number>,
    /// When a latest value was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<Number>,
    /// How the values of owners become one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<Share>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exemplars: Vec<Exemplar>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Histogram {
    #[serde(flatten)]
    pub distribution: Distribution,
    #[serde(flatten, skip_deserializing)]
    pub figures: Figures,
}

/// What people ask of a distribution.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    pub mean: Option<Number>,
    pub p50: Option<Number>,
    pub p90: Option<Number>,
    pub p99: Option<Number>,
    pub max: Option<Number>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Share {
    #[serde(flatten)]
    pub owner: Owner,
    pub value: Number,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Exemplar {
    #[serde(with = "labels")]
    pub labels: Vec<(String, String)>,
    pub value: Number,
    pub time: f64,
}

pub fn seconds(t: SystemTime) -> f64 {
    t.duration_since(UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64())
}

impl Figures {
    pub fn of(d: &Distribution) -> Self {
        let quantile = |q| d.quantile(q).map(Number::Float);
        Self {
            mean: d.mean().map(Number::Float),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: quantile(1.0),
        }
    }
}

impl Histogram {
    pub fn of(d: &Distribution) -> Self {
        Self {
            figures: Figures::of(d),
            distribution: d.clone(),
        }
    }
}

impl Snapshot {
    /// A picture of the segment of that name, with these of its series.
    pub fn new<'a>(
        name: &str,
        picture: &Picture,
        series: impl Iterator<Item = &'a Series>,
        per_cpu: bool,
    ) -> Self {
        let mut families: Vec<Family> = Vec::new();
        let mut entries = Vec::new();
        for s in series {
            entries.push(Entry::new(s, per_cpu));
            if let (Some(f), true) = (
                s.family,
                families.last().is_none_or(|f| f.name != s.about.name),
            ) {
                families.push(Family {
                    name: s.about.name.clone(),
                    cap: f.cap,
                    overflows: f.overflows,
                    invalid: f.invalid,
                });
            }
        }
        Self {
            format: FORMAT,
            segment: name.to_string(),
            program: picture.program.clone(),
            generation: picture.generation,
            since: seconds(picture.since),
            taken: seconds(picture.taken),
            cpus: picture.cpus,
            pending: picture.pending,
            owners: picture.owners.clone(),
            families,
            series: entries,
        }
    }

    /// Read what `percpu show --json` has printed into a file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let bad = |why: String| Failure::new(Exit::BadFile, format!("{name} {why}"));
        let size = std::fs::metadata(path).map(|m| m.len());
        if size.is_ok_and(|n| n > LARGEST) {
            return Err(bad("is too large to be a snapshot".into()));
        }
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => bad("is no text, and so no snapshot".into()),
            _ => Failure::new(Exit::Denied, format!("{name} cannot be read: {e}")),
        })?;
        Self::parse(&text).map_err(bad)
    }

    fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let foreign = "is JSON, but none that \"percpu show --json\" has printed".to_string();
        // A number that was cut is no number.
        let (lines, last) = (
            text.lines().count(),
            text.lines().last().unwrap_or_default(),
        );
        let at_end = |e: &serde_json::Error| e.line() == lines && e.column() >= last.len();
        let why = |e: serde_json::Error| match e.classify() {
            serde_json::error::Category::Data => foreign.clone(),
            _ if e.is_eof() || at_end(&e) => format!("was cut short at line {}", e.line()),
            _ => format!("is no JSON: line {} is wrong", e.line()),
        };
        let head: Head = serde_json::from_str(text).map_err(why)?;
        if head.format != FORMAT {
            let format = head.format;
            return Err(format!(
                "is of format {format}, and this command reads format {FORMAT}"
            ));
        }
        let snapshot: Self = serde_json::from_str(text).map_err(why)?;
        let sound = snapshot.series.iter().all(|e| e.value().is_some());
        sound.then_some(snapshot).ok_or(foreign)
    }
}

impl Entry {
    fn new(s: &Series, per_cpu: bool) -> Self {
        let about = &s.about;
        let mut entry = Self {
            name: about.name.clone(),
            labels: about.labels.clone(),
            kind: about.kind,
            unit: about.unit.clone(),
            help: about.help.clone(),
            since: seconds(about.since),
            ..Self::default()
        };
        match &s.value {
            Err(why) => entry.missing = Some(why.clone()),
            Ok(Value::Distribution(d)) => entry.histogram = Some(Histogram::of(d)),
            Ok(Value::Extrema { min, max }) => {
                (entry.min, entry.max) = (Some(Number::Float(*min)), Some(Number::Float(*max)));
            }
            Ok(value) => {
                entry.value = value.exact();
                if let Value::Latest(_, when) = value {
                    entry.set = Some(seconds(*when));
                }
            }
        }
        if let Some(details) = &s.details {
            entry.add(details, per_cpu);
        }
        entry
    }

    fn add(&mut self, details: &Details, per_cpu: bool) {
        if per_cpu {
            self.cpus = details.cpus.iter().map(|x| Number::Float(*x)).collect();
        }
        self.rule = details.rule.map(|rule| format!("{rule:?}").to_lowercase());
        let share = |s: &super::Share| Share {
            owner: s.owner.clone(),
            value: Number::Float(s.value),
        };
        self.owners = details.shares.iter().map(share).collect();
        let exemplar = |e: &percpu::Exemplar| Exemplar {
            labels: e.labels.clone(),
            value: Number::Float(e.value),
            time: seconds(e.time),
        };
        self.exemplars = details.exemplars.iter().map(exemplar).collect();
    }

    /// Its value; or why it has none. `None`: the JSON is not one that this command has printed.
    pub fn value(&self) -> Option<Result<Value, &str>> {
        if let Some(why) = &self.missing {
            return Some(Err(why));
        }
        let value = match (self.kind, self.value) {
            (Kind::Counter, Some(Number::Whole(n))) => Value::Count(n),
            (Kind::Counter, Some(Number::Float(x))) => Value::Amount(x),
            (Kind::Gauge, Some(n)) if self.set.is_some() => {
                let when = Duration::try_from_secs_f64(self.set?).ok()?;
                Value::Latest(n.as_f64(), UNIX_EPOCH.checked_add(when)?)
            }
            (Kind::Gauge, Some(Number::Whole(n))) => Value::Level(i64::try_from(n).ok()?),
            (Kind::Gauge, Some(Number::Signed(n))) => Value::Level(n),
            (Kind::Gauge, Some(Number::Float(x))) => Value::Measure(x),
            (Kind::Extrema, None) => Value::Extrema {
                min: self.min?.as_f64(),
                max: self.max?.as_f64(),
            },
            (Kind::Histogram, None) => {
                let d = &self.histogram.as_ref()?.distribution;
                d.is_sound().then(|| Value::Distribution(d.clone()))?
            }
            (Kind::Info, None) => Value::Info,
            _ => return None,
        };
        Some(Ok(value))
    }
}

/// Labels are an object, in the order that they have in the segment.
pub mod labels {
    use std::fmt;

    use serde::de::{Deserializer, MapAccess, Visitor};
    use serde::Serializer;

    pub type Labels = Vec<(String, String)>;

    pub fn serialize<S: Serializer>(labels: &Labels, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(labels.iter().map(|(name, value)| (name, value)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Labels, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    labels.push(pair);
                }
                Ok(labels)
            }
        }
        from.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a series that has these fields, or `None`.
    fn value(fields: &str) -> Option<String> {
        let json = format!(
            r#"{{"format": 1, "segment": "s", "program": "p", "generation": 1, "since": 1.5,
                "taken": 2.5, "cpus": 1, "pending": 0, "owners": [], "families": [],
                "series": [{{"name": "n", {fields}}}]}}"#
        );
        let snapshot = Snapshot::parse(&json).ok()?;
        Some(format!("{:?}", snapshot.series[0].value()?))
    }

    #[test]
    fn values_are_those_of_the_text() {
        for (fields, debug) in [
            (
                r#""kind": "counter", "value": 18446744073709551615"#,
                "Count(18446744073709551615)",
            ),
            (r#""kind": "counter", "value": 5.0"#, "Amount(5.0)"),
            (r#""kind": "gauge", "value": 7"#, "Level(7)"),
            (
                r#""kind": "gauge", "value": -9223372036854775808"#,
                "Level(-9223372036854775808)",
            ),
            (r#""kind": "gauge", "value": 0.1"#, "Measure(0.1)"),
            (r#""kind": "gauge", "value": "-Inf""#, "Measure(-inf)"),
            (
                r#""kind": "extrema", "min": -1.5, "max": "+Inf""#,
                "Extrema { min: -1.5, max: inf }",
            ),
            (r#""kind": "info""#, "Info"),
        ] {
            assert_eq!(value(fields), Some(format!("Ok({debug})")), "{fields}");
        }
        assert_eq!(
            value(r#""kind": "gauge", "missing": "why""#),
            Some("Err(\"why\")".into())
        );
        let latest = value(r#""kind": "gauge", "value": 2, "set": 3.5"#).unwrap();
        assert!(
            latest.starts_with("Ok(Latest(2.0, SystemTime { tv_sec: 3, tv_nsec: 500"),
            "{latest}"
        );
    }

    #[test]
    fn other_values_are_refused() {
        for fields in [
            r#""kind": "counter", "value": -1"#,
            r#""kind": "counter""#,
            r#""kind": "gauge", "value": 9223372036854775808"#,
            r#""kind": "gauge", "value": 1, "set": -1.0"#,
            r#""kind": "gauge", "value": 1, "set": 1e300"#,
            r#""kind": "extrema", "min": 1"#,
            r#""kind": "histogram", "value": 1"#,
            r#""kind": "histogram""#,
            r#""kind": "other", "value": 1"#,
            r#""kind": "info", "value": 1"#,
        ] {
            assert_eq!(value(fields), None, "{fields}");
        }
    }
}
