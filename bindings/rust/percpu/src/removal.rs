// SPDX-License-Identifier: MIT
//! Removing the files of segments.

use percpu_sys as sys;

use crate::error::{explained, Error};
use crate::metric::text;
use crate::Segment;

impl Segment {
    /// Remove the file of a segment, unless a process has it open to count. A process that opens
    /// the segment at the same time makes this call fail, or finds that the file is gone. A file
    /// that is no segment stays. Readers do not keep the file, unless their pictures are consistent.
    ///
    /// Fails with [`Error::Busy`] if a process has it open to count, with [`Error::NoLock`] if it
    /// cannot be known whether one has, with [`Error::NotFound`], [`Error::Damaged`],
    /// [`Error::Denied`] (another user's: [`Segment::remove_foreign`]) and others, as
    /// `percpu_segment_remove()`.
    ///
    /// ```
    /// use percpu::{Error, Segment};
    ///
    /// # let path = std::env::temp_dir().join(format!("percpu-doc-remove-{}", std::process::id()));
    /// # let path = path.to_str().unwrap();
    /// let segment = Segment::create(path)?;
    /// assert!(matches!(Segment::remove(path), Err(Error::Busy(_))));
    /// drop(segment);
    /// Segment::remove(path)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn remove(name: &str) -> Result<(), Error> {
        remove(name, 0)
    }

    /// The same, also if the file is another user's.
    pub fn remove_foreign(name: &str) -> Result<(), Error> {
        remove(name, sys::PERCPU_SEGMENT_FOREIGN)
    }
}

fn remove(name: &str, flags: u32) -> Result<(), Error> {
    let name = text("name", name)?;
    // SAFETY: the string is valid.
    explained(unsafe { sys::percpu_segment_remove(name.as_ptr(), flags) })
}
