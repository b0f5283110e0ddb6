// SPDX-License-Identifier: MIT
//! Requests of a bounded size.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, Gauge, Histogram, Metric, ResourceMetrics, ScopeMetrics, Sum,
};
use prost::Message;

/// What the length of a part adds to the part: a tag and a length, of each message around it.
const AROUND: usize = 32;

/// Put all in as few requests as have room in so many bytes: one, if it can be. A resource that
/// has to be split is in each of its requests; so is a metric, whose points are split.
pub fn split(all: Vec<ResourceMetrics>, limit: usize) -> Vec<ExportMetricsServiceRequest> {
    let mut requests = Vec::new();
    let mut request: Vec<ResourceMetrics> = Vec::new();
    let mut used = 0;
    for resource in all {
        let size = resource.encoded_len() + AROUND;
        if used > 0 && used + size > limit {
            requests.push(std::mem::take(&mut request));
            used = 0;
        }
        if size <= limit {
            used += size;
            request.push(resource);
        } else {
            requests.extend(parts(resource, limit).into_iter().map(|part| vec![part]));
        }
    }
    requests.push(request);
    let full = requests.into_iter().filter(|r| !r.is_empty());
    full.map(|resource_metrics| ExportMetricsServiceRequest { resource_metrics })
        .collect()
}

/// Split a resource.
fn parts(mut resource: ResourceMetrics, limit: usize) -> Vec<ResourceMetrics> {
    let scopes = std::mem::take(&mut resource.scope_metrics);
    let mut parts = Vec::new();
    for mut scope in scopes {
        let metrics = std::mem::take(&mut scope.metrics);
        let head = resource.encoded_len() + scope.encoded_len() + 3 * AROUND;
        let room = limit.saturating_sub(head);
        let whole = |metrics| ResourceMetrics {
            scope_metrics: vec![ScopeMetrics {
                metrics,
                ..scope.clone()
            }],
            ..resource.clone()
        };
        let mut part: Vec<Metric> = Vec::new();
        let mut used = 0;
        for metric in metrics.into_iter().flat_map(|m| halves(m, room)) {
            let size = metric.encoded_len() + AROUND;
            if used > 0 && used + size > room {
                parts.push(whole(std::mem::take(&mut part)));
                used = 0;
            }
            used += size;
            part.push(metric);
        }
        parts.push(whole(part));
    }
    parts
}

/// Halve a metric until each part has room, or one point.
fn halves(mut metric: Metric, room: usize) -> Vec<Metric> {
    if metric.encoded_len() + AROUND <= room {
        return vec![metric];
    }
    match behind(&mut metric) {
        None => vec![metric],
        Some(second) => {
            let mut all = halves(metric, room);
            all.extend(halves(second, room));
            all
        }
    }
}

/// Take half of the points of a metric into another one.
fn behind(metric: &mut Metric) -> Option<Metric> {
    fn half<T>(points: &mut Vec<T>) -> Option<Vec<T>> {
        (points.len() > 1).then(|| points.split_off(points.len() / 2))
    }
    let data = match metric.data.as_mut()? {
        Data::Gauge(g) => Data::Gauge(Gauge {
            data_points: half(&mut g.data_points)?,
        }),
        Data::Sum(s) => Data::Sum(Sum {
            data_points: half(&mut s.data_points)?,
            ..*s
        }),
        Data::Histogram(h) => Data::Histogram(Histogram {
            data_points: half(&mut h.data_points)?,
            ..*h
        }),
        Data::ExponentialHistogram(h) => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: half(&mut h.data_points)?,
            ..*h
        }),
        Data::Summary(_) => return None,
    };
    Some(Metric {
        name: metric.name.clone(),
        description: metric.description.clone(),
        unit: metric.unit.clone(),
        metadata: metric.metadata.clone(),
        data: Some(data),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::points::{attribute, Base};
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
    use opentelemetry_proto::tonic::resource::v1::Resource;

    const TIME: u64 = 7;

    fn metric(name: &str, points: i64) -> Metric {
        let point = |i: i64| {
            let base = Base {
                attributes: vec![attribute("i", &i.to_string())],
                start: 0,
                time: TIME,
                exemplars: Vec::new(),
            };
            base.number(Number::AsInt(i))
        };
        let data_points = (0..points).map(point).collect();
        Metric {
            name: name.to_string(),
            description: "help".to_string(),
            data: Some(Data::Gauge(Gauge { data_points })),
            ..Metric::default()
        }
    }

    fn resource(name: &str, metrics: Vec<Metric>) -> ResourceMetrics {
        ResourceMetrics {
            resource: Some(Resource {
                attributes: vec![attribute("service.name", name)],
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics {
                metrics,
                ..ScopeMetrics::default()
            }],
            schema_url: String::new(),
        }
    }

    /// All points, as texts.
    fn points(all: &[ResourceMetrics]) -> Vec<String> {
        let mut out = Vec::new();
        for r in all {
            for m in r.scope_metrics.iter().flat_map(|s| &s.metrics) {
                let Some(Data::Gauge(g)) = &m.data else {
                    panic!("{m:?}")
                };
                assert!(!g.data_points.is_empty() && m.description == "help");
                let of = |p| format!("{:?} {} {p:?}", r.resource, m.name);
                out.extend(g.data_points.iter().map(of));
            }
        }
        out
    }

    #[test]
    fn requests_have_a_bounded_size_and_lose_nothing() {
        let all = vec![
            resource("a", vec![metric("x", 3)]),
            resource(
                "b",
                vec![metric("y", 200), metric("z", 5), metric("y2", 90)],
            ),
            resource("c", vec![metric("x", 4)]),
        ];
        let whole = points(&all);
        let length = ExportMetricsServiceRequest {
            resource_metrics: all.clone(),
        }
        .encoded_len();
        for limit in [400, 1000, 3000, 1 << 20] {
            let requests = split(all.clone(), limit);
            assert_eq!(requests.len() == 1, length < limit, "{limit}");
            assert!(requests.len() <= 3 + 2 * length / (limit - 300), "{limit}");
            assert!(requests.iter().all(|r| r.encoded_len() <= limit), "{limit}");
            let parts: Vec<_> = requests
                .into_iter()
                .flat_map(|r| r.resource_metrics)
                .collect();
            assert_eq!(points(&parts), whole);
        }
        // A point that has no room goes alone.
        assert_eq!(split(vec![resource("a", vec![metric("x", 3)])], 1).len(), 3);
        assert!(split(Vec::new(), 1000).is_empty());
    }
}
