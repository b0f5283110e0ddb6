// SPDX-License-Identifier: MIT
//! The terminal after a panic.

#[path = "../../../tests/tty/mod.rs"]
mod tty;

use super::super::terminal::Terminal;
use tty::{command, Folder, Tty};

/// Takes the terminal and panics: not a test of its own.
#[test]
#[ignore = "started by another test, in a terminal"]
fn panics() {
    let mut terminal = Terminal::new().unwrap();
    terminal
        .draw(|frame| frame.render_widget("before", frame.area()))
        .unwrap();
    panic!("on purpose");
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let folder = Folder::new("top-panic");
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "stty -g >before; '{}' --exact top::tests::terminal::panics --ignored --nocapture; \
         echo \"code $?\"; stty -g >after",
        this.display()
    );
    let mut command = command("/bin/sh", &["-c", &script]);
    command.cwd(&folder.0);
    let mut tty = Tty::new(command, 100, 30);
    let screen = tty.text("code 101");
    tty.end();
    // The sentence of the panic is on the screen that stays.
    assert!(screen.contains("on purpose"), "{screen}");
    let bytes = String::from_utf8(tty.bytes()).unwrap();
    assert!(bytes.contains("before"), "it was taken");
    tty.wait("normal screen with a cursor", |s| {
        !s.alternate_screen() && !s.hide_cursor()
    });
    let read = |name| std::fs::read_to_string(folder.path(name)).unwrap();
    assert!(read("before").len() > 10);
    assert_eq!(read("before"), read("after"));
}
