// SPDX-License-Identifier: MIT
//! The series of several files in one order: those of one name follow each other.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::SystemTime;

use super::{Entry, Format, Metric, Row, Table};
use crate::model::{full_name, Family, Kind, Value};

/// Labels that all series of a file get: names and values.
pub type Labels = Vec<(String, String)>;

/// How a file is printed.
pub struct Walk<'a> {
    pub table: &'a Table<'a>,
    /// What its series have as their first labels.
    pub labels: &'a [(String, String)],
}

/// Whether a file could be read: also of one without series.
pub const UP: Metric<'_> = Metric {
    name: "percpu_segment_up",
    help: "Whether the file of the segment could be read.",
    unit: "",
    kind: Kind::Gauge,
    is_summary: false,
    is_own: true,
};

pub const OVERFLOWS: Metric<'_> = Metric {
    name: "percpu_family_overflows_total",
    help: "How often a call got the overflow.",
    unit: "",
    kind: Kind::Counter,
    is_summary: false,
    is_own: true,
};

/// The series of a name in a file: their numbers.
struct Part<'a> {
    file: &'a Walk<'a>,
    series: Range<usize>,
}

/// Which series are asked for: by the name, or by the text of name and labels that the function
/// makes.
pub type Asked<'a> = &'a dyn Fn(&str, &dyn Fn() -> String) -> bool;

/// Print the series that are asked for, sorted by names. Whenever the buffer of the format has
/// grown, it goes to `sink`.
pub fn walk<F: Format>(
    files: &[Walk<'_>],
    asked: Asked<'_>,
    format: &mut F,
    sink: &mut dyn FnMut(&mut Vec<u8>),
) {
    let names = names(files, asked);
    let all = || {
        names
            .iter()
            .flat_map(|n| n.kinds.iter().map(|k| Rows::new(n, k, asked)))
    };
    // A format that names metrics knows all of them before it prints the first one.
    all().for_each(|rows| format.announce(&rows.about()));
    all().for_each(|rows| print_metric(&rows, format, sink));
    let mut families = Vec::new();
    for name in &names {
        collect_families(&name.parts, asked, &mut families);
    }
    print_families(&families, format);
    format.end();
    sink(format.buffer());
}

/// All series of a name.
struct Name<'a> {
    name: String,
    parts: Vec<Part<'a>>,
    /// Those of each kind are a metric.
    kinds: Vec<First<'a>>,
}

/// The first series of a kind that is asked for and has a value.
struct First<'a> {
    kind: Kind,
    entry: Entry<'a>,
    has_buckets: bool,
}

/// All names, sorted.
fn names<'a>(files: &'a [Walk<'a>], asked: Asked<'_>) -> Vec<Name<'a>> {
    let mut next = Next::new(files);
    let mut names = Vec::new();
    while let Some((name, begins)) = next.pop() {
        let mut kinds: Vec<First<'a>> = Vec::new();
        let mut parts = Vec::with_capacity(begins.len());
        for (number, begin) in begins {
            let file = &files[number];
            let mut end = begin;
            while let Some(entry) = file.table.get(end).filter(|e| e.name() == name) {
                let kind = entry.kind();
                if !kinds.iter().any(|first| first.kind == kind) {
                    kinds.extend(shown(&name, kind, entry, asked));
                }
                end += 1;
            }
            next.push(number, end);
            let series = begin..end;
            parts.push(Part { file, series });
        }
        // The first one has the name. It is the same whichever file comes first.
        kinds.sort_by_key(|first| first.kind as u8);
        names.push(Name { name, parts, kinds });
    }
    names
}

/// The series, if it is asked for, and has a value.
fn shown<'a>(name: &str, kind: Kind, entry: Entry<'a>, asked: Asked<'_>) -> Option<First<'a>> {
    let is_asked = asked(name, &|| full(&entry));
    let has_buckets = is_asked.then(|| entry.has_buckets()).flatten()?;
    Some(First {
        kind,
        entry,
        has_buckets,
    })
}

/// The names that are left. Each has the files whose next series is so called, and the number of
/// that series.
struct Next<'a> {
    files: &'a [Walk<'a>],
    names: BTreeMap<String, Vec<(usize, usize)>>,
}

impl<'a> Next<'a> {
    fn new(files: &'a [Walk<'a>]) -> Self {
        let names = BTreeMap::new();
        let mut next = Self { files, names };
        (0..files.len()).for_each(|number| next.push(number, 0));
        next
    }

    /// In a file, that series is the next one.
    fn push(&mut self, number: usize, series: usize) {
        let entry = self.files[number].table.get(series);
        if let Some(name) = entry.map(|e| e.name().to_string()) {
            self.names.entry(name).or_default().push((number, series));
        }
    }

    /// The first name, and its files in their order.
    fn pop(&mut self) -> Option<(String, Vec<(usize, usize)>)> {
        let (name, mut begins) = self.names.pop_first()?;
        begins.sort_unstable();
        Some((name, begins))
    }
}

impl<'a> Part<'a> {
    fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let table = self.file.table;
        self.series.clone().filter_map(move |i| table.get(i))
    }
}

/// Series of a name and a kind.
struct Rows<'a> {
    name: &'a Name<'a>,
    first: &'a First<'a>,
    asked: Asked<'a>,
}

