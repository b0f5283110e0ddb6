// SPDX-License-Identifier: MIT
//! Text for Prometheus, version 0.0.4: the same numbers in the same order as
//! `percpu_reader_print()`, but all names are of letters, digits and underscores.

use std::collections::HashMap;
use std::io::Write;

use super::{Format, Metric, Row, OVERFLOWS, UP};
use crate::model::{float, Distribution, Kind, Value};

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

/// The format.
pub struct Text {
    out: Vec<u8>,
    /// What is printed, and the name that it was made of.
    names: HashMap<String, String>,
    /// The same of the metric's labels.
    labels: HashMap<String, String>,
    /// Of the metric.
    name: String,
    is_summary: bool,
}

impl Text {
    pub fn new() -> Self {
        let reserved = [OVERFLOWS.name, UP.name];
        Self {
            out: Vec::new(),
            names: reserved.map(|n| (n.to_string(), String::new())).into(),
            labels: HashMap::new(),
            name: String::new(),
            is_summary: false,
        }
    }

    /// Append the labels of a row, and what the format adds.
    fn braces(&mut self, labels: &[(&str, &str)], more: &str) {
        let mut before = "{";
        for (name, value) in labels {
            let name = unique(&mut self.labels, escaped(name, false), name);
            let _ = write!(self.out, "{before}{}", label(&name, value));
            before = ", ";
        }
        if !more.is_empty() {
            let _ = write!(self.out, "{before}{more}");
            before = ", ";
        }
        if before == ", " {
            self.out.push(b'}');
        }
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], more: &str, number: &str) {
        let _ = write!(self.out, "{}{suffix}", self.name);
        self.braces(labels, more);
        let _ = writeln!(self.out, " {number}");
    }

    fn distribution(&mut self, labels: &[(&str, &str)], d: &Distribution) {
        let mut buckets = d.buckets().iter().peekable();
        let mut below = 0u64;
        for end in d.layout().printed() {
            while let Some(b) = buckets.next_if(|b| b.upper <= end) {
                below = below.saturating_add(b.count);
            }
            let le = format!("le=\"{}\"", number(end));
            self.sample("_bucket", labels, &le, &below.to_string());
        }
        if !self.is_summary {
            self.sample("_bucket", labels, "le=\"+Inf\"", &d.count().to_string());
        }
        self.sample("_sum", labels, "", &number(d.sum()));
        self.sample("_count", labels, "", &d.count().to_string());
    }
}

/// The name in the text of a name that was given: two names that differ stay apart.
fn unique(names: &mut HashMap<String, String>, mut text: String, name: &str) -> String {
    while names.get(&text).is_some_and(|other| other != name) {
        text.push('_');
    }
    names.insert(text.clone(), name.to_string());
    text
}

impl Format for Text {
    const EXEMPLARS: bool = false;

    fn metric(&mut self, metric: &Metric<'_>) {
        self.name = escaped(metric.name, true);
        if !metric.is_own {
            self.name = unique(&mut self.names, self.name.clone(), metric.name);
        }
        if metric.kind == Kind::Histogram {
            for suffix in ["_bucket", "_sum", "_count"] {
                let name = format!("{}{suffix}", self.name);
                self.names.insert(name, metric.name.to_string());
            }
        }
        let added = match metric.kind {
            Kind::Histogram => Some("le"),
            Kind::Extrema => Some("extreme"),
            _ => None,
        };
        let added = added.map(|name| (name.to_string(), String::new()));
        self.labels = added.into_iter().collect();
        self.is_summary = metric.is_summary;
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Histogram if metric.is_summary => "summary",
            Kind::Histogram => "histogram",
            _ => "gauge",
        };
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        let name = &self.name;
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn row(&mut self, row: &Row<'_>) {
        match row.value {
            Value::Distribution(d) => self.distribution(row.labels, d),
            Value::Extrema { min, max } => {
                self.sample("", row.labels, "extreme=\"min\"", &number(*min));
                self.sample("", row.labels, "extreme=\"max\"", &number(*max));
            }
            Value::Count(n) => self.sample("", row.labels, "", &n.to_string()),
            other => self.sample("", row.labels, "", &number(other.number())),
        }
    }

    fn end(&mut self) {}

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

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
