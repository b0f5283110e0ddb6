// SPDX-License-Identifier: MIT
//! Per-CPU rings of records, for traces and logs (`ring.h`).

use std::ptr::{self, NonNull};

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{debug_as_name, non_null, object, Handle};
use crate::Region;

object!(percpu_ring, percpu_ring_destroy);

/// What a full ring does with a new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It overwrites the oldest; a reader learns how many it missed.
    Overwrite,
    /// It refuses the new one, until a reader takes some.
    Keep,
}

impl WhenFull {
    fn flags(self) -> u32 {
        match self {
            Self::Overwrite => 0,
            Self::Keep => sys::PERCPU_RING_KEEP,
        }
    }
}

/// A ring of records for each CPU: a put copies a record, with the time, and commits it by one
/// store.
///
/// **Context:** puts in any thread, in signal handlers, in children of fork.
/// **Ordering:** a thread that reads a record sees what was stored before it was put. Of two puts,
/// one of which happens before the other, it has no later time.
/// **Progress:** a put is bounded: after a few aborted attempts it takes a lock.
///
/// ```
/// use percpu::{Ring, WhenFull};
///
/// let events = Ring::new(4096, WhenFull::Overwrite)?;
/// events.put(b"begun")?;
/// let mut reader = events.reader()?;
/// assert_eq!(reader.read()?.map(|record| record.data.to_vec()), Some(b"begun".to_vec()));
/// assert!(reader.read()?.is_none());
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Ring(Handle<sys::percpu_ring>);

impl Ring {
    /// Create an empty ring for each CPU in memory of this process: of that many bytes, a power of
    /// two from 1024 to 2^30. Fails with [`Error::Invalid`] for another size.
    pub fn new(size: usize, when_full: WhenFull) -> Result<Self, Error> {
        let flags = when_full.flags();
        // SAFETY: the call stores a ring.
        Handle::create(|ret| unsafe { sys::percpu_ring_create(size, flags, ret) })
            .map(Self)
            .map_err(|e| e.refused(|| possible(size)))
    }

    /// Create an empty ring for each CPU in a region. Fails as [`Ring::new`], with
    /// [`Error::Invalid`] for a ring that does not fit into a lane, and as
    /// `percpu_ring_create_in()`.
    pub fn new_in(region: &Region, size: usize, when_full: WhenFull) -> Result<Self, Error> {
        let flags = when_full.flags();
        // SAFETY: the region is valid; the call stores a ring.
        Handle::in_region(region, sys::percpu_ring_detach, |r, ret| unsafe {
            sys::percpu_ring_create_in(r, size, flags, ret)
        })
        .map(Self)
        .map_err(|e| e.refused(|| format!("{}, less than a lane by 128 or more", possible(size))))
    }

    /// Attach to the rings at a root of a region, or create them if there are none. Fails as
    /// [`Ring::new_in`], and with [`Error::Exists`] if the root has another object, or rings that
    /// have another size or do something else when they are full.
    pub fn open(
        region: &Region,
        root: u32,
        size: usize,
        when_full: WhenFull,
    ) -> Result<Self, Error> {
        let flags = when_full.flags();
        // SAFETY: the region is valid; the call stores a ring.
        Handle::in_region(region, sys::percpu_ring_detach, |r, ret| unsafe {
            sys::percpu_ring_open(r, root, size, flags, ret)
        })
        .map(Self)
        .map_err(|e| {
            e.refused(|| {
                format!(
                    "{}, less than a lane by 128 or more; root {root}: it is 0 to 15, in a file",
                    possible(size)
                )
            })
        })
    }

    /// Attach to the rings with a key. Fails with [`Error::NotFound`] if there are none.
    pub fn attach(region: &Region, key: u64) -> Result<Self, Error> {
        // SAFETY: the region is valid; the call stores a ring.
        Handle::in_region(region, sys::percpu_ring_detach, |r, ret| unsafe {
            sys::percpu_ring_attach(r, key, ret)
        })
        .map(Self)
    }

