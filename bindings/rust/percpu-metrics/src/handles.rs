// SPDX-License-Identifier: MIT
//! What the facade's handles count in.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use metrics::{CounterFn, GaugeFn, HistogramFn};
use percpu::{forks, Counter, FGauge, Histogram};

use crate::problems::Problem;
use crate::recorder::Found;

impl CounterFn for Found<Counter> {
    fn increment(&self, value: u64) {
        self.object.add(value);
    }

    fn absolute(&self, value: u64) {
        self.entry.turn.take(|| {
            let now = self.object.fetch();
            if value > now {
                self.object.add(value - now);
            }
        });
    }
}

impl Found<FGauge> {
    /// Tell of a value that the gauge has refused.
    fn check(&self, value: f64, result: Result<(), percpu::Error>) {
        if let Err(e) = result {
            self.tell(Problem::Value, || {
                format!("the gauge \"{}\" refused {value}: {e}", self.entry.name)
            });
        }
    }
}

impl GaugeFn for Found<FGauge> {
    fn increment(&self, value: f64) {
        self.check(value, self.object.add(value));
    }

    fn decrement(&self, value: f64) {
        self.check(value, self.object.sub(value));
    }

    fn set(&self, value: f64) {
        self.check(value, self.object.set(value));
    }
}

impl HistogramFn for Found<Histogram> {
    fn record(&self, value: f64) {
        self.object.record(value);
    }
}

/// A lock of this process, which a child of fork does not find taken: it holds the number of forks
/// of the process whose thread has it.
#[derive(Default)]
pub(crate) struct Turn(AtomicU32);

/// How often a thread yields before it sleeps, so that the holder runs also if it has a lower
/// priority.
const YIELDS: u32 = 100;

impl Turn {
    /// Call f while no other thread of the process is in such a call.
    pub(crate) fn take(&self, f: impl FnOnce()) {
        let me = forks();
        let mut free = 0;
        let mut tries = 0;
        while let Err(holder) =
            self.0
                .compare_exchange(free, me, Ordering::Acquire, Ordering::Relaxed)
        {
            // Another process's: it was copied by a fork, and nobody here will release it.
            free = if holder == me { 0 } else { holder };
            if holder == me && tries < YIELDS {
                thread::yield_now();
            } else if holder == me {
                thread::sleep(Duration::from_millis(1));
            }
            tries += 1;
        }
        f();
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Key;
    use std::sync::Arc;

    #[test]
    fn a_turn_that_a_fork_has_copied_is_free() {
        let turn = Turn(AtomicU32::new(forks() + 1));
        let mut taken = 0;
        turn.take(|| taken += 1);
        turn.take(|| taken += 1);
        assert_eq!(taken, 2);
    }

    /// Another thread that sets the counter waits for its turn, and then finds nothing to add.
    #[test]
    fn absolute_waits_for_its_turn() {
        let path = std::env::temp_dir().join(format!("percpu-metrics-turn-{}", std::process::id()));
        let path = path.to_str().unwrap();
        let recorder = crate::Builder::new(path).build().unwrap();
        let found: Arc<Found<Counter>> = recorder.find(&Key::from_name("c_total")).unwrap();
        let begun = AtomicU32::new(0);
        thread::scope(|s| {
            found.entry.turn.take(|| {
                let now = found.object.fetch();
                s.spawn(|| {
                    begun.store(1, Ordering::Relaxed);
                    found.absolute(5);
                });
                while begun.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
                // If it did not wait, it would add by now.
                thread::sleep(Duration::from_millis(20));
                found.object.add(5 - now);
            });
        });
        assert_eq!(found.object.fetch(), 5);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn one_thread_at_a_time_has_the_turn() {
        let turn = Turn::default();
        let inside = AtomicU32::new(0);
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..300 {
                        turn.take(|| {
                            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
    }
}
