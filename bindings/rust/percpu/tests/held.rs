// SPDX-License-Identifier: MIT
//! What is held in an owned gauge is given back: at the end of a scope, when a panic unwinds, and by
//! the process that holds it alone.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::panic::{catch_unwind, AssertUnwindSafe};

use common::TemporaryFile;
use percpu::{Error, Metric, OwnedGauge, Owners, Rule, Segment};

fn living(gauge: &OwnedGauge) -> i64 {
    gauge.fetch(Owners::Living).unwrap()
}

#[test]
fn what_is_held_is_given_back() {
    let file = TemporaryFile::new("held");
    let segment = Segment::create(file.path()).unwrap();
    let gauge = segment.owned_gauge(&Metric::new("g"), Rule::Sum).unwrap();
    gauge.add(100).unwrap();
    let one = gauge.hold(1).unwrap();
    {
        let _many = gauge.hold(40).unwrap();
        let _fewer = gauge.hold(-7).unwrap();
        assert_eq!(living(&gauge), 134);
    }
    assert_eq!(living(&gauge), 101);
    std::thread::scope(|s| s.spawn(|| drop(one)).join()).unwrap();
    assert_eq!(living(&gauge), 100);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _held = gauge.hold(5).unwrap();
        assert_eq!(living(&gauge), 105);
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwound.is_err());
    assert_eq!(living(&gauge), 100);
    // The least number is its own negative.
    drop(gauge.hold(i64::MIN).unwrap());
    assert_eq!(living(&gauge), 100);
    let recent = segment.owned_gauge(&Metric::new("r"), Rule::Recent);
    assert!(matches!(recent.unwrap().hold(1), Err(Error::Invalid(_))));
}

/// Run a child of fork, and wait for it.
fn in_child(child: impl FnOnce() -> bool) {
    // SAFETY: the child calls what a child of fork may call, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let right = catch_unwind(AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: no destructor of the parent runs.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = -1;
    // SAFETY: it is a child of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
}

#[test]
fn a_child_of_fork_gives_back_nothing_of_its_parent() {
    let file = TemporaryFile::new("held-fork");
    let segment = Segment::create(file.path()).unwrap();
    let gauge = segment.owned_gauge(&Metric::new("g"), Rule::Sum).unwrap();
    let mut held = vec![gauge.hold(3).unwrap(), gauge.hold(4).unwrap()];
    let of_this_process = || -> Vec<i64> {
        let all = gauge.each(Owners::Living).unwrap();
        let mine = all.iter().filter(|v| v.pid == std::process::id());
        mine.map(|v| v.value).collect()
    };
    in_child(|| {
        held.pop(); // before the child has a share
        if !of_this_process().is_empty() || living(&gauge) != 7 {
            return false;
        }
        let own = gauge.hold(10).unwrap();
        held.pop(); // and when it has one
        let whole = of_this_process() == [10] && living(&gauge) == 17;
        drop(own);
        whole && of_this_process() == [0] && living(&gauge) == 7
    });
    assert_eq!(of_this_process(), [7]);
    drop(held);
    assert_eq!(of_this_process(), [0]);
    assert_eq!(living(&gauge), 0);
}
