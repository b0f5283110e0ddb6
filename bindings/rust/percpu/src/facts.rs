// SPDX-License-Identifier: MIT
//! In which state the file of a segment is.

use percpu_sys as sys;

use crate::error::{explained, Error};
use crate::reader::Reader;

/// The state of the lock under which a file changes its records and its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// No thread holds it.
    Free,
    /// A thread holds it. Its id, in its own PID namespace.
    Held(u32),
    /// Its holder has died; the next process takes it over. The holder's id, if it is known.
    Died(Option<u32>),
}

/// Facts about a file, as [`Reader::facts`] has found them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// Its length.
    pub file_bytes: u64,
    /// What it takes on the disk, or in memory.
    pub disk_bytes: u64,
    /// Bytes of a lane that are allocated, in all chunks.
    pub cells_used: u64,
    /// Bytes of a lane that are not, in the chunks that there are.
    pub cells_free: u64,
    /// Bytes of records, with the gaps between them.
    pub records_bytes: u64,
    /// The most bytes of records that there can be.
    pub records_most: u64,
    /// Major and minor version of the file.
    pub format: (u32, u32),
    /// Version of the segment in it.
    pub version: u32,
    /// Chunks which it is made of.
    pub chunks: u32,
    /// The most chunks that it has room for.
    pub chunks_most: u32,
    /// Records of series and families.
    pub records_in_use: u32,
    /// Records of removed series, and of overflows without a count.
    pub records_removed: u32,
    /// Those in use without an object: they are being declared, or a process was killed meanwhile.
    pub records_pending: u32,
    /// Whether a process has the segment open to count; `None`: it cannot be known.
    pub counting: Option<bool>,
    /// The lock of the file.
    pub lock: LockState,
    /// A reset is going on, or its process was killed.
    pub reset_unfinished: bool,
    /// Processes with a slot that live.
    pub owners_alive: u32,
    /// Slots of processes that have ended.
    pub owners_dead: u32,
}

impl Reader {
    /// Find out in which state the file is now. It needs no picture, and only permission to read the
    /// file. Facts may be of different moments of the call.
    ///
    /// Fails as [`Reader::read`], but not if a reset is unfinished.
    ///
    /// ```
    /// use percpu::{Reader, Segment};
    ///
    /// # let path = std::env::temp_dir().join(format!("percpu-doc-facts-{}", std::process::id()));
    /// # let path = path.to_str().unwrap();
    /// let segment = Segment::create(path)?;
    /// let facts = Reader::open(path)?.facts()?;
    /// assert_eq!((facts.counting, facts.records_in_use), (Some(true), 0));
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), percpu::Error>(())
    /// ```
    pub fn facts(&mut self) -> Result<Facts, Error> {
        let mut raw = sys::percpu_reader_facts::default();
        // SAFETY: the reader is valid, and there is no picture; the call stores facts.
        explained(unsafe { sys::percpu_reader_facts(self.raw(), &mut raw) })?;
        Ok(Facts::of(&raw))
    }
}

impl Facts {
    fn of(raw: &sys::percpu_reader_facts) -> Self {
        Self {
            file_bytes: raw.file_bytes,
            disk_bytes: raw.disk_bytes,
            cells_used: raw.cells_used,
            cells_free: raw.cells_free,
            records_bytes: raw.records_bytes,
            records_most: raw.records_most,
            format: (raw.format_major, raw.format_minor),
            version: raw.version,
            chunks: raw.chunks,
            chunks_most: raw.chunks_most,
            records_in_use: raw.records_in_use,
            records_removed: raw.records_removed,
            records_pending: raw.records_pending,
            counting: match raw.counting {
                sys::PERCPU_FACT_NO => Some(false),
                sys::PERCPU_FACT_YES => Some(true),
                _ => None,
            },
            lock: match raw.lock {
                sys::PERCPU_LOCK_FREE => LockState::Free,
                sys::PERCPU_LOCK_HELD => LockState::Held(raw.lock_holder),
                _ => LockState::Died((raw.lock_holder != 0).then_some(raw.lock_holder)),
            },
            reset_unfinished: raw.reset_unfinished != 0,
            owners_alive: raw.owners_alive,
            owners_dead: raw.owners_dead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{sys, Facts, LockState};

    #[test]
    fn what_is_not_known_is_told() {
        for (raw, counting) in [
            (sys::PERCPU_FACT_NO, Some(false)),
            (sys::PERCPU_FACT_YES, Some(true)),
            (sys::PERCPU_FACT_UNKNOWN, None),
        ] {
            let raw = sys::percpu_reader_facts {
                counting: raw,
                ..Default::default()
            };
            assert_eq!(Facts::of(&raw).counting, counting);
        }
        for (lock, lock_holder, state) in [
            (sys::PERCPU_LOCK_FREE, 0, LockState::Free),
            (sys::PERCPU_LOCK_HELD, 7, LockState::Held(7)),
            (sys::PERCPU_LOCK_DIED, 7, LockState::Died(Some(7))),
            (sys::PERCPU_LOCK_DIED, 0, LockState::Died(None)),
        ] {
            let raw = sys::percpu_reader_facts {
                lock,
                lock_holder,
                ..Default::default()
            };
            assert_eq!(Facts::of(&raw).lock, state);
        }
    }
}
