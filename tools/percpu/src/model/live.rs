// SPDX-License-Identifier: MIT
//! A file that is looked at again and again, while others may replace it.

use super::find::{self, Found};
use super::{About, Picture, Source};
use crate::failure::{Exit, Failure};

/// What happened to the file since the picture before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    /// All counts began anew.
    Reset,
    /// The name leads to another file now.
    Replaced,
}

/// A file by its name: the newest one of that name is read.
pub struct Live {
    pub found: Found,
    source: Box<dyn Source>,
    generation: Option<u64>,
    /// The source is of another file than the picture before.
    replaced: bool,
}

impl Live {
    pub fn open(found: Found) -> Result<Self, Failure> {
        let source = find::open(&found)?;
        Ok(Self {
            found,
            source,
            generation: None,
            replaced: false,
        })
    }

    /// Take a picture. If another file has the name now, it is opened.
    ///
    /// Fails if there is none, or it cannot be read; a later call tries again.
    pub fn read(&mut self, wanted: &dyn Fn(&About) -> bool) -> Result<(Picture, Change), Failure> {
        let picture = match self.source.read(wanted) {
            Err(f) if f.exit == Exit::NotFound || f.exit == Exit::BadFile => {
                self.source = find::open(&self.found)?;
                self.replaced = true;
                self.source.read(wanted)?
            }
            other => other?,
        };
        let before = self.generation.replace(picture.generation);
        let change = match before {
            _ if std::mem::take(&mut self.replaced) => Change::Replaced,
            Some(g) if g != picture.generation => Change::Reset,
            _ => Change::None,
        };
        Ok((picture, change))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    use percpu::{Metric, Reader, Segment};

    use super::*;

    /// The new file cannot be read at first: its second chunk is cut off, which has the records.
    #[test]
    fn a_new_file_is_told_when_it_can_be_read() {
        let name = format!("percpu-live-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let name = path.to_str().unwrap();
        let make = || {
            let segment = Segment::create(name).unwrap();
            segment.counter(&Metric::new("n_total")).unwrap().add(1);
        };
        make();
        let found = find::one(name).unwrap();
        let mut live = Live::open(found).unwrap();
        assert_eq!(live.read(&|_| false).unwrap().1, Change::None);
        std::fs::remove_file(&path).unwrap();
        make();
        let facts = Reader::open(name).unwrap().facts().unwrap();
        let chunk = facts.file_bytes / u64::from(facts.chunks_most);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.unwrap();
        let mut second = vec![0; chunk as usize];
        file.read_exact_at(&mut second, chunk).unwrap();
        file.set_len(chunk + chunk / 2).unwrap();
        assert_eq!(live.read(&|_| false).unwrap_err().exit, Exit::BadFile);
        file.write_all_at(&second, chunk).unwrap();
        file.set_len(facts.file_bytes).unwrap();
        let changes = [0; 2].map(|_| live.read(&|_| false).unwrap().1);
        assert_eq!(changes, [Change::Replaced, Change::None]);
        std::fs::remove_file(&path).unwrap();
    }
}
