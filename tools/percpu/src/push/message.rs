// SPDX-License-Identifier: MIT
//! The metrics of a file as messages of OpenTelemetry.

use std::time::SystemTime;

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1 as otlp;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::resource::v1::Resource;
use otlp::number_data_point::Value as Number;

use super::points::{self, attribute, Base, Range};
use super::unit;
use crate::expose::{Format, Metric, Row};
use crate::model::{Distribution, Kind, Value};

const CUMULATIVE: i32 = otlp::AggregationTemporality::Cumulative as i32;

/// The format: it makes a tree of messages, and no bytes.
pub struct Message {
    resource: Vec<KeyValue>,
    /// When the picture was taken.
    time: u64,
    metrics: Vec<otlp::Metric>,
    /// Where those of the present name and kind begin: one for each form of points.
    first: usize,
    /// What is the same in these.
    now: otlp::Metric,
    kind: Kind,
    none: Vec<u8>,
}

impl Message {
    pub fn new(resource: Vec<KeyValue>, taken: SystemTime) -> Self {
        Self {
            resource,
            time: points::nanoseconds(taken),
            metrics: Vec::new(),
            first: 0,
            now: otlp::Metric::default(),
            kind: Kind::default(),
            none: Vec::new(),
        }
    }

    pub fn into_resource_metrics(self) -> otlp::ResourceMetrics {
        let scope = InstrumentationScope {
            name: "percpu".to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            ..InstrumentationScope::default()
        };
        otlp::ResourceMetrics {
            resource: Some(Resource {
                attributes: self.resource,
                ..Resource::default()
            }),
            scope_metrics: vec![otlp::ScopeMetrics {
                scope: Some(scope),
                metrics: self.metrics,
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }
    }

    /// The points of the form that `pick` finds, which begin with `new`.
    fn points<T>(
        &mut self,
        new: Data,
        pick: impl Fn(&mut Data) -> Option<&mut Vec<T>>,
    ) -> Option<&mut Vec<T>> {
        let mut present = self.metrics.iter_mut().skip(self.first);
        let found = present.position(|m| m.data.as_mut().is_some_and(|d| pick(d).is_some()));
        let at = match found {
            Some(i) => self.first + i,
            None => {
                self.metrics.push(otlp::Metric {
                    data: Some(new),
                    ..self.now.clone()
                });
                self.metrics.len() - 1
            }
        };
        self.metrics.get_mut(at)?.data.as_mut().and_then(pick)
    }

    /// Add a point of a counter, or of whatever goes up and down.
    fn number(&mut self, base: Base, value: Number) {
        let point = base.number(value);
        let points = if self.kind == Kind::Counter {
            let sum = otlp::Sum {
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
                ..otlp::Sum::default()
            };
            self.points(Data::Sum(sum), |d| match d {
                Data::Sum(s) => Some(&mut s.data_points),
                _ => None,
            })
        } else {
            self.points(Data::Gauge(otlp::Gauge::default()), |d| match d {
                Data::Gauge(g) => Some(&mut g.data_points),
                _ => None,
            })
        };
        if let Some(points) = points {
            points.push(point);
        }
    }

    fn distribution(&mut self, base: Base, d: &Distribution) {
        if let Some(range) = Range::of(d.layout()) {
            let new = otlp::ExponentialHistogram {
                aggregation_temporality: CUMULATIVE,
                ..otlp::ExponentialHistogram::default()
            };
            let points = self.points(Data::ExponentialHistogram(new), |d| match d {
                Data::ExponentialHistogram(h) => Some(&mut h.data_points),
                _ => None,
            });
            if let Some(points) = points {
                points.push(base.exponential(d, &range));
            }
            return;
        }
        let new = otlp::Histogram {
            aggregation_temporality: CUMULATIVE,
            ..otlp::Histogram::default()
        };
        let points = self.points(Data::Histogram(new), |d| match d {
            Data::Histogram(h) => Some(&mut h.data_points),
            _ => None,
        });
        if let Some(points) = points {
            points.push(base.explicit(d));
        }
    }

    fn base(&self, row: &Row<'_>) -> Base {
        let start = match self.kind {
            Kind::Counter | Kind::Histogram => points::nanoseconds(row.since),
            // They have no beginning.
            _ => 0,
        };
        Base {
            attributes: attributes(row.labels),
            start,
            // A total of no time is refused, or taken for a reset.
            time: self.time.max(start.saturating_add(1)),
            exemplars: row.exemplars.iter().map(points::exemplar).collect(),
        }
    }
}

/// Labels as attributes: of those with the same name the last one, which is the series' own.
fn attributes(labels: &[(&str, &str)]) -> Vec<KeyValue> {
    let mut all: Vec<KeyValue> = Vec::with_capacity(labels.len());
    for (name, value) in labels {
        all.retain(|a| a.key != *name);
        all.push(attribute(name, value));
    }
    all
}

/// With one more attribute: its name differs from all others.
fn with(base: &Base, name: &str, value: &str) -> Base {
    let mut name = name.to_string();
    while base.attributes.iter().any(|a| a.key == name) {
        name.push('_');
    }
    let mut base = base.clone();
    base.attributes.push(attribute(&name, value));
    base
}

impl Format for Message {
    const EXEMPLARS: bool = true;

    fn metric(&mut self, metric: &Metric<'_>) {
        self.first = self.metrics.len();
        self.kind = metric.kind;
        self.now = otlp::Metric {
            name: metric.name.to_string(),
            description: metric.help.to_string(),
            unit: unit::of(metric.unit).into_owned(),
            ..otlp::Metric::default()
        };
    }

    fn row(&mut self, row: &Row<'_>) {
        let base = self.base(row);
        match row.value {
            Value::Count(n) => self.number(base, points::count(*n)),
            Value::Level(n) => self.number(base, Number::AsInt(*n)),
            Value::Amount(x) | Value::Measure(x) | Value::Latest(x, _) => {
                self.number(base, Number::AsDouble(*x));
            }
            Value::Info => self.number(base, Number::AsInt(1)),
            Value::Extrema { min, max } => {
                self.number(with(&base, "extreme", "min"), Number::AsDouble(*min));
                self.number(with(&base, "extreme", "max"), Number::AsDouble(*max));
            }
            Value::Distribution(d) => self.distribution(base, d),
        }
    }

    fn end(&mut self) {}

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.none
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A series may be declared while the picture is taken.
    #[test]
    fn a_total_is_of_some_time() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut message = Message::new(Vec::new(), at(5));
        for (kind, since, times) in [
            (Kind::Counter, 3, (3_000_000_000, 5_000_000_000)),
            (Kind::Counter, 5, (5_000_000_000, 5_000_000_001)),
            (Kind::Counter, 7, (7_000_000_000, 7_000_000_001)),
            (Kind::Gauge, 7, (0, 5_000_000_000)),
        ] {
            message.metric(&Metric {
                name: "n",
                help: "",
                unit: "",
                kind,
                is_summary: false,
                is_own: false,
            });
            message.row(&Row {
                labels: &[],
                value: &Value::Count(1),
                since: at(since),
                exemplars: &[],
            });
            let point = match message.metrics.last().unwrap().data.as_ref().unwrap() {
                Data::Sum(s) => &s.data_points[0],
                Data::Gauge(g) => &g.data_points[0],
                other => panic!("{other:?}"),
            };
            assert_eq!((point.start_time_unix_nano, point.time_unix_nano), times);
        }
    }
}
