// SPDX-License-Identifier: MIT
//! Text for Prometheus. Version 0.0.4 has the same numbers in the same order as
//! `percpu_reader_print()`, but all names are of letters, digits and underscores. Version 1.0.0 is
//! the same, but may have names in quotes.

use super::lines::Lines;
use super::names::{Escaping, Names};
use super::{Format, Metric, Row};
use crate::model::{float, Distribution, Kind, Value};

/// The format.
pub struct Text {
    lines: Lines,
    names: Names,
    /// Of the metric.
    is_summary: bool,
}

/// The label that formats add to those of a metric.
pub fn added(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Histogram => Some("le"),
        Kind::Extrema => Some("extreme"),
        _ => None,
    }
}

impl Text {
    pub fn new(escaping: Escaping) -> Self {
        Self {
            lines: Lines::new(escaping, ", "),
            names: Names::new(escaping),
            is_summary: false,
        }
    }

    fn sample(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        more: Option<(&str, &str)>,
        value: impl std::fmt::Display,
    ) {
        self.lines.sample(suffix, labels, more, value);
        self.lines.end_line();
    }

    fn distribution(&mut self, labels: &[(&str, &str)], d: &Distribution) {
        for (end, below) in d.cumulative() {
            let le = number(end);
            self.sample("_bucket", labels, Some(("le", &le)), below);
        }
        if !self.is_summary {
            self.sample("_bucket", labels, Some(("le", "+Inf")), d.count());
        }
        self.sample("_sum", labels, None, number(d.sum()));
        self.sample("_count", labels, None, d.count());
    }
}

impl Format for Text {
    const EXEMPLARS: bool = false;

    fn announce(&mut self, metric: &Metric<'_>) {
        self.names.announce(metric);
    }

    fn metric(&mut self, metric: &Metric<'_>) {
        let name = self.names.of(metric);
        self.lines.begin(name, added(metric.kind));
        self.is_summary = metric.is_summary;
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Histogram if metric.is_summary => "summary",
            Kind::Histogram => "histogram",
            _ => "gauge",
        };
        self.lines.about("HELP", metric.help, false);
        self.lines.about("TYPE", kind, false);
    }

    fn row(&mut self, row: &Row<'_>) {
        match row.value {
            Value::Distribution(d) => self.distribution(row.labels, d),
            Value::Extrema { min, max } => {
                self.sample("", row.labels, Some(("extreme", "min")), number(*min));
                self.sample("", row.labels, Some(("extreme", "max")), number(*max));
            }
            Value::Count(n) => self.sample("", row.labels, None, n),
            other => self.sample("", row.labels, None, number(other.number())),
        }
    }

    fn end(&mut self) {}

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.lines.out
    }
}

/// A double as the library in C prints it, so that `le` labels of both are the same.
fn number(x: f64) -> String {
    float::written(x, |exponent, digits| {
        (-4..digits.max(15))
            .contains(&exponent)
            .then(|| x.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
