// SPDX-License-Identifier: MIT
//! `percpu show` of segments with all kinds of metrics.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::process::Command;

use common::{every_kind, filter, json, percpu, prints, python, series, Named, HOSTILE};
use percpu::{Counter, HistogramOptions, Metric, OwnedRule, Reader, Rule};
use serde_json::{json, Value};

#[test]
fn columns_have_each_kind() {
    let name = Named::new("columns");
    let segment = name.make();
    every_kind(&segment);
    let text = prints(&["show", &name.0]);
    let first = text.lines().next().unwrap();
    let head = format!("{} of tool test: generation 1, ", name.0);
    assert!(first.starts_with(&head), "{first}");
    let line = |begin: &str| {
        let found = text.lines().find(|l| l.starts_with(begin));
        let words: Vec<_> = found
            .unwrap_or_else(|| panic!("{begin} in {text}"))
            .split_whitespace()
            .collect();
        words.join(" ")
    };
    for (begin, whole) in [
        (
            "a_total{label=\"\"}",
            "a_total{label=\"\"} 1 things A help text.",
        ),
        ("work_", "work_seconds_total 0.1 seconds A help text."),
        ("depth", "depth -3 A help text."),
        (
            "wait_seconds{label=\"x\"",
            "wait_seconds{label=\"x\"} 3 A help text.",
        ),
        ("room_", "room_celsius 0.33333 celsius A help text."),
        ("size_bytes", "size_bytes 0.500 to 2.50 bytes A help text."),
        ("no_size", "no_size_bytes - bytes A help text."),
        (
            "lookups_total{label=\"x\",result=\"hit\"}",
            "lookups_total{label=\"x\",result=\"hit\"} 5 A help text.",
        ),
        (
            "lookups_total{label=\"x\",result=\"miss\"}",
            "lookups_total{label=\"x\",result=\"miss\"} 2",
        ),
        ("build_info", "build_info{version=\"1.0\"} A help text."),
        (
            "sent_total{user=\"_overflow\"}",
            "sent_total{user=\"_overflow\"} 23 A help text.",
        ),
        (
            "2 calls",
            "2 calls found no room in sent_total, which may have one series, and got its overflow.",
        ),
    ] {
        assert_eq!(line(begin), whole, "{text}");
    }
    assert!(text.contains("no value: "), "{text}");
    let pid = std::process::id();
    assert!(
        text.contains(&format!(
            "the sum of the processes that live:\n      pid {pid}: 2\n"
        )),
        "{text}"
    );
    let waits = "    count 3, mean 500 ms, p50 500 ms, p90 750 ms, p99 750 ms, max 750 ms\n";
    assert!(text.contains(waits), "{text}");
    assert!(text.contains("    ≤ 1.00 s  "), "{text}");
    assert!(
        text.contains("    > 17m 4s  ") && text.contains("  1  ████████████████████████\n"),
        "{text}"
    );
    assert!(
        !text.contains('\x1b') && !text.contains('\u{9b}') && !text.contains('\u{202e}'),
        "{text}"
    );
}

#[test]
fn no_utf8_is_ascii() {
    let name = Named::new("ascii");
    let segment = name.make();
    every_kind(&segment);
    for (all, lang) in [("C", "C.UTF-8"), ("", "C"), ("", "")] {
        for form in [
            &["show", name.0.as_str()][..],
            &["ls"],
            &["watch", &name.0, "--count", "1"],
        ] {
            let mut command = percpu(form);
            let out = command
                .env("LC_ALL", all)
                .env("LANG", lang)
                .env_remove("LC_CTYPE")
                .output();
            let out = String::from_utf8(out.unwrap().stdout).unwrap();
            assert!(out.is_ascii(), "{all} {lang}: {out}");
            assert!(
                form[0] != "show" || out.contains("<= ") && out.contains("####"),
                "{out}"
            );
        }
    }
}

