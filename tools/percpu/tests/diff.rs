// SPDX-License-Identifier: MIT
//! `percpu diff` of snapshots and segments.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{every_kind, fails, json, prints, series, Named, Scratch, HOSTILE};
use percpu::{HistogramOptions, Metric, Segment, SegmentOptions};
use serde_json::{json, Value};

/// What `show --json` prints, in a file.
fn snapshot(what: &str, name: &Named) -> Scratch {
    Scratch::with(what, prints(&["show", &name.0, "--json"]))
}

fn grow(segment: &Segment) {
    let m = Metric::new("a_total").help("A help text.").unit("things");
    let m = m.label("label", HOSTILE);
    segment.counter(&m).unwrap().add(3);
    let h = Metric::new("seconds").unit("seconds");
    let h = segment.histogram(&h, &HistogramOptions::new()).unwrap();
    h.record(0.25);
    h.record(0.5);
    segment.gauge(&Metric::new("level")).unwrap().add(-2);
}

#[test]
fn what_grew_and_how_fast() {
    let name = Named::new("diff");
    let segment = name.make();
    every_kind(&segment);
    let level = segment.gauge(&Metric::new("level")).unwrap();
    level.set(i64::MIN + 5).unwrap();
    let h = Metric::new("seconds").unit("seconds");
    let h = segment.histogram(&h, &HistogramOptions::new());
    h.unwrap().record(100.0);
    let before = snapshot("before", &name);
    grow(&segment);
    segment.counter(&Metric::new("new_total")).unwrap().add(4);
    let after = snapshot("after", &name);
    for second in [after.text(), &name.0] {
        let d = json(&["diff", before.text(), second, "--json"]);
        assert_eq!(d["format"], json!(1));
        let names: Vec<_> = d["series"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| &s["name"])
            .collect();
        assert_eq!(names, ["a_total", "level", "new_total", "seconds"], "{d}");
        let (a, seconds) = (
            series(&d, "a_total", HOSTILE),
            d["seconds"].as_f64().unwrap(),
        );
        assert_eq!(a["before"], json!((1u64 << 60) + 1));
        assert_eq!(
            (&a["value"], &a["delta"]),
            (&json!((1u64 << 60) + 4), &json!(3))
        );
        assert!(
            (a["rate"].as_f64().unwrap() * seconds - 3.0).abs() < 1e-6,
            "{d}"
        );
        let level = series(&d, "level", "");
        assert_eq!(
            (&level["value"], &level["delta"]),
            (&json!(i64::MIN + 3), &json!(-2))
        );
        let new = series(&d, "new_total", "");
        assert_eq!((&new["event"], &new["delta"]), (&json!("new"), &json!(4)));
        let interval = &series(&d, "seconds", "")["interval"];
        assert_eq!(
            (&interval["count"], &interval["sum"]),
            (&json!(2), &json!(0.75))
        );
        assert_eq!(
            (&interval["mean"], &interval["max"]),
            (&json!(0.375), &json!(0.5))
        );
    }
    let text = prints(&["diff", before.text(), after.text()]);
    assert!(
        text.contains("    count 2, mean 375 ms, p50 250 ms, p90 500 ms"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text}");
    let none = prints(&["diff", after.text(), after.text()]);
    assert!(none.ends_with("Nothing changed.\n"), "{none}");
}

#[test]
fn gone_reset_and_anew() {
    let name = Named::new("events");
    let segment = name.make();
    let family = segment.family::<percpu::Counter>(&Metric::new("f_total"), &["x"], 10);
    let family = family.unwrap();
    family.add(&["gone"], 1).unwrap();
    family.add(&["stays"], 5).unwrap();
    family.add(&["again"], 5).unwrap();
    let n = segment.counter(&Metric::new("n_total")).unwrap();
    n.add(9);
    let before = snapshot("events-a", &name);
    n.zero();
    n.add(2);
    family.remove(&["gone"]).unwrap();
    family.remove(&["again"]).unwrap();
    family.add(&["again"], 50).unwrap();
    let after = snapshot("events-b", &name);
    let d = json(&["diff", before.text(), after.text(), "--json"]);
    assert_eq!(d["reset"], json!(false));
    assert_eq!(d["series"].as_array().unwrap().len(), 3, "{d}");
    let again = series(&d, "f_total", "again");
    assert_eq!(
        (&again["event"], &again["value"]),
        (&json!("reset"), &json!(50))
    );
    let n = series(&d, "n_total", "");
    assert_eq!(
        (&n["event"], &n["value"], &n["delta"]),
        (&json!("reset"), &json!(2), &Value::Null)
    );
    assert_eq!(series(&d, "f_total", "gone")["event"], json!("gone"));
    // All of them: more than before, and yet no growth.
    drop((family, segment));
    let segment = SegmentOptions::new().anew().open(&name.0).unwrap();
    segment.counter(&Metric::new("n_total")).unwrap().add(1000);
    let d = json(&["diff", after.text(), &name.0, "--json"]);
    assert_eq!(d["reset"], json!(true), "{d}");
    assert_eq!(series(&d, "n_total", "")["event"], json!("reset"), "{d}");
    let text = prints(&["diff", after.text(), &name.0]);
    assert!(
        text.contains("All counts began anew in between.\n"),
        "{text}"
    );
    // Another file of the same name, with the same generation.
    std::fs::remove_file(name.path()).unwrap();
    let segment = name.make();
    segment.counter(&Metric::new("n_total")).unwrap().add(1000);
    let d = json(&["diff", after.text(), &name.0, "--json"]);
    assert_eq!(d["reset"], json!(true), "{d}");
    assert_eq!(series(&d, "n_total", "")["event"], json!("reset"), "{d}");
    assert!(series(&d, "n_total", "")["delta"].is_null());
}

#[test]
fn what_an_earlier_picture_left_out_is_no_growth() {
    let name = Named::new("left-out");
    let segment = name.make();
    let last = segment.latest(&Metric::new("last")).unwrap();
    segment.counter(&Metric::new("n_total")).unwrap().add(100);
    let text = prints(&["show", &name.0, "--json", "last"]);
    let before = Scratch::with("left-out-a", text);
    last.set(1.5).unwrap();
    let after = snapshot("left-out-b", &name);
    let d = json(&["diff", before.text(), after.text(), "--json"]);
    let n = series(&d, "n_total", "");
    assert_eq!((&n["event"], &n["value"]), (&json!("new"), &json!(100)));
    assert_eq!((&n["delta"], &n["rate"]), (&Value::Null, &Value::Null));
    // A value that appeared, and one that vanished.
    let appeared = series(&d, "last", "");
    assert_eq!(
        (&appeared["event"], &appeared["value"]),
        (&json!("new"), &json!(1.5))
    );
    let text = prints(&["show", &name.0, "--json"]);
    let lost = text.replace("\"value\": 1.5", "\"missing\": \"It cannot be read.\"");
    assert_ne!(lost, text);
    let lost = Scratch::with("left-out-c", lost);
    let d = json(&["diff", after.text(), lost.text(), "--json"]);
    let vanished = series(&d, "last", "");
    assert_eq!(
        (&vanished["event"], &vanished["value"]),
        (&json!("gone"), &Value::Null)
    );
}

#[test]
fn a_snapshot_is_read_as_it_was_written() {
    let name = Named::new("round");
    let segment = name.make();
    every_kind(&segment);
    let before = snapshot("round", &name);
    let d = prints(&["diff", before.text(), &name.0]);
    assert!(d.ends_with("Nothing changed.\n"), "{d}");
}

#[test]
fn files_that_are_no_snapshots() {
    let name = Named::new("nosnap");
    every_kind(&name.make());
    let text = prints(&["show", &name.0, "--json"]);
    let (mut cut, mut foreign) = (0, 0);
    for at in (1..text.len() - 2).step_by(text.len() / 300) {
        if text.is_char_boundary(at) {
            let file = Scratch::with("cut-snapshot", &text[..at]);
            let (code, sentence) = fails(&["diff", file.text(), &name.0]);
            assert_eq!(code, 5, "{at}: {sentence}");
            assert!(sentence.contains("cut short"), "{at}: {sentence}");
            cut += 1;
        }
    }
    for (bytes, words) in [
        ("{}", "none that"),
        ("[]", "none that"),
        ("{\"format\": 1}", "none that"),
        ("{\"format\": 2, \"series\": {}}", "of format 2"),
        ("{\"format\": \"1\"}", "none that"),
        ("{dear diary\n}", "no JSON"),
        ("dear diary", ""),
        ("", "is empty"),
        ("{\"\u{0}\": 1}", "no JSON"),
    ] {
        let file = Scratch::with("foreign-snapshot", bytes);
        let (code, sentence) = fails(&["diff", &name.0, file.text()]);
        assert_eq!(code, 5, "{bytes:?}: {sentence}");
        assert!(sentence.contains(words), "{bytes:?}: {sentence}");
    }
    // Values of another kind, and buckets out of order.
    for (old, new) in [
        ("\"kind\": \"gauge\"", "\"kind\": \"counter\""),
        ("\"value\": 1152921504606846977", "\"value\": -1"),
        ("\"value\": 1152921504606846977", "\"value\": \"much\""),
        ("\"upper\": \"+Inf\"", "\"upper\": 0.001"),
        ("\"high\": 10", "\"high\": -2000000000"),
    ] {
        assert!(text.contains(old), "{old}");
        let file = Scratch::with("wrong-snapshot", text.replace(old, new));
        let (code, sentence) = fails(&["diff", file.text(), &name.0]);
        assert_eq!(code, 5, "{new}: {sentence}");
        foreign += 1;
    }
    assert!(cut > 200 && foreign == 5);
    let deep = Scratch::with(
        "deep-snapshot",
        "{\"format\":1,\"series\":".to_string() + &"[".repeat(1 << 20),
    );
    assert_eq!(fails(&["diff", deep.text(), &name.0]).0, 5);
    let (older, newer) = (Scratch::with("older", &text), snapshot("newer", &name));
    let (code, sentence) = fails(&["diff", newer.text(), older.text()]);
    assert_eq!(code, 2);
    assert!(sentence.contains("older"), "{sentence}");
}
