// SPDX-License-Identifier: MIT
//! Threads and signal handlers that count in the same objects.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;
use std::thread;

use percpu::{
    ApproxSum, Counter, Extrema, FCounter, Gauge, Histogram, HistogramOptions, Ring, StaticCounter,
    Stats, WhenFull,
};

percpu::stats! { struct Two { a, b } }
percpu::stats! { struct Four { a, b, c, d } }
percpu::static_counter! { static ROUNDS_OF_ALL }

struct Objects {
    counter: Counter,
    fcounter: FCounter,
    gauge: Gauge,
    doubles: Histogram,
    ticks: Histogram,
    two: Stats<Two>,
    four: Stats<Four>,
    extrema: Extrema,
    approx: ApproxSum,
    ring: Ring,
}

impl Objects {
    fn new() -> Self {
        percpu::selftest(); // until then no sequence runs
        let ticks = HistogramOptions::new().ticks_per_unit(1000);
        Self {
            counter: Counter::new().unwrap(),
            fcounter: FCounter::new().unwrap(),
            gauge: Gauge::new().unwrap(),
            doubles: Histogram::new(&HistogramOptions::new()).unwrap(),
            ticks: Histogram::new(&ticks).unwrap(),
            two: Stats::new().unwrap(),
            four: Stats::new().unwrap(),
            extrema: Extrema::new().unwrap(),
            approx: ApproxSum::new().unwrap(),
            ring: Ring::new(4096, WhenFull::Overwrite).unwrap(),
        }
    }

    fn round(&self, n: u64) {
        self.counter.add(3);
        let _ = self.fcounter.add(0.5);
        self.gauge.sub(2);
        self.doubles.record(0.25);
        self.ticks.record_ticks(n % 1000);
        let _ = self.two.update(&Two { a: 1, b: 2 });
        self.two.add(Two::b, 5);
        let _ = self.four.update(&Four {
            a: 1,
            b: 2,
            c: 3,
            d: 4,
        });
        let _ = self.extrema.observe(n as i64);
        self.approx.add(7);
        let _ = self.ring.put(&n.to_ne_bytes());
    }

    fn check(&self, rounds: u64) {
        assert_eq!(self.counter.fetch(), 3 * rounds);
        assert_eq!(self.fcounter.fetch(), 0.5 * rounds as f64);
        assert_eq!(self.gauge.fetch(), -2 * rounds as i64);
        let doubles = self.doubles.fetch().unwrap();
        assert_eq!(
            (doubles.count(), doubles.sum()),
            (rounds, 0.25 * rounds as f64)
        );
        assert_eq!(self.ticks.fetch().unwrap().count(), rounds);
        assert_eq!(
            self.two.snapshot().unwrap(),
            Two {
                a: rounds,
                b: 7 * rounds
            }
        );
        let four = Four {
            a: rounds,
            b: 2 * rounds,
            c: 3 * rounds,
            d: 4 * rounds,
        };
        assert_eq!(self.four.snapshot().unwrap(), four);
        assert_eq!(self.approx.fetch(), 7 * rounds as i64);
    }
}

#[test]
fn threads_lose_nothing() {
    let objects = Objects::new();
    let (threads, rounds) = (8, 40_000);
    let stop = AtomicU64::new(0);
    thread::scope(|s| {
        // A reader sees updates whole.
        let reader = s.spawn(|| {
            let mut snapshots = 0;
            while stop.load(Relaxed) == 0 {
                if let Ok(four) = objects.four.snapshot() {
                    assert_eq!(
                        (four.b, four.c, four.d),
                        (2 * four.a, 3 * four.a, 4 * four.a)
                    );
                    snapshots += 1;
                }
            }
            snapshots
        });
        let writers: Vec<_> = (0..threads)
            .map(|_| s.spawn(|| (0..rounds).for_each(|n| objects.round(n))))
            .collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
        stop.store(1, Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    objects.check(threads * rounds);
    assert_eq!(objects.extrema.fetch().unwrap(), (0, rounds as i64 - 1));
}

static OBJECTS: OnceLock<Objects> = OnceLock::new();
static HANDLED: AtomicU64 = AtomicU64::new(0);
static BEFORE_SETUP: StaticCounter = StaticCounter::new();

extern "C" fn handler(_: libc::c_int) {
    if let Some(objects) = OBJECTS.get() {
        objects.round(HANDLED.fetch_add(1, Relaxed));
        ROUNDS_OF_ALL.inc();
        BEFORE_SETUP.inc();
    }
}

#[test]
fn signal_handlers_lose_nothing() {
    let objects = OBJECTS.get_or_init(Objects::new);
    let microseconds = |n| libc::timeval {
        tv_sec: 0,
        tv_usec: n,
    };
    let every = |n| libc::itimerval {
        it_interval: microseconds(n),
        it_value: microseconds(n),
    };
    // SAFETY: the handler only counts.
    unsafe {
        libc::signal(libc::SIGALRM, handler as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &every(50), std::ptr::null_mut());
    }
    let mut rounds = 0;
    while HANDLED.load(Relaxed) < 3000 {
        objects.round(rounds);
        ROUNDS_OF_ALL.inc();
        rounds += 1;
    }
    // SAFETY: the timer stops.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &every(0), std::ptr::null_mut()) };
    // A signal that another thread has still to handle is handled.
    while {
        thread::sleep(std::time::Duration::from_millis(20));
        BEFORE_SETUP.fetch() != HANDLED.load(Relaxed)
    } {}
    let handled = HANDLED.load(Relaxed);
    objects.check(rounds + handled);
    assert_eq!(ROUNDS_OF_ALL.fetch(), rounds + handled);
    BEFORE_SETUP.setup().unwrap();
    assert_eq!(BEFORE_SETUP.fetch(), handled);
}

#[test]
fn a_child_of_fork_has_counts_of_its_own() {
    let objects = Objects::new();
    objects.round(0);
    // SAFETY: the child only counts, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        objects.round(1);
        let right = objects.counter.fetch() == 6 && objects.two.fetch().map(|t| t.a) == Ok(2);
        // SAFETY: no destructor of the parent runs.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = -1;
    // SAFETY: it is a child of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    objects.check(1);
}
