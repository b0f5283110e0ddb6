// SPDX-License-Identifier: MIT
//! Broken files: the command never panics, hangs or dies, whatever is in them.
//!
//! `PERCPU_FUZZ_RUNS=10000 PERCPU_FUZZ_SEED=7 cargo test -p percpu-tool --test fuzz` tries more.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use common::{every_kind, percpu, prints, Named, Scratch};
use percpu::SegmentOptions;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n as u64) as usize
    }
}

fn number(variable: &str, or: u64) -> u64 {
    std::env::var(variable).map_or(or, |text| text.parse().unwrap())
}

/// Run it; fail if it does not end.
fn ends(arguments: &[&str]) -> Output {
    let mut command = percpu(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("{arguments:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.wait_with_output().unwrap()
}

/// Return whether it could read the file.
fn well(arguments: &[&str], what: &str) -> bool {
    let out = ends(arguments);
    let said = String::from_utf8_lossy(&out.stderr);
    let code = out.status.code();
    assert!(
        code.is_some_and(|c| c <= 7 && c != 2),
        "{what}: {arguments:?}: {code:?} {said}"
    );
    assert!(!said.contains("panicked"), "{what}: {arguments:?}: {said}");
    assert!(
        said.lines().count() == usize::from(code != Some(0)) || arguments[0] == "ls",
        "{said}"
    );
    code == Some(0)
}

#[test]
fn broken_segments() {
    let real = Named::new("fuzz");
    let options = SegmentOptions::new().create().program("tool test");
    every_kind(&options.open(&real.0).unwrap());
    let snapshot = Scratch::with("fuzz-snapshot", prints(&["show", &real.0, "--json"]));
    let bytes = std::fs::read(real.path()).unwrap();
    // Most pages are empty.
    let pages = bytes.chunks(4096).enumerate();
    let pages = pages.filter(|(_, page)| *page != [0; 4096]);
    let used: Vec<_> = pages
        .flat_map(|(i, page)| (0..page.len()).map(move |k| i * 4096 + k))
        .filter(|at| bytes[*at] != 0)
        .collect();
    let file = File::options().write(true).open(real.path()).unwrap();
    let seed = number("PERCPU_FUZZ_SEED", 1);
    let mut random = Random(2 * seed + 1);
    let (mut good, mut bad) = (0, 0);
    for round in 0..number("PERCPU_FUZZ_RUNS", 60) {
        let mut changed = Vec::new();
        for _ in 0..=random.below(8) {
            let at = (used[random.below(used.len())] + random.below(16)).min(bytes.len() - 1);
            let byte = [random.below(256) as u8, 0, 0xff, 0x80][random.below(4)];
            file.write_all_at(&[byte], at as u64).unwrap();
            changed.push(at);
        }
        let what = format!("seed {seed}, round {round}, bytes {changed:?}");
        for form in [
            &["show", real.0.as_str()][..],
            &["show", &real.0, "--json", "--per-cpu"],
            &["show", &real.0, "--text"],
            &["ls", &real.0],
            &["diff", &real.0, &real.0],
            &["diff", snapshot.text(), &real.0],
        ] {
            if well(form, &what) {
                good += 1;
            } else {
                bad += 1;
            }
        }
        for at in changed {
            file.write_all_at(&bytes[at..=at], at as u64).unwrap();
        }
    }
    assert!(good > 0 && bad > 0, "{good} were read, {bad} refused");
}

#[test]
fn broken_snapshots() {
    let real = Named::new("fuzz_json");
    every_kind(&real.make());
    let bytes = prints(&["show", &real.0, "--json"]).into_bytes();
    let mut random = Random(3);
    for round in 0..number("PERCPU_FUZZ_RUNS", 60) {
        let mut broken = bytes.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(broken.len());
            match random.below(3) {
                0 => broken[at] = b"0919-.\"{}[],eE\xff"[random.below(15)],
                1 => drop(broken.drain(at..(at + random.below(40)).min(bytes.len() / 2).max(at))),
                _ => broken.insert(at, b'9'),
            }
        }
        let file = Scratch::with("fuzz-json", &broken);
        let what = format!("round {round}: {}", String::from_utf8_lossy(&broken));
        well(&["diff", file.text(), &real.0], &what);
        well(&["diff", file.text(), &real.0, "--json"], &what);
    }
}
