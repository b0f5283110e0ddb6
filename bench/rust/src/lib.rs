// SPDX-License-Identifier: MIT
//! Rows in Rust, for a benchmark in C++: a table of functions, each of which counts so many events.
#![deny(missing_docs)]

mod facade;
mod ours;
mod peers;

use std::collections::HashMap;
use std::ffi::{c_char, CStr};
use std::sync::{Mutex, OnceLock, PoisonError};

type Failure = Box<dyn std::error::Error>;

/// A row.
#[repr(C)]
pub struct Row {
    name: *const c_char,
    /// Counts 1024 events.
    batch: extern "C" fn(),
    /// Returns how many events were counted since the last call.
    total: extern "C" fn() -> u64,
    /// Whether fewer may be counted than there were.
    may_lose: bool,
}

// SAFETY: the names are constants, and the functions may be called by any thread.
unsafe impl Sync for Row {}
// SAFETY: as above.
unsafe impl Send for Row {}

pub(crate) const fn row(
    name: &'static CStr,
    batch: extern "C" fn(),
    total: extern "C" fn() -> u64,
) -> Row {
    Row {
        name: name.as_ptr(),
        batch,
        total,
        may_lose: false,
    }
}

/// Call f 1024 times, unrolled by 8, as run_batch() of add.h.
#[inline(always)]
pub(crate) fn repeat(mut f: impl FnMut()) {
    for _ in 0..128 {
        f();
        f();
        f();
        f();
        f();
        f();
        f();
        f();
    }
}

/// The same, with a chain of some 40 cycles of work before each call, as work() of add.h.
#[inline(always)]
pub(crate) fn repeat_amid_work(mut f: impl FnMut()) {
    let mut x = 1_u64;
    repeat(|| {
        for _ in 0..8 {
            x = (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        // SAFETY: there are no instructions. The compiler must have x in a register.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags))
        }
        f();
    });
}

/// How much more than at the last call of that name.
pub(crate) fn since_last(name: &'static str, now: u64) -> u64 {
    static LAST: OnceLock<Mutex<HashMap<&'static str, u64>>> = OnceLock::new();
    let last = LAST.get_or_init(Mutex::default);
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    now - last.insert(name, now).unwrap_or(0)
}

/// The sum of the samples of a name in a text for Prometheus.
pub(crate) fn sum_in(text: &str, name: &str) -> u64 {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_whole = rest.starts_with('{') || rest.starts_with(' ');
        is_whole.then(|| rest.rsplit(' ').next()?.parse().ok())?
    });
    samples.map(|v: f64| v as u64).sum()
}

fn make(path: &str) -> Result<Vec<Row>, Failure> {
    let mut rows = ours::make(path)?;
    rows.extend(facade::make(path)?);
    rows.extend(peers::make()?);
    Ok(rows)
}

/// Returns all rows, and stores how many there are. Ours count in the segment at a path, which the
/// caller has made. NULL: that failed, and why was printed.
///
/// # Safety
/// The path is a string; `ret_n` is valid.
#[no_mangle]
pub unsafe extern "C" fn rust_rows(path: *const c_char, ret_n: *mut usize) -> *const Row {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    let rows = ROWS.get_or_init(|| {
        make(&path).unwrap_or_else(|e| {
            eprintln!("rows in Rust: {e}");
            Vec::new()
        })
    });
    if rows.is_empty() {
        return std::ptr::null();
    }
    // SAFETY: as above.
    unsafe { *ret_n = rows.len() };
    rows.as_ptr()
}
