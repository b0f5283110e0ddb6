// SPDX-License-Identifier: MIT
//! OpenMetrics, version 1.0.0. Version 0.0.1 is the same here.

use super::lines::{label, Lines, Seconds};
use super::names::{Escaping, LabelNames, Names};
use super::text::added;
use super::{exemplar, Format, Metric, Row};
use crate::model::{float, Distribution, Kind, Value};

/// What a metric is called. `Unknown`: a counter whose name does not end as the format wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Counter,
    Gauge,
    Histogram,
    Info,
    Summary,
    Unknown,
}

/// The format.
pub struct OpenMetrics {
    lines: Lines,
    names: Names,
    /// Whether the times at which counts began are printed.
    created: bool,
    /// Of the metric.
    kind: Type,
    /// Of exemplars.
    labels: LabelNames,
}

impl OpenMetrics {
    pub fn new(escaping: Escaping, created: bool) -> Self {
        Self {
            lines: Lines::new(escaping, ","),
            names: Names::new(escaping),
            created,
            kind: Type::Unknown,
            labels: LabelNames::new(escaping, true),
        }
    }

    /// The metric's name without what the samples add to it, and its type.
    fn name(&mut self, metric: &Metric<'_>) -> (String, Type) {
        let name = self.names.of(metric);
        let ending = match metric.kind {
            Kind::Counter => Some(("_total", Type::Counter, &["", "_created"][..])),
            Kind::Info => Some(("_info", Type::Info, &[""][..])),
            _ => None,
        };
        if let Some((ending, kind, suffixes)) = ending {
            let base = name.strip_suffix(ending).filter(|base| !base.is_empty());
            let free = |base: &&str| metric.is_own || self.names.take_base(base, suffixes);
            if let Some(base) = base.filter(free) {
                return (base.to_string(), kind);
            }
        }
        let kind = match metric.kind {
            Kind::Counter => Type::Unknown,
            Kind::Histogram if metric.is_summary => Type::Summary,
            Kind::Histogram => Type::Histogram,
            _ => Type::Gauge,
        };
        (name, kind)
    }

    fn sample(
        &mut self,
        suffix: &str,
        row: &Row<'_>,
        more: Option<(&str, &str)>,
        value: impl std::fmt::Display,
    ) {
        self.lines.sample(suffix, row.labels, more, value);
        self.lines.end_line();
    }

    /// Append a sample, and the exemplar that belongs to it.
    fn sample_with(
        &mut self,
        suffix: &str,
        row: &Row<'_>,
        more: Option<(&str, &str)>,
        value: impl std::fmt::Display,
        exemplar: Option<&percpu::Exemplar>,
    ) {
        self.lines.sample(suffix, row.labels, more, value);
        if let Some(e) = exemplar {
            self.exemplar(e);
        }
        self.lines.end_line();
    }

    fn exemplar(&mut self, e: &percpu::Exemplar) {
        let labels = exemplar::labels(e);
        self.labels.begin(None);
        let out = &mut self.lines.out;
        out.extend_from_slice(b" # {");
        let names = self.labels.of(&labels).iter();
        for (i, ((_, name), (_, value))) in names.zip(&labels).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            label(out, name, value);
        }
        let text = format!("}} {} {}", number(e.value), Seconds(e.time));
        out.extend_from_slice(text.as_bytes());
    }

    fn distribution(&mut self, row: &Row<'_>, d: &Distribution) {
        let mut lower = f64::NEG_INFINITY;
        let all = (f64::INFINITY, d.count());
        let last = (self.kind == Type::Histogram).then_some(all);
        for (end, below) in d.cumulative().into_iter().chain(last) {
            let le = number(end);
            let e = exemplar::between(row.exemplars, lower, end);
            self.sample_with("_bucket", row, Some(("le", &le)), below, e);
            lower = end;
        }
        self.sample("_sum", row, None, number(d.sum()));
        self.sample("_count", row, None, d.count());
    }

    fn value(&mut self, row: &Row<'_>) {
        match (self.kind, row.value) {
            (_, Value::Distribution(d)) => self.distribution(row, d),
            (_, Value::Extrema { min, max }) => {
                self.sample("", row, Some(("extreme", "min")), number(*min));
                self.sample("", row, Some(("extreme", "max")), number(*max));
            }
            (Type::Counter, value) => {
                let e = exemplar::latest(row.exemplars);
                match value {
                    Value::Count(n) => self.sample_with("_total", row, None, n, e),
                    _ => self.sample_with("_total", row, None, number(value.number()), e),
                }
            }
            (Type::Info, _) => self.sample("_info", row, None, 1),
            (_, Value::Count(n)) => self.sample("", row, None, n),
            (_, Value::Level(n)) => self.sample("", row, None, n),
            (_, value) => self.sample("", row, None, number(value.number())),
        }
    }
}

impl Format for OpenMetrics {
    const EXEMPLARS: bool = true;

    fn announce(&mut self, metric: &Metric<'_>) {
        self.names.announce(metric);
    }

    fn metric(&mut self, metric: &Metric<'_>) {
        let (name, kind) = self.name(metric);
        self.kind = kind;
        let unit = metric.unit_in(&name).filter(|_| kind != Type::Info);
        self.lines.begin(name, added(metric.kind));
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
            Type::Info => "info",
            Type::Summary => "summary",
            Type::Unknown => "unknown",
        };
        self.lines.about("TYPE", kind, true);
        if let Some(unit) = unit {
            self.lines.about("UNIT", unit, true);
        }
        self.lines.about("HELP", metric.help, true);
    }

    fn row(&mut self, row: &Row<'_>) {
        self.value(row);
        let counts = matches!(self.kind, Type::Counter | Type::Histogram | Type::Summary);
        if self.created && counts && row.has_start() {
            self.sample("_created", row, None, Seconds(row.since));
        }
    }

    fn end(&mut self) {
        self.lines.out.extend_from_slice(b"# EOF\n");
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.lines.out
    }
}

/// A double as Go prints it, with a point or an exponent: what the format calls canonical.
fn number(x: f64) -> String {
    float::written(x, |exponent, _| {
        (-4..6).contains(&exponent).then(|| format!("{x:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_go() {
        for (x, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.0, "-1.0"),
            (0.5, "0.5"),
            (123456.0, "123456.0"),
            (1_048_576.0, "1.048576e+06"),
            (1e6, "1e+06"),
            (1e-4, "0.0001"),
            (0.00099, "0.00099"),
            (1e-5, "1e-05"),
            (2f64.powi(-20), "9.5367431640625e-07"),
            (-1.5e300, "-1.5e+300"),
            (f64::INFINITY, "+Inf"),
            (0.1 + 0.2, "0.30000000000000004"),
        ] {
            assert_eq!(number(x), text);
        }
    }
}
