// SPDX-License-Identifier: MIT
//! Reading all metrics of a segment from outside (`reader.h`).

use std::ffi::{c_char, CStr};
use std::ptr::{self, NonNull};
use std::time::{Duration, SystemTime};

use percpu_sys as sys;

use crate::error::{check, explained, sentence, Error};
use crate::exemplar::{Exemplar, NO_EXEMPLAR};
use crate::gauge::time;
use crate::handle::{debug_as_name, non_null};
use crate::owned::{list, name_of, OwnedValue, Owners};
use crate::segment::text;
use crate::Snapshot;

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

    fn raw(&self) -> *mut sys::percpu_reader {
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

/// A picture: what [`Reader::read`] has copied. It is for one thread.
pub struct Picture<'a> {
    reader: &'a Reader,
    info: sys::percpu_reader_info,
    missing: Option<Box<str>>,
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

    /// All series, by their names.
    pub fn series(&self) -> impl Iterator<Item = PictureSeries<'_>> {
        // SAFETY: the reader is valid.
        let n = unsafe { sys::percpu_reader_count(self.reader.raw()) };
        (0..n).filter_map(|i| self.get(i).ok())
    }

    fn get(&self, number: usize) -> Result<PictureSeries<'_>, Error> {
        let mut raw = sys::percpu_reader_series::default();
        // SAFETY: the reader is valid; the call stores a description.
        check(unsafe { sys::percpu_reader_series(self.reader.raw(), number, &mut raw) })?;
        Ok(PictureSeries {
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

/// A value in a picture.
#[derive(Debug)]
#[non_exhaustive]
pub enum Value {
    /// A counter.
    Counter(u64),
    /// A counter of doubles.
    FCounter(f64),
    /// A gauge.
    Gauge(i64),
    /// A gauge of doubles.
    FGauge(f64),
    /// A latest value, and when it was set.
    Latest(f64, SystemTime),
    /// A histogram.
    Histogram(Snapshot),
    /// The minimum and the maximum.
    Extrema(f64, f64),
    /// An owned gauge, over the owners that live.
    OwnedGauge(i64),
    /// An owned gauge of doubles, over the owners that live.
    OwnedFGauge(f64),
    /// Labels, and no value.
    Info,
    /// Statistics: the counter of each of [`PictureSeries::fields`].
    Stats(Vec<u64>),
}

/// A series in a picture.
pub struct PictureSeries<'a> {
    picture: &'a Picture<'a>,
    number: usize,
    raw: sys::percpu_reader_series,
}

impl PictureSeries<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        // SAFETY: the string is valid until the next picture.
        unsafe { text_at(self.raw.name) }
    }

    /// Its help text, or "".
    pub fn help(&self) -> &str {
        // SAFETY: the string is valid until the next picture.
        unsafe { text_at(self.raw.help) }
    }

    /// Its unit, or "".
    pub fn unit(&self) -> &str {
        // SAFETY: the string is valid until the next picture.
        unsafe { text_at(self.raw.unit) }
    }

    /// Its labels: names and values.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        // SAFETY: there are that many names, and values; the strings are valid until the next
        // picture.
        let (names, values) = unsafe {
            let n = self.raw.labels as usize;
            (
                texts_at(self.raw.label_names, n),
                texts_at(self.raw.label_values, n),
            )
        };
        // SAFETY: as above.
        names
            .iter()
            .zip(values)
            .map(|(name, value)| unsafe { (text_at(*name), text_at(*value)) })
    }

    /// Of statistics: the label whose values are the names of the fields. Otherwise "".
    pub fn field_label(&self) -> &str {
        // SAFETY: the string is valid until the next picture.
        unsafe { text_at(self.raw.field) }
    }

    /// Of statistics: the names of the fields. Otherwise none.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &str> {
        let n = if self.raw.kind == sys::PERCPU_METRIC_STATS {
            self.raw.n as usize
        } else {
            0
        };
        // SAFETY: there are that many names; the strings are valid until the next picture.
        unsafe { texts_at(self.raw.fields, n) }
            .iter()
            .map(|name| unsafe { text_at(*name) })
    }

    /// When its counts began.
    pub fn since(&self) -> SystemTime {
        time(self.raw.since)
    }

    /// The cap of its family; `None` if it is of no family.
    pub fn family_cap(&self) -> Option<u32> {
        (self.raw.cap != 0).then_some(self.raw.cap)
    }

    /// Of its family: how often there was no room for a series, and how often a value could not be
    /// a label's.
    pub fn overflows(&self) -> (u64, u64) {
        (self.raw.overflows, self.raw.invalid)
    }

    /// Its value. Fails with [`Error::Empty`] if nothing was observed or set, with [`Error::Busy`]
    /// if it was changed again and again while it was read, and with [`Error::Unsupported`] for a
    /// kind of a later version.
    pub fn value(&self) -> Result<Value, Error> {
        match self.raw.kind {
            sys::PERCPU_METRIC_COUNTER => self.get(sys::percpu_reader_counter).map(Value::Counter),
            sys::PERCPU_METRIC_FCOUNTER => self.number().map(Value::FCounter),
            sys::PERCPU_METRIC_GAUGE => self.get(sys::percpu_reader_gauge).map(Value::Gauge),
            sys::PERCPU_METRIC_FGAUGE => self.number().map(Value::FGauge),
            sys::PERCPU_METRIC_LATEST => {
                let when = self.get(sys::percpu_reader_when)?;
                Ok(Value::Latest(self.number()?, time(when)))
            }
            sys::PERCPU_METRIC_HISTOGRAM => {
                let mut raw = ptr::null_mut();
                // SAFETY: the picture is valid; the call stores a snapshot, which is ours then.
                check(unsafe {
                    sys::percpu_reader_histogram(self.reader(), self.number, &mut raw)
                })?;
                Snapshot::from_raw(raw).map(Value::Histogram)
            }
            sys::PERCPU_METRIC_EXTREMA => {
                let (mut min, mut max) = (0.0, 0.0);
                // SAFETY: the picture is valid; the call stores both results.
                check(unsafe {
                    sys::percpu_reader_extrema(self.reader(), self.number, &mut min, &mut max)
                })?;
                Ok(Value::Extrema(min, max))
            }
            sys::PERCPU_METRIC_OWNED_GAUGE => {
                self.get(sys::percpu_reader_gauge).map(Value::OwnedGauge)
            }
            sys::PERCPU_METRIC_OWNED_FGAUGE => self.number().map(Value::OwnedFGauge),
            sys::PERCPU_METRIC_INFO => Ok(Value::Info),
            sys::PERCPU_METRIC_STATS => {
                let mut out = vec![0; self.raw.n as usize];
                // SAFETY: the picture is valid; the call stores that many numbers.
                check(unsafe {
                    let (at, n) = (out.as_mut_ptr(), out.len());
                    sys::percpu_reader_stats(self.reader(), self.number, at, n)
                })?;
                Ok(Value::Stats(out))
            }
            _ => Err(Error::of(libc::ENOTSUP)),
        }
    }

    /// Its value as a double, of a kind that is one value: 1 for an info.
    pub fn number(&self) -> Result<f64, Error> {
        self.get(sys::percpu_reader_number)
    }

    /// Of an owned gauge: its value by its rule.
    pub fn owned(&self, whose: Owners) -> Result<f64, Error> {
        let mut v = 0.0;
        // SAFETY: the picture is valid; the call stores the result.
        check(unsafe {
            sys::percpu_reader_owned_fetch(self.reader(), self.number, whose.raw(), &mut v)
        })?;
        Ok(v)
    }

    /// Of an owned gauge: the value of each owner.
    pub fn owned_each(&self) -> Result<Vec<OwnedValue<f64>>, Error> {
        let floats = self.raw.kind == sys::PERCPU_METRIC_OWNED_FGAUGE;
        // SAFETY: the picture is valid; the call stores as many as there is room for.
        let values = list(|out, n, all| unsafe {
            sys::percpu_reader_owned_each(self.reader(), self.number, out, n, all)
        })?;
        let value = |v: &sys::percpu_owned_value| if floats { v.fvalue } else { v.value as f64 };
        Ok(values
            .iter()
            .map(|v| OwnedValue::new(v, value(v)))
            .collect())
    }

    /// Of a counter or a gauge: what each CPU has added, read from the file now.
    pub fn cpus(&self) -> Result<Vec<f64>, Error> {
        let mut out = vec![0.0; self.picture.cpus()];
        // SAFETY: the picture is valid and for one thread; the call stores that many numbers.
        explained(unsafe {
            let (at, n) = (out.as_mut_ptr(), out.len());
            sys::percpu_reader_cpus(self.reader(), self.number, at, n)
        })?;
        Ok(out)
    }

    /// Of a counter or a histogram: its exemplars.
    pub fn exemplars(&self) -> Vec<Exemplar> {
        let mut found = Vec::new();
        for slot in 0.. {
            let mut e = NO_EXEMPLAR;
            // SAFETY: the picture is valid; the call stores an exemplar.
            let result =
                unsafe { sys::percpu_reader_exemplar(self.reader(), self.number, slot, &mut e) };
            match result {
                0 => found.push(Exemplar::of(&e)),
                r if r == -libc::ENODATA || r == -libc::EAGAIN => {}
                _ => break,
            }
        }
        found
    }

    fn reader(&self) -> *mut sys::percpu_reader {
        self.picture.reader.raw()
    }

    /// Return what a call stores about this series.
    fn get<T: Default>(
        &self,
        call: unsafe extern "C" fn(*const sys::percpu_reader, usize, *mut T) -> i32,
    ) -> Result<T, Error> {
        let mut v = T::default();
        // SAFETY: the picture is valid; the call stores its result.
        check(unsafe { call(self.reader(), self.number, &mut v) })?;
        Ok(v)
    }
}

impl std::fmt::Debug for PictureSeries<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PictureSeries")
            .field("name", &self.name())
            .field("labels", &self.labels().collect::<Vec<_>>())
            .field("value", &self.value())
            .finish_non_exhaustive()
    }
}

/// A text of a picture. The library has checked that it is UTF-8.
///
/// # Safety
/// The string is valid as long as the result is used.
unsafe fn text_at<'a>(s: *const c_char) -> &'a str {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(s) }.to_str().unwrap_or("")
}

/// Texts of a picture.
///
/// # Safety
/// There are n pointers, valid as long as the result is used; n may be 0.
unsafe fn texts_at<'a>(texts: *const *const c_char, n: usize) -> &'a [*const c_char] {
    if n == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(texts, n) }
}
