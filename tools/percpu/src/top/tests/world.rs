// SPDX-License-Identifier: MIT
//! A segment of its own, its pictures, and a screen.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use percpu::{Metric, Segment};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::app::App;
use super::super::frames;
use super::super::keys::Outcome;
use super::super::look::{Colors, Look};
use crate::model::find::{self, Found};
use crate::model::{Change, Picture, Source};

pub const UTF8: Look = Look {
    utf8: true,
    colors: Colors::Many,
};
pub const ASCII: Look = Look {
    utf8: false,
    colors: Colors::None,
};

/// A file that is removed in the end.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("percpu-top-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub fn found(&self) -> Found {
        Found {
            name: "web".into(),
            path: self.0.clone(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl App {
    /// Take over a picture of a file.
    pub fn update(&mut self, name: &str, picture: Picture, change: Change) {
        let said = self.boards.update(name, picture, change);
        self.said = said.or(self.said.take());
    }

    pub fn lose(&mut self, name: &str, sentence: &str, now: Instant) {
        let said = self.boards.lose(name, sentence, now);
        self.said = said.or(self.said.take());
    }

    pub fn settle(&mut self, now: Instant, keep: &dyn Fn(&str) -> bool) {
        self.boards.settle(now, keep);
        if !self.frozen {
            self.arrange();
        }
    }
}

pub struct World {
    pub place: Place,
    pub segment: Segment,
    pub app: App,
    pub look: Look,
    source: Box<dyn Source>,
    start: Instant,
    /// Seconds since the first picture.
    pub time: f64,
}

impl World {
    pub fn new() -> Self {
        let place = Place::new();
        let segment = Segment::create(place.path()).unwrap();
        let source = find::open(&place.found()).unwrap();
        Self {
            place,
            segment,
            app: App::new(Duration::from_secs(1)),
            look: UTF8,
            source,
            start: Instant::now(),
            time: 0.0,
        }
    }

    pub fn now(&self) -> Instant {
        self.start + Duration::from_secs_f64(self.time)
    }

    /// A picture of now, as if the segment was an hour old.
    pub fn picture(&mut self) -> Picture {
        let wanted = self.app.wanted();
        let mut picture = self.source.read(&|a| wanted.contains(&a.id)).unwrap();
        picture.moment = self.now();
        picture.program = "server".into();
        let first = picture
            .series
            .first()
            .map_or(picture.since, |s| s.about.since);
        picture.since = first;
        picture.taken = first + Duration::from_secs(3600);
        for s in &mut picture.series {
            if let Some(details) = s.details.as_mut().filter(|d| !d.cpus.is_empty()) {
                // On which CPU this runs is not known, nor whether a sequence was aborted.
                let sum = s.value.as_ref().map_or(0.0, crate::model::Value::number);
                details.cpus = vec![0.0, sum / 8.0, sum * 7.0 / 8.0, 0.0];
            }
        }
        picture
    }

    /// Take a picture some seconds later.
    pub fn look_after(&mut self, seconds: f64) {
        self.time += seconds;
        self.update(Change::None);
    }

    pub fn update(&mut self, change: Change) {
        let picture = self.picture();
        self.app.update("web", picture, change);
        let now = self.now();
        self.app.settle(now, &|_| false);
    }

    /// Begin to read the file that has the name now.
    pub fn reopen(&mut self) {
        self.source = find::open(&self.place.found()).unwrap();
    }

    pub fn press(&mut self, code: KeyCode) -> Outcome {
        self.app.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    /// Press the keys of characters.
    pub fn keys(&mut self, keys: &str) {
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            self.press(code);
        }
    }

    /// Draw the screen, and return its lines.
    pub fn screen(&mut self, columns: u16, lines: u16) -> String {
        frames::screen(&mut self.app, self.look, columns, lines).unwrap()
    }

    /// The line of the screen that has a text.
    pub fn line(&mut self, text: &str) -> String {
        let screen = self.screen(120, 40);
        let line = screen.lines().find(|l| l.contains(text));
        line.unwrap_or_else(|| panic!("no {text} in\n{screen}"))
            .to_string()
    }
}

/// A metric of a web server.
pub fn requests(code: &str) -> Metric<'_> {
    Metric::new("web_requests_total")
        .help("Requests that were answered, by code.")
        .label("code", code)
}
