// SPDX-License-Identifier: MIT
//! What the tests have in common.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use percpu::{Metric, Segment};

/// Numbers that are the same in each run (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2) + 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The path of a file, which is removed in the end.
pub struct TemporaryFile(PathBuf);

impl TemporaryFile {
    pub fn new(what: &str) -> Self {
        let path = std::env::temp_dir().join(format!("percpu-rust-{what}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Run a test on an object of this process, and on one in a segment.
pub fn both<T>(
    name: &str,
    new: impl FnOnce() -> Result<T, percpu::Error>,
    declare: impl FnOnce(&Segment, &Metric) -> Result<T, percpu::Error>,
    test: impl Fn(T, Random),
) {
    percpu::selftest(); // until then no sequence runs
    test(new().unwrap(), Random::new(1));
    let file = TemporaryFile::new(name);
    let segment = Segment::create(file.path()).unwrap();
    let object = declare(&segment, &Metric::new(name).label("where", "segment")).unwrap();
    drop(segment); // the object keeps it open
    test(object, Random::new(2));
}

/// How many processes count at once, in tests that kill them.
pub const SLOTS: usize = 6;

/// A page that processes share: for each slot how many rounds were begun, and ended.
pub struct Progress(*mut AtomicU64);

impl Progress {
    /// Map the page in a file, which is made if there is none.
    pub fn open(path: &str) -> Self {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        let file = file.open(path).unwrap();
        file.set_len(4096).unwrap();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: maps a page of the file, at no address in use.
        let at = unsafe {
            let (none, fd) = (std::ptr::null_mut(), file.as_raw_fd());
            libc::mmap(none, 4096, protection, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at.cast())
    }

    pub fn word(&self, slot: usize, word: usize) -> &AtomicU64 {
        // SAFETY: there is room for the words of all slots.
        unsafe { &*self.0.add(2 * slot + word) }
    }

    pub fn sum(&self, word: usize) -> u64 {
        (0..SLOTS)
            .map(|slot| self.word(slot, word).load(SeqCst))
            .sum()
    }
}
