// SPDX-License-Identifier: MIT
//! Files that are replaced, reset, damaged and removed while they are watched.

use std::time::Duration;

use percpu::{Metric, Segment, SegmentOptions};

use super::super::app::App;
use super::world::Place;
use crate::failure::Exit;
use crate::model::files::Files;
use crate::verbs::select::Select;

/// Look until something is said.
fn said(files: &mut Files, app: &mut App) -> String {
    app.said = None;
    for _ in 0..200 {
        app.look(files);
        if let Some(said) = app.said.take() {
            return said;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing is said");
}

#[test]
fn what_happens_to_a_file_is_said_and_it_goes_on() {
    let place = Place::new();
    let create = || {
        let segment = Segment::create(place.path()).unwrap();
        segment.counter(&Metric::new("hits")).unwrap().add(5);
        segment
    };
    let first = create();
    let mut files = Files::new(&[place.path().to_string()]).unwrap();
    let mut app = App::new(Duration::from_secs(1));
    app.look(&mut files);
    assert_eq!((app.said.take(), app.rows[0].numbers.value), (None, 5.0));

    SegmentOptions::new().anew().open(place.path()).unwrap();
    assert!(said(&mut files, &mut app).contains("was reset"));
    assert_eq!(app.rows[0].numbers.value, 0.0);

    drop(first);
    std::fs::remove_file(&place.0).unwrap();
    let _second = create();
    assert!(said(&mut files, &mut app).contains("was replaced"));
    assert_eq!(app.rows[0].numbers.value, 5.0);
    app.look(&mut files);
    assert_eq!(app.said, None, "said once");

    std::fs::remove_file(&place.0).unwrap();
    let sentence = said(&mut files, &mut app);
    assert!(sentence.contains(place.path()), "{sentence}");
    assert_eq!(app.rows[0].numbers.value, 5.0, "the last values stay");

    std::fs::write(&place.0, "no segment, but a text").unwrap();
    let sentence = said(&mut files, &mut app);
    assert!(!sentence.contains("was replaced"), "{sentence}");

    std::fs::remove_file(&place.0).unwrap();
    let _third = create();
    let sentence = loop {
        let sentence = said(&mut files, &mut app);
        if sentence.contains("was replaced") {
            break sentence;
        }
    };
    assert!(sentence.contains("the new one is shown"));
    app.look(&mut files);
    assert_eq!(app.said, None, "said once");
    assert_eq!(app.boards.len(), 1);
}

#[test]
fn a_name_without_a_file_is_refused() {
    let place = Place::new();
    for name in [place.path(), "there-is-none-of-that-name"] {
        let failure = Files::new(&[name.to_string()]).err().unwrap();
        assert_eq!(failure.exit, Exit::NotFound, "{failure}");
    }
}

#[test]
fn a_file_that_is_named_twice_is_read_once() {
    let place = Place::new();
    let _segment = Segment::create(place.path()).unwrap();
    let name = place.path().to_string();
    let mut app = App::new(Duration::from_secs(1));
    app.look(&mut Files::new(&[name.clone(), name]).unwrap());
    assert_eq!((app.boards.len(), app.boards[0].number), (1, 1));
}

/// A name without a path, of a file that comes later.
#[test]
fn what_is_missing_is_looked_for_again() {
    let name = format!("top_missing_{}", std::process::id());
    let _file = Place(format!("/dev/shm/percpu.{name}").into());
    let mut files = Files::patient(std::slice::from_ref(&name), Select::default());
    let mut app = App::new(Duration::from_secs(1));
    assert!(said(&mut files, &mut app).contains("there is no segment"));
    let segment = Segment::create(&name).unwrap();
    segment.counter(&Metric::new("hits")).unwrap().add(5);
    let sentence = said(&mut files, &mut app);
    assert!(sentence.contains("can be read again"), "{sentence}");
    assert_eq!(app.rows[0].numbers.value, 5.0);
}
