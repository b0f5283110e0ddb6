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

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::{Random, TemporaryFile};
use percpu::{
    Counter, FCounter, Histogram, HistogramOptions, Metric, Reader, Segment, Stats, Value,
};

percpu::stats! { struct Pair { a, b } }

const SLOTS: usize = 6;

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

/// A page that processes share: for each slot how many rounds were begun, and ended.
struct Progress(*mut AtomicU64);

impl Progress {
    fn map(file: &File) -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: maps a page of the file, at no address in use.
        let at = unsafe {
            let (none, fd) = (std::ptr::null_mut(), file.as_raw_fd());
            libc::mmap(none, 4096, protection, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at.cast())
    }

    fn word(&self, slot: usize, word: usize) -> &AtomicU64 {
        // SAFETY: there is room for the words of all slots.
        unsafe { &*self.0.add(2 * slot + word) }
    }

    fn sum(&self, word: usize) -> u64 {
        (0..SLOTS)
            .map(|slot| self.word(slot, word).load(SeqCst))
            .sum()
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
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(arguments[1])
        .unwrap();
    let segment = Segment::open(arguments[0]).unwrap();
    Metrics::declare(&segment).count(&Progress::map(&file), arguments[2].parse().unwrap());
}

#[test]
fn processes_that_are_killed_lose_nothing() {
    let (segment_file, page) = (TemporaryFile::new("killed"), TemporaryFile::new("progress"));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(page.path())
        .unwrap();
    file.set_len(4096).unwrap();
    let progress = Progress::map(&file);
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
