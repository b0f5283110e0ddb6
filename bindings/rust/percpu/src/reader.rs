// SPDX-License-Identifier: MIT
//! Reading all metrics of a segment from outside (`reader.h`).

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

use percpu_sys as sys;

use crate::error::{check, explained, sentence, Error};
use crate::handle::{debug_as_name, non_null};
use crate::metric::text;
use crate::Picture;

/// A reader of a segment. It copies the file into its own memory, and checks and reads the copy: it
/// maps nothing, takes no lock, and does not disturb the processes that count.
///
/// **Context:** any thread, one at a time; not a signal handler.
///
/// ```
/// use percpu::{Metric, Reader, Segment, Value};
///
/// # let name = std::env::temp_dir().join(format!("percpu-doc-reader-{}", std::process::id()));
/// # let name = name.to_str().unwrap();
/// let segment = Segment::create(name)?;
/// segment.counter(&Metric::new("requests_total").label("code", "200"))?.add(3);
///
/// let mut reader = Reader::open(name)?;
/// let picture = reader.read()?;
/// for series in picture.series() {
///     assert_eq!(series.name(), "requests_total");
///     assert_eq!(series.labels().collect::<Vec<_>>(), [("code", "200")]);
///     assert!(matches!(series.value()?, Value::Counter(3)));
/// }
/// # std::fs::remove_file(name).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
pub struct Reader(NonNull<sys::percpu_reader>);

// SAFETY: a reader may be used by any thread, one at a time: pictures, which hold it, are not Send.
unsafe impl Send for Reader {}

impl Reader {
    /// Open a segment by name, as [`SegmentOptions::open`](crate::SegmentOptions::open); or, if
    /// there is no such file, `/run/percpu/NAME`. There is no picture before [`Reader::read`].
    ///
    /// Fails with [`Error::NotFound`], [`Error::Damaged`], [`Error::Version`], [`Error::Denied`]
    /// and others, as `percpu_reader_open()`.
    pub fn open(name: &str) -> Result<Self, Error> {
        let name = text("name", name)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the string is valid; the call stores a reader.
        explained(unsafe { sys::percpu_reader_open(name.as_ptr(), &mut raw) })?;
        non_null(raw).map(Self)
    }

    /// Open the segment in a file that is open to read. The reader does not keep the descriptor.
    ///
    /// Fails as [`Reader::open`].
    pub fn open_fd(fd: BorrowedFd<'_>) -> Result<Self, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the descriptor is open; the call stores a reader.
        explained(unsafe { sys::percpu_reader_open_fd(fd.as_raw_fd(), &mut raw) })?;
        non_null(raw).map(Self)
    }

    /// Set a timeout for [`Reader::read`]; 0, the default, is none.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), Error> {
        let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the reader is valid.
        explained(unsafe { sys::percpu_reader_set_timeout(self.raw(), ns) })
    }

    /// Let later pictures have all fields of statistics of one moment. It maps the file, so it
    /// needs permission to write to it, and trusts the processes that may.
    pub fn set_consistent(&mut self) -> Result<(), Error> {
        // SAFETY: the reader is valid, and there is no picture.
        explained(unsafe { sys::percpu_reader_set_consistent(self.raw()) })
    }

    /// Take a picture: a copy of all metrics. A counter that only grows has a value that it had
    /// during the call; two metrics may be of different moments.
    ///
    /// Fails with [`Error::Damaged`], with [`Error::Version`], with [`Error::Busy`] if a process is
    /// resetting the segment, with [`Error::NotFound`] if the name leads to another file now, or to
    /// none: open a new reader; and others, as `percpu_reader_read()`.
    pub fn read(&mut self) -> Result<Picture<'_>, Error> {
        // SAFETY: the reader is valid, and there is no other picture.
        explained(unsafe { sys::percpu_reader_read(self.raw()) })?;
        let mut info = sys::percpu_reader_info::default();
        // SAFETY: there is a picture; the call stores facts about it.
        check(unsafe { sys::percpu_reader_info(self.raw(), &mut info) })?;
        let missing = if info.missing > 0 { sentence() } else { None };
        Ok(Picture {
            reader: self,
            info,
            missing,
        })
    }

    pub(crate) fn raw(&self) -> *mut sys::percpu_reader {
        self.0.as_ptr()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: it is used by nobody else.
        unsafe { sys::percpu_reader_close(self.raw()) }
    }
}
debug_as_name!(Reader);
