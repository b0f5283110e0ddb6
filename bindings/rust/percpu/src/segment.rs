// SPDX-License-Identifier: MIT
//! Named metrics in a file, in which any number of processes count (`segment.h`).

use std::ffi::{c_char, c_int, CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use percpu_sys as sys;

use crate::error::{explained, Error};
use crate::handle::{debug_as_name, non_null, Handle, Object};
use crate::metric::{text, MetricTexts};
use crate::{Counter, FCounter, FGauge, Gauge, Latest, Metric};

/// An open segment. The last handle of it, or of a metric in it, closes it.
pub(crate) struct Opened(NonNull<sys::percpu_segment>);

impl Opened {
    pub(crate) fn raw(&self) -> *mut sys::percpu_segment {
        self.0.as_ptr()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: no handle of the segment is left.
        unsafe { sys::percpu_segment_close(self.raw()) }
    }
}

// SAFETY: all calls on segments may be made by any thread.
unsafe impl Send for Opened {}
// SAFETY: as above, and by several at the same time.
unsafe impl Sync for Opened {}

/// What keeps a segment open.
#[derive(Clone)]
pub(crate) enum Keep {
    Counted(Arc<Opened>),
    Forever(&'static Opened),
}

impl Keep {
    pub(crate) fn raw(&self) -> *mut sys::percpu_segment {
        match self {
            Self::Counted(opened) => opened.raw(),
            Self::Forever(opened) => opened.raw(),
        }
    }
}

/// How a segment is opened.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("percpu-doc-options-{}", std::process::id()));
/// # let path = path.to_str().unwrap();
/// let segment = percpu::SegmentOptions::new().create().anew().mode(0o640).open(path)?;
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SegmentOptions<'a> {
    flags: u32,
    cpus: u32,
    mode: u32,
    program: Option<&'a str>,
}

impl<'a> SegmentOptions<'a> {
    /// Open a segment that exists, and go on with its counts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Create the segment if there is none.
    pub fn create(self) -> Self {
        self.flag(sys::PERCPU_SEGMENT_CREATE)
    }

    /// Reset all counts, for all processes. Latest values and owned gauges stay.
    pub fn anew(self) -> Self {
        self.flag(sys::PERCPU_SEGMENT_ANEW)
    }

    /// Open the file also if it is another user's.
    pub fn foreign(self) -> Self {
        self.flag(sys::PERCPU_SEGMENT_FOREIGN)
    }

    /// If the file cannot be had, count in a private segment, which children of fork share.
    /// [`Segment::fallback`] then says why. So metrics do not take the program down.
    pub fn fallback(self) -> Self {
        self.flag(sys::PERCPU_SEGMENT_FALLBACK)
    }

    /// Lanes of CPUs in a new segment. The default is one for each possible CPU.
    pub fn cpus(self, cpus: u32) -> Self {
        Self { cpus, ..self }
    }

    /// Permissions of a new file, whatever the umask is. The default is 0600.
    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// The name of the program, 1 to 40 bytes: refuse a segment that another program has made.
    pub fn program(self, program: &'a str) -> Self {
        Self {
            program: Some(program),
            ..self
        }
    }

    fn flag(self, flag: u32) -> Self {
        Self {
            flags: self.flags | flag,
            ..self
        }
    }

    /// Open the segment with a name. A name with a `/` is a path; another one stands for
    /// `/dev/shm/percpu.NAME`.
    ///
    /// Fails with [`Error::NotFound`], [`Error::Damaged`], [`Error::Version`], [`Error::Denied`],
    /// [`Error::Exists`] (another program has made it) and others, as `percpu_segment_open()`.
    pub fn open(&self, name: &str) -> Result<Segment, Error> {
        let name = text("name", name)?;
        self.opened(|flags, options, raw| {
            // SAFETY: the string and the options are valid; the call stores a segment.
            unsafe { sys::percpu_segment_open(name.as_ptr(), flags, options, raw) }
        })
    }

    /// Open the segment in a file that is open to read and write, such as a memfd: an empty one
    /// with [`SegmentOptions::create`] by one process, which then passes it on.
    ///
    /// Fails as [`SegmentOptions::open`], and as `percpu_segment_open_fd()`.
    pub fn open_fd(&self, fd: BorrowedFd<'_>) -> Result<Segment, Error> {
        self.opened(|flags, options, raw| {
            // SAFETY: the descriptor and the options are valid; the call stores a segment.
            unsafe { sys::percpu_segment_open_fd(fd.as_raw_fd(), flags, options, raw) }
        })
    }

    fn opened(
        &self,
        call: impl FnOnce(
            u32,
            *const sys::percpu_segment_options,
            *mut *mut sys::percpu_segment,
        ) -> c_int,
    ) -> Result<Segment, Error> {
        let program = self.program.map(|p| text("program", p)).transpose()?;
        let options = sys::percpu_segment_options {
            size: size_of::<sys::percpu_segment_options>(),
            cpus: self.cpus,
            mode: self.mode,
            program: pointer(&program),
        };
        let mut raw = ptr::null_mut();
        explained(call(self.flags, &options, &mut raw))?;
        Ok(Segment(Keep::Counted(Arc::new(Opened(non_null(raw)?)))))
    }
}

fn pointer(s: &Option<CString>) -> *const c_char {
    s.as_ref().map_or(ptr::null(), |s| s.as_ptr())
}

/// Named metrics in a file, in which any number of processes count: forked or unrelated, in C or
/// in Rust. There is no server, and a killed process needs no cleanup.
///
/// Clones are handles of the same segment. It is closed when the last one is dropped, and the last
/// handle of a metric in it.
///
/// **Context:** any thread; not a signal handler. A child of fork may use its parent's segments and
/// handles.
/// **Progress:** opening and declaring take locks, and may wait for another process for a second.
/// Counting takes none.
///
/// ```
/// use percpu::{Metric, Segment};
///
/// # let path = std::env::temp_dir().join(format!("percpu-doc-segment-{}", std::process::id()));
/// # let path = path.to_str().unwrap();
/// let segment = Segment::create(path)?;
/// let found = segment.counter(&Metric::new("requests_total").label("code", "200"))?;
/// found.inc();
/// assert_eq!(found.fetch(), 1);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Segment(pub(crate) Keep);

impl Segment {
    /// Open a segment, and create it if there is none: [`SegmentOptions::open`].
    pub fn create(name: &str) -> Result<Self, Error> {
        SegmentOptions::new().create().open(name)
    }

    /// Open a segment that exists, to count in it. Who only reads opens a
    /// [`Reader`](crate::Reader).
    pub fn open(name: &str) -> Result<Self, Error> {
        SegmentOptions::new().open(name)
    }

    /// Keep the segment open until the process ends. Handles that are made of the result have no
    /// reference count that threads must share to clone and drop them.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("percpu-doc-leak-{}", std::process::id()));
    /// # let path = path.to_str().unwrap();
    /// let segment = percpu::Segment::create(path)?.leak();
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), percpu::Error>(())
    /// ```
    pub fn leak(self) -> Self {
        match self.0 {
            // SAFETY: the count that this handle had is never given back.
            Keep::Counted(opened) => Self(Keep::Forever(unsafe { &*Arc::into_raw(opened) })),
            Keep::Forever(_) => self,
        }
    }

    /// Why the segment is private, with [`SegmentOptions::fallback`]: the sentence of the error
    /// when its file could not be had. `None` if the segment is in its file.
    pub fn fallback(&self) -> Option<String> {
        // SAFETY: the segment is open, and so long the sentence is valid.
        unsafe {
            let why = sys::percpu_segment_fallback(self.raw());
            (!why.is_null()).then(|| CStr::from_ptr(why).to_string_lossy().into_owned())
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::percpu_segment {
        self.0.raw()
    }

    /// Declare a metric by a call that stores its handle.
    pub(crate) fn declare<T: Object>(
        &self,
        metric: &Metric,
        call: impl FnOnce(*mut sys::percpu_segment, *const sys::percpu_metric, *mut *mut T) -> c_int,
    ) -> Result<Handle<T>, Error> {
        let texts = MetricTexts::new(metric)?;
        let mut raw = ptr::null_mut();
        explained(call(self.raw(), &texts.raw().metric, &mut raw))?;
        Handle::of_segment(raw, &self.0)
    }

    /// Find or create the counter with that name and these labels. All processes that declare it
    /// get the same one.
    ///
    /// Fails with [`Error::Exists`] if the name has another kind, unit or labels, and as
    /// `percpu_segment_counter()`. The same holds for the other kinds.
    pub fn counter(&self, metric: &Metric) -> Result<Counter, Error> {
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_counter(s, m, ret)
        })
        .map(Counter)
    }

    /// Find or create a counter of doubles.
    pub fn fcounter(&self, metric: &Metric) -> Result<FCounter, Error> {
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_fcounter(s, m, ret)
        })
        .map(FCounter)
    }

    /// Find or create a gauge.
    pub fn gauge(&self, metric: &Metric) -> Result<Gauge, Error> {
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_gauge(s, m, ret)
        })
        .map(Gauge)
    }

    /// Find or create a gauge of doubles.
    pub fn fgauge(&self, metric: &Metric) -> Result<FGauge, Error> {
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_fgauge(s, m, ret)
        })
        .map(FGauge)
    }

    /// Find or create a latest value.
    pub fn latest(&self, metric: &Metric) -> Result<Latest, Error> {
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_latest(s, m, ret)
        })
        .map(Latest)
    }

    /// Declare a metric that tells by its labels alone, such as a version.
    pub fn info(&self, metric: &Metric) -> Result<(), Error> {
        let texts = MetricTexts::new(metric)?;
        // SAFETY: the strings are valid during the call.
        explained(unsafe { sys::percpu_segment_info(self.raw(), &texts.raw().metric) })
    }

    /// Take a slot among the segment's owners under a name, such as the number of a worker. Call it
    /// in each process, after fork, and before its first update of an owned gauge, which would take
    /// a slot without a name. With `resume` the process goes on with the values that a dead owner
    /// of the name has.
    ///
    /// Fails with [`Error::Exists`] if a living owner has the name, and as
    /// `percpu_segment_join()`.
    pub fn join(&self, name: &str, resume: bool) -> Result<(), Error> {
        let name = text("name of the owner", name)?;
        let flags = if resume { sys::PERCPU_OWNERS_RESUME } else { 0 };
        // SAFETY: the string is valid during the call.
        explained(unsafe { sys::percpu_segment_join(self.raw(), name.as_ptr(), flags) })
    }

    /// Give this process's slot among the segment's owners back: its values in owned gauges become
    /// those of a dead owner. The segment stays open, and the next update of an owned gauge, or
    /// [`Segment::join`], joins again. Meanwhile no other thread may update an owned gauge: that may
    /// be lost, or count for another process: `percpu_segment_leave()`.
    pub fn leave(&self) -> Result<(), Error> {
        // SAFETY: the segment is open.
        explained(unsafe { sys::percpu_segment_leave(self.raw()) })
    }
}
debug_as_name!(Segment);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// Whether this process has mapped the file: a segment is made without a name, so maps tell it
    /// by its number alone.
    fn is_mapped(path: &str) -> bool {
        let number = std::fs::metadata(path).unwrap().ino().to_string();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines()
            .any(|l| l.split_whitespace().nth(4) == Some(&number))
    }

    #[test]
    fn a_segment_is_closed_with_its_last_handle_unless_it_is_leaked() {
        let path = std::env::temp_dir().join(format!("percpu-rust-leak-{}", std::process::id()));
        let path = path.to_str().unwrap();
        let metric = Metric::new("events_total");
        let counter = Segment::create(path).unwrap().counter(&metric).unwrap();
        assert!(is_mapped(path));
        drop(counter);
        assert!(!is_mapped(path));
        let counter = Segment::create(path)
            .unwrap()
            .leak()
            .counter(&metric)
            .unwrap();
        drop(counter.clone());
        counter.inc();
        drop(counter);
        assert!(is_mapped(path));
        std::fs::remove_file(path).unwrap();
    }
}
