// SPDX-License-Identifier: MIT
//! Memory for objects that have no name: of this process, or in a file (`region.h`).

use std::ffi::{c_int, CString};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{debug_as_name, non_null};

/// A mapped region. The last handle of it, or of an object in it, unmaps it.
struct Mapped(NonNull<sys::percpu_region>);

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: no handle of the region is left, nor of an object in it.
        unsafe { sys::percpu_region_close(self.0.as_ptr()) }
    }
}

// SAFETY: all calls on regions may be made by any thread.
unsafe impl Send for Mapped {}
// SAFETY: as above, and by several at the same time.
unsafe impl Sync for Mapped {}

/// How a region is opened.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("percpu-doc-lanes-{}", std::process::id()));
/// let options = percpu::RegionOptions::new().create().mode(0o640).lane_size(1 << 20);
/// let region = options.open(&path)?;
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RegionOptions {
    flags: u32,
    lane_size: usize,
    cpus: u32,
    mode: u32,
}

impl Default for RegionOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RegionOptions {
    /// Open a region that exists, to count in it.
    pub fn new() -> Self {
        Self {
            flags: sys::PERCPU_REGION_WRITE,
            lane_size: 0,
            cpus: 0,
            mode: 0,
        }
    }

    /// Create the region if there is none: no file of that name, or an empty file.
    pub fn create(self) -> Self {
        let flags = sys::PERCPU_REGION_WRITE | sys::PERCPU_REGION_CREATE;
        Self { flags, ..self }
    }

    /// Create the region, and open none that another process has created.
    pub fn create_new(self) -> Self {
        let flags = sys::PERCPU_REGION_WRITE | sys::PERCPU_REGION_CREATE | sys::PERCPU_REGION_EXCL;
        Self { flags, ..self }
    }

    /// Open a region that exists, to read it.
    pub fn read_only(self) -> Self {
        Self { flags: 0, ..self }
    }

    /// Bytes of each lane of a new region, which then does not grow: for rings of more than 32 KiB
    /// a CPU. A region of the default lanes grows. [`ApproxSum`](crate::ApproxSum) needs these.
    pub fn lane_size(self, lane_size: usize) -> Self {
        Self { lane_size, ..self }
    }

    /// Lanes of CPUs in a new region. The default is one for each possible CPU.
    pub fn cpus(self, cpus: u32) -> Self {
        Self { cpus, ..self }
    }

    /// Permissions of a new file, of which the umask takes some away. The default is 0600.
    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// Open the region in a file.
    ///
    /// Fails with [`Error::NotFound`], [`Error::Exists`], [`Error::Damaged`], [`Error::Version`],
    /// [`Error::Denied`] and others, as `percpu_region_open()`.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Region, Error> {
        let path = path.as_ref();
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Error::invalid(format!("the path has a byte 0: {path:?}")))?;
        // SAFETY: the string and the options are valid; the call stores a region.
        self.region(|o, ret| unsafe { sys::percpu_region_open(name.as_ptr(), self.flags, o, ret) })
            .map_err(|e| e.about(&path.display()))
    }

    /// Open the region in the file of a descriptor, such as a memfd, as [`RegionOptions::open`]. The
    /// descriptor stays the caller's, which may close it then. Give it to another process after
    /// the call: until then there is half a region.
    pub fn open_fd(&self, fd: impl AsFd) -> Result<Region, Error> {
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open, and the options are valid; the call stores a region.
        self.region(|o, ret| unsafe { sys::percpu_region_open_fd(fd, self.flags, o, ret) })
    }

    /// Create a region in memory of this process, which a child of fork gets a copy of.
    pub fn private(&self) -> Result<Region, Error> {
        // SAFETY: the options are valid; the call stores a region.
        self.region(|o, ret| unsafe { sys::percpu_region_create(o, ret) })
    }

    fn region(
        &self,
        call: impl FnOnce(*const sys::percpu_region_options, *mut *mut sys::percpu_region) -> c_int,
    ) -> Result<Region, Error> {
        let options = sys::percpu_region_options {
            size: size_of::<sys::percpu_region_options>(),
            lane_size: self.lane_size,
            cpus: self.cpus,
            mode: self.mode,
            memory: ptr::null_mut(),
            memory_size: 0,
        };
        let mut raw = ptr::null_mut();
        check(call(&options, &mut raw))?;
        Ok(Region(Arc::new(Mapped(non_null(raw)?))))
    }
}

/// Memory in lanes, in which a [`Rate`](crate::Rate), an [`ApproxSum`](crate::ApproxSum) or a
/// [`Ring`](crate::Ring) can be, so that several processes have it. What has a name goes into a
/// [`Segment`](crate::Segment) instead.
///
/// Processes agree on a number of 0 to 15 for each object, a root, and open it there; or one process
/// creates the object, and gives its key to the others.
///
/// Clones are handles of the same region. It is unmapped when the last one is dropped, and the last
/// handle of an object in it. An object stays in its region, so make few, and keep them.
///
/// **Context:** any thread; not a signal handler. A child of fork may use its parent's regions.
/// **Progress:** opening and creating take locks, and may wait for another process for a second.
///
/// ```
/// use percpu::{Rate, Region};
/// use std::time::Duration;
///
/// # let path = std::env::temp_dir().join(format!("percpu-doc-region-{}", std::process::id()));
/// let region = Region::create(&path)?;
/// // At most 100 logins an hour, by all processes that open root 0 of this file.
/// let logins = Rate::open(&region, 0, 100, Duration::from_secs(3600))?;
/// assert!(logins.check());
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct Region(Arc<Mapped>);

impl Region {
    /// Create a region in memory of this process: [`RegionOptions::private`].
    pub fn new() -> Result<Self, Error> {
        RegionOptions::new().private()
    }

    /// Open the region in a file, and create it if there is none: [`RegionOptions::open`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        RegionOptions::new().create().open(path)
    }

    /// Open the region in a file that exists, to count in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        RegionOptions::new().open(path)
    }

    pub(crate) fn raw(&self) -> *mut sys::percpu_region {
        self.0 .0.as_ptr()
    }
}
debug_as_name!(Region);
