// SPDX-License-Identifier: MIT
//! Processes that count in one segment and are killed at random: forked ones, other programs in
//! Rust, and a program in C (peer.c), whose path is in the environment as PERCPU_PEER: `./dev test`
//! sets it.
//!
//! Each process stores in a shared page how many rounds it has begun and ended. A killed process has
//! counted its last round, or not, or in a part of the metrics: so each metric is between the two
//! sums. What one commit adds to is whole.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use common::{Progress, Random, TemporaryFile, SLOTS};
use percpu::{
    Counter, FCounter, Histogram, HistogramOptions, Metric, Reader, Segment, Stats, Value,
};

percpu::stats! { struct Pair { a, b } }

struct Metrics {
    counter: Counter,
    fcounter: FCounter,
    histogram: Histogram,
    pair: Stats<Pair>,
}

impl Metrics {
    fn declare(segment: &Segment) -> Self {
        percpu::selftest(); // until then no sequence runs
        let histogram = segment.histogram(&Metric::new("sizes"), &HistogramOptions::new());
        Self {
            counter: segment.counter(&Metric::new("rounds_total")).unwrap(),
            fcounter: segment.fcounter(&Metric::new("halves_total")).unwrap(),
            histogram: histogram.unwrap(),
            pair: segment.stats(&Metric::new("pairs_total"), "field").unwrap(),
        }
    }

    /// Count until the process is killed.
    fn count(&self, progress: &Progress, slot: usize) -> ! {
        loop {
            progress.word(slot, 0).fetch_add(1, SeqCst);
            self.counter.inc();
            let _ = self.fcounter.add(0.5);
            self.histogram.record(2.0);
            let _ = self.pair.update(&Pair { a: 1, b: 3 });
            progress.word(slot, 1).fetch_add(1, SeqCst);
        }
    }
}

/// A process that counts.
enum Worker {
    Forked(libc::pid_t),
    Program(Child),
}

impl Worker {
    fn start(slot: usize, segment: &str, progress_file: &str, m: &Metrics, p: &Progress) -> Self {
        let peer = std::env::var_os("PERCPU_PEER");
        let mut command = match (slot % 3, peer) {
            (0, _) => {
                // SAFETY: the child only counts.
                let pid = unsafe { libc::fork() };
                assert!(pid >= 0);
                if pid == 0 {
                    m.count(p, slot);
                }
                return Self::Forked(pid);
            }
            (1, Some(peer)) => Command::new(peer),
            _ => {
                let mut this = Command::new(std::env::current_exe().unwrap());
                this.args(["--exact", "this_program_as_a_worker", "--nocapture"]);
                this.env(
                    "PERCPU_WORKER",
                    format!("{segment}\n{progress_file}\n{slot}"),
                );
                this.stdout(Stdio::null());
                return Self::Program(this.spawn().unwrap());
            }
        };
        command.args([segment, progress_file, &slot.to_string()]);
        Self::Program(command.spawn().unwrap())
    }

    /// Kill it; return whether it was alive until then.
    fn kill(self) -> bool {
        match self {
            Self::Program(mut child) => {
                child.kill().unwrap();
                std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap())
                    == Some(libc::SIGKILL)
            }
            Self::Forked(pid) => {
                let mut status = 0;
                // SAFETY: it is a child of this process.
                unsafe {
                    libc::kill(pid, libc::SIGKILL);
                    assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                }
                libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL
            }
        }
    }
}

/// Not a test of its own: what a worker runs.
#[test]
fn this_program_as_a_worker() {
    let Ok(arguments) = std::env::var("PERCPU_WORKER") else {
        return;
    };
    let arguments: Vec<&str> = arguments.lines().collect();
    let segment = Segment::open(arguments[0]).unwrap();
    Metrics::declare(&segment).count(&Progress::open(arguments[1]), arguments[2].parse().unwrap());
}

#[test]
fn processes_that_are_killed_lose_nothing() {
    let (segment_file, page) = (TemporaryFile::new("killed"), TemporaryFile::new("progress"));
    let progress = Progress::open(page.path());
    let segment = Segment::create(segment_file.path()).unwrap();
    let metrics = Metrics::declare(&segment);
    let start = |slot| {
        let begun = progress.word(slot, 0).load(SeqCst);
        let worker = Worker::start(slot, segment_file.path(), page.path(), &metrics, &progress);
        (worker, begun)
    };
    let mut workers: Vec<_> = (0..SLOTS).map(|slot| Some(start(slot))).collect();
    let mut random = Random::new(8);
    let mut kills = 0;
    while kills < 60 {
        let slot = random.below(SLOTS as u64) as usize;
        let (worker, begun) = workers[slot].take().unwrap();
        // It has counted something, and is somewhere in its loop.
        while progress.word(slot, 0).load(SeqCst) == begun {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        assert!(worker.kill(), "slot {slot}");
        kills += 1;
        workers[slot] = Some(start(slot));
        metrics.counter.inc(); // this process counts, too
    }
    workers
        .into_iter()
        .flatten()
        .for_each(|(worker, _)| assert!(worker.kill()));

    let (begun, ended) = (progress.sum(0), progress.sum(1));
    assert!(begun - ended <= kills + SLOTS as u64);
    let between = |what: &str, n: u64| assert!(ended <= n && n <= begun, "{what}: {n}");
    between("counter", metrics.counter.fetch() - kills);
    between("fcounter", (metrics.fcounter.fetch() * 2.0) as u64);
    let sizes = metrics.histogram.fetch().unwrap();
    between("histogram", sizes.count());
    assert_eq!(sizes.sum(), 2.0 * sizes.count() as f64);
    let pair = metrics.pair.fetch().unwrap();
    between("stats", pair.a);
    assert_eq!(pair.b, 3 * pair.a);

    // A reader outside sees the same.
    let mut reader = Reader::open(segment_file.path()).unwrap();
    for series in reader.read().unwrap().series() {
        match series.value().unwrap() {
            Value::Counter(n) => assert_eq!(n, metrics.counter.fetch()),
            Value::FCounter(n) => assert_eq!(n, metrics.fcounter.fetch()),
            Value::Histogram(snapshot) => assert_eq!(snapshot.count(), sizes.count()),
            Value::Stats(n) => assert_eq!(n, [pair.a, pair.b]),
            other => panic!("{other:?}"),
        }
    }
}
