// SPDX-License-Identifier: MIT
//! What pictures and keys do to the state.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use percpu::{Counter, HistogramOptions, Metric, Segment};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::keys::Outcome;
use super::super::rows::{Order, What};
use super::world::{requests, World};
use crate::model::track::KEPT;
use crate::model::Change;

/// Rows as text: names, and the labels of those that are opened.
fn names(world: &World) -> Vec<String> {
    let name = |row: &super::super::rows::Row| {
        let board = &world.app.boards[row.board];
        let (first, group) = match &row.what {
            What::Board => return board.name.clone(),
            What::Group { members, .. } => (members[0], true),
            What::Series { track, .. } => (*track, false),
        };
        let about = &board.tracks[first].about;
        if group {
            format!("{}*", about.name)
        } else {
            about.to_string()
        }
    };
    world.app.rows.iter().map(name).collect()
}

#[test]
fn rates_and_averages_follow_the_counts() {
    let mut world = World::new();
    let hits = world.segment.counter(&Metric::new("hits")).unwrap();
    world.look_after(0.0);
    assert!(world.app.rows[0].numbers.rate.is_nan());
    for _ in 0..4 {
        hits.add(20);
        world.look_after(2.0);
    }
    hits.add(110);
    world.look_after(2.0);
    let n = world.app.rows[0].numbers;
    assert_eq!((n.value, n.change, n.rate), (190.0, 110.0, 55.0));
    assert_eq!(n.averages, [19.0; 3]);
    world.look_after(2.0);
    let [ten, hundred, _] = world.app.rows[0].numbers.averages;
    assert!((ten - 19.0 * 0.8).abs() < 1e-9, "{ten}");
    assert!((hundred - 190.0 / 12.0).abs() < 1e-9, "{hundred}");
}

#[test]
fn a_gauge_has_no_rate_and_averages_of_its_value() {
    let mut world = World::new();
    let level = world.segment.gauge(&Metric::new("level")).unwrap();
    for v in [10, 4, 10] {
        level.set(v).unwrap();
        world.look_after(1.0);
    }
    let n = world.app.rows[0].numbers;
    assert!(n.rate.is_nan());
    assert_eq!((n.value, n.change, n.averages), (10.0, 6.0, [8.0; 3]));
    level.set(-3).unwrap();
    world.look_after(1.0);
    assert_eq!(world.app.rows[0].numbers.change, -13.0);
}

#[test]
fn a_reset_is_said_and_is_no_negative_rate() {
    let mut world = World::new();
    let hits = world.segment.counter(&Metric::new("hits")).unwrap();
    let id = |world: &World| world.app.row().unwrap().id(&world.app.boards);
    for _ in 0..3 {
        hits.add(100);
        world.look_after(1.0);
    }
    let before = id(&world);
    let anew = percpu::SegmentOptions::new()
        .anew()
        .open(world.place.path())
        .unwrap();
    drop(anew);
    hits.add(400);
    world.time += 1.0;
    world.update(Change::Reset);
    let n = world.app.rows[0].numbers;
    assert_eq!(n.value, 400.0);
    assert!(n.rate.is_nan() && n.change.is_nan(), "{n:?}");
    assert_eq!(
        world.app.said.as_deref(),
        Some("segment web was reset: it counts from 0")
    );
    assert_eq!(id(&world), before, "the series is the same");
    hits.add(7);
    world.look_after(1.0);
    assert_eq!(world.app.rows[0].numbers.rate, 7.0);
    assert_eq!(
        world.app.rows[0].numbers.averages[0],
        (100.0 + 100.0 + 7.0) / 3.0
    );
}

#[test]
fn a_replaced_file_goes_on_under_its_name_and_forgets_what_is_gone() {
    let mut world = World::new();
    let hits = world.segment.counter(&Metric::new("hits")).unwrap();
    let _gone = world.segment.counter(&Metric::new("gone")).unwrap();
    hits.add(5);
    world.look_after(1.0);
    world.look_after(1.0);
    world.press(KeyCode::Down);
    let before = world.app.tracks()[0].id;
    std::fs::remove_file(&world.place.0).unwrap();
    world.segment = Segment::create(world.place.path()).unwrap();
    world.segment.counter(&Metric::new("hits")).unwrap().add(9);
    world.segment.counter(&Metric::new("also_new")).unwrap();
    world.reopen();
    world.time += 1.0;
    world.update(Change::Replaced);
    assert_eq!(names(&world), ["also_new", "hits"]);
    let track = world.app.tracks()[0];
    assert_eq!((track.id, track.about.name.as_str()), (before, "hits"));
    assert!(world.app.rows[1].numbers.rate.is_nan());
    assert!(world.app.said.as_ref().unwrap().contains("was replaced"));
}