#[test]
fn json_has_all_values_exactly() {
    let name = Named::new("json");
    let segment = name.make();
    every_kind(&segment);
    let text = prints(&["show", &name.0, "--json"]);
    assert!(
        !text
            .chars()
            .any(|c| c.is_control() && c != '\n' || c == '\u{202e}'),
        "{text}"
    );
    let all: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&all["format"], &all["generation"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&all["segment"], &all["program"]),
        (&json!(name.0), &json!("tool test"))
    );
    assert_eq!(
        series(&all, "a_total", HOSTILE)["value"],
        json!((1u64 << 60) + 1)
    );
    assert_eq!(series(&all, "depth", "")["value"], json!(-3));
    assert_eq!(series(&all, "room_celsius", "")["value"], json!(1.0 / 3.0));
    assert_eq!(series(&all, "last", "inf")["value"], json!("+Inf"));
    assert_eq!(series(&all, "last", "minus")["value"], json!("-Inf"));
    assert_eq!(series(&all, "last", "nan")["value"], json!("NaN"));
    assert!(series(&all, "last", "never")["missing"].is_string());
    assert_eq!(series(&all, "last", "never")["kind"], json!("gauge"));
    assert_eq!(series(&all, "no_size_bytes", "")["kind"], json!("extrema"));
    assert_eq!(series(&all, "size_bytes", "")["max"], json!(2.5));
    assert_eq!(series(&all, "build_info", "1.0")["kind"], json!("info"));
    let beyond = &series(&all, "wait_seconds", "beyond")["histogram"];
    assert_eq!(
        (&beyond["count"], &beyond["sum"]),
        (&json!(3), &json!(3072.5))
    );
    assert_eq!(beyond["buckets"][2]["upper"], json!("+Inf"));
    let exemplars = &series(&all, "wait_seconds", "x")["exemplars"];
    assert_eq!(exemplars[0]["labels"], json!({"trace_id": "4bf92f35"}));
    let flying = series(&all, "flying", "");
    assert_eq!(flying["rule"], json!("sum"));
    assert_eq!(
        (&flying["owners"][0]["pid"], &flying["owners"][0]["alive"]),
        (&json!(std::process::id()), &json!(true))
    );
    let family = json!({"name": "sent_total", "cap": 1, "overflows": 2, "invalid": 0});
    assert_eq!(all["families"], json!([family]));
    // And so Python reads it.
    let script = "import json, sys
d = json.load(sys.stdin, parse_constant=lambda c: 1 / 0)
print(sum(s['value'] for s in d['series'] if s['name'] == 'a_total'))";
    let sum = python(script, &text).unwrap();
    assert_eq!(sum.trim(), ((1u64 << 60) + 2).to_string());
}

#[test]
fn text_is_that_of_the_library() {
    let name = Named::new("text");
    let segment = name.make();
    every_kind(&segment);
    let text = prints(&["show", &name.0, "--text"]);
    let mut reader = Reader::open(&name.0).unwrap();
    assert_eq!(text, reader.read().unwrap().prometheus().unwrap());
    match filter(&["promtool", "check", "metrics"], &text) {
        Some(out) => {
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(
                out.status.success() && out.stdout.is_empty() && said.is_empty(),
                "{said}"
            );
        }
        None => eprintln!("promtool is not there"),
    }
}

/// What Python's client makes of the text: names, labels and values, as JSON.
fn parsed_by_the_client(text: &str) -> Option<Value> {
    const SCRIPT: &str = "import json, sys
try:
    from prometheus_client.parser import text_string_to_metric_families as parse
except ImportError:
    sys.exit()
text = sys.stdin.buffer.read().decode()
print(json.dumps([[f.name, f.type, f.documentation,
                   [[s.name, s.labels, str(s.value)] for s in f.samples]] for f in parse(text)]))";
    let out = python(SCRIPT, text)?;
    (!out.is_empty()).then(|| serde_json::from_str(&out).unwrap())
}

#[test]
fn text_has_only_names_of_its_format() {
    let name = Named::new("names");
    let segment = name.make();
    let counter = |name: &str, label: &str, n| {
        let m = Metric::new(name)
            .help("Two\nlines \\ \"q\".")
            .label(label, HOSTILE);
        segment.counter(&m).unwrap().add(n);
    };
    counter("http.requests", "a.b", 1);
    counter("http_requests", "a_b", 2);
    counter("http/requests", "9", 3);
    counter("größe\x1b", "ü", 4);
    let m = Metric::new("wait").label("l.e", "1").label("l_e", "2");
    segment
        .histogram(&m, &HistogramOptions::new().bounds(&[1.0]))
        .unwrap()
        .record(0.5);
    segment.counter(&Metric::new("wait.count")).unwrap().add(7);
    let text = prints(&["show", &name.0, "--text"]);
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let end = line.find(['{', ' ']).unwrap();
        assert!(
            line[..end]
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "{line}"
        );
    }
    let heads: Vec<_> = text.lines().filter(|l| l.starts_with("# TYPE")).collect();
    let mut different = heads.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(heads.len(), 6, "{text}");
    assert_eq!(heads.len(), different.len(), "{text}");
    assert!(
        text.contains("wait_bucket{l_e=\"1\", l_e_=\"2\", le=\"1\"} 1\n"),
        "{text}"
    );
    assert!(text.contains("wait_count_ 7\n"), "{text}");
    let Some(parsed) = parsed_by_the_client(&text) else {
        eprintln!("prometheus_client is not there");
        return;
    };
    let families = parsed.as_array().unwrap();
    let first = families.iter().find(|f| f[0] == "http_requests").unwrap();
    assert_eq!(first[2], json!("Two\nlines \\ \"q\"."), "{first}");
    assert_eq!(first[3][0][1]["a_b"], json!(HOSTILE), "{first}");
    assert_eq!(families.len(), 6);
}

