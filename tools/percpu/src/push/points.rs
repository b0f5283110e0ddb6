// SPDX-License-Identifier: MIT
//! Values as data points of OpenTelemetry.

use std::time::SystemTime;

use opentelemetry_proto::tonic::common::v1::{any_value, AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1 as otlp;
use otlp::exponential_histogram_data_point::Buckets;
use otlp::number_data_point::Value as Number;

use crate::model::{Distribution, Layout};

pub fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_string(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(value.to_string())),
        }),
        ..KeyValue::default()
    }
}

/// In nanoseconds since 1970.
pub fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// A count. OpenTelemetry's whole numbers end at 2^63: what is above is rounded to a double.
pub fn count(n: u64) -> Number {
    i64::try_from(n).map_or(Number::AsDouble(n as f64), Number::AsInt)
}

/// What the points of a series have in common.
#[derive(Clone)]
pub struct Base {
    pub attributes: Vec<KeyValue>,
    /// 0 if there is none.
    pub start: u64,
    pub time: u64,
    pub exemplars: Vec<otlp::Exemplar>,
}

impl Base {
    pub fn number(self, value: Number) -> otlp::NumberDataPoint {
        otlp::NumberDataPoint {
            attributes: self.attributes,
            start_time_unix_nano: self.start,
            time_unix_nano: self.time,
            exemplars: self.exemplars,
            flags: 0,
            value: Some(value),
        }
    }

    /// With bounds, or with none if it is a summary.
    pub fn explicit(self, d: &Distribution) -> otlp::HistogramDataPoint {
        let bounds = d.layout().all_ends();
        let mut counts = Vec::new();
        if !bounds.is_empty() {
            counts.resize(bounds.len() + 1, 0);
            for b in d.buckets() {
                if let Some(n) = counts.get_mut(d.layout().number(b.upper)) {
                    *n += b.count;
                }
            }
        }
        // A sum that may fall is none, says the protocol. Values below 0 may be below a bound above 0.
        let falls = bounds.first().is_some_and(|b| *b < 0.0)
            || d.buckets().first().is_some_and(|b| b.sum < 0.0);
        otlp::HistogramDataPoint {
            attributes: self.attributes,
            start_time_unix_nano: self.start,
            time_unix_nano: self.time,
            count: d.count(),
            sum: (!falls).then_some(d.sum()),
            bucket_counts: counts,
            explicit_bounds: bounds,
            exemplars: self.exemplars,
            ..otlp::HistogramDataPoint::default()
        }
    }

    pub fn exponential(
        self,
        d: &Distribution,
        range: &Range,
    ) -> otlp::ExponentialHistogramDataPoint {
        let mut positive = Buckets::default();
        let mut zero_count = 0;
        for b in d.buckets() {
            match range.number(b.upper) {
                None => zero_count = b.count,
                Some(number) => put(&mut positive, number, b.count),
            }
        }
        otlp::ExponentialHistogramDataPoint {
            attributes: self.attributes,
            start_time_unix_nano: self.start,
            time_unix_nano: self.time,
            count: d.count(),
            sum: Some(d.sum()),
            scale: range.scale,
            zero_count,
            zero_threshold: f64::from(range.low).exp2(),
            positive: Some(positive),
            exemplars: self.exemplars,
            ..otlp::ExponentialHistogramDataPoint::default()
        }
    }
}

/// Add a bucket behind those that are there.
fn put(buckets: &mut Buckets, number: i32, count: u64) {
    if buckets.bucket_counts.is_empty() {
        buckets.offset = number;
    }
    let at = usize::try_from(number - buckets.offset).unwrap_or(0);
    buckets.bucket_counts.resize(at, 0);
    buckets.bucket_counts.push(count);
}

/// The octaves of an exponential layout.
pub struct Range {
    low: i32,
    high: i32,
    /// An octave has 2^scale buckets.
    scale: i32,
}

impl Range {
    /// `None` if the layout is not exponential, or not one of OpenTelemetry's.
    pub fn of(layout: &Layout) -> Option<Self> {
        let &Layout::Octaves { low, high, buckets } = layout else {
            return None;
        };
        let octaves = u32::try_from(high - low).ok().filter(|n| *n > 0)?;
        let each = buckets / octaves;
        (each.is_power_of_two() && each * octaves == buckets).then_some(Self {
            low,
            high,
            scale: each.trailing_zeros() as i32,
        })
    }

    /// The number of the bucket that ends there; of the one above all octaves the next one, since
    /// the protocol has none that is open. `None`: it begins at 0.
    fn number(&self, upper: f64) -> Option<i32> {
        let each = f64::from(self.scale).exp2();
        if upper == f64::INFINITY {
            return Some(self.high << self.scale);
        }
        let end = (upper.log2() * each).round() as i32;
        (end > self.low << self.scale).then_some(end - 1)
    }
}

/// An exemplar. The identifiers of a trace and a span are bytes, if they are well-formed.
pub fn exemplar(e: &percpu::Exemplar) -> otlp::Exemplar {
    let mut out = otlp::Exemplar {
        time_unix_nano: nanoseconds(e.time),
        value: Some(otlp::exemplar::Value::AsDouble(e.value)),
        ..otlp::Exemplar::default()
    };
    for (name, value) in &e.labels {
        match (name.as_str(), hex(value)) {
            ("trace_id", Some(bytes)) if bytes.len() == 16 => out.trace_id = bytes,
            ("span_id", Some(bytes)) if bytes.len() == 8 => out.span_id = bytes,
            _ => out.filtered_attributes.push(attribute(name, value)),
        }
    }
    out
}

/// The bytes of hexadecimal digits. `None` if they are no identifier: others, or all 0.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|d| d.len() % 2 == 0 && d.iter().any(|n| *n > 0))?;
    let bytes = digits.chunks_exact(2);
    Some(bytes.map(|d| (d[0] << 4 | d[1]) as u8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_may_fall_is_none() {
        for (bound, least, sum) in [
            (-1.0, 2.0, None),
            (0.0, 0.0, Some(7.0)),
            (1.0, 0.5, Some(7.0)),
            (1.0, -3.0, None),
        ] {
            let json = format!(
                r#"{{"count":3,"sum":7.0,"layout":{{"own":[{bound:?},9.0]}},
                    "buckets":[{{"lower":"-Inf","upper":{bound:?},"count":1,"sum":{least:?}}},
                               {{"lower":{bound:?},"upper":9.0,"count":2,"sum":7.0}}]}}"#
            );
            let base = Base {
                attributes: Vec::new(),
                start: 1,
                time: 2,
                exemplars: Vec::new(),
            };
            let point = base.explicit(&serde_json::from_str(&json).unwrap());
            assert_eq!((point.sum, point.bucket_counts), (sum, vec![1, 2, 0]));
        }
    }
}
