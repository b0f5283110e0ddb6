// SPDX-License-Identifier: MIT
//! What is drawn.

use std::path::Path;

use percpu::{Counter, HistogramOptions, Metric, Rule};
use ratatui::crossterm::event::KeyCode;
use unicode_width::UnicodeWidthStr;

use super::world::{requests, World, ASCII};
use crate::model::{Change, Owner, Share};

/// Compare with a file, or write it if PERCPU_BLESS is set.
fn compare(name: &str, screen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/top")
        .join(name);
    if std::env::var_os("PERCPU_BLESS").is_some() {
        std::fs::write(&path, screen).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == screen,
        "{name}: expected\n{expected}\nis\n{screen}"
    );
}

/// A server some seconds at work, with the cursor on a name.
fn server(search: &str) -> World {
    let mut world = World::new();
    let s = world.segment.clone();
    let codes = ["200", "304", "404", "500"].map(|c| s.counter(&requests(c)).unwrap());
    let bytes = Metric::new("web_bytes_total")
        .unit("bytes")
        .help("Bytes of all answers.");
    let bytes = s.counter(&bytes).unwrap();
    let seconds = Metric::new("web_request_seconds")
        .unit("seconds")
        .help("Time from the first byte of a request until its answer was made, in the worker.");
    let seconds = s.histogram(&seconds, &HistogramOptions::new()).unwrap();
    let load = s
        .fgauge(&Metric::new("web_load").unit("ratio").help("Busy time."))
        .unwrap();
    let connections = s.gauge(&Metric::new("web_connections")).unwrap();
    s.info(&Metric::new("web_build_info").label("version", "1.2"))
        .unwrap();
    for i in 0..40_u64 {
        let wave = [4, 6, 8, 9, 8, 6, 4, 3][i as usize % 8];
        for (n, code) in codes.iter().enumerate() {
            code.add((100 * wave) >> (3 * n));
        }
        bytes.add(wave * 150_000);
        for k in 0..wave * 10 {
            seconds.record(0.0005 * (1 + k * k % 97) as f64);
        }
        load.set(wave as f64 / 10.0).unwrap();
        connections.set(i as i64 * 7 % 23).unwrap();
        world.look_after(1.0);
        if i == 10 {
            world.keys(&format!("/{search}\n"));
            world.keys("/");
            world.keys("\n");
        }
    }
    world
}

#[test]
fn screens_in_four_sizes() {
    let mut world = server("bytes");
    for (columns, lines) in [(80, 24), (40, 20), (120, 40), (200, 50)] {
        compare(
            &format!("bytes-{columns}x{lines}.txt"),
            &world.screen(columns, lines),
        );
    }
    let mut world = server("request_seconds");
    for (columns, lines) in [(80, 24), (40, 20), (120, 40), (200, 50)] {
        compare(
            &format!("seconds-{columns}x{lines}.txt"),
            &world.screen(columns, lines),
        );
    }
    world.look = ASCII;
    let screen = world.screen(120, 40);
    assert!(screen.is_ascii(), "{screen}");
    compare("seconds-ascii-120x40.txt", &screen);
    world.keys("\t");
    compare("seconds-alone-80x24.txt", &world.screen(80, 24));
}

#[test]
fn no_size_is_too_small() {
    let mut world = server("requests");
    for look in [super::world::UTF8, ASCII] {
        world.look = look;
        for keys in ["", "\t", "\t", "a", "?", "?/x", "\n"] {
            world.keys(keys);
            for columns in (1..12).chain([20, 40, 80, 160]) {
                for lines in (1..8).chain([12, 20, 50]) {
                    let screen = world.screen(columns, lines);
                    assert!(screen.lines().all(|l| l.width() <= columns.into()));
                }
            }
        }
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let mut world = World::new();
    let evil = Metric::new("evil\x1b[2J\u{202e}\n漢字漢字漢字")
        .help("\x1b]0;title\x07 e\u{301}")
        .label("a", "\u{9b}31m\r\n");
    let declared: Result<Counter, _> = world.segment.counter(&evil);
    declared.unwrap().add(1);
    world.look_after(1.0);
    world.look_after(1.0);
    world
        .app
        .lose("other\x1b[31m", "a \x1b[0m sentence", world.now());
    world.app.arrange();
    for (columns, lines) in [(80, 24), (40, 20), (200, 50)] {
        let screen = world.screen(columns, lines);
        let raw = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!screen.contains(raw), "{screen:?}");
        assert!(screen.contains("evil\\u{1b}[2J"), "{screen}");
    }
    let screen = world.screen(200, 50);
    assert!(
        screen.contains("\\u{1b}]0;title\\u{7} e\u{301}"),
        "{screen}"
    );
    assert!(screen.contains("漢字漢字漢字"), "{screen}");
    world.look = ASCII;
    assert!(world.screen(200, 50).is_ascii());
}

#[test]
fn families_tell_what_they_had_no_room_for() {
    let mut world = World::new();
    let family = world
        .segment
        .family::<Counter>(&Metric::new("by_user"), &["user"], 2)
        .unwrap();
    for user in ["a", "b", "c", "d", "\u{0}"] {
        family.add(&[user], 1).unwrap();
    }
    world.look_after(1.0);
    world.keys("aj");
    world.look_after(1.0);
    world.keys("\t");
    let screen = world.screen(60, 30);
    let text = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("a family of at most 2 series;"), "{screen}");
    assert!(
        text.contains("as there was no room: 2; as a text cannot"),
        "{screen}"
    );
    assert!(text.contains("be a label's value: 1 "), "{screen}");
}