#[test]
fn a_file_that_appears_is_said() {
    let mut world = World::new();
    world.look_after(1.0);
    assert_eq!(world.app.said, None);
    let picture = world.picture();
    world.app.update("other", picture, Change::None);
    assert_eq!(world.app.said.as_deref(), Some("segment other appeared"));
}

#[test]
fn a_lost_file_keeps_its_values_for_a_minute() {
    let mut world = World::new();
    world.segment.counter(&Metric::new("hits")).unwrap().add(3);
    world.look_after(0.0);
    let start = world.now();
    world.app.lose("web", "there is no such file", start);
    world
        .app
        .settle(start + Duration::from_secs(59), &|_| false);
    assert_eq!(world.app.rows[0].numbers.value, 3.0);
    assert!(world.line("no such file").starts_with("segment web: "));
    world.look_after(1.0);
    assert_eq!(
        world.app.said.as_deref(),
        Some("segment web can be read again")
    );
    world.app.lose("web", "there is no such file", start);
    world.app.settle(start + Duration::from_secs(61), &|_| true);
    assert_eq!(world.app.boards.len(), 1);
    world
        .app
        .settle(start + Duration::from_secs(61), &|_| false);
    assert_eq!(world.app.boards.len(), 0);
    // Other reasons do not make it a minute more.
    let at = |seconds| start + Duration::from_secs(seconds);
    world.app.lose("web", "there is no such file", at(0));
    world.app.lose("web", "it is damaged", at(59));
    world.app.settle(at(61), &|_| false);
    assert_eq!(world.app.boards.len(), 0);
}

fn shop(world: &World) -> (Counter, Counter, Counter) {
    let declare = |m: &Metric| world.segment.counter(m).unwrap();
    (
        declare(&requests("200")),
        declare(&requests("500")),
        declare(&Metric::new("accepts")),
    )
}

#[test]
fn names_are_folded_and_opened() {
    let mut world = World::new();
    let (ok, bad, _) = shop(&world);
    ok.add(30);
    bad.add(3);
    world.look_after(1.0);
    assert_eq!(names(&world), ["accepts", "web_requests_total*"]);
    assert_eq!(world.app.rows[1].numbers.value, 33.0);
    world.press(KeyCode::Down);
    world.press(KeyCode::Enter);
    let open = [
        "accepts",
        "web_requests_total*",
        "web_requests_total{code=\"200\"}",
        "web_requests_total{code=\"500\"}",
    ];
    assert_eq!(names(&world), open);
    world.press(KeyCode::Right);
    assert_eq!(names(&world), open);
    world.keys("jj");
    world.press(KeyCode::Left);
    assert_eq!(names(&world), ["accepts", "web_requests_total*"]);
    assert_eq!(world.app.cursor, 1);
    world.keys("a");
    assert_eq!(names(&world), open);
    world.keys("a");
    assert_eq!(names(&world).len(), 2);
}

#[test]
fn search_is_as_you_type() {
    let mut world = World::new();
    shop(&world);
    world.look_after(1.0);
    world.keys("/q");
    assert_eq!(names(&world), ["web_requests_total*"]);
    world.press(KeyCode::Backspace);
    assert_eq!(names(&world).len(), 2);
    world.keys("\"500");
    // It is opened, because the name does not match.
    assert_eq!(
        names(&world),
        ["web_requests_total*", "web_requests_total{code=\"500\"}"]
    );
    world.keys("nothing\n");
    assert!(names(&world).is_empty());
    assert!(world.line("nothing matches").starts_with("  nothing"));
    assert!(!world.app.typing);
    world.keys("/\x1b");
    assert_eq!(names(&world).len(), 2);
    world.keys("/ACC\n");
    assert_eq!(names(&world), ["accepts"]);
    // Each search is a new one. Alt and a key are Esc and the key.
    world.keys("/w");
    assert_eq!(names(&world), ["web_requests_total*"]);
    world
        .app
        .key(KeyEvent::new(KeyCode::Char('r'), KeyModifiers::ALT));
    assert_eq!(
        (names(&world).len(), world.app.choice.order),
        (2, Order::Rate)
    );
}

