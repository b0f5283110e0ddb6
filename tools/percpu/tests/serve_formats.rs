// SPDX-License-Identifier: MIT
//! The formats of `percpu serve`: which one a client gets, and that all have the same numbers.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../src/expose/messages.rs"]
#[allow(dead_code)]
mod messages;

mod common;
mod formats;

use std::io::Read;
use std::time::UNIX_EPOCH;

use common::{every_kind, python, Named, HOSTILE};
use formats::{om_samples, proto_samples, text_samples, Server};
use percpu::{HistogramOptions, Metric, Segment};

const PROTOBUF: &str = "application/vnd.google.protobuf;\
                        proto=io.prometheus.client.MetricFamily;encoding=delimited";
const OM1: &str = "application/openmetrics-text;version=1.0.0";

#[test]
fn a_client_gets_what_it_asks_for() {
    let name = Named::new("asked");
    let segment = name.make();
    every_kind(&segment);
    let server = Server::new(&[&name.0]);
    let text = "text/plain; version=0.0.4; charset=utf-8";
    for (accept, kind) in [
        ("", text),
        ("Accept: */*\r\n", text),
        ("Accept: text/html\r\nAccept: text/plain;version=1.0.0\r\n",
         "text/plain; version=1.0.0; charset=utf-8; escaping=underscores"),
        ("accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.2\r\n",
         "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8"),
        ("Accept: application/openmetrics-text;version=0.0.1\r\n",
         "application/openmetrics-text; version=0.0.1; charset=utf-8"),
        (&format!("Accept: {PROTOBUF};escaping=values\r\n"),
         "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
          encoding=delimited; escaping=values"),
    ] {
        let plain = server.ask("GET", "/metrics", accept);
        assert_eq!(plain.status, 200, "{accept}");
        assert_eq!(plain.header("content-type"), kind, "{accept}");
        assert_eq!(plain.header("vary"), "Accept, Accept-Encoding");
        assert_eq!(plain.header("content-encoding"), "");
        assert_eq!(plain.header("content-length"), plain.body.len().to_string());
        let gzip = format!("{accept}Accept-Encoding: gzip, identity;q=0.5\r\n");
        let gzip = server.ask("GET", "/metrics", &gzip);
        assert_eq!(gzip.header("content-encoding"), "gzip");
        assert_eq!(gzip.header("content-type"), kind);
        let mut body = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(gzip.body.as_slice());
        decoder.read_to_end(&mut body).unwrap();
        assert!(gzip.body.len() < body.len() && body == plain.body, "{accept}");
        let head = server.ask("HEAD", "/metrics", accept);
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), plain.body.len().to_string());
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = server.ask(method, "/metrics", "");
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").contains("GET"), "{method}");
    }
}

/// Names that formats cannot have as they are, and that look alike then.
fn odd_names(segment: &Segment) {
    let count = |name: &str, label: &str, n: u64| {
        let m = Metric::new(name).help(HOSTILE).label(label, HOSTILE);
        segment.counter(&m).unwrap().add(n);
    };
    count("http_requests", "a_b", 2);
    let m = Metric::new("http.requests")
        .label("a.b", "1")
        .label("a_b", "2");
    segment.counter(&m).unwrap().add(3);
    count("größe \"x\"\n", "--name--", 4);
    count("9lives_total", "segment", 5);
    count("u.ticks_total", "le", 6);
    count(HOSTILE, &format!("h{HOSTILE}"), 7);
    let info = Metric::new("a.b_info").label("x:y", "z");
    segment.info(&info).unwrap();
    segment.gauge(&Metric::new("a")).unwrap().set(1).unwrap();
    let h = Metric::new("read.bytes").unit("bytes").label("of", "x");
    let h = segment.histogram(&h, &HistogramOptions::new()).unwrap();
    h.record(7.0);
    segment
        .gauge(&Metric::new("read_bytes_sum"))
        .unwrap()
        .set(1)
        .unwrap();
}

