// SPDX-License-Identifier: MIT
//! Messages of io.prometheus.client, each with its length before it. Histograms with buckets of
//! equal ratios are native ones, and have classic buckets beside.

use std::time::{Duration, SystemTime};

use prost::Message;

use super::messages::{
    Bucket, BucketSpan, Counter, Exemplar, FamilyHead, Gauge, Histogram, LabelPair, Metric,
    MetricType, Summary, Timestamp,
};
use super::names::{Escaping, LabelNames, Names};
use super::text::added;
use super::{exemplar, Format, Row};
use crate::model::native::Native;
use crate::model::{Distribution, Kind, Value};

/// The format.
pub struct Protobuf {
    out: Vec<u8>,
    names: Names,
    labels: LabelNames,
    escaping: Escaping,
    /// The metric, and the messages of its rows.
    head: FamilyHead,
    rows: Vec<u8>,
    /// Of the row before: its texts have room for those of the next.
    metric: Metric,
    kind: MetricType,
}

impl Protobuf {
    pub fn new(escaping: Escaping) -> Self {
        Self {
            out: Vec::new(),
            names: Names::new(escaping),
            labels: LabelNames::new(escaping, false),
            escaping,
            head: FamilyHead::default(),
            rows: Vec::new(),
            metric: Metric::default(),
            kind: MetricType::Gauge,
        }
    }

    /// Append the metric before.
    fn end_metric(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let n = self.head.encoded_len() + self.rows.len();
        // A Vec has room.
        let _ = prost::encode_length_delimiter(n, &mut self.out);
        let _ = self.head.encode(&mut self.out);
        self.out.append(&mut self.rows);
    }

    fn labels(&mut self, labels: &[(&str, &str)], more: Option<(&str, &str)>) {
        let to = &mut self.metric.label;
        let n = labels.len() + usize::from(more.is_some());
        to.resize_with(n, LabelPair::default);
        let names = self.labels.of(labels).iter().map(|(_, name)| name.as_str());
        let texts = names.zip(labels.iter().map(|(_, value)| *value));
        for (pair, (name, value)) in to.iter_mut().zip(texts.chain(more)) {
            pair.name.clear();
            pair.name.push_str(name);
            pair.value.clear();
            pair.value.push_str(value);
        }
    }

    fn gauge(&mut self, labels: &[(&str, &str)], more: Option<(&str, &str)>, value: f64) {
        self.labels(labels, more);
        self.metric.gauge = Some(Gauge { value: Some(value) });
        self.push();
    }

    /// Append what the metric is.
    fn push(&mut self) {
        // Field 4, with a length.
        self.rows.push(4 << 3 | 2);
        let _ = self.metric.encode_length_delimited(&mut self.rows);
        self.metric = Metric {
            label: std::mem::take(&mut self.metric.label),
            ..Metric::default()
        };
    }

    fn exemplar(&self, e: &percpu::Exemplar) -> Exemplar {
        let labels = exemplar::labels(e);
        let mut names = LabelNames::new(self.escaping, false);
        names.begin(None);
        let pairs = names.of(&labels).iter().zip(&labels);
        Exemplar {
            label: pairs
                .map(|((_, name), (_, value))| LabelPair {
                    name: name.clone(),
                    value: (*value).to_string(),
                })
                .collect(),
            value: Some(e.value),
            timestamp: Some(timestamp(e.time)),
        }
    }

    fn classic(&self, row: &Row<'_>, d: &Distribution) -> Vec<Bucket> {
        let mut lower = f64::NEG_INFINITY;
        let all = (f64::INFINITY, d.count());
        let mut buckets = Vec::new();
        for (end, below) in d.cumulative().into_iter().chain([all]) {
            let e = exemplar::between(row.exemplars, lower, end);
            buckets.push(Bucket {
                cumulative: Some(below),
                upper: Some(end),
                exemplar: e.map(|e| self.exemplar(e)),
            });
            lower = end;
        }
        buckets
    }

    fn histogram(&self, row: &Row<'_>, d: &Distribution) -> Histogram {
        let mut h = Histogram {
            count: Some(d.count()),
            sum: Some(d.sum()),
            bucket: self.classic(row, d),
            created: start(row),
            ..Histogram::default()
        };
        if let Some(native) = Native::new(d) {
            // Servers refuse one whose buckets have another number of observations.
            h.count = Some(native.count);
            h.schema = Some(native.schema);
            h.zero_threshold = Some(native.zero_threshold);
            h.zero_count = Some(native.zero_count);
            (h.spans, h.deltas) = spans(&native.buckets);
            let exemplars = exemplar::by_time(row.exemplars).into_iter();
            h.exemplars = exemplars.map(|e| self.exemplar(e)).collect();
        }
        h
    }
}

