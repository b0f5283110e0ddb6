// SPDX-License-Identifier: MIT
//! What the tests have in common: segments that programs count in, and the command itself.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use percpu::{Counter, HistogramOptions, Metric, Rule, Segment, SegmentOptions};
use serde_json::Value;

percpu::stats! { pub struct Lookups { hit, miss } }

pub const BOUNDS: [f64; 5] = [-1.5, 0.005, 0.1, 1.0 / 3.0, 2.5];
/// What acts on a terminal, and what formats must quote.
pub const HOSTILE: &str = "\x1b[2J \u{9b}31m \u{202e}\r\n\t\"q\" \\ ü漢,{}=;\x7f";

/// A name of a segment in /dev/shm that no other test has. The file is removed in the end.
pub struct Named(pub String);

impl Named {
    pub fn new(what: &str) -> Self {
        let named = Self(format!("tool_{what}_{}", std::process::id()));
        let _ = std::fs::remove_file(named.path());
        named
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/shm/percpu.{}", self.0))
    }

    /// Make it, by a program of that name.
    pub fn make(&self) -> Segment {
        let options = SegmentOptions::new().create().program("tool test");
        options.open(&self.0).unwrap()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.path());
    }
}

/// A path that no other test has. The file is removed in the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(what: &str) -> Self {
        let name = format!("percpu-tool-{what}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub fn with(what: &str, bytes: impl AsRef<[u8]>) -> Self {
        let file = Self::new(what);
        std::fs::write(&file.0, bytes).unwrap();
        file
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The command, with a locale that has UTF-8.
pub fn percpu(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_percpu"));
    command.args(arguments).env("LC_ALL", "C.UTF-8");
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    percpu(arguments).output().unwrap()
}

/// What it prints when all is well.
pub fn prints(arguments: &[&str]) -> String {
    let out = run(arguments);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{arguments:?}: {said}");
    assert_eq!(said, "", "{arguments:?}");
    String::from_utf8(out.stdout).unwrap()
}

pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&prints(arguments)).unwrap()
}

/// The exit code and the one sentence of a failure.
pub fn fails(arguments: &[&str]) -> (i32, String) {
    failure(&run(arguments), arguments)
}

pub fn failure(out: &Output, arguments: &[&str]) -> (i32, String) {
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.stdout, b"", "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    let sentence = said.strip_prefix("percpu: ").map(str::trim_end);
    let sentence = sentence.unwrap_or_else(|| panic!("{arguments:?}: {said}"));
    assert!(sentence.len() > 20, "{sentence}");
    (out.status.code().unwrap(), sentence.to_string())
}

/// Run a program with that input. `None`: it is not installed.
pub fn filter(program: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        Err(e) => panic!("{program:?}: {e}"),
    };
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let out = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    Some(out)
}

/// What a script in Python prints, given that input.
pub fn python(script: &str, input: &str) -> Option<String> {
    let out = filter(&["python3", "-c", script], input)?;
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    Some(String::from_utf8(out.stdout).unwrap())
}

fn metric<'a>(name: &'a str, unit: &'a str) -> Metric<'a> {
    Metric::new(name).help("A help text.").unit(unit)
}

/// Each kind of metric, some with values that are hard to print, and some without any.
pub fn every_kind(segment: &Segment) {
    let counter = |value, n: u64| {
        let m = metric("a_total", "things").label("label", value);
        segment.counter(&m).unwrap().add(n);
    };
    counter("", 1);
    counter(HOSTILE, (1 << 60) + 1);
    let work = segment.fcounter(&metric("work_seconds_total", "seconds"));
    work.unwrap().add(0.1).unwrap();
    let lookups = metric("lookups_total", "").label("label", "x");
    let lookups = segment.stats::<Lookups>(&lookups, "result").unwrap();
    lookups.update(&Lookups { hit: 5, miss: 2 }).unwrap();
    segment
        .info(&metric("build_info", "").label("version", "1.0"))
        .unwrap();
    segment
        .gauge(&metric("depth", ""))
        .unwrap()
        .set(-3)
        .unwrap();
    let room = segment.fgauge(&metric("room_celsius", "celsius")).unwrap();
    room.set(1.0 / 3.0).unwrap();
    let latest = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-7, -0.0];
    for (label, x) in ["nan", "inf", "minus", "small", "zero"].iter().zip(latest) {
        let last = segment.latest(&metric("last", "").label("label", label));
        last.unwrap().set(x).unwrap();
    }
    segment
        .latest(&metric("last", "").label("label", "never"))
        .unwrap();
    let flying = segment.owned_gauge(&metric("flying", ""), Rule::Sum);
    flying.unwrap().add(2).unwrap();
    let part = segment.owned_fgauge(&metric("part_ratio", "ratio"), Rule::Max);
    part.unwrap().set(0.25).unwrap();
    let sizes = segment.fextrema(&metric("size_bytes", "bytes")).unwrap();
    for x in [0.5, 2.5] {
        sizes.observe(x).unwrap();
    }
    segment.extrema(&metric("no_size_bytes", "bytes")).unwrap();
    histograms(segment);
    family(segment);
}

fn histograms(segment: &Segment) {
    let of = |name, label, options: &HistogramOptions, values: &[f64]| {
        let m = metric(name, "seconds").label("label", label);
        let h = segment.histogram(&m, options).unwrap();
        values.iter().for_each(|v| h.record(*v));
    };
    let new = HistogramOptions::new();
    of("wait_seconds", "x", &new, &[0.25, 0.5, 0.75]);
    of("wait_seconds", "beyond", &new, &[0.5, 1024.0, 2048.0]);
    of("wait_seconds", "empty", &new, &[]);
    let values = [-1.5, 0.004, 0.0625, 0.25, 2.5, 5.0];
    of("drift_seconds", "x", &new.bounds(&BOUNDS), &values);
    of("read_seconds", "x", &new.summary(), &values);
    let ticks = new.ticks_per_unit(1_000_000_000);
    of("tick_seconds", "x", &ticks, &[0.000_001, 0.000_002]);
    let m = metric("wait_seconds", "seconds").label("label", "x");
    let exemplars = segment.exemplars(&m).unwrap();
    exemplars.store(0.5, &[("trace_id", "4bf92f35")]).unwrap();
}

/// A family that has room for one series.
fn family(segment: &Segment) {
    let sent = segment
        .family::<Counter>(&metric("sent_total", ""), &["user"], 1)
        .unwrap();
    for (i, user) in ["ann", "bo", "cy"].iter().enumerate() {
        sent.add(&[user], 10 + i as u64).unwrap();
    }
}

/// Give the value of a series in JSON.
pub fn series<'a>(json: &'a Value, name: &str, label: &str) -> &'a Value {
    let all = json["series"].as_array().unwrap();
    let is = |s: &&Value| {
        let labels = s["labels"].as_object().unwrap();
        s["name"] == name && (label.is_empty() || labels.values().any(|v| v == label))
    };
    all.iter().find(is).unwrap_or(&Value::Null)
}