#[test]
fn all_formats_have_the_same_numbers() {
    let name = Named::new("same");
    let segment = name.make();
    every_kind(&segment);
    odd_names(&segment);
    let server = Server::new(&[&name.0]);
    for escaping in ["allow-utf-8", "underscores", "dots", "values"] {
        let get = |kind: &str| server.get(&format!("Accept: {kind};escaping={escaping}\r\n"));
        let text = text_samples(&get("text/plain;version=1.0.0"));
        let open = om_samples(&get(OM1));
        let mut proto =
            proto_samples(&server.bytes(&format!("Accept: {PROTOBUF};escaping={escaping}\r\n")));
        assert_eq!(text, open, "{escaping}");
        proto.sort();
        let mut text = text;
        // Doubles have 53 bits.
        let exact = ((1u64 << 60) + 1) as f64;
        assert!(text.iter().any(|(_, _, x)| *x == exact.to_string()));
        text.sort();
        assert_eq!(text, proto, "{escaping}");
        assert_eq!(text.len(), {
            let mut ids: Vec<_> = text
                .iter()
                .map(|(name, labels, _)| (name, labels))
                .collect();
            ids.dedup();
            ids.len()
        });
    }
    let old = server.get("");
    let new = server.get("Accept: text/plain;version=1.0.0\r\n");
    assert_eq!(old, new);
}

#[test]
fn escaped_names_are_those_of_prometheus() {
    let name = Named::new("escaped");
    let segment = name.make();
    odd_names(&segment);
    let server = Server::new(&[&name.0]);
    let of = |kind: &str| server.get(&format!("Accept: {kind}\r\n"));
    let has = |text: &str, line: &str| {
        assert!(
            text.lines().any(|l| l.starts_with(line)),
            "{line} in {text}"
        );
    };
    let own = format!("segment=\"{}\"", name.0);
    let utf8 = of("text/plain;version=1.0.0;escaping=allow-utf-8");
    has(&utf8, "# TYPE \"http.requests\" counter");
    has(&utf8, &format!("{{\"http.requests\", {own}, \"a.b\"=\""));
    has(
        &utf8,
        &format!("{{\"größe \\\"x\\\"\\n\", {own}, \"--name--\"=\""),
    );
    has(&utf8, &format!("{{\"9lives_total\", {own}, segment_=\""));
    has(
        &utf8,
        &format!("{{\"read.bytes_bucket\", {own}, of=\"x\", le=\"8\"}} 1"),
    );
    let open = of(&format!("{OM1};escaping=allow-utf-8"));
    has(&open, "# TYPE \"9lives\" counter");
    assert!(!open.contains("# UNIT \"read"), "{open}");
    has(&open, &format!("{{\"a.b_info\",{own},\"x:y\"=\"z\"}} 1"));
    let values = of(&format!("{OM1};escaping=values"));
    has(&values, &format!("U__http_2e_requests{{{own},U__a_2e_b=\""));
    has(&values, &format!("U___39_lives__total{{{own},segment_=\""));
    let dots = of(&format!("{OM1};escaping=dots"));
    has(&dots, &format!("http_dot_requests{{{own},a_dot_b=\""));
    let underscores = of(OM1);
    has(
        &underscores,
        &format!("http_requests{{{own},a_b=\"1\",a_b_=\"2\"}} 3"),
    );
    has(&underscores, &format!("http_requests_{{{own},a_b=\""));
    has(&underscores, &format!("gr__e__x__{{{own},__name___=\""));
    for text in [underscores, server.get("")] {
        has(&text, &format!("read_bytes_sum_{{{own}}} 1"));
    }
}

