// SPDX-License-Identifier: MIT
//! `percpu watch` of segments in which something happens meanwhile.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use common::{every_kind, percpu, prints, python, series, Named, Scratch, HOSTILE};
use percpu::{Counter, Histogram, HistogramOptions, Metric, Segment, SegmentOptions};
use serde_json::{json, Value};

/// A watch whose looks are read as they come, and how many were.
struct Watch(Child, BufReader<ChildStdout>, u32);

impl Watch {
    fn start(arguments: &[&str]) -> Self {
        let all = [&["watch", "-n", "0.02"], arguments].concat();
        let mut child = percpu(&all).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out, 0)
    }

    fn line(&mut self) -> String {
        self.2 += 1;
        assert!(self.2 < 3000, "what is awaited does not come");
        let mut line = String::new();
        assert!(self.1.read_line(&mut line).unwrap() > 0, "it has ended");
        line
    }

    fn look(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// The next look for which that holds. No counter has a negative rate in those before.
    fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let look = self.look();
            for s in look["series"].as_array().unwrap() {
                let rate = s["rate"].as_f64().unwrap_or(0.0);
                assert!(rate >= 0.0 || s["kind"] == "gauge", "{look}");
                assert!(s["event"].is_null() || s["event"] == "reset", "{look}");
            }
            if holds(&look) {
                return look;
            }
        }
    }

    fn event(&mut self, words: &str) -> Value {
        self.until(|look| look["event"].as_str().is_some_and(|e| e.contains(words)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn counter(segment: &Segment) -> Counter {
    segment.counter(&Metric::new("n_total")).unwrap()
}

fn histogram(segment: &Segment) -> Histogram {
    let options = HistogramOptions::new();
    segment
        .histogram(&Metric::new("seconds"), &options)
        .unwrap()
}

#[test]
fn only_changes_after_the_first_look() {
    let name = Named::new("changes");
    let segment = name.make();
    every_kind(&segment);
    let (n, h) = (counter(&segment), histogram(&segment));
    n.add((1 << 60) + 1);
    let level = segment.gauge(&Metric::new("level")).unwrap();
    let mut watch = Watch::start(&[&name.0, "--json"]);
    let first = watch.look();
    assert_eq!(
        (&first["format"], &first["seconds"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(
        series(&first, "n_total", "")["value"],
        json!((1u64 << 60) + 1)
    );
    assert!(series(&first, "n_total", "")["delta"].is_null());
    n.add(3);
    level.add(-5);
    h.record(0.5);
    h.record(0.25);
    let (mut grown, mut observed, mut fallen) = (0, 0, 0);
    while (grown, observed, fallen) != (3, 2, -5) {
        let look = watch.until(|look| look["series"] != json!([]));
        for s in look["series"].as_array().unwrap() {
            let delta = s["delta"].as_i64().unwrap();
            match s["name"].as_str().unwrap() {
                "n_total" => grown += delta,
                "level" => fallen += delta,
                "seconds" => {
                    observed += delta;
                    assert_eq!(s["interval"]["count"], json!(delta));
                }
                other => panic!("{other} did not change: {look}"),
            }
            let seconds = look["seconds"].as_f64().unwrap();
            let rate = s["rate"].as_f64().unwrap();
            assert!((rate * seconds - delta as f64).abs() < 1e-6, "{look}");
        }
    }
    // A series that is declared meanwhile.
    segment.counter(&Metric::new("late_total")).unwrap().inc();
    let late = loop {
        let look = watch.look();
        if !look["series"].as_array().unwrap().is_empty() {
            break look;
        }
    };
    assert_eq!(series(&late, "late_total", "")["event"], "new", "{late}");
}

#[test]
fn resets_are_said() {
    let name = Named::new("reset");
    let segment = name.make();
    let (n, h) = (counter(&segment), histogram(&segment));
    n.add(100);
    h.record(0.5);
    let mut watch = Watch::start(&[&name.0, "--json"]);
    watch.look();
    // Of one counter and one histogram.
    n.zero();
    h.fetch_zero().unwrap();
    let is = |look: &Value, name: &str| series(look, name, "")["event"] == "reset";
    let mut both = [false; 2];
    while both != [true; 2] {
        let look = watch.until(|look| look["series"] != json!([]));
        both[0] |= is(&look, "n_total");
        both[1] |= is(&look, "seconds");
        assert_eq!(look["event"], Value::Null);
    }
    // Of all.
    n.add(7);
    watch.until(|look| series(look, "n_total", "")["value"] == json!(7));
    drop((n, h, segment));
    let segment = SegmentOptions::new().anew().open(&name.0).unwrap();
    let look = watch.event("the segment was reset");
    assert!(series(&look, "n_total", "")["rate"].is_null(), "{look}");
    counter(&segment).add(2);
    watch.until(|look| series(look, "n_total", "")["value"] == json!(2));
}

#[test]
fn a_series_that_begins_anew_is_no_growth() {
    let name = Named::new("series-anew");
    let segment = name.make();
    let family = segment.family::<Counter>(&Metric::new("f_total"), &["x"], 10);
    let family = family.unwrap();
    family.add(&["again"], 5).unwrap();
    let mut watch = Watch::start(&[&name.0, "--json"]);
    watch.look();
    // The tool takes starts for the same that are 10 ms apart.
    std::thread::sleep(std::time::Duration::from_millis(20));
    family.remove(&["again"]).unwrap();
    family.add(&["again"], 50).unwrap();
    let anew = loop {
        let look = watch.look();
        let all = look["series"].as_array().unwrap().clone();
        if let Some(s) = all.into_iter().find(|s| s["value"] == json!(50)) {
            break s;
        }
    };
    assert_eq!(
        (&anew["event"], &anew["delta"]),
        (&json!("new"), &Value::Null)
    );
}

#[test]
fn another_file_and_none() {
    let name = Named::new("replaced");
    let segment = name.make();
    counter(&segment).add(50);
    let mut watch = Watch::start(&[&name.0, "--json"]);
    watch.look();
    std::fs::remove_file(name.path()).unwrap();
    watch.event("looking again and again");
    // It is said once.
    for _ in 0..3 {
        assert_eq!(watch.look()["event"], Value::Null);
    }
    std::fs::write(name.path(), "no segment").unwrap();
    watch.event("looking again and again");
    std::fs::remove_file(name.path()).unwrap();
    let segment = name.make();
    counter(&segment).add(51);
    let is = |look: &Value| series(look, "n_total", "")["value"] == json!(51);
    let mut look = watch.event("another file has the name now");
    while !is(&look) {
        look = watch.look();
    }
    assert_ne!(series(&look, "n_total", "")["delta"], json!(1), "{look}");
    // Replaced at once.
    let other = Named::new("replacing");
    counter(&other.make()).add(1);
    std::fs::rename(other.path(), name.path()).unwrap();
    let look = watch.event("another file has the name now");
    assert_eq!(series(&look, "n_total", "")["value"], json!(1));
}

#[test]
fn looks_are_counted() {
    let name = Named::new("count");
    counter(&name.make()).add(5);
    let text = prints(&["watch", &name.0, "-n", "0.01", "--count", "3"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("SERIES "), "{text}");
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>(),
        ["n_total", "5"]
    );
    for line in &lines[2..] {
        assert!(
            line.starts_with("-- after ") && line.ends_with(": nothing changed"),
            "{text}"
        );
    }
    let text = prints(&[
        "watch", &name.0, "no*", "-n", "0.01", "--count", "2", "--json",
    ]);
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("no series matches a pattern yet"), "{text}");
}

#[test]
fn csv_is_read_by_python() {
    let name = Named::new("csv");
    let segment = name.make();
    every_kind(&segment);
    let text = prints(&["watch", &name.0, "--csv", "--count", "1"]);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
    let script = "import csv, json, sys
print(json.dumps(list(csv.DictReader(sys.stdin, strict=True))))";
    let rows: Value = serde_json::from_str(&python(script, &text).unwrap()).unwrap();
    let rows = rows.as_array().unwrap();
    let shown = prints(&["show", &name.0, "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let with_value = shown["series"].as_array().unwrap().iter();
    assert_eq!(
        rows.len(),
        with_value.filter(|s| s["missing"].is_null()).count()
    );
    let row = |name: &str| rows.iter().find(|r| r["name"] == name).unwrap();
    assert_eq!(
        (&row("depth")["value"], &row("depth")["kind"]),
        (&json!("-3"), &json!("gauge"))
    );
    assert_eq!(row("read_seconds")["value"], "6");
    assert_eq!(row("room_celsius")["value"], (1.0 / 3.0f64).to_string());
    assert_eq!(
        (&row("depth")["delta"], &row("depth")["rate"]),
        (&json!(""), &json!(""))
    );
    let hostile = rows.iter().find(|r| r["value"] == "1152921504606846977");
    let labels = hostile.unwrap()["labels"].as_str().unwrap();
    assert_eq!(
        labels,
        format!("label={HOSTILE:?}")
            .replace('\\', "\\\\")
            .replace("\\\\", "\\")
    );
    let fields = rows.iter().all(|r| r.as_object().unwrap().len() == 8);
    assert!(fields, "{text}");
}

#[test]
fn csv_of_what_happens_is_read_by_python() {
    let file = Scratch::new("csv,\"event\"");
    let make = || {
        let segment = Segment::create(file.text()).unwrap();
        counter(&segment).add(1);
        let size = segment.extrema(&Metric::new("size")).unwrap();
        [-1, 7].iter().for_each(|x| size.observe(*x).unwrap());
    };
    make();
    let mut watch = Watch::start(&[file.text(), "--csv"]);
    let mut text = String::new();
    let mut until = |words: &str| {
        while !text.lines().last().is_some_and(|l| l.contains(words)) {
            text += &watch.line();
        }
    };
    until(",size,");
    std::fs::remove_file(&file.0).unwrap();
    until("looking again");
    make();
    until("another file has the name");
    until(",size,");
    let script = "import csv, json, sys
print(json.dumps([r for r in csv.reader(sys.stdin, strict=True)]))";
    let rows: Value = serde_json::from_str(&python(script, &text).unwrap()).unwrap();
    let rows = rows.as_array().unwrap();
    assert!(
        rows.iter().all(|r| r.as_array().unwrap().len() == 8),
        "{text}"
    );
    assert_eq!(rows.iter().filter(|r| r[0] == "time").count(), 1, "{text}");
    let event = rows
        .iter()
        .find(|r| r[1].as_str().unwrap().contains("looking again"));
    assert!(
        event.unwrap()[1].as_str().unwrap().contains(file.text()),
        "{text}"
    );
    let size = rows.iter().find(|r| r[2] == "size").unwrap();
    assert_eq!(size[5], "7", "{text}");
}

#[test]
fn a_failure_is_said_again_after_it_was_over() {
    let name = Named::new("again");
    let hidden = Named::new("hidden");
    drop(name.make());
    let mut watch = Watch::start(&[&name.0, "--json"]);
    watch.look();
    for _ in 0..2 {
        std::fs::rename(name.path(), hidden.path()).unwrap();
        watch.event("looking again and again");
        std::fs::rename(hidden.path(), name.path()).unwrap();
        watch.until(|look| look["seconds"].is_number());
    }
}
