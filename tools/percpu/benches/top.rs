// SPDX-License-Identifier: MIT
//! What `percpu top` costs: the time to the first frame, and of a core at 10 frames a second, on a
//! segment of 10 000 series that all change. docs/tool/top.md says how to run it.

#![allow(clippy::unwrap_used)]

#[path = "../tests/tty/mod.rs"]
mod tty;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use percpu::{Counter, Metric, Segment};
use tty::{command, Folder, Tty};

const NAMES: usize = 100;
const LABELS: usize = 100;
const SECONDS: u64 = 10;

fn counters(segment: &Segment) -> Vec<Counter> {
    let mut all = Vec::new();
    for name in 0..NAMES {
        let name = format!("server_events_{name:02}_total");
        for label in 0..LABELS {
            let label = label.to_string();
            let metric = Metric::new(&name)
                .help("Events, by kind.")
                .label("kind", &label);
            all.push(segment.counter(&metric).unwrap());
        }
    }
    all
}

/// The seconds of a CPU that a process has used.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let behind_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<_> = behind_name.split_whitespace().collect();
    let ticks = |i: usize| fields[i].parse::<f64>().unwrap();
    // In ticks of a hundredth second on Linux.
    (ticks(11) + ticks(12)) / 100.0
}

fn memory(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.trim_start_matches("VmRSS:").trim().to_string()
}

fn start(folder: &Folder, lines: (u16, u16)) -> (Tty, Duration) {
    let percpu = env!("CARGO_BIN_EXE_percpu");
    let path = folder.path("bench");
    let begin = Instant::now();
    let tty = Tty::new(
        command(percpu, &["top", "-n", "0.1", &path]),
        lines.0,
        lines.1,
    );
    tty.text("q quit");
    (tty, begin.elapsed())
}

fn main() {
    let folder = Folder::new("top-bench");
    let segment = Segment::create(&folder.path("bench")).unwrap();
    let all = counters(&segment);
    let end = AtomicBool::new(false);
    let mut firsts: Vec<_> = (0..9).map(|_| start(&folder, (80, 24)).1).collect();
    firsts.sort();
    println!(
        "{} series; first frame: median of 9 {:?}, most {:?}",
        all.len(),
        firsts[4],
        firsts[8]
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                all.iter().enumerate().for_each(|(i, c)| c.add(i as u64));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        for (keys, what) in [("", "by name, folded"), ("ra", "by rate, opened")] {
            let (mut tty, _) = start(&folder, (80, 24));
            tty.keys(keys);
            let pid = tty.child.process_id().unwrap();
            std::thread::sleep(Duration::from_secs(1));
            let (cpu, bytes) = (cpu_seconds(pid), tty.bytes().len());
            std::thread::sleep(Duration::from_secs(SECONDS));
            let cpu = (cpu_seconds(pid) - cpu) / SECONDS as f64;
            let bytes = (tty.bytes().len() - bytes) as u64 / (SECONDS * 10);
            println!(
                "{what}: {:.1} % of a core at 10 frames a second, {bytes} bytes a frame, {}",
                cpu * 100.0,
                memory(pid)
            );
        }
        end.store(true, Ordering::Relaxed);
    });
}