#[test]
fn the_client_reads_all_values() {
    let name = Named::new("client");
    let segment = name.make();
    every_kind(&segment);
    let text = prints(&["show", &name.0, "--text"]);
    let Some(parsed) = parsed_by_the_client(&text) else {
        eprintln!("prometheus_client is not there");
        return;
    };
    let families = parsed.as_array().unwrap();
    let family = |name: &str| families.iter().find(|f| f[0] == name).unwrap();
    assert_eq!(family("wait_seconds")[1], "histogram");
    assert_eq!(family("read_seconds")[1], "summary");
    assert_eq!(family("depth")[1], "gauge");
    let waits = family("wait_seconds")[3].as_array().unwrap();
    let x: Vec<_> = waits.iter().filter(|s| s[1]["label"] == "x").collect();
    assert_eq!(x.len(), 31 + 1 + 2);
    let bucket = |le: &str| x.iter().find(|s| s[1]["le"] == le).unwrap()[2].clone();
    assert_eq!(
        [bucket("0.25"), bucket("0.5"), bucket("+Inf")],
        ["1", "2", "3"]
    );
}

#[test]
fn globs_choose() {
    let name = Named::new("globs");
    let segment = name.make();
    every_kind(&segment);
    let names = |globs: &[&str]| -> Vec<String> {
        let all = json(&[&["show", name.0.as_str(), "--json"], globs].concat());
        let all = all["series"].as_array().unwrap().iter();
        all.map(|s| s["name"].as_str().unwrap().to_string())
            .collect()
    };
    assert_eq!(names(&["depth", "room_*"]), ["depth", "room_celsius"]);
    assert_eq!(names(&["*{*result=\"h?t\"*}"]), ["lookups_total"]);
    assert_eq!(names(&["lookups_total{*}"]).len(), 2);
    assert_eq!(names(&["l[!o]*"]), ["last"; 6]);
    let nonzero = names(&["--nonzero", "last"]);
    assert_eq!(nonzero, ["last"; 4], "neither 0 nor no value");
    let by_value = json(&["show", &name.0, "--json", "--sort", "value", "*_total"]);
    let first = &by_value["series"][0];
    assert_eq!(first["value"], json!((1u64 << 60) + 1));
    let (code, sentence) = common::fails(&["show", &name.0, "nothing*"]);
    assert_eq!(code, 3);
    assert!(sentence.contains("'*part*' does"), "{sentence}");
    let (code, sentence) = common::fails(&["show", &name.0, "--nonzero", "no_size*"]);
    assert_eq!(code, 3);
    assert!(sentence.contains("matches and is not 0"), "{sentence}");
    let (code, sentence) = common::fails(&["show", &name.0, "a[b"]);
    assert_eq!(code, 2);
    assert!(sentence.contains("a[b"), "{sentence}");
}

#[test]
fn each_cpu_has_its_part() {
    percpu::selftest();
    let name = Named::new("cpus");
    let segment = name.make();
    segment.counter(&Metric::new("n_total")).unwrap().add(41);
    if percpu::thread_tier() == percpu::Tier::Shared {
        return; // no CPU has counts of its own
    }
    segment.gauge(&Metric::new("level")).unwrap().add(-7);
    let all = json(&["show", &name.0, "--json", "--per-cpu"]);
    for (of, sum) in [("n_total", 41.0), ("level", -7.0)] {
        let cpus = series(&all, of, "")["cpus"].as_array().unwrap();
        assert_eq!(cpus.len() as u64, all["cpus"].as_u64().unwrap());
        assert_eq!(cpus.iter().map(|x| x.as_f64().unwrap()).sum::<f64>(), sum);
    }
    let text = prints(&["show", &name.0, "--per-cpu"]);
    assert!(text.contains("    CPU ") && text.contains(": 41"), "{text}");
    let without = json(&["show", &name.0, "--json"]);
    assert!(series(&without, "n_total", "")["cpus"].is_null());
}

