// SPDX-License-Identifier: MIT
//! The restartable sequences of the crate's own adds. `include/percpu/arch/spec.h` says step by
//! step what each one does. This crate has those of counters, of statistics and of histograms, with
//! the steps of `arch/x86_64.h` and `arch/aarch64.h`.
//!
//! A function returns whether its sequence has committed. If it has not, nothing was added: the
//! caller calls the C function for that, whose name ends in `_slow`. It registers the thread if
//! that is possible, tries again a few times, and then adds atomically. On other machines no
//! sequence commits, and all adds go that way. How sequences leave: `leave.rs`.

#[cfg(not(miri))]
mod area;

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
#[path = "x86_64.rs"]
mod arch;

#[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
#[path = "aarch64.rs"]
mod arch;

#[cfg(any(
    miri,
    not(any(
        all(target_arch = "x86_64", target_pointer_width = "64"),
        all(target_arch = "aarch64", target_endian = "little")
    ))
))]
#[path = "generic.rs"]
mod arch;

pub(crate) use arch::*;

/// Where an object counts: the address of its cell in lane 0, and the distance of the lanes.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) base: *mut u8,
    pub(crate) stride: usize,
}

/// The word that holds the distance to the bank that counts, and the bits of that distance.
#[derive(Clone, Copy)]
pub(crate) struct Bank {
    pub(crate) word: *const u64,
    pub(crate) mask: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, FCounter, Histogram, HistogramOptions, Stats};
    use percpu_sys as sys;

    crate::stats! { struct One { a } }
    crate::stats! { struct Two { a, b } }
    crate::stats! { struct Four { a, b, c, d } }

    /// Whether this thread can run sequences, once the self-test has ended.
    fn on_tier_rseq() -> bool {
        // SAFETY: the calls have no conditions.
        unsafe {
            sys::percpu_selftest();
            sys::percpu_seq_attach();
            sys::percpu_thread_tier() == sys::PERCPU_TIER_RSEQ && cfg!(not(miri))
        }
    }

    /// How many of 1000 calls committed: some on tier rseq, where preemption aborts few; otherwise
    /// none.
    fn commits(mut call: impl FnMut() -> bool) -> u64 {
        let able = on_tier_rseq();
        let n = (0..1000).filter(|_| call()).count() as u64;
        assert_eq!(n > 900, able, "{n} of 1000 sequences committed");
        assert_eq!(n == 0, !able);
        n
    }

    fn cell_of<T>(raw: *mut T) -> Cell {
        Cell {
            base: raw.cast(),
            stride: sys::PERCPU_STRIDE,
        }
    }

    #[test]
    fn an_add_counts_if_it_commits() {
        let c = Counter::new().unwrap();
        let cell = cell_of(c.0.raw());
        // SAFETY: it is the cell of a counter.
        let n = commits(|| unsafe { add(cell, 3) });
        assert_eq!(c.fetch(), 3 * n);
        c.zero();
        // SAFETY: as above.
        let n = commits(|| unsafe { add(cell, -3) });
        assert_eq!(c.fetch(), (3 * n).wrapping_neg());
    }

    #[test]
    fn an_add_of_a_double_counts_if_it_commits() {
        let c = FCounter::new().unwrap();
        let cell = cell_of(c.0.raw());
        // SAFETY: it is the cell of a counter of doubles.
        let n = commits(|| unsafe { add_double(cell, 0.5) });
        assert_eq!(c.fetch(), 0.5 * n as f64);
        for refused in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2f64.powi(1000)] {
            // SAFETY: as above.
            assert!(!unsafe { add_double(cell, refused) });
        }
        assert_eq!(c.fetch(), 0.5 * n as f64);
    }

    #[test]
    fn a_record_counts_if_it_commits() {
        let h = Histogram::new(&HistogramOptions::new()).unwrap();
        // SAFETY: the histogram has a first cell.
        let cell = unsafe {
            let h = &*h.0.raw();
            let base = h.block.base.add(sys::PERCPU_HISTOGRAM_HEAD as usize);
            Cell {
                base: base.cast(),
                stride: h.block.stride,
            }
        };
        // SAFETY: it is the cell of a histogram of doubles.
        let n = commits(|| unsafe { add_count_double(cell, 0.5) });
        let snapshot = h.fetch().unwrap();
        assert_eq!((snapshot.count(), snapshot.sum()), (n, 0.5 * n as f64));
    }

    #[test]
    fn an_update_counts_if_it_commits() {
        let (one, two, four) = (
            Stats::<One>::new().unwrap(),
            Stats::<Two>::new().unwrap(),
            Stats::<Four>::new().unwrap(),
        );
        let (cell, bank, _) = one.place();
        // SAFETY: the statistics have one field, or two.
        let n = commits(|| unsafe { bank_add(cell, bank, 5) });
        assert_eq!(one.snapshot().unwrap(), One { a: 5 * n });
        let (cell, bank, _) = two.place();
        // SAFETY: as above.
        let n = commits(|| unsafe { bank_add2(cell, bank, [7, 11]) });
        assert_eq!(
            two.snapshot().unwrap(),
            Two {
                a: 7 * n,
                b: 11 * n
            }
        );
        let (cell, bank, vector) = four.place();
        if vector >= 4 {
            // SAFETY: the statistics have four fields, and the CPU has a store that wide.
            let n = commits(|| unsafe { bank_add4(cell, bank, [1, 2, 3, 4]) });
            assert_eq!(
                four.snapshot().unwrap(),
                Four {
                    a: n,
                    b: 2 * n,
                    c: 3 * n,
                    d: 4 * n
                }
            );
        }
    }
}
