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
}

impl Live {
    pub fn open(found: Found) -> Result<Self, Failure> {
        let source = find::open(&found)?;
        Ok(Self {
            found,
            source,
            generation: None,
        })
    }

    /// Take a picture. If another file has the name now, it is opened.
    ///
    /// Fails if there is none, or it cannot be read; a later call tries again.
    pub fn read(&mut self, wanted: &dyn Fn(&About) -> bool) -> Result<(Picture, Change), Failure> {
        let mut replaced = false;
        let picture = match self.source.read(wanted) {
            Err(f) if f.exit == Exit::NotFound || f.exit == Exit::BadFile => {
                self.source = find::open(&self.found)?;
                replaced = true;
                self.source.read(wanted)?
            }
            other => other?,
        };
        let before = self.generation.replace(picture.generation);
        let change = match before {
            _ if replaced => Change::Replaced,
            Some(g) if g != picture.generation => Change::Reset,
            _ => Change::None,
        };
        Ok((picture, change))
    }
}
