// SPDX-License-Identifier: MIT
//! `percpu ls`: what there is, who counts, and what cannot be read.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use common::{every_kind, json, prints, run, Named, Scratch};
use percpu::Metric;
use serde_json::{json, Value};

fn entry<'a>(all: &'a Value, name: &str) -> &'a Value {
    let list = all["segments"].as_array().unwrap();
    list.iter().find(|s| s["name"] == name).unwrap()
}

#[test]
fn segments_are_listed() {
    let name = Named::new("listed");
    let segment = name.make();
    every_kind(&segment);
    let all = json(&["ls", "--json"]);
    assert_eq!(all["format"], json!(1));
    let one = entry(&all, &name.0);
    let bytes = std::fs::metadata(name.path()).unwrap().blocks() * 512;
    assert_eq!(one["bytes"], json!(bytes));
    assert_eq!(one["path"], json!(name.path().to_str().unwrap()));
    assert_eq!(one["program"], json!("tool test"));
    assert_eq!(
        (&one["generation"], &one["error"]),
        (&json!(1), &Value::Null)
    );
    let shown = json(&["show", &name.0, "--json"]);
    let series = shown["series"].as_array().unwrap().len();
    assert_eq!(one["series"], json!(series));
    assert!(one["age_seconds"].as_f64().unwrap() < 600.0);
    let text = prints(&["ls"]);
    let line = text.lines().find(|l| l.starts_with(&name.0)).unwrap();
    assert!(line.ends_with("  tool test"), "{line}");
    assert!(text.starts_with("NAME "), "{text}");
}

/// This is no test of its own: the next one runs it as other processes, which count until they are
/// killed.
#[test]
#[ignore = "it is a process of another test"]
fn one_that_counts() {
    let name = std::env::var("PERCPU_TEST_SEGMENT").unwrap();
    let segment = percpu::Segment::open(&name).unwrap();
    segment.counter(&Metric::new("n_total")).unwrap().inc();
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

#[test]
fn writers_are_counted() {
    let name = Named::new("writers");
    drop(name.make());
    let seen = || json(&["ls", &name.0, "--json"])["segments"][0]["writers"]["seen"].clone();
    assert_eq!(seen(), json!(0));
    let start = || {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "one_that_counts"]);
        let child = child
            .env("PERCPU_TEST_SEGMENT", &name.0)
            .stdin(Stdio::piped());
        child.stdout(Stdio::null()).spawn().unwrap()
    };
    let mut children = vec![start(), start(), start()];
    let counted = || {
        let all = json(&["show", &name.0, "--json"]);
        common::series(&all, "n_total", "")["value"]
            .as_u64()
            .unwrap_or(0)
    };
    while counted() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(seen(), json!(3));
    // Files that are not there have none.
    let all = json(&["ls", "--json"]);
    assert_eq!(entry(&all, &name.0)["writers"]["seen"], json!(3));
    let out = run(&["ls", "no_such_segment", &name.0, "--json"]);
    let both: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(entry(&both, "no_such_segment")["writers"], Value::Null);
    assert_eq!(entry(&both, &name.0)["writers"]["seen"], json!(3));
    let mut killed = children.pop().unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(seen(), json!(2));
    for mut child in children {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    assert_eq!(seen(), json!(0));
}

#[test]
fn what_cannot_be_read_is_listed_with_why() {
    let broken = Named::new("broken");
    std::fs::write(broken.path(), "dear diary\n".repeat(1000)).unwrap();
    let all = json(&["ls", "--json"]);
    let why = entry(&all, &broken.0)["error"].as_str().unwrap();
    assert!(why.len() > 20, "{why}");
    assert!(entry(&all, &broken.0)["series"].is_null());
    let text = prints(&["ls"]);
    let line = text.lines().find(|l| l.starts_with(&broken.0)).unwrap();
    let path = format!("segment \"{}\": ", broken.path().display());
    let reason = why.strip_prefix(&path).unwrap();
    assert!(line.ends_with(&format!("  {reason}")), "{line}");
    // Who names it gets the exit code as well.
    let good = Named::new("beside");
    drop(good.make());
    let nothing = Scratch::new("nothing");
    let out = run(&["ls", &good.0, &broken.0, nothing.text(), "no_such_segment"]);
    assert_eq!(out.status.code(), Some(5));
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.contains("there is no such file"), "{text}");
    assert!(
        text.contains("there is no segment \"no_such_segment\""),
        "{text}"
    );
    assert_eq!(run(&["ls", "no_such_segment"]).status.code(), Some(3));
}