/// Buckets by their numbers, as the format has them: a few empty ones in between are cheaper than
/// another span.
fn spans(buckets: &[(i32, u64)]) -> (Vec<BucketSpan>, Vec<i64>) {
    const GAP: i32 = 2;
    let (mut spans, mut deltas) = (Vec::<BucketSpan>::new(), Vec::new());
    let (mut next, mut before) = (0, 0i64);
    for (number, count) in buckets {
        let count = *count as i64;
        let gap = number - next;
        match spans.last_mut() {
            Some(last) if gap <= GAP => {
                for _ in 0..gap {
                    deltas.push(-before);
                    before = 0;
                }
                last.length = last.length.map(|n| n + gap as u32 + 1);
            }
            _ => spans.push(BucketSpan {
                offset: Some(gap),
                length: Some(1),
            }),
        }
        deltas.push(count - before);
        (next, before) = (number + 1, count);
    }
    (spans, deltas)
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO);
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos() as i32,
    }
}

/// When the counts of a row began.
fn start(row: &Row<'_>) -> Option<Timestamp> {
    row.has_start().then(|| timestamp(row.since))
}

impl Format for Protobuf {
    const EXEMPLARS: bool = true;

    fn announce(&mut self, metric: &super::Metric<'_>) {
        self.names.announce(metric);
    }

    fn metric(&mut self, metric: &super::Metric<'_>) {
        self.end_metric();
        let name = self.names.of(metric);
        self.labels.begin(added(metric.kind));
        self.kind = match metric.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Histogram if metric.is_summary => MetricType::Summary,
            Kind::Histogram => MetricType::Histogram,
            _ => MetricType::Gauge,
        };
        let family = match self.kind {
            MetricType::Counter => name.strip_suffix("_total").unwrap_or(&name),
            _ => &name,
        };
        self.head = FamilyHead {
            unit: metric.unit_in(family).unwrap_or("").to_string(),
            help: metric.help.to_string(),
            kind: Some(self.kind as i32),
            name,
        };
    }

    fn row(&mut self, row: &Row<'_>) {
        match (self.kind, row.value) {
            (_, Value::Extrema { min, max }) => {
                self.gauge(row.labels, Some(("extreme", "min")), *min);
                self.gauge(row.labels, Some(("extreme", "max")), *max);
                return;
            }
            (MetricType::Counter, value) => {
                let e = exemplar::latest(row.exemplars);
                self.metric.counter = Some(Counter {
                    value: Some(value.number()),
                    exemplar: e.map(|e| self.exemplar(e)),
                    created: start(row),
                });
            }
            (MetricType::Summary, Value::Distribution(d)) => {
                self.metric.summary = Some(Summary {
                    count: Some(d.count()),
                    sum: Some(d.sum()),
                    created: start(row),
                });
            }
            (_, Value::Distribution(d)) => self.metric.histogram = Some(self.histogram(row, d)),
            (_, value) => return self.gauge(row.labels, None, value.number()),
        }
        self.labels(row.labels, None);
        self.push();
    }

    fn end(&mut self) {
        self.end_metric();
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and counts of buckets, as Prometheus reads them.
    fn read(spans: &[BucketSpan], deltas: &[i64]) -> Vec<(i32, u64)> {
        let (mut number, mut count) = (0, 0);
        let mut deltas = deltas.iter();
        let mut found = Vec::new();
        for span in spans {
            number += span.offset.unwrap();
            for _ in 0..span.length.unwrap() {
                count += deltas.next().unwrap();
                found.push((number, count as u64));
                number += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        found.retain(|(_, count)| *count > 0);
        found
    }

    /// What others wrote may say another count.
    #[test]
    fn a_native_histogram_has_the_count_of_its_buckets() {
        let json = r#"{"count":9,"sum":1.0,"layout":{"octaves":{"low":-2,"high":2,"buckets":8}},
            "buckets":[{"lower":0.0,"upper":0.25,"count":3,"sum":1.0},
                       {"lower":2.0,"upper":"+Inf","count":4,"sum":1.0}]}"#;
        let d: Distribution = serde_json::from_str(json).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::new(5, 6_007);
        let value = Value::Info;
        let row = Row {
            labels: &[],
            value: &value,
            since: time,
            exemplars: &[],
        };
        let h = Protobuf::new(Escaping::Utf8).histogram(&row, &d);
        assert_eq!((h.count, h.zero_count), (Some(7), Some(3)));
        assert_eq!(read(&h.spans, &h.deltas), [(2049, 4)]);
        let created = h.created.map(|t| (t.seconds, t.nanos));
        assert_eq!(created, Some((5, 6_007)));
    }

    #[test]
    fn spans_have_all_buckets() {
        for (buckets, n) in [
            (&[][..], 0),
            (&[(-160, 1)][..], 1),
            (&[(-3, 5), (-2, 1), (0, 7), (3, 2)][..], 1),
            (&[(-3, 5), (1, 1), (8193, 9)][..], 3),
            (&[(0, 1 << 62), (1, 1), (4, 1 << 62)][..], 1),
        ] {
            let (spans, deltas) = spans(buckets);
            assert_eq!(spans.len(), n, "{buckets:?}");
            assert_eq!(read(&spans, &deltas), buckets);
        }
    }
}
