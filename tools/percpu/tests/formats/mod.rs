// SPDX-License-Identifier: MIT
//! A server under test, and what its answers say.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use prost::Message;

use crate::common::percpu;
use crate::messages::{FamilyHead, Histogram, LabelPair, Metric};

/// Prints the names of all samples as JSON, if the parser is installed.
pub const OM_PARSER: &str = "import json, sys
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
except ImportError:
    sys.exit()
text = sys.stdin.buffer.read().decode()
print(json.dumps([s.name for f in parse(text) for s in f.samples]))";

/// `percpu serve`. It is killed in the end.
pub struct Server {
    child: Child,
    address: String,
}

pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// What a header says, or "".
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map_or("", |(_, value)| value)
    }
}

impl Server {
    pub fn new(arguments: &[&str]) -> Self {
        let mut command = percpu(&["serve", "--listen", "127.0.0.1:0"]);
        let command = command.args(arguments).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let address = line.trim().strip_prefix("percpu: http://").unwrap();
        let address = address.strip_suffix("/metrics").unwrap().to_string();
        Self { child, address }
    }

    pub fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        stream
            .write_all(format!("{head}{headers}\r\n").as_bytes())
            .unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let headers = head.lines().skip(1).map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_string())
        });
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            headers: headers.collect(),
            body: all[end + 4..].to_vec(),
        }
    }

    pub fn bytes(&self, headers: &str) -> Vec<u8> {
        let answer = self.ask("GET", "/metrics", headers);
        assert_eq!(answer.status, 200);
        answer.body
    }

    pub fn get(&self, headers: &str) -> String {
        String::from_utf8(self.bytes(headers)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Name, labels, and value as doubles are printed.
pub type Sample = (String, Vec<(String, String)>, String);

/// Take a text in quotes off the front.
fn unquote(text: &mut &str) -> String {
    let mut found = String::new();
    let mut chars = text[1..].char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => {
                *text = &text[i + 2..];
                return found;
            }
            '\\' => match chars.next().unwrap().1 {
                'n' => found.push('\n'),
                c => found.push(c),
            },
            _ => found.push(c),
        }
    }
    panic!("no end of quotes: {text}");
}

/// Take a name off the front, in quotes or not.
fn name(text: &mut &str) -> String {
    if text.starts_with('"') {
        return unquote(text);
    }
    let end = text.find(['{', '=', ' ', ',', '}']).unwrap();
    let found = text[..end].to_string();
    *text = &text[end..];
    found
}

/// Take a sample apart.
fn sample(line: &str) -> Sample {
    let mut rest = line;
    let mut full = if rest.starts_with('{') {
        String::new()
    } else {
        name(&mut rest)
    };
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            rest = rest.trim_start_matches([',', ' ']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let label = name(&mut rest);
            assert!(!label.is_empty(), "{line}");
            match rest.strip_prefix('=') {
                Some(value) => {
                    rest = value;
                    labels.push((label, unquote(&mut rest)));
                }
                None => full = label,
            }
        }
    }
    let number = rest.split(' ').nth(1).unwrap();
    (full, labels, double(number))
}

fn double(text: &str) -> String {
    let x: f64 = text.replace("+Inf", "inf").parse().unwrap();
    x.to_string()
}

/// With "le" as a double, which formats print in their own ways.
fn all(text: &str) -> Vec<Sample> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    let mut samples: Vec<_> = lines.map(sample).collect();
    for (_, labels, _) in samples.iter_mut().filter(|s| s.0.ends_with("_bucket")) {
        for (name, value) in labels {
            if name == "le" {
                *value = double(value);
            }
        }
    }
    samples
}

pub fn text_samples(text: &str) -> Vec<Sample> {
    all(text)
}

pub fn om_samples(text: &str) -> Vec<Sample> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let families = text.lines().filter(|l| l.starts_with("# TYPE "));
    let mut names: Vec<_> = families.map(|l| l.rsplit_once(' ').unwrap().0).collect();
    let n = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n, "{text}");
    all(text)
}

/// The value behind that text.
pub fn value(text: &str, begin: &str) -> f64 {
    let line = text.lines().find_map(|l| l.strip_prefix(begin));
    line.unwrap().parse().unwrap()
}

/// Families and their metrics.
pub fn families(mut bytes: &[u8]) -> Vec<(FamilyHead, Vec<Metric>)> {
    #[derive(Clone, PartialEq, Message)]
    struct Rows {
        #[prost(message, repeated, tag = "4")]
        rows: Vec<Metric>,
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let n = prost::decode_length_delimiter(&mut bytes).unwrap();
        let (one, rest) = bytes.split_at(n);
        let head = FamilyHead::decode(one).unwrap();
        found.push((head, Rows::decode(one).unwrap().rows));
        bytes = rest;
    }
    found
}

pub fn native_buckets(h: &Histogram) -> Vec<(i32, i64)> {
    let (mut number, mut count) = (0, 0);
    let mut deltas = h.deltas.iter();
    let mut found = Vec::new();
    for span in &h.spans {
        number += span.offset.unwrap();
        for _ in 0..span.length.unwrap() {
            count += deltas.next().unwrap();
            found.push((number, count));
            number += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    let zero = h.zero_count.unwrap() as i64;
    let sum: i64 = found.iter().map(|(_, n)| n).sum();
    assert_eq!(Some((sum + zero) as u64), h.count);
    found.retain(|(_, n)| *n > 0);
    found
}

fn labels(pairs: &[LabelPair], more: Option<f64>) -> Vec<(String, String)> {
    let pairs = pairs.iter().map(|p| (p.name.clone(), p.value.clone()));
    pairs
        .chain(more.map(|le| ("le".to_string(), le.to_string())))
        .collect()
}

/// What Prometheus makes of messages, with the classic buckets of histograms.
pub fn proto_samples(bytes: &[u8]) -> Vec<Sample> {
    let mut found = Vec::new();
    for (head, metrics) in families(bytes) {
        for m in metrics {
            let mut add = |suffix: &str, le, value: f64| {
                let name = format!("{}{suffix}", head.name);
                found.push((name, labels(&m.label, le), value.to_string()));
            };
            if let Some(g) = m.gauge {
                add("", None, g.value.unwrap());
            }
            if let Some(c) = &m.counter {
                add("", None, c.value.unwrap());
            }
            if let Some(s) = m.summary {
                add("_sum", None, s.sum.unwrap());
                add("_count", None, s.count.unwrap() as f64);
            }
            if let Some(h) = &m.histogram {
                for b in &h.bucket {
                    add("_bucket", b.upper, b.cumulative.unwrap() as f64);
                }
                add("_sum", None, h.sum.unwrap());
                add("_count", None, h.count.unwrap() as f64);
                if h.schema.is_some() {
                    native_buckets(h);
                }
            }
        }
    }
    found
}