#[test]
fn openmetrics_as_it_should_be() {
    let name = Named::new("open");
    let segment = name.make();
    every_kind(&segment);
    let server = Server::new(&[&name.0]);
    let text = server.get(&format!("Accept: {OM1}\r\n"));
    let own = format!("segment=\"{}\"", name.0);
    for part in [
        "# TYPE work_seconds counter\n# UNIT work_seconds seconds\n# HELP work_seconds A help text.\n",
        &format!("\nwork_seconds_total{{{own}}} 0.1\n"),
        "# TYPE build info\n# HELP build A help text.\n",
        &format!("\nbuild_info{{{own},version=\"1.0\"}} 1\n"),
        &format!("\ndepth{{{own}}} -3\n"),
        "# TYPE read_seconds summary\n",
        "# TYPE wait_seconds histogram\n",
        &format!("\nwait_seconds_bucket{{{own},label=\"x\",le=\"1.0\"}} 3\n"),
        "# TYPE percpu_family_overflows counter\n",
        &format!("percpu_family_overflows_total{{{own},family=\"sent_total\",reason=\"room\"}} 2\n"),
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // The unit of a_total is not in the name.
    assert!(!text.contains("# UNIT a "), "{text}");
    assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    assert!(!text.contains("_created"));
    let other = server.ask(
        "GET",
        "/metrics?created=10&recreated=1",
        &format!("Accept: {OM1}\r\n"),
    );
    assert_eq!(String::from_utf8(other.body).unwrap(), text);
    let created = server.ask("GET", "/metrics?x&created=1", &format!("Accept: {OM1}\r\n"));
    let created = String::from_utf8(created.body).unwrap();
    let since = formats::value(&created, &format!("work_seconds_created{{{own}}} "));
    let age = UNIX_EPOCH.elapsed().unwrap().as_secs_f64() - since;
    assert!((-1.0..600.0).contains(&age), "{age}");
    assert!(created.contains(&format!("\nwait_seconds_created{{{own},label=\"x\"}} ")));
    assert!(!created.contains("depth_created") && !created.contains("build_created"));
    let rest: String = created
        .split_inclusive('\n')
        .filter(|line| !line.contains("_created{"))
        .collect();
    assert_eq!(rest, text);
}

#[test]
fn exemplars_are_those_of_the_segment() {
    let name = Named::new("exemplars");
    let segment = name.make();
    let options = HistogramOptions::new()
        .range(0.001, 1024.0)
        .buckets_per_octave(4);
    let m = Metric::new("wait_seconds").unit("seconds");
    let h = segment.histogram(&m, &options).unwrap();
    let exemplars = segment.exemplars(&m).unwrap();
    for (value, id) in [(0.4, "first"), (3.0, "second"), (5000.0, "third")] {
        h.record(value);
        exemplars
            .store(value, &[("trace_id", id), ("a.b", "\"")])
            .unwrap();
    }
    let m = Metric::new("sent_total");
    segment.counter(&m).unwrap().add(1);
    let of = segment.exemplars(&m).unwrap();
    of.store(1.0, &[("trace_id", "fourth")]).unwrap();
    let server = Server::new(&[&name.0]);
    let open = server.get(&format!("Accept: {OM1};escaping=allow-utf-8\r\n"));
    for (le, id) in [("0.5", "first"), ("4.0", "second"), ("+Inf", "third")] {
        let line = open.lines().find(|l| l.contains(&format!("le=\"{le}\"")));
        let wanted = format!("# {{trace_id=\"{id}\",\"a.b\"=\"\\\"\"}} ");
        assert!(line.unwrap().contains(&wanted), "{open}");
    }
    let line = open.lines().find(|l| l.starts_with("sent_total{"));
    assert!(
        line.unwrap().contains("} 1 # {trace_id=\"fourth\"} 1.0 1"),
        "{open}"
    );
    assert_eq!(open.matches(" # {").count(), 4);
    let families = formats::families(&server.bytes(&format!("Accept: {PROTOBUF}\r\n")));
    let ids = |all: &[messages::Exemplar]| -> Vec<String> {
        all.iter().map(|e| e.label[0].value.clone()).collect()
    };
    let of = |name: &str| families.iter().find(|f| f.0.name == name).unwrap().1[0].clone();
    let h = of("wait_seconds").histogram.unwrap();
    assert_eq!(ids(&h.exemplars), ["first", "second", "third"]);
    assert!(h.exemplars.iter().all(|e| e.timestamp.is_some()));
    let buckets: Vec<_> = h.bucket.iter().filter_map(|b| b.exemplar.clone()).collect();
    assert_eq!(ids(&buckets), ["first", "second", "third"]);
    let counter = of("sent_total").counter.unwrap();
    assert_eq!(ids(&[counter.exemplar.unwrap()]), ["fourth"]);
    assert!(counter.created.unwrap().seconds > 1_700_000_000);
}

#[test]
fn native_histograms_have_the_same_buckets() {
    let name = Named::new("native");
    let segment = name.make();
    let values = [1e-9, 0.001, 0.3, 0.31, 0.5, 1.0, 1.01, 7.0, 5000.0];
    for (per_octave, schema) in [(1, 0), (2, 1), (8, 3), (32, 5)] {
        let options = HistogramOptions::new()
            .range(2f64.powi(-10), 1024.0)
            .buckets_per_octave(per_octave);
        let label = schema.to_string();
        let m = Metric::new("h").label("schema", &label);
        let h = segment.histogram(&m, &options).unwrap();
        values.iter().for_each(|v| h.record(*v));
    }
    let m = Metric::new("h").label("schema", "empty");
    segment.histogram(&m, &HistogramOptions::new()).unwrap();
    let own = HistogramOptions::new().bounds(&common::BOUNDS);
    segment.histogram(&Metric::new("own"), &own).unwrap();
    let server = Server::new(&[&name.0]);
    let families = formats::families(&server.bytes(&format!("Accept: {PROTOBUF}\r\n")));
    let of = |name: &str| &families.iter().find(|f| f.0.name == name).unwrap().1;
    for m in of("h") {
        let h = m.histogram.clone().unwrap();
        let label = &m.label[1].value;
        assert!(h.zero_threshold.unwrap() > 0.0 && !h.bucket.is_empty());
        if label == "empty" {
            assert_eq!(
                (h.count, h.zero_count, h.spans.len()),
                (Some(0), Some(0), 0)
            );
            continue;
        }
        assert_eq!(h.schema.unwrap().to_string(), *label);
        assert_eq!(
            (h.zero_threshold, h.zero_count),
            (Some(2f64.powi(-10)), Some(1))
        );
        let scale = f64::from(1 << h.schema.unwrap());
        let mut wanted = std::collections::BTreeMap::new();
        for v in &values[1..8] {
            *wanted.entry((v.log2() * scale).ceil() as i32).or_insert(0) += 1;
        }
        wanted.insert((1024 << h.schema.unwrap()) + 1, 1);
        let found = formats::native_buckets(&h);
        assert_eq!(found, wanted.into_iter().collect::<Vec<_>>(), "{label}");
    }
    let own = of("own")[0].histogram.clone().unwrap();
    assert_eq!(
        (own.schema, own.bucket.len()),
        (None, common::BOUNDS.len() + 1)
    );
}

/// Series of one name that do not fit together, in two segments.
#[test]
fn segments_that_do_not_agree() {
    // The counter is in the last file.
    let names = [Named::new("clash_b"), Named::new("clash_a")];
    let [a, b] = [names[0].make(), names[1].make()];
    a.counter(&Metric::new("x_total").help("One.").unit("bytes"))
        .unwrap()
        .add(1);
    b.gauge(&Metric::new("x_total").help("Two.").unit("seconds"))
        .unwrap()
        .set(2)
        .unwrap();
    let m = Metric::new("h_seconds").unit("seconds");
    let own = HistogramOptions::new();
    a.histogram(&m, &own.bounds(&[1.0, 2.0]))
        .unwrap()
        .record(1.5);
    b.histogram(&m, &HistogramOptions::new().summary())
        .unwrap()
        .record(1.5);
    let m = Metric::new("i_seconds");
    a.histogram(&m, &HistogramOptions::new().bounds(&[1.0]))
        .unwrap()
        .record(0.5);
    b.histogram(&m.unit("seconds"), &HistogramOptions::new())
        .unwrap()
        .record(0.5);
    for order in [[0, 1], [1, 0]] {
        let server = Server::new(&[&names[order[0]].0, &names[order[1]].0]);
        let text = server.get("");
        let [own_a, own_b] = [0, 1].map(|i: usize| format!("segment=\"{}\"", names[i].0));
        for line in [
            "# TYPE x_total counter".to_string(),
            format!("x_total{{{own_a}}} 1"),
            "# TYPE x_total_ gauge".to_string(),
            format!("x_total_{{{own_b}}} 2"),
            format!("h_seconds_bucket{{{own_a}, le=\"2\"}} 1"),
            format!("h_seconds_bucket{{{own_b}, le=\"+Inf\"}} 1"),
            format!("i_seconds_count{{{own_b}}} 1"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
        let open = om_samples(&server.get(&format!("Accept: {OM1}\r\n")));
        assert_eq!(text_samples(&text), open);
        let mut proto = proto_samples(&server.bytes(&format!("Accept: {PROTOBUF}\r\n")));
        let mut text = text_samples(&text);
        text.sort();
        proto.sort();
        assert_eq!(text, proto);
    }
}

#[test]
fn others_can_read_it() {
    let name = Named::new("others");
    let segment = name.make();
    every_kind(&segment);
    odd_names(&segment);
    let server = Server::new(&[&name.0]);
    for escaping in ["allow-utf-8", "underscores", "values"] {
        let open = server.get(&format!("Accept: {OM1};escaping={escaping}\r\n"));
        // The parser wants no sums where bounds are below 0, and no labels that begin with two
        // underscores. Prometheus takes both.
        let open: String = open
            .split_inclusive('\n')
            .filter(|l| !l.contains("drift_seconds") && !l.contains("__name___"))
            .collect();
        let mut wanted: Vec<_> = om_samples(&open)
            .into_iter()
            .map(|(name, ..)| name)
            .collect();
        let Some(found) = python(formats::OM_PARSER, &open) else {
            return;
        };
        if found.is_empty() {
            eprintln!("prometheus_client is not there");
            break;
        }
        let mut found: Vec<String> = serde_json::from_str(&found).unwrap();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
    }
}
