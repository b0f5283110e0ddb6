// SPDX-License-Identifier: MIT
//! `percpu serve`: the page, and the events that it gets.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use common::{every_kind, json, percpu, Named, Scratch, HOSTILE};
use percpu::Metric;
use serde_json::Value;

const PAGES: usize = 32;

/// A server on a free port.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn new(arguments: &[&str]) -> Self {
        let mut command = percpu(&["serve", "--listen", "127.0.0.1:0"]);
        let command = command.args(arguments).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let stderr = child.stderr.take().unwrap();
        BufReader::new(stderr).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap();
        let address = address.split('/').next().unwrap().to_string();
        Self { child, address }
    }

    /// Ask, and return what is read of the answer, behind its head.
    fn open(&self, path: &str, more: &str) -> (String, BufReader<TcpStream>) {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let host = &self.address;
        let ask = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        (&stream).write_all(ask.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        (head.to_lowercase(), reader)
    }

    fn get(&self, path: &str, more: &str) -> (String, String) {
        let (head, mut reader) = self.open(path, more);
        let mut body = String::new();
        reader.read_to_string(&mut body).unwrap();
        (head, body)
    }

    fn events(&self) -> Events {
        let (head, reader) = self.open("/events", "");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream\r\n"));
        assert!(head.contains("cache-control: no-store\r\n"));
        Events(reader)
    }

    fn detail(&self, id: u64) -> Value {
        let (head, body) = self.get(&format!("/detail?id={id}"), "");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Events of a page, in the chunks of HTTP.
struct Events(BufReader<TcpStream>);

impl Events {
    fn next(&mut self) -> Value {
        let mut text = Vec::new();
        while !text.ends_with(b"\n\n") {
            let mut size = String::new();
            self.0.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            assert!(size > 0, "the events have ended");
            let mut chunk = vec![0; size + 2];
            self.0.read_exact(&mut chunk).unwrap();
            text.extend(&chunk[..size]);
        }
        let text = String::from_utf8(text).unwrap();
        serde_json::from_str(text.strip_prefix("data: ").unwrap()).unwrap()
    }
}

/// A value as it was sent, by the name of its series and a label.
fn sent<'a>(message: &'a Value, name: &str, label: &str) -> (u64, &'a Value) {
    let groups = message["about"].as_array().unwrap().iter();
    let all = groups.flat_map(|g| g["series"].as_array().unwrap());
    let is = |s: &&Value| s[1] == name && (label.is_empty() || s[2].to_string().contains(label));
    let id = &all.into_iter().find(is).unwrap()[0];
    let ids = message["ids"].as_array().unwrap();
    let place = ids.iter().position(|i| i == id).unwrap();
    (id.as_u64().unwrap(), &message["values"][place])
}

const FILES: [&str; 10] = [
    "/",
    "/page/style.css",
    "/page/icon.svg",
    "/page/app.js",
    "/page/charts.js",
    "/page/detail.js",
    "/page/feed.js",
    "/page/numbers.js",
    "/page/store.js",
    "/page/table.js",
];

#[test]
fn the_page_is_small_and_needs_nothing_from_elsewhere() {
    let server = Server::new(&["/nonexistent/segment"]);
    let mut bytes = 0;
    for path in FILES {
        let (head, body) = server.get(path, "");
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        for header in [
            "content-security-policy: default-src 'none';",
            "x-content-type-options: nosniff\r\n",
            "referrer-policy: no-referrer\r\n",
            "cache-control: no-cache\r\n",
        ] {
            assert!(head.contains(header), "{path}: {head}");
        }
        assert!(
            !head.contains("unsafe") && !head.contains("access-control"),
            "{head}"
        );
        bytes += body.len();
        // Namespaces are names, which nobody asks for.
        let body = body.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !body.contains("http://") && !body.contains("https://"),
            "{path}"
        );
        assert!(
            !body.contains("innerHTML") && !body.contains("eval("),
            "{path}"
        );
        let tag = head
            .split("etag: ")
            .nth(1)
            .unwrap()
            .split("\r\n")
            .next()
            .unwrap();
        let (head, body) = server.get(path, &format!("If-None-Match: {tag}\r\n"));
        assert!(
            head.starts_with("http/1.1 304") && body.is_empty(),
            "{head}"
        );
    }
    assert!(bytes < 100 * 1024, "{bytes} bytes");
    let (head, _) = server.get("/page/../Cargo.toml", "");
    assert!(head.starts_with("http/1.1 404"), "{head}");
}

