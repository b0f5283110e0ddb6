// SPDX-License-Identifier: MIT
//! Owned gauges in what `percpu serve` answers.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../src/expose/messages.rs"]
#[allow(dead_code)]
mod messages;

mod common;
#[allow(dead_code)]
mod formats;

use common::Named;
use formats::{om_samples, proto_samples, text_samples, Server};
use percpu::{Metric, OwnedRule, Rule};

const PROTOBUF: &str = "application/vnd.google.protobuf;\
                        proto=io.prometheus.client.MetricFamily;encoding=delimited";
const OM1: &str = "application/openmetrics-text;version=1.0.0";

/// Name, labels, and value.
type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

/// A gauge that is shown for each owner has a sample for each, in each format; and no name where there
/// is none.
#[test]
fn owners_have_samples_of_their_own() {
    let name = Named::new("owners");
    let segment = name.make();
    segment.join("41", false).unwrap();
    let each = OwnedRule::new(Rule::Sum).each();
    let set = |metric: &Metric, rule: OwnedRule, n| {
        segment.owned_gauge(metric, rule).unwrap().set(n).unwrap();
    };
    set(&Metric::new("living").label("path", "/"), each, 5);
    set(&Metric::new("all"), each.keep(), 6);
    set(&Metric::new("kept"), OwnedRule::new(Rule::Max).keep(), 7);
    let server = Server::new(&[&name.0]);
    let check = |expected: &[Expected<'_>]| {
        let text = text_samples(&server.get("Accept: text/plain;version=1.0.0\r\n"));
        let open = om_samples(&server.get(&format!("Accept: {OM1}\r\n")));
        let proto = proto_samples(&server.bytes(&format!("Accept: {PROTOBUF}\r\n")));
        for samples in [text, open, proto] {
            let ours = |l: &&(String, String)| l.0 == "pid" || l.0 == "path";
            let found: Vec<_> = samples
                .iter()
                .filter(|s| !s.0.starts_with("percpu_"))
                .map(|(name, labels, value)| {
                    let labels = labels.iter().filter(ours);
                    let labels: Vec<_> = labels.map(|(n, v)| (n.as_str(), v.as_str())).collect();
                    (name.as_str(), labels, value.as_str())
                })
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, labels, value)| (*name, labels.to_vec(), *value))
                .collect();
            assert_eq!(found, expected);
        }
    };
    let all: Expected<'_> = ("all", &[("pid", "41")], "6");
    let kept: Expected<'_> = ("kept", &[], "7");
    check(&[all, kept, ("living", &[("path", "/"), ("pid", "41")], "5")]);
    segment.leave().unwrap();
    check(&[all, kept]);
    let text = server.get("");
    assert!(!text.contains("living"), "{text}");
}
