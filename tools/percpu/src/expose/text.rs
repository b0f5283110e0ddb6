// SPDX-License-Identifier: MIT
//! Text for Prometheus, version 0.0.4: the same numbers in the same order as
//! `percpu_reader_print()`, but all names are of letters, digits and underscores.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::model::{float, About, Distribution, Kind, Layout, Series, Value};

/// Append these series, of which those of one name follow each other.
pub fn print<'a>(series: impl Iterator<Item = &'a Series>, to: &mut String) {
    let all: Vec<_> = series.collect();
    let mut printer = Printer {
        to,
        names: HashMap::from([(OVERFLOWS.to_string(), String::new())]),
    };
    let same = |a: &&Series, b: &&Series| a.about.name == b.about.name;
    for metric in all.chunk_by(same) {
        printer.metric(metric);
    }
    printer.families(&all);
}

/// A name without other characters than the format has: underscores stand for these.
fn escaped(name: &str, colons: bool) -> String {
    let fits = |i: usize, c: char| {
        c == '_' || c.is_ascii_alphabetic() || colons && c == ':' || i > 0 && c.is_ascii_digit()
    };
    let letters = name.chars().enumerate();
    letters
        .map(|(i, c)| if fits(i, c) { c } else { '_' })
        .collect()
}

struct Printer<'a> {
    to: &'a mut String,
    /// What is printed, and the name that it was made of.
    names: HashMap<String, String>,
}

/// The type in the text. A metric is a summary if all of its series are.
fn type_of(metric: &[&Series]) -> &'static str {
    let is_summary = |s: &&Series| match &s.value {
        Ok(Value::Distribution(d)) => *d.layout() == Layout::Summary,
        _ => true,
    };
    match metric.first().map(|s| s.about.kind) {
        Some(Kind::Counter) => "counter",
        Some(Kind::Histogram) if metric.iter().all(is_summary) => "summary",
        Some(Kind::Histogram) => "histogram",
        _ => "gauge",
    }
}

impl Printer<'_> {
    /// The name of a metric in the text. Two names of a segment that differ stay apart.
    fn name(&mut self, name: &str) -> String {
        let mut text = escaped(name, true);
        while self.names.get(&text).is_some_and(|other| other != name) {
            text.push('_');
        }
        self.names.insert(text.clone(), name.to_string());
        text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.to, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Print all series of a name that have a value.
    fn metric(&mut self, metric: &[&Series]) {
        let mut values = metric
            .iter()
            .filter_map(|s| Some((s, s.value.as_ref().ok()?)));
        let Some(first) = values.clone().next() else {
            return;
        };
        let about = &first.0.about;
        let (name, kind) = (self.name(&about.name), type_of(metric));
        if about.kind == Kind::Histogram {
            for suffix in ["_bucket", "_sum", "_count"] {
                self.names
                    .insert(format!("{name}{suffix}"), about.name.clone());
            }
        }
        self.head(&name, &about.help, kind);
        let mut printed = HashSet::new();
        values
            .try_for_each(|(s, value)| {
                let labels = labels(&s.about, &mut printed);
                self.value(&name, &labels, value, kind == "summary")
            })
            .unwrap_or_default();
    }

    fn value(
        &mut self,
        name: &str,
        labels: &[String],
        value: &Value,
        is_summary: bool,
    ) -> std::fmt::Result {
        match value {
            Value::Distribution(d) => self.distribution(name, labels, d, is_summary),
            Value::Extrema { min, max } => {
                self.sample(name, "", labels, "extreme=\"min\"", &number(*min))?;
                self.sample(name, "", labels, "extreme=\"max\"", &number(*max))
            }
            Value::Count(n) => self.sample(name, "", labels, "", &n.to_string()),
            other => self.sample(name, "", labels, "", &number(other.number())),
        }
    }

    fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[String],
        more: &str,
        number: &str,
    ) -> std::fmt::Result {
        write!(self.to, "{name}{suffix}")?;
        let mut before = '{';
        let more = (!more.is_empty()).then_some(more);
        for label in labels.iter().map(String::as_str).chain(more) {
            self.to.push(before);
            if before == ',' {
                self.to.push(' ');
            }
            self.to.push_str(label);
            before = ',';
        }
        let end = if before == ',' { "}" } else { "" };
        writeln!(self.to, "{end} {number}")
    }

    fn distribution(
        &mut self,
        name: &str,
        labels: &[String],
        d: &Distribution,
        is_summary: bool,
    ) -> std::fmt::Result {
        let mut buckets = d.buckets().iter().peekable();
        let mut below = 0u64;
        for end in d.layout().printed() {
            while let Some(b) = buckets.next_if(|b| b.upper <= end) {
                below = below.saturating_add(b.count);
            }
            let le = format!("le=\"{}\"", number(end));
            self.sample(name, "_bucket", labels, &le, &below.to_string())?;
        }
        if !is_summary {
            self.sample(
                name,
                "_bucket",
                labels,
                "le=\"+Inf\"",
                &d.count().to_string(),
            )?;
        }
        self.sample(name, "_sum", labels, "", &number(d.sum()))?;
        self.sample(name, "_count", labels, "", &d.count().to_string())
    }

    /// Print how often families had no room for a series, or refused a value.
    fn families(&mut self, all: &[&Series]) {
        let mut last = None;
        for s in all {
            let name = &s.about.name;
            let Some(f) = s.family.filter(|_| last != Some(name)) else {
                continue;
            };
            if last.is_none() {
                self.head(OVERFLOWS, "How often a call got the overflow.", "counter");
            }
            last = Some(name);
            for (reason, n) in [("room", f.overflows), ("invalid", f.invalid)] {
                let labels = [label("family", name), label("reason", reason)];
                let _ = self.sample(OVERFLOWS, "", &labels, "", &n.to_string());
            }
        }
    }
}

