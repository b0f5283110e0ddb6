// SPDX-License-Identifier: MIT
//! What the tests have in common.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;

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
