// SPDX-License-Identifier: MIT
//! Files that are cut short, damaged, or of another version: an error, and never a panic.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use common::{Random, TemporaryFile};
use percpu::{Counter, Error, HistogramOptions, Metric, Reader, Rule, Segment};

percpu::stats! { struct Pair { a, b } }

/// Make a segment with metrics of several kinds.
fn make(file: &TemporaryFile) -> File {
    let _ = std::fs::remove_file(file.path());
    let segment = Segment::create(file.path()).unwrap();
    let m = |name| Metric::new(name).help("Help.").unit("things");
    segment.counter(&m("a").label("x", "1")).unwrap().add(3);
    segment
        .histogram(&m("b"), &HistogramOptions::new())
        .unwrap()
        .record(0.5);
    segment
        .stats::<Pair>(&m("c"), "field")
        .unwrap()
        .add(Pair::a, 1);
    segment
        .owned_gauge(&m("d"), Rule::Sum)
        .unwrap()
        .add(1)
        .unwrap();
    segment.latest(&m("e")).unwrap().set(1.0).unwrap();
    segment.extrema(&m("f")).unwrap().observe(1).unwrap();
    let exemplars = segment.exemplars(&m("a").label("x", "1")).unwrap();
    exemplars.store(1.0, &[("id", "1")]).unwrap();
    let family = segment
        .family::<Counter>(&Metric::new("g"), &["x"], 5)
        .unwrap();
    family.add(&["1"], 1).unwrap();
    File::options()
        .read(true)
        .write(true)
        .open(file.path())
        .unwrap()
}

/// Where the bytes are that are not 0, and these bytes. Most of the file has no data.
fn bytes_of(file: &File) -> Vec<(u64, u8)> {
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        // SAFETY: moves the position in the file.
        let (begin, end) = unsafe {
            let begin = libc::lseek(file.as_raw_fd(), at, libc::SEEK_DATA);
            (begin, libc::lseek(file.as_raw_fd(), begin, libc::SEEK_HOLE))
        };
        if begin < 0 {
            return found;
        }
        let mut bytes = vec![0; (end - begin) as usize];
        file.read_exact_at(&mut bytes, begin as u64).unwrap();
        let numbered = (begin as u64..).zip(bytes);
        found.extend(numbered.filter(|(_, byte)| *byte != 0));
        at = end;
    }
}

/// Read all that a picture has.
fn read(path: &str) -> Result<usize, Error> {
    let mut reader = Reader::open(path)?;
    let picture = reader.read()?;
    let mut n = 0;
    for s in picture.series() {
        n += format!(
            "{s:?} {:?} {:?}",
            s.exemplars(),
            s.fields().collect::<Vec<_>>()
        )
        .len();
        n += s.owned_each().map_or(0, |v| v.len()) + s.cpus().map_or(0, |v| v.len());
    }
    n += picture.owners().len() + picture.prometheus()?.len() + picture.json()?.len();
    Ok(n)
}

#[test]
fn files_that_are_no_segment() {
    let file = TemporaryFile::new("hostile");
    let length = make(&file).metadata().unwrap().len();
    assert!(read(file.path()).unwrap() > 0);

    let mut random = Random::new(9);
    let noise: Vec<u8> = (0..1 << 20).map(|_| random.next() as u8).collect();
    let is_damaged = |e: &Error| matches!(e, Error::Damaged(_));
    let is_version = |e: &Error| matches!(e, Error::Version(_));
    type Cause = fn(&Error) -> bool;
    // Its length, what is written at which offset, and the error. The version is behind the magic
    // number (format.h).
    let files: [(u64, &[u8], u64, Cause); 6] = [
        (0, &[], 0, is_damaged),
        (1, &[], 0, is_damaged),
        (4096, &[], 0, is_damaged),
        (1 << 16, &[], 0, is_damaged),
        (length, &noise, 0, is_damaged),
        (length, &[0xee; 4], 8, is_version),
    ];
    for (length, bytes, at, is_right) in files {
        let f = make(&file);
        f.set_len(length).unwrap();
        f.write_all_at(bytes, at).unwrap();
        for e in [
            read(file.path()).unwrap_err(),
            Segment::open(file.path()).unwrap_err(),
        ] {
            assert!(is_right(&e), "{length} {at}: {e:?}");
            assert!(!e.to_string().is_empty());
        }
    }
}

#[test]
fn files_with_wrong_bytes() {
    let file = TemporaryFile::new("wrong-bytes");
    let mut random = Random::new(10);
    let (mut good, mut bad) = (0, 0);
    let f = make(&file);
    let (bytes, length) = (bytes_of(&f), f.metadata().unwrap().len());
    for _ in 0..200 {
        let mut changed = Vec::new();
        for _ in 0..=random.below(8) {
            let at = bytes[random.below(bytes.len() as u64) as usize].0 + random.below(16);
            let mut old = [0];
            f.read_exact_at(&mut old, at).unwrap();
            changed.push((at, old));
            let byte = [random.next() as u8, 0, 0xff][random.below(3) as usize];
            f.write_all_at(&[byte], at).unwrap();
        }
        match read(file.path()) {
            Ok(_) => good += 1,
            Err(e) => {
                assert!(!e.to_string().is_empty());
                bad += 1;
            }
        }
        changed
            .iter()
            .rev()
            .for_each(|(at, old)| f.write_all_at(old, *at).unwrap());
    }
    assert!(good > 0 && bad > 0, "{good} files read, {bad} refused");
    assert_eq!((bytes_of(&f), f.metadata().unwrap().len()), (bytes, length));
}