/// This is no test of its own: the next one runs it as another process, which dies.
#[test]
#[ignore = "it is a process of another test"]
fn an_owner_that_dies() {
    let name = std::env::var("PERCPU_TEST_SEGMENT").unwrap();
    let segment = percpu::Segment::open(&name).unwrap();
    segment.join("the dead", false).unwrap();
    let flying = segment
        .owned_gauge(&Metric::new("flying"), Rule::Sum)
        .unwrap();
    flying.add(5).unwrap();
    std::process::abort();
}

#[test]
fn the_dead_are_marked() {
    let name = Named::new("dead");
    let segment = name.make();
    let flying = segment
        .owned_gauge(&Metric::new("flying"), Rule::Sum)
        .unwrap();
    flying.add(2).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--ignored", "--exact", "an_owner_that_dies"]);
    let mut child = child.env("PERCPU_TEST_SEGMENT", &name.0).spawn().unwrap();
    assert!(!child.wait().unwrap().success());
    let text = prints(&["show", &name.0]);
    let dead = format!("pid {} the dead: 5, died\n", child.id());
    let alive = format!("pid {}: 2\n", std::process::id());
    assert!(text.contains(&dead) && text.contains(&alive), "{text}");
    assert!(
        text.contains("flying      2\n"),
        "the value is of those that live: {text}"
    );
}

/// What is shown for each owner is a series for each.
#[test]
fn each_owner_is_a_series() {
    let name = Named::new("each");
    let segment = name.make();
    segment.join("41", false).unwrap();
    let each = OwnedRule::new(Rule::Sum).each();
    let set = |name, rule: OwnedRule| {
        let gauge = segment.owned_fgauge(&Metric::new(name), rule).unwrap();
        gauge.set(0.5).unwrap();
    };
    set("living", each);
    set("past", each.keep());
    set("kept", OwnedRule::new(Rule::Max).keep());
    let text = prints(&["show", &name.0]);
    for line in ["living{pid=\"41\"}", "past{pid=\"41\"}", "kept"] {
        assert!(text.lines().any(|l| l.starts_with(line)), "{line}: {text}");
    }
    let folded = "the greatest of all processes that ever were:\n";
    assert!(text.contains(folded), "{text}");
    assert!(!text.contains("the sum"), "{text}");
    segment.leave().unwrap();
    let text = prints(&["show", &name.0, "--text"]);
    assert!(text.contains("past{pid=\"41\"} 0.5\n"), "{text}");
    assert!(text.contains("kept 0.5\n"), "{text}");
    assert!(!text.contains("living"), "{text}");
    let series = &json(&["show", &name.0, "--json"])["series"];
    assert_eq!(series.as_array().unwrap().len(), 2, "{series}");
    assert_eq!(series[1]["labels"], json!({"pid": "41"}));
}

#[test]
fn nothing_and_very_much() {
    let name = Named::new("sizes");
    let segment = name.make();
    let text = prints(&["show", &name.0]);
    assert!(text.ends_with("There is nothing to show.\n"), "{text}");
    assert_eq!(json(&["show", &name.0, "--json"])["series"], json!([]));
    assert_eq!(prints(&["show", &name.0, "--text"]), "");
    let many = segment
        .family::<Counter>(&Metric::new("many_total").help("Many."), &["n"], 10_000)
        .unwrap();
    (0..10_000).for_each(|i| many.add(&[&format!("{i:04}")], i).unwrap());
    assert_eq!(
        json(&["show", &name.0, "--json"])["series"]
            .as_array()
            .unwrap()
            .len(),
        10_000
    );
    let text = prints(&["show", &name.0]);
    assert_eq!(text.lines().count(), 10_002);
    assert_eq!(text.matches("Many.").count(), 1);
    assert!(
        text.contains("many_total{n=\"9999\"}   9999\n"),
        "{}",
        &text[text.len() - 200..]
    );
    let text = prints(&["show", &name.0, "--text"]);
    assert_eq!(text.matches("# TYPE").count(), 2);
    assert!(
        text.contains("percpu_family_overflows_total{family=\"many_total\", reason=\"room\"} 0\n")
    );
}
