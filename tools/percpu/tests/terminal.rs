// SPDX-License-Identifier: MIT
//! What comes to a terminal: lines that fit, and nothing that acts on it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::Read;

use common::{every_kind, Named, HOSTILE};
use percpu::Metric;
use portable_pty::{native_pty_system, CommandBuilder, PtySize};
use unicode_width::UnicodeWidthStr;

/// Run the command in a terminal of so many columns, and return what it printed there.
fn on_terminal(arguments: &[&str], columns: u16, locale: &str) -> String {
    let size = PtySize {
        rows: 24,
        cols: columns,
        pixel_width: 0,
        pixel_height: 0,
    };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_percpu"));
    command.args(arguments);
    command.env("LC_ALL", locale);
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut bytes = Vec::new();
    // The end of a pseudo-terminal is an error.
    let mut some = [0; 4096];
    while let Ok(n @ 1..) = reader.read(&mut some) {
        bytes.extend_from_slice(&some[..n]);
    }
    assert!(child.wait().unwrap().success(), "{arguments:?}");
    String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
}

#[test]
fn lines_fit_and_nothing_acts() {
    let name = Named::new("terminal");
    let segment = name.make();
    every_kind(&segment);
    let m = Metric::new("wide_漢字_total").help(HOSTILE).unit("\x1b[1m");
    segment
        .counter(&m.label("x\x1b", &"漢".repeat(60)))
        .unwrap()
        .add(1);
    for columns in [40, 80, 200] {
        for arguments in [
            &["show", name.0.as_str()][..],
            &["show", &name.0, "--per-cpu"],
            &["watch", &name.0, "--count", "1"],
            &["ls", &name.0],
        ] {
            for locale in ["C.UTF-8", "C"] {
                let text = on_terminal(arguments, columns, locale);
                // Sentences are for the terminal to wrap.
                for line in text.lines().filter(|l| !l.ends_with('.')) {
                    assert!(
                        line.width() <= columns.into(),
                        "{columns} {arguments:?}: {line:?}"
                    );
                }
                assert!(locale != "C" || text.is_ascii(), "{text}");
                harmless(&text);
            }
        }
    }
    let text = on_terminal(&["show", &name.0, "wide*"], 80, "C.UTF-8");
    assert!(text.contains('…'), "{text}");
    // Other formats are not cut, and say the same in escapes.
    for form in ["--json", "--text"] {
        harmless(&on_terminal(&["show", &name.0, form], 40, "C.UTF-8"));
    }
    for form in ["--json", "--csv"] {
        harmless(&on_terminal(
            &["watch", &name.0, "--count", "1", form],
            40,
            "C.UTF-8",
        ));
    }
}

fn harmless(text: &str) {
    let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(text.len() > 40 && !text.contains(acts), "{text:?}");
}
