// SPDX-License-Identifier: MIT
//! Pictures of all files, each printed alone: for formats that group series by where they are from.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::SystemTime;

use super::{print_up, Collector, Content, File};
use crate::expose::{walk, Format, Walk};
use crate::failure::Failure;
use crate::model::find::Found;

/// A file, and its picture.
pub struct Origin<'a> {
    /// As people say it.
    pub name: &'a str,
    /// Which has made it: "" if that is not known; `None` if the file cannot be read.
    pub program: Option<&'a str>,
    /// When the picture was taken.
    pub taken: SystemTime,
}

impl Collector {
    /// Take a picture of each file, and print it in a format of its own, which `begin` makes. What
    /// is in the format's buffer stays there. Returns the formats, and sentences as `print()` does.
    pub fn each<F: Format>(
        &mut self,
        begin: &mut dyn FnMut(&Origin<'_>) -> F,
    ) -> (Vec<F>, Vec<String>) {
        let mut failures = HashMap::new();
        let found = self.find(&mut failures);
        let before = std::mem::take(&mut self.began);
        let mut formats = Vec::new();
        for found in &found {
            match self.one(&before, found, begin) {
                Ok(format) => formats.push(format),
                Err(f) => drop(failures.insert(found.name.clone(), f.sentence)),
            }
        }
        let mut names: Vec<_> = failures.keys().collect();
        names.sort();
        for name in names {
            let mut format = begin(&Origin {
                name,
                program: None,
                taken: SystemTime::now(),
            });
            print_up(&[], std::slice::from_ref(&self.labels), &mut format);
            format.end();
            formats.push(format);
        }
        (formats, self.news(failures))
    }

    fn one<F: Format>(
        &mut self,
        before: &HashMap<PathBuf, SystemTime>,
        found: &Found,
        begin: &mut dyn FnMut(&Origin<'_>) -> F,
    ) -> Result<F, Failure> {
        let mut file = File::open(&found.path)?;
        let content = file.read()?;
        let (program, taken) = match &content {
            Content::Segment(picture) => (picture.program(), picture.taken()),
            Content::Other(picture) => (picture.program.clone(), picture.taken),
        };
        let mut format = begin(&Origin {
            name: &found.name,
            program: Some(&program),
            taken,
        });
        let table = self.table(before, found, &content);
        let walks = [Walk {
            table: &table,
            labels: &self.labels,
        }];
        print_up(&walks, &[], &mut format);
        let select = &self.select;
        let asked = |name: &str, full: &dyn Fn() -> String| select.matches(name, full);
        walk(&walks, &asked, &mut format, &mut |_| ());
        Ok(format)
    }
}
