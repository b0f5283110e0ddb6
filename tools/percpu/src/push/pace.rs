// SPDX-License-Identifier: MIT
//! When the next push is due.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::pusher::Outcome;

/// The first wait after a failure. It doubles with each failure that follows.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(64);
/// The longest wait that a collector may ask for.
const ASKED: Duration = Duration::from_secs(3600);

/// A clock of pushes. A push that failed is not repeated: the next one has newer totals.
pub struct Pace {
    interval: Duration,
    next: Instant,
    /// The wait after the next failure.
    wait: Duration,
}

impl Pace {
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            next: Instant::now(),
            wait: FIRST,
        }
    }

    pub fn next(&self) -> Instant {
        self.next
    }

    /// A push has ended now.
    pub fn after(&mut self, outcome: &Outcome) {
        self.ended(outcome, Instant::now(), random());
    }

    /// `random` is from 0 to 1.
    fn ended(&mut self, outcome: &Outcome, now: Instant, random: f64) {
        let wait = match outcome {
            Outcome::Accepted | Outcome::Refused => {
                self.wait = FIRST;
                // By the clock, whatever pushes take; what comes late moves all that follow.
                self.next = (self.next + self.interval).max(now);
                return;
            }
            // Not all of those that wait for a collector come back at once.
            Outcome::Soon => self.wait.mul_f64(0.5 + random / 2.0),
            Outcome::After(time) => time.clamp(&FIRST, &ASKED).mul_f64(1.0 + random / 10.0),
        };
        self.wait = (self.wait * 2).min(LONGEST);
        self.next = now + wait;
    }
}

fn random() -> f64 {
    // The standard library's keys of hashes are random.
    let bits = RandomState::new().hash_one(0u8) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_until_a_push_is_accepted() {
        let mut pace = Pace::new(Duration::from_secs(60));
        let begin = pace.next();
        let wait = |pace: &mut Pace, outcome, random| {
            let now = pace.next();
            pace.ended(&outcome, now, random);
            (pace.next() - now).as_secs_f64()
        };
        let waits: Vec<_> = (0..9)
            .map(|_| wait(&mut pace, Outcome::Soon, 1.0))
            .collect();
        assert_eq!(waits, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0, 64.0]);
        assert_eq!(wait(&mut pace, Outcome::Soon, 0.0), 32.0);
        assert_eq!(wait(&mut pace, Outcome::Accepted, 0.0), 60.0);
        assert_eq!(wait(&mut pace, Outcome::Soon, 0.0), 0.5);
        for (asked, waited) in [(0, 1.0), (7, 7.0), (u64::MAX, 3600.0)] {
            let outcome = Outcome::After(Duration::from_secs(asked));
            assert_eq!(wait(&mut pace, outcome, 0.0), waited);
        }
        assert_eq!(wait(&mut pace, Outcome::Refused, 0.0), 60.0);
        // Late by more than a push.
        let late = pace.next() + Duration::from_secs(100);
        pace.ended(&Outcome::Accepted, late, 0.0);
        assert_eq!(pace.next(), late);
        assert!(begin < late);
        assert!((0..1000).map(|_| random()).all(|x| (0.0..1.0).contains(&x)));
    }
}
