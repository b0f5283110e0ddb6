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

/// How long its main thread, which does the work, was on a CPU.
fn on_cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn start(folder: &Folder) -> (Tty, Duration) {
    let percpu = env!("CARGO_BIN_EXE_percpu");
    let path = folder.path("bench");
    let begin = Instant::now();
    let tty = Tty::new(command(percpu, &["top", "-n", "0.1", &path]), 80, 24);
    tty.text("q quit");
    (tty, begin.elapsed())
}

/// The median of 9 starts: until the first frame was read from the terminal, and on a CPU.
fn first_frame(folder: &Folder) -> (Duration, Duration) {
    let start = || {
        let (tty, time) = start(folder);
        (time, on_cpu(tty.child.process_id().unwrap()))
    };
    let (mut times, mut cpu): (Vec<_>, Vec<_>) = (0..9).map(|_| start()).unzip();
    times.sort();
    cpu.sort();
    (times[4], cpu[4])
}

fn main() {
    let folder = Folder::new("top-bench");
    let segment = Segment::create(&folder.path("bench")).unwrap();
    let all = counters(&segment);
    let end = AtomicBool::new(false);
    let (time, cpu) = first_frame(&folder);
    println!(
        "{} series; first frame after {} ms, {} ms of them on a CPU",
        all.len(),
        time.as_millis(),
        cpu.as_millis()
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                all.iter().enumerate().for_each(|(i, c)| c.add(i as u64));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        for (keys, what) in [("", "by name, folded"), ("ra", "by rate, opened")] {
            let (mut tty, _) = start(&folder);
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
