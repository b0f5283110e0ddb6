// SPDX-License-Identifier: MIT
//! counting SEGMENT [SERIES] - a program that counts, as a web server would, for tests and pictures
//! of `percpu serve`: until a line "stop" comes, upon which it prints "stopped", or the input ends.
//! SERIES more counters all change. A line "hostile" adds series with hostile names.
//! counting SEGMENT worker - a process that has a share of a gauge.

#![allow(clippy::unwrap_used)]

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use percpu::{Counter, HistogramOptions, Metric, Rule, Segment, SegmentOptions};

fn metric<'a>(name: &'a str, help: &'a str, unit: &'a str) -> Metric<'a> {
    Metric::new(name).help(help).unit(unit)
}

fn flying(segment: &Segment) -> percpu::OwnedGauge {
    let m = metric(
        "shop_requests_in_flight",
        "Requests that are being answered.",
        "",
    );
    segment.owned_gauge(&m, Rule::Sum).unwrap()
}

fn hostile(segment: &Segment) {
    let bidi = "a\u{202e}\u{2066}b\u{200b}\x1b[31m";
    let long = "x".repeat(1 << 20);
    let script = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>";
    for (name, value) in [(script, script), ("hostile_total", bidi), (bidi, "1")] {
        let m = metric(name, script, script).label("label", value);
        segment.counter(&m).unwrap().add((1 << 60) + 1);
    }
    // What the library has no room for, it refuses.
    for n in (5..=20).rev().map(|k| 1 << k) {
        let m = metric("long_total", &long[..n], "").label("label", &long[..n]);
        if let Ok(counter) = segment.counter(&m) {
            counter.add(7);
            break;
        }
    }
}

/// Counters that all change.
fn many(segment: &Segment, n: usize) -> Vec<Counter> {
    let counter = |i: usize| {
        let (name, kind) = (
            format!("shop_events_{:02}_total", i / 100),
            (i % 100).to_string(),
        );
        let m = metric(&name, "Events, by kind.", "").label("kind", &kind);
        segment.counter(&m).unwrap()
    };
    (0..n).map(counter).collect()
}

fn count(segment: &Segment, series: usize, end: &AtomicBool) {
    let code = |code| {
        let m = metric(
            "shop_requests_total",
            "Requests that were answered, by code.",
            "",
        );
        segment.counter(&m.label("code", code)).unwrap()
    };
    let codes = ["2xx", "3xx", "4xx", "5xx"].map(code);
    let bytes = metric(
        "shop_answer_bytes_total",
        "Bytes of all answers, heads included.",
        "bytes",
    );
    let bytes = segment.counter(&bytes).unwrap();
    let times = metric(
        "shop_request_seconds",
        "Time until an answer was made.",
        "seconds",
    );
    let histogram = segment.histogram(&times, &HistogramOptions::new()).unwrap();
    let exemplars = segment.exemplars(&times).unwrap();
    let depth = segment
        .gauge(&metric("shop_queue_length", "Orders that wait.", ""))
        .unwrap();
    let ratio = metric(
        "shop_cache_hit_ratio",
        "Part of what was in the cache.",
        "ratio",
    );
    let ratio = segment.fgauge(&ratio).unwrap();
    let began = metric(
        "shop_start_time_seconds",
        "When the server started.",
        "seconds",
    );
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    segment.fgauge(&began).unwrap().set(now).unwrap();
    segment
        .info(&metric("shop_build_info", "What it was built of.", "").label("version", "1.4.2"))
        .unwrap();
    let users = metric("shop_orders_total", "Orders, by user.", "");
    let users = segment.family::<Counter>(&users, &["user"], 4).unwrap();
    let flying = flying(segment);
    let many = many(segment, series);
    let mut x = 88172645463325252_u64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut t = 0.0_f64;
    while !end.load(Ordering::Relaxed) {
        t += 0.02;
        let load = 1.0 + 0.6 * (t / 7.0).sin() + 0.3 * (t / 1.7).sin();
        for _ in 0..(400.0 * load) as u64 {
            let r = random();
            codes[match r % 1000 {
                0..930 => 0,
                930..970 => 1,
                970..996 => 2,
                _ => 3,
            }]
            .add(1);
            bytes.add(200 + r % 60_000);
            let slow = if r % 100 < 3 { 30.0 } else { 1.0 };
            histogram.record((0.4e-3 + (r >> 20) as f64 % 1e6 / 1e6 * 1.5e-3) * load * slow);
        }
        depth.set((20.0 * load) as i64 - 8).unwrap();
        ratio.set(0.9 + 0.05 * (t / 11.0).sin()).unwrap();
        flying.set((3.0 * load) as i64).unwrap();
        let user = format!("user{}", random() % 6);
        users.add(&[&user], 1).unwrap();
        exemplars
            .store(0.0021, &[("trace_id", "4bf92f3577b34da6")])
            .unwrap();
        many.iter()
            .enumerate()
            .for_each(|(i, c)| c.add(i as u64 % 97 + random() % 13));
        std::thread::sleep(Duration::from_millis(20));
    }
    flying.set(0).unwrap();
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let options = SegmentOptions::new().create().program("shop");
    let segment = options.open(&arguments[1]).unwrap();
    let lines = std::io::stdin().lock().lines();
    if arguments.get(2).is_some_and(|a| a == "worker") {
        flying(&segment).set(2).unwrap();
        println!("ready");
        lines.for_each(drop);
        return;
    }
    let series = arguments.get(2).map_or(0, |n| n.parse().unwrap());
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| count(&segment, series, &end));
        println!("ready");
        for line in lines {
            match line.unwrap().as_str() {
                "hostile" => hostile(&segment),
                _ => break,
            }
        }
        end.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        println!("stopped");
    });
    std::io::stdin().lock().lines().for_each(drop);
}
