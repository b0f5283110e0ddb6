// SPDX-License-Identifier: MIT
//! Programs that count by the macros: threads, forks, kills, and a full /dev/shm. Each program is
//! this one, started again for the test `program` alone, with its part in the environment.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use common::{Picture, TemporaryFile};
use metrics::{counter, gauge, histogram};

const PART: &str = "PERCPU_METRICS_PART";
const SEGMENT: &str = "PERCPU_METRICS_SEGMENT";

/// Start a part of the program.
fn start(part: &str, segment: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "program", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(SEGMENT, segment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The numbers that a program has printed, one on each line "counted N".
fn counted(lines: impl Iterator<Item = String>) -> impl Iterator<Item = u64> {
    lines.filter_map(|l| l.rsplit_once("counted ").map(|(_, n)| n.parse().unwrap()))
}

fn say(what: &str) {
    println!("\n{what}");
    std::io::stdout().flush().unwrap();
}

/// What the other tests start.
#[test]
fn program() {
    let (Ok(part), Ok(segment)) = (env::var(PART), env::var(SEGMENT)) else {
        return;
    };
    match part.as_str() {
        "threads" => threads(&segment),
        "endless" => endless(&segment),
        "forks" => forks(&segment),
        "full" => full(&segment),
        "twice" => twice(&segment),
        _ => panic!("no part {part}"),
    }
}

/// Two threads count all kinds, in series that they share and in their own.
fn threads(segment: &str) {
    const N: u64 = 50_000;
    percpu_metrics::install(segment).unwrap();
    thread::scope(|s| {
        for name in ["a", "b"] {
            s.spawn(move || {
                for i in 0..N {
                    counter!("events_total").increment(1);
                    counter!("events_by_thread_total", "thread" => name).increment(2);
                    gauge!("level").increment(1);
                    histogram!("size_bytes", "thread" => name).record(i as f64);
                }
            });
        }
    });
    say(&format!("counted {N}"));
}

#[test]
fn threads_and_unrelated_processes_count_together() {
    let file = TemporaryFile::new("threads");
    let children: Vec<Child> = (0..2).map(|_| start("threads", file.path())).collect();
    let mut n = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        n += counted(output.stdout.lines().map(Result::unwrap)).sum::<u64>();
    }
    let picture = Picture::of(file.path());
    assert_eq!(picture.counter("events_total{}"), 2 * n);
    assert_eq!(picture.gauge("level{}"), 2.0 * n as f64);
    for thread in ["a", "b"] {
        let key = format!("events_by_thread_total{{thread={thread:?}}}");
        assert_eq!(picture.counter(&key), 2 * n);
        let sizes = picture.histogram(&format!("size_bytes{{thread={thread:?}}}"));
        assert_eq!(
            (sizes.count(), sizes.sum()),
            (n, 2.0 * (0..n / 2).sum::<u64>() as f64)
        );
    }
    assert_eq!(picture.all_problems(), 0);
}

/// Count for ever, and say how much for sure.
fn endless(segment: &str) {
    percpu_metrics::install(segment).unwrap();
    let mut n = 0;
    loop {
        for _ in 0..100 {
            counter!("events_total", "kind" => "any").increment(1);
        }
        n += 100;
        say(&format!("counted {n}"));
    }
}

#[test]
fn a_kill_loses_nothing() {
    let file = TemporaryFile::new("kill");
    let (mut least, mut most) = (0, 0);
    for round in 0..5 {
        let mut child = start("endless", file.path());
        let mut lines = counted(
            BufReader::new(child.stdout.take().unwrap())
                .lines()
                .map(Result::unwrap),
        );
        let enough = 1000 * (round + 1);
        lines.find(|n| *n >= enough).unwrap();
        child.kill().unwrap();
        // What it still wrote; the events after that are fewer than 200.
        let last = lines.last().unwrap_or(enough);
        child.wait().unwrap();
        least += last;
        most += last + 200;
    }
    let counted = Picture::of(file.path()).counter(r#"events_total{kind="any"}"#);
    assert!(
        (least..=most).contains(&counted),
        "{least} <= {counted} <= {most}"
    );
}

/// Fork children while two threads count and set counters; each child uses the same names, and one
/// of its own.
fn forks(segment: &str) {
    const N: u64 = 1000;
    percpu_metrics::install(segment).unwrap();
    counter!("events_total", "who" => "parent").increment(0);
    let (begun, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|s| {
        s.spawn(|| {
            let mut n = 0;
            while !stop.load(Relaxed) {
                counter!("events_total", "who" => "parent").increment(1);
                counter!("raised_total").absolute(n);
                counter!(format!("name{}_total", n % 1000)).increment(1);
                n += 1;
                begun.store(true, Relaxed);
            }
        });
        while !begun.load(Relaxed) {
            thread::yield_now(); // a busy machine may run the children first
        }
        let children: Vec<i32> = (0..20).map(|i| fork_child(i, N)).collect();
        for child in children {
            let mut status = 0;
            // SAFETY: the call stores a status.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        }
        stop.store(true, Relaxed);
    });
    say(&format!("counted {}", 20 * N));
}

fn fork_child(i: usize, n: u64) -> i32 {
    // SAFETY: the child only counts, and ends.
    let child = unsafe { libc::fork() };
    if child != 0 {
        assert!(child > 0);
        return child;
    }
    // A child that hangs in a lock of its parent's thread is killed, which the parent sees.
    // SAFETY: the call has no conditions.
    unsafe { libc::alarm(60) };
    for _ in 0..n {
        counter!("events_total", "who" => "child").increment(1);
        counter!("raised_total").absolute(1);
    }
    counter!(format!("child{i}_total")).increment(1);
    // SAFETY: it ends the child without what the test program does at its end.
    unsafe { libc::_exit(0) }
}

#[test]
fn children_of_fork_count_meanwhile() {
    let file = TemporaryFile::new("forks");
    let output = start("forks", file.path()).wait_with_output().unwrap();
    assert!(output.status.success());
    let n: u64 = counted(output.stdout.lines().map(Result::unwrap)).sum();
    assert_eq!(n, 20_000);
    let picture = Picture::of(file.path());
    assert_eq!(picture.counter(r#"events_total{who="child"}"#), n);
    assert!(picture.counter(r#"events_total{who="parent"}"#) > 0);
    for i in 0..20 {
        assert_eq!(picture.counter(&format!("child{i}_total{{}}")), 1);
    }
    assert_eq!(picture.all_problems(), 0);
}

/// Count where /dev/shm has one page, in this process and in a child.
fn full(segment: &str) {
    if !mount_small_shm() {
        say("skipped: no rights to mount");
        return;
    }
    let recorder = percpu_metrics::install(segment).unwrap();
    let why = recorder.fallback().unwrap();
    assert!(why.ends_with("the disk is full"), "{why}");
    let child = fork_child(0, 10);
    let mut status = 0;
    // SAFETY: the call stores a status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    counter!("events_total", "who" => "child").increment(1);
    let family = recorder
        .segment()
        .family::<percpu::Counter>(&percpu::Metric::new("events_total"), &["who"], 1000)
        .unwrap();
    say(&format!(
        "counted {}",
        family.get(&["child"]).unwrap().fetch()
    ));
}

/// Mount a file system of 4 KiB, seen by this process alone.
fn mount_small_shm() -> bool {
    // SAFETY: all strings are valid during the calls.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/dev/shm".as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                c"size=4096".as_ptr().cast(),
            ) == 0
    }
}

#[test]
fn a_full_shm_takes_nobody_down() {
    let output = start("full", "percpu-metrics-full")
        .wait_with_output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    if text.contains("skipped: ") {
        eprintln!("skipped: no rights to mount a full /dev/shm");
        return;
    }
    assert_eq!(
        counted(text.lines().map(String::from)).collect::<Vec<_>>(),
        [11]
    );
}

/// Install twice.
fn twice(segment: &str) {
    percpu_metrics::install(segment).unwrap();
    let error = percpu_metrics::install(segment).unwrap_err();
    assert_eq!(error, percpu_metrics::Error::Installed);
    counter!("events_total").increment(1);
    say("counted 1");
}

#[test]
fn a_second_install_is_an_error() {
    let file = TemporaryFile::new("twice");
    let output = start("twice", file.path()).wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(Picture::of(file.path()).counter("events_total{}"), 1);
}
