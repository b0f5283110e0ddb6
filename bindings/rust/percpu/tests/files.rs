// SPDX-License-Identifier: MIT
//! Facts about files, which are removed by their names; and fences of all processes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::Duration;

use common::TemporaryFile;
use percpu::{fence_all, Counter, Error, FenceReport, LockState, Metric, Reader, Segment};

/// A child of fork has the files of all tests open: one test forks, and the others that need to be
/// the only process wait.
static FORKS: Mutex<()> = Mutex::new(());

/// Run a child of fork until it ends.
fn in_child(child: impl FnOnce() -> bool) {
    // SAFETY: the child calls what a child of fork may call, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let right = child();
        // SAFETY: no destructor of the parent runs.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = -1;
    // SAFETY: it is a child of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
}

#[test]
fn each_fact_is_that_of_the_file() {
    let _alone = FORKS.lock();
    let file = TemporaryFile::new("facts");
    let segment = Segment::create(file.path()).unwrap();
    let family = segment.family::<Counter>(&Metric::new("f_total"), &["x"], 10);
    let family = family.unwrap();
    family.add(&["a"], 1).unwrap();
    family.add(&["b"], 1).unwrap();
    family.remove(&["a"]).unwrap();
    segment.counter(&Metric::new("n_total")).unwrap().add(1);
    segment.join("parent", false).unwrap();
    for name in ["one", "two"] {
        in_child(|| segment.join(name, false).is_ok());
    }
    let mut reader = Reader::open(file.path()).unwrap();
    let facts = reader.facts().unwrap();
    let meta = std::fs::metadata(file.path()).unwrap();
    assert_eq!(
        (facts.file_bytes, facts.disk_bytes),
        (meta.len(), meta.blocks() * 512)
    );
    let lanes = u64::from(facts.chunks) * 65536;
    assert_eq!(facts.cells_used + facts.cells_free, lanes);
    // Records and owners have taken whole lanes.
    assert!(facts.cells_used > facts.cells_free, "{facts:?}");
    assert!(facts.records_bytes > 0 && facts.records_bytes < 65536);
    assert_eq!(facts.records_most, 128 << 20);
    assert!(facts.chunks > 1 && facts.chunks < facts.chunks_most);
    assert!(facts.format.0 > 0 && facts.version > 0);
    assert_eq!((facts.records_in_use, facts.records_removed), (3, 2));
    assert_eq!(facts.records_pending, 0);
    assert_eq!((facts.owners_alive, facts.owners_dead), (1, 2));
    assert_eq!(
        (facts.counting, facts.reset_unfinished),
        (Some(true), false)
    );
    assert_eq!(facts.lock, LockState::Free);
    drop((family, segment));
    assert_eq!(reader.facts().unwrap().counting, Some(false));
}

#[test]
fn files_of_others_are_removed_if_that_is_said() {
    let _alone = FORKS.lock();
    assert!(matches!(Segment::remove("a\0b"), Err(Error::Invalid(_))));
    let file = TemporaryFile::new("foreign");
    drop(Segment::create(file.path()).unwrap());
    if std::os::unix::fs::chown(file.path(), Some(4321), None).is_err() {
        eprintln!("only root gives files away");
        return;
    }
    assert!(matches!(
        Segment::remove(file.path()),
        Err(Error::Denied(_))
    ));
    let segment = percpu::SegmentOptions::new().foreign().open(file.path());
    let in_use = Segment::remove_foreign(file.path());
    assert!(matches!(in_use, Err(Error::Busy(_))), "{in_use:?}");
    drop(segment);
    assert!(std::fs::exists(file.path()).unwrap());
    Segment::remove_foreign(file.path()).unwrap();
    assert!(!std::fs::exists(file.path()).unwrap());
}

#[test]
fn a_fence_says_which_cpus_it_reached() {
    let (report, result) = fence_all(Duration::ZERO);
    assert!(matches!(result, Err(Error::Invalid(_))), "{result:?}");
    assert_eq!(report, FenceReport::default());
    let (report, result) = fence_all(Duration::from_nanos(1));
    assert!(!matches!(result, Err(Error::Invalid(_))), "{result:?}");
    assert_eq!(result.is_err(), report.unfenced > 0 || report.fenced == 0);
    let cpus = percpu::status().possible_cpus;
    let (report, result) = fence_all(Duration::from_secs(60));
    match result {
        Ok(()) => assert_eq!((report.fenced, report.unfenced), (cpus, 0)),
        Err(_) => assert!(report.unfenced > 0 || report.fenced == 0, "{report:?}"),
    }
}