#[test]
fn rows_are_sorted() {
    let mut world = World::new();
    let (ok, bad, accepts) = shop(&world);
    let level = world.segment.gauge(&Metric::new("level")).unwrap();
    world.look_after(1.0);
    ok.add(5);
    bad.add(7);
    accepts.add(20);
    level.set(-90).unwrap();
    world.look_after(1.0);
    let firsts = |world: &World| {
        let names = names(world);
        names
            .iter()
            .map(|n| n.chars().next().unwrap())
            .collect::<String>()
    };
    assert_eq!(firsts(&world), "alw");
    world.keys("r");
    assert_eq!(firsts(&world), "awl");
    world.keys("c");
    assert_eq!(firsts(&world), "law");
    world.keys("a");
    assert_eq!(names(&world)[3], "web_requests_total{code=\"500\"}");
    world.keys("n");
    assert_eq!(names(&world)[3], "web_requests_total{code=\"200\"}");
}

#[test]
fn the_cursor_stays_on_its_series() {
    let mut world = World::new();
    let (ok, _, accepts) = shop(&world);
    world.look_after(1.0);
    world.keys("r");
    let id = |world: &World| world.app.row().unwrap().id(&world.app.boards);
    let on = id(&world);
    for (add, to) in [(100, 0), (1, 1)] {
        ok.add(10);
        accepts.add(add);
        world.look_after(1.0);
        let place = world
            .app
            .rows
            .iter()
            .position(|r| r.id(&world.app.boards) == on);
        assert_eq!((id(&world), place), (on.clone(), Some(to)));
    }
}

#[test]
fn what_is_frozen_scrolls_back() {
    let mut world = World::new();
    let hits = world.segment.counter(&Metric::new("hits")).unwrap();
    for n in [1, 10, 100] {
        hits.add(n);
        world.look_after(1.0);
    }
    let now = |world: &World| world.app.rows[0].numbers;
    assert_eq!((now(&world).value, now(&world).rate), (111.0, 100.0));
    world.keys(" ");
    assert!(world.app.frozen);
    world.press(KeyCode::Left);
    assert_eq!((now(&world).value, now(&world).rate), (11.0, 10.0));
    assert!(world.line("FROZEN").contains("1.0s back"));
    world.keys("[");
    assert_eq!(now(&world).value, 1.0);
    assert!(now(&world).rate.is_nan());
    world.press(KeyCode::Right);
    assert_eq!(now(&world).value, 11.0);
    world.keys("]");
    assert_eq!(now(&world).value, 111.0);
    world.press(KeyCode::Left);
    world.keys(" ");
    assert_eq!((world.app.frozen, now(&world).value), (false, 111.0));
}

#[test]
fn quantiles_are_of_the_interval() {
    let mut world = World::new();
    let metric = Metric::new("seconds").unit("seconds");
    let seconds = world
        .segment
        .histogram(&metric, &HistogramOptions::new())
        .unwrap();
    (0..1000).for_each(|_| seconds.record(0.001));
    world.look_after(0.0);
    world.look_after(1.0);
    (0..10).for_each(|_| seconds.record(1.0));
    world.look_after(1.0);
    let number = world.app.boards[0].number;
    let track = world.app.tracks()[0];
    let (latest, time) = track.latest(number).unwrap();
    assert_eq!((latest.count(), time), (10, 1.0));
    assert!((latest.quantile(0.5).unwrap() - 1.0).abs() < 0.1);
    // The first 1000 were before the first picture.
    let (recent, time) = track.recent(number).unwrap();
    assert_eq!((recent.count(), time), (10, 2.0));
    // A minute later they are no longer of the last minute; the pictures are 15 s apart.
    for _ in 0..5 {
        seconds.record(0.5);
        world.look_after(15.0);
    }
    let number = world.app.boards[0].number;
    let (recent, time) = world.app.tracks()[0].recent(number).unwrap();
    assert_eq!((recent.count(), time), (4, 60.0));
    assert!(world.line("p50").contains("500 ms"));
}

