// SPDX-License-Identifier: MIT
//! Where `percpu top` takes no screen: without a terminal, without a segment, and for its help.

#![allow(clippy::unwrap_used)]

mod tty;

use std::process::Command;

use percpu::{Metric, Segment};
use tty::{command, Folder, Tty};

const PERCPU: &str = env!("CARGO_BIN_EXE_percpu");

#[test]
fn what_is_no_terminal_gets_one_sentence() {
    let folder = Folder::new("top-none");
    let _segment = Segment::create(&folder.path("a")).unwrap();
    let output = Command::new(PERCPU)
        .args(["top", &folder.path("a")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(
        sentence.starts_with("percpu: top needs a terminal"),
        "{sentence}"
    );
    assert!(sentence.ends_with("percpu watch prints lines\n") && sentence.lines().count() == 1);

    for (term, said) in [("dumb", "TERM is dumb"), ("", "TERM is not set")] {
        let mut command = command(PERCPU, &["top", "./a"]);
        command.cwd(&folder.0);
        command.env("TERM", term);
        let mut tty = Tty::new(command, 100, 24);
        assert_eq!(tty.end(), 2);
        let text = tty.text(said);
        assert!(text.contains("percpu watch"), "{text}");
        assert!(!tty.bytes().contains(&0x1b));
    }
}

#[test]
fn frames_are_screens_as_text() {
    let folder = Folder::new("top-frames");
    let segment = Segment::create(&folder.path("a")).unwrap();
    let counter = segment.counter(&Metric::new("things_total")).unwrap();
    counter.add(4711);
    let output = Command::new(PERCPU)
        .args(["top", "-n", "0.05", "--frames", "3", &folder.path("a")])
        .env("LC_ALL", "C.UTF-8")
        .env_remove("TERM")
        .envs([("COLUMNS", "60"), ("LINES", "17")])
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    let screens: Vec<_> = text.split("\n\npercpu top").collect();
    assert_eq!(screens.len(), 3, "{text}");
    assert_eq!(text.lines().count(), 3 * 17 + 2, "{text}");
    for screen in screens {
        assert!(
            screen.contains("things_total") && screen.contains("4.71k"),
            "{text}"
        );
        assert!(screen.lines().all(|l| l.chars().count() <= 60), "{text}");
        // A rate, which two pictures make.
        assert!(screen.contains(" 0 "), "{text}");
    }
}

#[test]
fn help_has_three_examples_and_the_keys() {
    let output = Command::new(PERCPU)
        .args(["top", "--help"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("\n  percpu top ").count(), 3, "{text}");
    for key in [
        "Enter",
        "/ ",
        "n r c",
        "Space",
        "Tab",
        "Ctrl-Z",
        "? q Esc Ctrl-C",
    ] {
        assert!(text.contains(&format!("\n  {key}")), "{key}: {text}");
    }
}

#[test]
fn no_segment_of_a_name_is_said_before_the_screen_is_taken() {
    let folder = Folder::new("top-missing");
    let mut tty = Tty::new(command(PERCPU, &["top", &folder.path("missing")]), 100, 24);
    assert_eq!(tty.end(), 3);
    assert!(tty.text("missing").contains("percpu: "));
    assert!(!tty.bytes().contains(&0x1b));
}