impl<'a> Rows<'a> {
    fn new(name: &'a Name<'a>, first: &'a First<'a>, asked: Asked<'a>) -> Self {
        Self { name, first, asked }
    }

    /// All, and of which file each is.
    fn all(&self) -> impl Iterator<Item = (&'a Walk<'a>, Entry<'a>)> + '_ {
        let is_asked = |e: &Entry| (self.asked)(&self.name.name, &|| full(e));
        self.name.parts.iter().flat_map(move |part| {
            part.entries()
                .filter(move |e| e.kind() == self.first.kind && is_asked(e))
                .map(move |e| (part.file, e))
        })
    }

    /// The metric that they are of.
    fn about(&self) -> Metric<'_> {
        let is_histogram = self.first.kind == Kind::Histogram;
        let any_has = || self.all().any(|(_, e)| e.has_buckets() == Some(true));
        Metric {
            name: &self.name.name,
            help: self.first.entry.help(),
            unit: self.first.entry.unit(),
            kind: self.first.kind,
            is_summary: is_histogram && !self.first.has_buckets && !any_has(),
            is_own: false,
        }
    }
}

fn full(entry: &Entry) -> String {
    let mut labels = Vec::new();
    entry.labels(&mut labels);
    let labels = labels.iter();
    let labels: Vec<_> = labels
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    full_name(entry.name(), &labels)
}

fn print_metric<F: Format>(rows: &Rows<'_>, format: &mut F, sink: &mut dyn FnMut(&mut Vec<u8>)) {
    format.metric(&rows.about());
    for (file, entry) in rows.all() {
        print_entry(file, &entry, format);
        if format.buffer().len() > 1 << 16 {
            sink(format.buffer());
        }
    }
}

fn own_labels<'a>(file: &'a Walk<'_>) -> Vec<(&'a str, &'a str)> {
    let mut labels = Vec::with_capacity(file.labels.len() + 4);
    let own = file.labels.iter();
    labels.extend(own.map(|(name, value)| (name.as_str(), value.as_str())));
    labels
}

fn print_entry<F: Format>(file: &Walk<'_>, entry: &Entry<'_>, format: &mut F) {
    let mut labels = own_labels(file);
    entry.labels(&mut labels);
    let since = entry.since();
    let exemplars = if F::EXEMPLARS {
        entry.exemplars()
    } else {
        Vec::new()
    };
    entry.values(&mut |field, value| {
        let with_field: Vec<_>;
        let labels: &[(&str, &str)] = match field {
            Some(field) => {
                with_field = labels.iter().copied().chain([field]).collect();
                &with_field
            }
            None => &labels,
        };
        format.row(&Row {
            labels,
            value,
            since,
            exemplars: &exemplars,
        });
    });
}

/// What is known of a family in a file.
struct Overflows<'a> {
    file: &'a Walk<'a>,
    name: String,
    family: Family,
    since: SystemTime,
}

/// Add the families of a name: each file may have one.
fn collect_families<'a>(parts: &[Part<'a>], asked: Asked<'_>, to: &mut Vec<Overflows<'a>>) {
    for part in parts {
        let family = part
            .entries()
            .find(|e| asked(e.name(), &|| full(e)))
            .and_then(|e| Some((e.name().to_string(), e.family()?, e.since())));
        to.extend(family.map(|(name, family, since)| Overflows {
            file: part.file,
            name,
            family,
            since,
        }));
    }
}

/// Print how often families had no room for a series, or refused a value.
fn print_families<F: Format>(families: &[Overflows<'_>], format: &mut F) {
    if families.is_empty() {
        return;
    }
    format.metric(&OVERFLOWS);
    for f in families {
        for (reason, n) in [("room", f.family.overflows), ("invalid", f.family.invalid)] {
            let mut labels = own_labels(f.file);
            labels.extend([("family", f.name.as_str()), ("reason", reason)]);
            format.row(&Row {
                labels: &labels,
                value: &Value::Count(n),
                since: f.since,
                exemplars: &[],
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::expose::names::Escaping;
    use crate::expose::text::Text;
    use crate::model::{About, Series};

    fn series(name: &str) -> Series {
        Series {
            about: Arc::new(About {
                id: 0,
                name: name.to_string(),
                help: String::new(),
                unit: String::new(),
                kind: Kind::Gauge,
                labels: Vec::new(),
                since: SystemTime::UNIX_EPOCH,
            }),
            value: Ok(Value::Level(1)),
            family: None,
            details: None,
        }
    }

    /// The second file comes to the last name first.
    #[test]
    fn files_keep_their_order() {
        let files = [["b", "c"], ["a", "c"]].map(|names| names.map(series));
        let tables = files.each_ref().map(|f| Table::Series(f.iter().collect()));
        let labels = ["0", "1"].map(|n| [("file".to_string(), n.to_string())]);
        let walks = [0, 1].map(|i| Walk {
            table: &tables[i],
            labels: &labels[i],
        });
        let mut text = Vec::new();
        let mut format = Text::new(Escaping::Underscores);
        walk(&walks, &|_, _| true, &mut format, &mut |more| {
            text.append(more);
        });
        let text = String::from_utf8(text).unwrap();
        let rows: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
        let expected = [("a", 1), ("b", 0), ("c", 0), ("c", 1)];
        assert_eq!(
            rows,
            expected.map(|(name, n)| format!("{name}{{file=\"{n}\"}} 1"))
        );
    }
}