#[test]
fn the_last_minute_is_known_of_what_was_not_looked_at() {
    let mut world = World::new();
    let metric = Metric::new("seconds").unit("seconds");
    let seconds = world
        .segment
        .histogram(&metric, &HistogramOptions::new())
        .unwrap();
    world.segment.counter(&Metric::new("a")).unwrap();
    for _ in 0..100 {
        seconds.record(0.5);
        world.look_after(1.0);
    }
    world.press(KeyCode::Down);
    world.look_after(1.0);
    let number = world.app.boards[0].number;
    let (recent, time) = world.app.tracks()[0].recent(number).unwrap();
    assert!((50.0..=60.0).contains(&time), "{time}");
    assert_eq!(recent.count() as f64, time - 1.0);
}

#[test]
fn what_is_kept_is_bounded() {
    let mut world = World::new();
    let hits = world.segment.counter(&Metric::new("hits")).unwrap();
    for i in 0..(KEPT as u64 + 50) {
        hits.add(i);
        world.look_after(1.0);
    }
    let board = &world.app.boards[0];
    assert_eq!(board.moments.len(), KEPT);
    let track = &board.tracks[0];
    assert_eq!(track.fine(u64::MAX).count(), KEPT);
    assert!(track.numbers(KEPT - 1, &board.moments).value > 0.0);
    assert!(track.numbers(KEPT, &board.moments).value.is_nan());
    // Details are forgotten when the cursor leaves.
    world.segment.counter(&Metric::new("a")).unwrap();
    world.look_after(1.0);
    world.press(KeyCode::Up);
    world.look_after(1.0);
    assert_eq!(world.app.boards[0].tracks[1].fine(u64::MAX).count(), 0);
}

#[test]
fn keys_end_and_stop() {
    let mut world = World::new();
    let ctrl = |world: &mut World, c| {
        let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        world.app.key(key)
    };
    assert_eq!(world.press(KeyCode::Char('q')), Outcome::Quit);
    assert_eq!(world.press(KeyCode::Esc), Outcome::Quit);
    assert_eq!(ctrl(&mut world, 'c'), Outcome::Quit);
    assert_eq!(ctrl(&mut world, 'z'), Outcome::Stop);
    assert_eq!(ctrl(&mut world, 'l'), Outcome::Redraw);
    world.keys("/");
    assert_eq!(ctrl(&mut world, 'c'), Outcome::Quit);
    assert_eq!(world.press(KeyCode::Char('q')), Outcome::None);
    assert_eq!(world.press(KeyCode::Esc), Outcome::None);
    world.keys("?");
    assert!(world.app.help);
    assert_eq!(world.press(KeyCode::Esc), Outcome::None);
    assert!(!world.app.help);
}

#[test]
fn moments_of_several_files_are_steps_together() {
    let mut world = World::new();
    world.segment.counter(&Metric::new("hits")).unwrap().add(1);
    for _ in 0..3 {
        world.time += 1.0;
        for (name, late) in [("a", 0.0), ("b", 0.1)] {
            let mut picture = world.picture();
            picture.moment += Duration::from_secs_f64(late);
            world.app.update(name, picture, Change::None);
        }
    }
    world.app.arrange();
    assert_eq!(names(&world), ["a", "hits", "b", "hits"]);
    world.keys(" ");
    for back in [1, 2, 2] {
        world.press(KeyCode::Left);
        let of = |b: &crate::model::board::Board| {
            b.back(world.app.choice.at, world.app.choice.tolerance)
        };
        let backs: Vec<_> = world.app.boards.iter().map(of).collect();
        assert_eq!(backs, [back, back]);
    }
    let none: VecDeque<Instant> = VecDeque::new();
    assert!(crate::model::track::seconds_at(&none, 0).is_none());
    // A segment closes.
    world.press(KeyCode::Home);
    world.press(KeyCode::Enter);
    assert_eq!(names(&world), ["a", "b", "hits"]);
}