const OVERFLOWS: &str = "percpu_family_overflows_total";

fn label(name: &str, value: &str) -> String {
    let mut text = format!("{name}=\"");
    for c in value.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\\' | '"' => text.extend(['\\', c]),
            _ => text.push(c),
        }
    }
    text.push('"');
    text
}

/// The labels of a series. Their names differ within the series and from those that this format
/// adds; and no two series of a metric have the same.
fn labels(about: &About, printed: &mut HashSet<Vec<String>>) -> Vec<String> {
    let added = match about.kind {
        Kind::Histogram => "le",
        Kind::Extrema => "extreme",
        _ => "",
    };
    let mut names = HashSet::from([added.to_string()]);
    let mut texts = Vec::with_capacity(about.labels.len());
    for (name, value) in &about.labels {
        let mut name = escaped(name, false);
        while !names.insert(name.clone()) {
            name.push('_');
        }
        texts.push((name, value));
    }
    let of = |texts: &[(String, &String)]| -> Vec<String> {
        texts
            .iter()
            .map(|(name, value)| label(name, value))
            .collect()
    };
    // Only names that were escaped can make two series the same.
    while !printed.insert(of(&texts)) {
        match texts.last_mut() {
            Some((name, _)) => name.push('_'),
            None => break,
        }
    }
    of(&texts)
}

/// A double as the library in C prints it, in all languages the shortest that is read as the same:
/// `le` labels stay the same whoever prints them.
fn number(x: f64) -> String {
    if let Some(word) = float::word(x) {
        return word.to_string();
    }
    let text = format!("{x:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits.max(15) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    x.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        for (name, text) in [
            ("a_total", "a_total"),
            ("a:b", "a:b"),
            ("9a", "_a"),
            ("a9", "a9"),
            ("http.server", "http_server"),
            ("größe", "gr__e"),
            ("a\nb", "a_b"),
        ] {
            assert_eq!(escaped(name, true), text);
        }
        assert_eq!(escaped("a:b", false), "a_b");
    }

    #[test]
    fn numbers_are_those_of_c() {
        for (x, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.5, "0.5"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (2f64.powi(-20), "9.5367431640625e-07"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (-1.5e300, "-1.5e+300"),
            (f64::NEG_INFINITY, "-Inf"),
            (0.1 + 0.2, "0.30000000000000004"),
        ] {
            assert_eq!(number(x), text);
        }
    }
}
