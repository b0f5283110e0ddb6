// SPDX-License-Identifier: MIT
//! Keys where there is nothing, and the help about them.

use ratatui::crossterm::event::KeyCode;

use super::super::keys::KEYS;
use super::world::World;

#[test]
fn keys_do_no_harm_without_series() {
    let mut world = World::new();
    world.keys("jkhlar c[]\tJK/x\n? \x1b");
    for code in [
        KeyCode::End,
        KeyCode::PageDown,
        KeyCode::Left,
        KeyCode::Enter,
        KeyCode::F(3),
    ] {
        world.press(code);
    }
    world.screen(80, 24);
}

#[test]
fn help_has_each_key_in_short_lines() {
    for line in KEYS.lines() {
        assert!(line.len() <= 76 && line.get(18..20) == Some("  "), "{line}");
    }
}