#[test]
fn events_have_the_numbers_of_the_segment() {
    let name = Named::new("page");
    let segment = name.make();
    every_kind(&segment);
    let server = Server::new(&[&name.0]);
    let mut events = server.events();
    let first = events.next();
    assert_eq!(first["whole"], true);
    let shown = json(&["show", &name.0, "--json"]);
    let series = shown["series"].as_array().unwrap();
    assert_eq!(first["ids"].as_array().unwrap().len(), series.len());
    assert_eq!(first["segments"][0]["series"], series.len());
    assert_eq!(first["segments"][0]["families"][0]["overflows"], 2);
    for s in series {
        let label = s["labels"].as_object().unwrap().values().next();
        let label = label.filter(|l| *l != HOSTILE).map(Value::to_string);
        let field = s["labels"].get("result").map(Value::to_string);
        let (id, value) = match (s["name"] == "a_total", &label) {
            (true, None) => sent(&first, "a_total", "u{202e}"),
            _ => sent(
                &first,
                s["name"].as_str().unwrap(),
                &field.or(label).unwrap_or_default(),
            ),
        };
        let want = match s["kind"].as_str().unwrap() {
            "histogram" => s["histogram"]["count"].clone(),
            "extrema" if s["missing"].is_null() => serde_json::json!([s["min"], s["max"]]),
            "info" => Value::Null,
            _ if !s["missing"].is_null() => serde_json::json!({"missing": s["missing"]}),
            // What a browser rounds is a string.
            _ => match s["value"].as_u64() {
                Some(n) if n >= 1 << 53 => n.to_string().into(),
                _ => s["value"].clone(),
            },
        };
        assert_eq!(*value, want, "{s}");
        assert_eq!(server.detail(id)["value"], want, "{s}");
    }
    assert_eq!(sent(&first, "a_total", "u{202e}").1, "1152921504606846977");
    let text = first.to_string();
    assert!(
        !text.contains('\u{202e}') && !text.contains('\u{1b}'),
        "{text}"
    );
}

#[test]
fn later_events_have_what_changed() {
    let name = Named::new("page_changes");
    let segment = name.make();
    let metric = |n| segment.counter(&Metric::new(n)).unwrap();
    let (moving, still) = (metric("moving_total"), metric("still_total"));
    moving.add(1);
    still.add(1);
    let server = Server::new(&[&name.0]);
    let mut events = server.events();
    let first = events.next();
    let (id, _) = sent(&first, "moving_total", "");
    moving.add(9);
    // In the second picture both have rates, in later ones only what moves is told.
    let second = events.next();
    assert_eq!(
        second["number"].as_u64(),
        first["number"].as_u64().map(|n| n + 1)
    );
    assert_eq!(
        (&second["whole"], &second["about"]),
        (&false.into(), &Value::Null)
    );
    assert_eq!(second["ids"].as_array().unwrap().len(), 2, "{second}");
    moving.add(5);
    let third = events.next();
    assert_eq!(
        (&third["ids"], &third["values"]),
        (&[id].as_slice().into(), &[15].as_slice().into())
    );
    let rate = third["rates"][0].as_f64().unwrap();
    assert!(rate > 0.0 && rate < 6.0, "{third}");
    std::fs::remove_file(name.path()).unwrap();
    let other = name.make();
    other.counter(&Metric::new("moving_total")).unwrap().add(3);
    let message = loop {
        let message = events.next();
        if !message["said"].is_null() {
            break message;
        }
    };
    assert!(
        message["said"].to_string().contains("was replaced"),
        "{message}"
    );
    assert_eq!(sent(&message, "moving_total", ""), (id, &3.into()));
    assert_eq!(message["gone"].as_array().unwrap().len(), 1, "{message}");
    let at = message["ids"]
        .as_array()
        .unwrap()
        .iter()
        .position(|i| *i == id);
    assert_eq!(
        message["rates"][at.unwrap()],
        Value::Null,
        "no rate over the gap"
    );
}

