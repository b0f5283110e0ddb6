// SPDX-License-Identifier: MIT
//! Keys of `percpu top` that come while something else happens.

#![allow(clippy::unwrap_used)]

mod tty;

use percpu::{Metric, Segment};
use tty::{command, Folder, Tty};

/// Each key comes right behind a change of the size, and waits for no other key.
#[test]
fn keys_amid_changes_of_the_size() {
    let folder = Folder::new("top-size-key");
    let segment = Segment::create(&folder.path("web")).unwrap();
    segment.counter(&Metric::new("a_total")).unwrap();
    let mut command = command(
        env!("CARGO_BIN_EXE_percpu"),
        &["top", "-n", "1000", "./web"],
    );
    command.cwd(&folder.0);
    let mut tty = Tty::new(command, 80, 24);
    tty.text("q quit");
    tty.keys("/");
    for i in 0..60 {
        tty.resize(80 + i % 2, 24);
        tty.keys("x");
        tty.text(&"x".repeat(usize::from(i) + 1));
    }
    tty.keys("\x1b");
    tty.text("a_total");
    tty.keys("q");
    assert_eq!(tty.end(), 0);
}
