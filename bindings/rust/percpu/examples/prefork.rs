// SPDX-License-Identifier: MIT
//! What examples/prefork/metrics.c is in C: the metrics of a server of several processes, in the same
//! segment. The server is in C; it is linked with this as a static library.

use std::ffi::{c_char, c_int, c_uint, CStr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use percpu::{
    Counter, Error, Histogram, HistogramOptions, Latest, Metric, OwnedGauge, Owners, Rule,
    SegmentOptions,
};

struct Metrics {
    requests: [Counter; 4],
    bytes: Counter,
    duration: Histogram,
    in_flight: OwnedGauge,
    restarts: Counter,
    starts: Counter,
    start_time: Latest,
}

/// `struct metrics_values` of prefork.h.
#[repr(C)]
pub struct Values {
    requests: [u64; 4],
    all_requests: u64,
    bytes: u64,
    observations: u64,
    seconds: f64,
    starts: u64,
    restarts: u64,
    in_flight: i64,
}

static METRICS: OnceLock<Metrics> = OnceLock::new();
static OFF: AtomicBool = AtomicBool::new(false);

extern "C" {
    fn event_get_version() -> *const c_char;
}

fn open(path: &str, to_count: bool) -> Result<Metrics, Error> {
    let options = SegmentOptions::new();
    let s = if to_count { options.create() } else { options }.open(path)?;
    let requests = |code| {
        let help = "Requests that were answered, by the class of their status.";
        s.counter(
            &Metric::new("prefork_requests_total")
                .help(help)
                .label("code", code),
        )
    };
    let bytes = Metric::new("prefork_answer_bytes_total")
        .help("Bytes of all answers, heads included.")
        .unit("bytes");
    let duration = Metric::new("prefork_request_seconds")
        .help("Time from the first bytes of a request until its answer was made.")
        .unit("seconds");
    let in_flight = Metric::new("prefork_requests_in_flight")
        .help("Requests whose answer the kernel has not taken whole.");
    let restarts =
        Metric::new("prefork_worker_restarts_total").help("Workers that died and were replaced.");
    let starts = Metric::new("prefork_starts_total").help("Starts of the server.");
    let start_time = Metric::new("prefork_start_time_seconds")
        .help("When the server was started last.")
        .unit("seconds");
    // SAFETY: libevent returns a constant string.
    let version = unsafe { CStr::from_ptr(event_get_version()) }.to_string_lossy();
    let info = Metric::new("prefork_build_info")
        .help("What the server was built with.")
        .label("libevent", &version);

    let metrics = Metrics {
        requests: [
            requests("2xx")?,
            requests("3xx")?,
            requests("4xx")?,
            requests("5xx")?,
        ],
        bytes: s.counter(&bytes)?,
        // Sums of whole nanoseconds are exact.
        duration: s.histogram(
            &duration,
            &HistogramOptions::new().ticks_per_unit(1_000_000_000),
        )?,
        in_flight: s.owned_gauge(&in_flight, Rule::Sum)?,
        restarts: s.counter(&restarts)?,
        starts: s.counter(&starts)?,
        start_time: s.latest(&start_time)?,
    };
    s.info(&info)?;
    Ok(metrics)
}

/// # Safety
/// The path is a string.
#[no_mangle]
pub unsafe extern "C" fn metrics_open(path: *const c_char, to_count: bool) -> c_int {
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    match open(&path, to_count) {
        Ok(metrics) => {
            let _ = METRICS.set(metrics);
            0
        }
        Err(e) => {
            eprintln!("prefork: {e}");
            -1
        }
    }
}

/// The end of the process closes the segment.
#[no_mangle]
pub extern "C" fn metrics_close() {}

#[no_mangle]
pub extern "C" fn metrics_off() {
    OFF.store(true, Ordering::Relaxed);
}

/// The metrics, unless no requests are counted.
fn counting() -> Option<&'static Metrics> {
    METRICS.get().filter(|_| !OFF.load(Ordering::Relaxed))
}

#[no_mangle]
pub extern "C" fn metrics_clock() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if counting().is_none() {
        return 0;
    }
    // SAFETY: the call stores the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[no_mangle]
pub extern "C" fn metrics_started() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    if let Some(m) = METRICS.get() {
        m.starts.inc();
        let _ = m.start_time.set(now.as_secs() as f64);
    }
}

#[no_mangle]
pub extern "C" fn metrics_restarted() {
    if let Some(m) = METRICS.get() {
        m.restarts.inc();
    }
}

/// The first update of a process takes its slot among the owners, and may fail; later ones do not.
#[no_mangle]
pub extern "C" fn metrics_joined() -> c_int {
    METRICS.get().map_or(-libc::EINVAL, |m| {
        m.in_flight.add(0).map_or_else(|e| -e.errno(), |()| 0)
    })
}

#[no_mangle]
pub extern "C" fn metrics_request() {
    if let Some(m) = counting() {
        let _ = m.in_flight.add(1);
    }
}

/// Called before the system call that sends the answer: see README.md.
#[no_mangle]
pub extern "C" fn metrics_answer(status: c_uint, ns: u64, size: usize) {
    if let Some(m) = counting() {
        m.duration.record_ticks(ns);
        m.bytes.add(size as u64);
        if let Some(requests) = m.requests.get((status as usize / 100).wrapping_sub(2)) {
            requests.inc();
        }
    }
}

#[no_mangle]
pub extern "C" fn metrics_request_over() {
    if let Some(m) = counting() {
        let _ = m.in_flight.add(-1);
    }
}

fn read(m: &Metrics) -> Result<Values, Error> {
    let duration = m.duration.fetch()?;
    let requests = m.requests.each_ref().map(|c| c.fetch());
    Ok(Values {
        requests,
        all_requests: requests.iter().sum(),
        bytes: m.bytes.fetch(),
        observations: duration.count(),
        seconds: duration.sum(),
        starts: m.starts.fetch(),
        restarts: m.restarts.fetch(),
        in_flight: m.in_flight.fetch(Owners::Living)?,
    })
}

#[no_mangle]
pub extern "C" fn metrics_read(ret: &mut Values) -> c_int {
    match METRICS.get().map(read) {
        Some(Ok(values)) => {
            *ret = values;
            0
        }
        Some(Err(e)) => -e.errno(),
        None => -libc::EINVAL,
    }
}

#[no_mangle]
pub extern "C" fn metrics_in_flight_of(pid: u32) -> i64 {
    let values = METRICS
        .get()
        .and_then(|m| m.in_flight.each(Owners::Living).ok());
    let mine = values.iter().flatten().find(|v| v.pid == pid);
    mine.map_or(0, |v| v.value)
}