#[test]
fn details_have_histories_buckets_processes_and_cpus() {
    let name = Named::new("page_detail");
    let segment = name.make();
    every_kind(&segment);
    let server = Server::new(&[&name.0]);
    let mut events = server.events();
    let first = events.next();
    let (waits, _) = sent(&first, "wait_seconds", "\"x\"");
    let (flying, _) = sent(&first, "flying", "");
    server.detail(waits);
    server.detail(flying);
    let new = percpu::HistogramOptions::new();
    let m = Metric::new("wait_seconds")
        .help("A help text.")
        .unit("seconds")
        .label("label", "x");
    let h = segment.histogram(&m, &new).unwrap();
    events.next();
    server.detail(waits);
    h.record(0.5);
    h.record(100.0);
    events.next();
    server.detail(waits);
    events.next();
    events.next();
    let d = server.detail(waits);
    assert_eq!(d["latest"]["count"], 0, "{d}");
    assert_eq!(d["help"], "A help text.");
    assert_eq!(d["minute"]["count"], 2, "{d}");
    let columns = d["heat"]["columns"].as_array().unwrap().iter();
    let counts = columns.flat_map(|c| c[1].as_array().unwrap());
    assert_eq!(counts.filter_map(Value::as_u64).sum::<u64>(), 2, "{d}");
    assert_eq!(d["exemplars"][0]["labels"][0][1], "4bf92f35");
    assert!(d["history"].as_array().unwrap().len() >= 4, "{d}");
    let ago = d["ago"].as_array().unwrap().iter();
    let ago: Vec<_> = ago.map(|x| x.as_f64().unwrap()).collect();
    assert!(
        ago[0] == 0.0 && ago.is_sorted() && ago.last() > Some(&0.5),
        "{d}"
    );
    let d = server.detail(flying);
    assert_eq!(d["owners"][0]["pid"], std::process::id());
    assert_eq!(
        (
            &d["owners"][0]["alive"],
            &d["owners"][0]["gone"],
            &d["rule"]
        ),
        (&true.into(), &false.into(), &"sum".into())
    );
    let (head, _) = server.get("/detail?id=123456789", "");
    assert!(head.starts_with("http/1.1 404"), "{head}");
    let (head, _) = server.get("/detail?id=x", "");
    assert!(head.starts_with("http/1.1 400"), "{head}");
}

#[test]
fn only_matching_series_are_told_and_bad_files_with_the_reason() {
    let name = Named::new("page_match");
    let segment = name.make();
    every_kind(&segment);
    let bad = Scratch::with("page-bad", "no segment");
    let server = Server::new(&[&name.0, bad.text(), "not_there_yet", "--match", "dep*"]);
    let first = server.events().next();
    assert_eq!(first["ids"].as_array().unwrap().len(), 1, "{first}");
    assert_eq!(*sent(&first, "depth", "").1, -3);
    let lost = |name: &str| {
        let all = first["segments"].as_array().unwrap();
        all.iter().find(|s| s["name"] == name).unwrap()["lost"].to_string()
    };
    assert!(lost(bad.text()).contains("no segment"), "{first}");
    assert!(
        lost("not_there_yet").contains("there is no segment"),
        "{first}"
    );
    assert_eq!(lost(&name.0), "null");
}

#[test]
fn there_are_so_many_pages_and_no_more() {
    let server = Server::new(&["/nonexistent/segment"]);
    let mut pages: Vec<_> = (0..PAGES).map(|_| server.events()).collect();
    let (head, body) = server.get("/events", "");
    assert!(head.starts_with("http/1.1 503"), "{head}");
    assert!(body.contains("32 pages"), "{body}");
    pages.pop();
    // That a page is gone is known with the next event.
    for _ in 0..100 {
        let (head, _) = server.open("/events", "");
        if head.starts_with("http/1.1 200") {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no place became free");
}