#[test]
fn the_dead_are_marked_and_do_not_vanish() {
    let mut world = World::new();
    let metric = Metric::new("in_flight");
    world.segment.join("worker-0", false).unwrap();
    world
        .segment
        .owned_gauge(&metric, Rule::Sum)
        .unwrap()
        .set(5)
        .unwrap();
    let other = |alive| Share {
        owner: Owner {
            pid: 4711,
            alive,
            name: "worker-1".into(),
        },
        value: 3.0,
    };
    world.look_after(1.0);
    for state in [Some(true), Some(false), None] {
        world.time += 1.0;
        let mut picture = world.picture();
        let details = picture.series[0].details.as_mut().unwrap();
        assert_eq!(details.shares.len(), 1, "{details:?}");
        details.shares.extend(state.map(other));
        world.app.update("web", picture, Change::None);
        let line = world.line("4711 worker-1");
        assert!(line.contains(" 3 "), "{line}");
        assert_eq!(line.contains("dead"), state != Some(true), "{line}");
        assert_eq!(line.contains("gone"), state.is_none(), "{line}");
        assert!(world.line("worker-0").contains(" 5 "));
    }
}

#[test]
fn each_kind_of_value_has_its_words() {
    let mut world = World::new();
    let s = world.segment.clone();
    s.latest(&Metric::new("a").unit("seconds"))
        .unwrap()
        .set(1.5)
        .unwrap();
    let extrema = s.extrema(&Metric::new("b").unit("bytes")).unwrap();
    extrema.observe(3).unwrap();
    extrema.observe(7).unwrap();
    s.extrema(&Metric::new("c")).unwrap();
    s.info(&Metric::new("d").label("version", "1")).unwrap();
    let start = Metric::new("z_start").unit("seconds");
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    // Pictures are of an hour later.
    s.latest(&start)
        .unwrap()
        .set(now.as_secs_f64() + 1770.0)
        .unwrap();
    s.fcounter(&Metric::new("e")).unwrap().add(0.25).unwrap();
    world.look_after(1.0);
    let start = world.line("z_start");
    assert!(start.contains(" 30m ago        -        -"), "{start}");
    for text in [
        "value 1.5 seconds, set ",
        "least 3.00 B, greatest 7.00 B",
        "no value: ",
        "but its labels",
        "value 0.25",
    ] {
        world.line(text);
        world.press(KeyCode::Down);
    }
}

#[test]
fn cpus_are_of_the_interval() {
    let mut world = World::new();
    let hits = world.segment.counter(&Metric::new("hits")).unwrap();
    hits.add(8000);
    world.look_after(1.0);
    world.look_after(1.0);
    assert!(world
        .line("By CPU")
        .contains("in all: most on CPU 2 (88 %)"));
    hits.add(80);
    world.look_after(1.0);
    assert!(world
        .line("By CPU")
        .contains("last 1s: most on CPU 2 (88 %)"));
    let screen = world.screen(120, 40);
    assert!(screen.contains("▁▂█▁"), "{screen}");
}

#[test]
fn the_row_under_the_cursor_has_a_mark() {
    let mut world = server("bytes");
    assert!(world
        .line("web_bytes_total")
        .starts_with("▶ web_bytes_total"));
    world.look = ASCII;
    assert!(world
        .line("web_bytes_total")
        .starts_with("> web_bytes_total"));
}

#[test]
fn help_is_on_the_screen() {
    let mut world = server("bytes");
    world.keys("?");
    assert!(world.screen(80, 24).contains("Ctrl-Z"));
    let narrow = world.screen(40, 20);
    assert!(!narrow.contains("Ctrl-Z"));
    world.keys("jjjjjjjjjjjjjjjjjjjjjjjjjj");
    assert!(world.screen(40, 20).contains("Ctrl-Z"));
}

#[test]
fn a_name_has_the_details_of_its_series_together() {
    let mut world = World::new();
    let s = world.segment.clone();
    let declare = |code| {
        let metric = Metric::new("seconds").unit("seconds").label("code", code);
        s.histogram(&metric, &HistogramOptions::new()).unwrap()
    };
    let (ok, bad) = (declare("200"), declare("500"));
    world.look_after(0.0);
    world.look_after(1.0);
    (0..99).for_each(|_| ok.record(0.001));
    bad.record(2.0);
    world.look_after(1.0);
    assert!(world.line("count").contains(" 100 "));
    assert!(world.line("p90").contains("1.0"));
    assert!(world.line("max").contains("2.00 s"));
    assert!(world.line("code=\"200\"").contains(" 99 "), "by labels");

    let hits = ["a", "b"].map(|l| s.counter(&Metric::new("hits").label("l", l)).unwrap());
    world.look_after(1.0);
    world.press(KeyCode::Home);
    world.look_after(1.0);
    hits.iter().for_each(|h| h.add(80));
    world.look_after(1.0);
    assert!(world.line("By CPU").contains("most on CPU 2 (88 %)"));
}