    /// Their key in their region; 0 if [`Ring::new`] has made them.
    pub fn key(&self) -> u64 {
        // SAFETY: the handle keeps the ring valid.
        unsafe { sys::percpu_ring_key(self.0.raw()) }
    }

    /// Put a record. Fails with nothing put: with [`Error::Invalid`] if it is empty, with
    /// [`Error::TooLong`], with [`Error::Full`] if the ring is full and keeps its records.
    pub fn put(&self, record: &[u8]) -> Result<(), Error> {
        // SAFETY: the handle keeps the ring valid; the record has that many bytes.
        check(unsafe {
            sys::percpu_ring_put_call(self.0.raw(), record.as_ptr().cast(), record.len())
        })
    }

    /// The bytes of the longest record that fits.
    pub fn longest(&self) -> usize {
        // SAFETY: the handle keeps the ring valid.
        unsafe { sys::percpu_ring_longest(self.0.raw()) }
    }

    /// How many records were refused: exactly the puts that failed with [`Error::Full`].
    pub fn dropped(&self) -> u64 {
        // SAFETY: the handle keeps the ring valid.
        unsafe { sys::percpu_ring_dropped(self.0.raw()) }
    }

    /// Create a reader of the rings of all CPUs. It starts with the oldest records that are there.
    /// If the rings keep their records, each record goes to one reader.
    pub fn reader(&self) -> Result<RingReader, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the handle keeps the ring valid; the call stores a reader.
        check(unsafe {
            sys::percpu_ring_reader_create(self.0.raw(), sys::PERCPU_RING_ALL, 0, &mut raw)
        })?;
        Ok(RingReader {
            raw: non_null(raw)?,
            _ring: self.clone(),
        })
    }
}
debug_as_name!(Ring);

/// What is wrong with a size that the library has refused.
fn possible(size: usize) -> String {
    format!("a ring of {size} bytes for each CPU: it is a power of two from 1024 to 2^30")
}

/// A reader of a [`Ring`].
pub struct RingReader {
    raw: NonNull<sys::percpu_ring_reader>,
    _ring: Ring,
}

// SAFETY: a reader may be used by any thread, one at a time: its call takes &mut.
unsafe impl Send for RingReader {}
// SAFETY: as above.
unsafe impl Sync for RingReader {}

/// A record.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The CPU in whose ring it was.
    pub cpu: u32,
    /// Its number in that ring, modulo 2^48.
    pub number: u64,
    /// When it was put, in ns of CLOCK_MONOTONIC.
    pub time: u64,
    /// How many records of that ring before it were overwritten before they were read.
    pub lost: u64,
    /// Its bytes.
    pub data: &'a [u8],
}

impl RingReader {
    /// Read the next record, in the order of times; `None` if there is none now. It may fence.
    ///
    /// Fails as `percpu_ring_read()`: with [`Error::Denied`] or [`Error::Busy`] if it could not
    /// fence.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, Error> {
        let mut r = sys::percpu_ring_record {
            cpu: 0,
            locked: 0,
            number: 0,
            time: 0,
            lost: 0,
            size: 0,
            data: ptr::null(),
        };
        // SAFETY: the reader and its ring are valid; the call stores a record.
        let result = unsafe { sys::percpu_ring_read(self.raw.as_ptr(), &mut r) };
        if result == -libc::EAGAIN {
            return Ok(None);
        }
        check(result)?;
        // SAFETY: the bytes are valid until the next call with this reader, which needs &mut.
        let data = unsafe { std::slice::from_raw_parts(r.data.cast(), r.size) };
        Ok(Some(Record {
            cpu: r.cpu,
            number: r.number,
            time: r.time,
            lost: r.lost,
            data,
        }))
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        // SAFETY: it is used by nobody else, and its ring is still there.
        unsafe { sys::percpu_ring_reader_destroy(self.raw.as_ptr()) }
    }
}
debug_as_name!(RingReader);
