// SPDX-License-Identifier: MIT
//! Counts that begin anew: nothing is compared with what was before.

use std::time::Duration;

use percpu::{Counter, HistogramOptions, Metric};
use ratatui::crossterm::event::KeyCode;

use super::world::World;
use crate::model::Change;

#[test]
fn what_is_frozen_scrolls_back_over_a_reset() {
    let mut world = World::new();
    let metric = Metric::new("seconds").unit("seconds");
    let seconds = world
        .segment
        .histogram(&metric, &HistogramOptions::new())
        .unwrap();
    seconds.record(0.5);
    world.look_after(1.0);
    world.look_after(1.0);
    drop(
        percpu::SegmentOptions::new()
            .anew()
            .open(world.place.path())
            .unwrap(),
    );
    (0..3).for_each(|_| seconds.record(0.5));
    world.time += 1.0;
    world.update(Change::Reset);
    let number = world.app.boards[0].number;
    assert!(world.app.tracks()[0].recent(number).is_none());
    assert!(world.app.tracks()[0].latest(number).is_none());
    seconds.record(0.5);
    world.look_after(1.0);
    world.keys(" ");
    let mut values = vec![world.app.rows[0].numbers.value];
    for _ in 0..2 {
        world.press(KeyCode::Left);
        values.push(world.app.rows[0].numbers.value);
    }
    assert_eq!(values[..2], [4.0, 3.0]);
    assert_eq!(
        world.app.boards[0].tracks[0]
            .numbers(3, &world.app.boards[0].moments)
            .value,
        1.0
    );
    assert_eq!(world.app.boards[0].moments.len(), 5);
}

#[test]
fn a_series_that_begins_anew_is_no_growth() {
    let mut world = World::new();
    let family = world
        .segment
        .family::<Counter>(&Metric::new("hits"), &["x"], 10)
        .unwrap();
    family.add(&["again"], 5).unwrap();
    world.look_after(1.0);
    world.look_after(1.0);
    // The tool takes starts for the same that are 10 ms apart.
    std::thread::sleep(Duration::from_millis(20));
    family.remove(&["again"]).unwrap();
    family.add(&["again"], 50).unwrap();
    world.look_after(1.0);
    let track = &world.app.boards[0].tracks[0];
    let n = track.numbers(0, &world.app.boards[0].moments);
    assert_eq!(n.value, 50.0);
    assert!(n.rate.is_nan() && n.change.is_nan(), "{n:?}");
}
