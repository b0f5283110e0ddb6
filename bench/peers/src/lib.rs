// SPDX-License-Identifier: MIT
//! Histograms and exporters of Rust crates, for benchmarks in C++: a table of functions for each.
#![deny(missing_docs)]

pub mod scrape;

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use metrics::HistogramFn;
use metrics_util::storage::AtomicBucket;

/// One crate's histogram.
#[repr(C)]
pub struct Peer {
    name: *const c_char,
    create: extern "C" fn() -> *mut c_void,
    record: unsafe extern "C" fn(*const c_void, f64, u64),
    total: unsafe extern "C" fn(*const c_void) -> u64,
    destroy: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: the names are constants, and the functions may be called by any thread.
unsafe impl Sync for Peer {}

/// A histogram that any thread records to: in seconds, and the same in nanoseconds.
trait Record: Sync + Sized {
    fn new() -> Self;
    fn record(&self, seconds: f64, ns: u64);
    fn total(&self) -> u64;
}

extern "C" fn create<T: Record>() -> *mut c_void {
    Box::into_raw(Box::new(T::new())).cast()
}

/// SAFETY: of create::<T>(), and not destroyed.
unsafe extern "C" fn record<T: Record>(h: *const c_void, seconds: f64, ns: u64) {
    // SAFETY: as above.
    unsafe { &*h.cast::<T>() }.record(seconds, ns)
}

/// SAFETY: as record().
unsafe extern "C" fn total<T: Record>(h: *const c_void) -> u64 {
    // SAFETY: as above.
    unsafe { &*h.cast::<T>() }.total()
}

/// SAFETY: as record(), and no thread uses it any more.
unsafe extern "C" fn destroy<T: Record>(h: *mut c_void) {
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(h.cast::<T>()) })
}

const fn peer<T: Record>(name: &'static std::ffi::CStr) -> Peer {
    Peer {
        name: name.as_ptr(),
        create: create::<T>,
        record: record::<T>,
        total: total::<T>,
        destroy: destroy::<T>,
    }
}

/// Buckets that are 12.5 % wide, as ours are 9 %, in an array of atomic words. No sum.
impl Record for histogram::AtomicHistogram {
    fn new() -> Self {
        Self::new(3, 64).expect("a histogram")
    }
    fn record(&self, _: f64, ns: u64) {
        let _ = self.increment(ns);
    }
    fn total(&self) -> u64 {
        self.load().into_iter().map(|b| b.count()).sum()
    }
}

/// Two digits. It takes one thread at a time.
impl Record for Mutex<hdrhistogram::Histogram<u64>> {
    fn new() -> Self {
        Mutex::new(hdrhistogram::Histogram::new_with_bounds(1, 1 << 42, 2).expect("a histogram"))
    }
    fn record(&self, _: f64, ns: u64) {
        let _ = self.lock().expect("a lock").record(ns);
    }
    fn total(&self) -> u64 {
        self.lock().expect("a lock").len()
    }
}

/// Keeps every value until it is cleared, which exporters do from time to time. Here the recording
/// thread clears it, so that it does not take all memory.
struct Metrics {
    values: AtomicBucket<f64>,
    cleared: AtomicU64,
}

const KEPT: u32 = 4096;

impl Record for Metrics {
    fn new() -> Self {
        Metrics {
            values: AtomicBucket::new(),
            cleared: AtomicU64::new(0),
        }
    }
    fn record(&self, seconds: f64, _: u64) {
        thread_local!(static SINCE: Cell<u32> = const { Cell::new(0) });

        HistogramFn::record(&self.values, seconds);
        SINCE.with(|n| n.set(n.get() + 1));
        if SINCE.with(Cell::get) == KEPT {
            SINCE.with(|n| n.set(0));
            self.total();
        }
    }
    fn total(&self) -> u64 {
        self.values.clear_with(|v| {
            self.cleared.fetch_add(v.len() as u64, Ordering::Relaxed);
        });
        self.cleared.load(Ordering::Relaxed)
    }
}

/// The same 15 buckets as prometheus-cpp's.
impl Record for prometheus::Histogram {
    fn new() -> Self {
        let buckets = vec![
            1e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0,
        ];
        Self::with_opts(prometheus::HistogramOpts::new("peer", "A histogram.").buckets(buckets))
            .expect("a histogram")
    }
    fn record(&self, seconds: f64, _: u64) {
        self.observe(seconds);
    }
    fn total(&self) -> u64 {
        self.get_sample_count()
    }
}

static PEERS: [Peer; 4] = [
    peer::<histogram::AtomicHistogram>(c"crate histogram, atomic"),
    peer::<Mutex<hdrhistogram::Histogram<u64>>>(c"crate hdrhistogram, under a mutex"),
    peer::<Metrics>(c"crate metrics, storage of its exporters"),
    peer::<prometheus::Histogram>(c"crate prometheus, 15 buckets"),
];

/// Returns all histograms; the caller knows that there are four.
#[no_mangle]
pub extern "C" fn peers_of_histogram() -> *const Peer {
    PEERS.as_ptr()
}
