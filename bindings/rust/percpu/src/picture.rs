// SPDX-License-Identifier: MIT
//! What a reader has copied (`reader.h`).

use std::ffi::c_char;
use std::ptr;
use std::time::SystemTime;

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::gauge::time;
use crate::owned::name_of;
use crate::{PictureSeries, Reader};

/// A picture: what [`Reader::read`] has copied. It is for one thread.
pub struct Picture<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) info: sys::percpu_reader_info,
    pub(crate) missing: Option<String>,
}

/// A process that has a slot in the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// Its process, in its own PID namespace.
    pub pid: u32,
    /// Whether it lives.
    pub alive: bool,
    /// Its name, or "".
    pub name: String,
}

impl<'a> Picture<'a> {
    /// 1, plus 1 for each reset of the segment.
    pub fn generation(&self) -> u64 {
        self.info.generation
    }

    /// When the generation began.
    pub fn since(&self) -> SystemTime {
        time(self.info.since)
    }

    /// When the picture was taken.
    pub fn taken(&self) -> SystemTime {
        time(self.info.read)
    }

    /// The lanes of CPUs.
    pub fn cpus(&self) -> usize {
        self.info.cpus as usize
    }

    /// The program that has made the segment.
    pub fn program(&self) -> String {
        name_of(&self.info.program)
    }

    /// Records without a metric: being declared, left by a killed process, or damaged.
    pub fn pending(&self) -> u32 {
        self.info.pending
    }

    /// How many series have no value: their [`Series::value`] fails.
    pub fn missing(&self) -> u32 {
        self.info.missing
    }

    /// The sentence about the first series without a value, if there is one.
    pub fn why_missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// How many series there are.
    pub fn count(&self) -> usize {
        // SAFETY: the reader is valid.
        unsafe { sys::percpu_reader_count(self.reader.raw()) }
    }

    /// All series, by their names.
    pub fn series(&self) -> impl Iterator<Item = PictureSeries<'_>> {
        (0..self.count()).filter_map(|i| self.get(i))
    }

    /// A series by its number in the order of names, from 0; `None` from [`Picture::count`] on.
    pub fn get(&self, number: usize) -> Option<PictureSeries<'_>> {
        let mut raw = sys::percpu_reader_series::default();
        // SAFETY: the reader is valid; the call stores a description.
        check(unsafe { sys::percpu_reader_series(self.reader.raw(), number, &mut raw) }).ok()?;
        Some(PictureSeries {
            picture: self,
            number,
            raw,
        })
    }

    /// The processes that have a slot in the segment, dead or alive.
    pub fn owners(&self) -> Vec<Owner> {
        let mut out: Vec<sys::percpu_owner_info> = Vec::new();
        loop {
            // SAFETY: the reader is valid; the call stores as many as there is room for.
            let n = unsafe {
                sys::percpu_reader_owners(self.reader.raw(), out.as_mut_ptr(), out.len())
            };
            if n <= out.len() {
                out.truncate(n);
                break;
            }
            out.resize(n, NO_OWNER);
        }
        let owner = |o: &sys::percpu_owner_info| Owner {
            pid: o.pid,
            alive: o.alive != 0,
            name: name_of(&o.name),
        };
        out.iter().map(owner).collect()
    }

    /// The values as text for Prometheus, version 1.0.0.
    pub fn prometheus(&self) -> Result<String, Error> {
        self.print(sys::PERCPU_PRINT_PROMETHEUS)
    }

    /// The values as JSON: an array of objects with type, name, labels and value.
    pub fn json(&self) -> Result<String, Error> {
        self.print(sys::PERCPU_PRINT_JSON)
    }

    fn print(&self, form: sys::percpu_print_format) -> Result<String, Error> {
        let (mut bytes, mut n): (*mut c_char, usize) = (ptr::null_mut(), 0);
        // SAFETY: the stream stores where its bytes are, when it is closed. They are freed once.
        unsafe {
            let stream = libc::open_memstream(&mut bytes, &mut n);
            if stream.is_null() {
                return Err(Error::of(libc::ENOMEM));
            }
            let result = sys::percpu_reader_print(self.reader.raw(), stream, form);
            let closed = libc::fclose(stream);
            let text = if closed == 0 && !bytes.is_null() {
                let text = std::slice::from_raw_parts(bytes.cast::<u8>(), n);
                String::from_utf8_lossy(text).into_owned()
            } else {
                String::new()
            };
            libc::free(bytes.cast());
            check(result)?;
            if closed == 0 {
                Ok(text)
            } else {
                Err(Error::of(libc::ENOMEM))
            }
        }
    }
}

impl std::fmt::Debug for Picture<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.series()).finish()
    }
}

const NO_OWNER: sys::percpu_owner_info = sys::percpu_owner_info {
    id: 0,
    started: 0,
    pid: 0,
    alive: 0,
    name: [0; sys::PERCPU_OWNER_NAME_SIZE as usize],
};
