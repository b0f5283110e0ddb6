// SPDX-License-Identifier: MIT
//! Counters that belong together: a struct is their schema, and a snapshot (`stats.h`).

use std::ffi::CString;
use std::marker::PhantomData;
use std::slice;

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::handle::{object, Handle};
use crate::metric::{pointers, text};
use crate::seq::{self, Bank, Cell};
use crate::{Metric, Segment};

object!(percpu_stats, percpu_stats_destroy);

/// A struct whose fields are counters. [`stats!`](crate::stats) implements it.
///
/// # Safety
/// The struct is `repr(C)`, and its fields are `u64`, one for each name.
pub unsafe trait Fields: Copy + Default + Send + Sync + 'static {
    /// The names of the fields.
    const NAMES: &'static [&'static str];
    /// Whether each update is one commit on tier *rseq*, also with more fields than one store has.
    const WHOLE: bool;
}

/// A field of such a struct: [`stats!`](crate::stats) defines one for each, as `Traffic::packets`.
pub struct Field<T> {
    word: usize,
    of: PhantomData<T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> std::fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Field({})", self.word)
    }
}

impl<T> Field<T> {
    /// # Safety
    /// T has a field of that number.
    #[doc(hidden)]
    pub const unsafe fn new(word: usize) -> Self {
        Self {
            word,
            of: PhantomData,
        }
    }
}

/// Define a struct of statistics: each field is a `u64`, and is named once.
///
/// ```
/// percpu::stats! {
///     /// What came in.
///     pub struct Traffic { packets, bytes }
/// }
///
/// let traffic = percpu::Stats::<Traffic>::new()?;
/// traffic.update(&Traffic { packets: 1, bytes: 60 })?;
/// traffic.add(Traffic::bytes, 40);
/// assert_eq!(traffic.snapshot()?, Traffic { packets: 1, bytes: 100 });
/// # Ok::<(), percpu::Error>(())
/// ```
///
/// With `whole struct` no update takes a lock on tier *rseq*, also if the struct has more than 8
/// fields; that takes twice the memory.
#[macro_export]
macro_rules! stats {
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($fields:tt)* }) => {
        $crate::stats! { @define [$(#[$about])*] [$vis] $name false { $($fields)* } }
    };
    ($(#[$about:meta])* $vis:vis whole struct $name:ident { $($fields:tt)* }) => {
        $crate::stats! { @define [$(#[$about])*] [$vis] $name true { $($fields)* } }
    };
    (@define [$(#[$about:meta])*] [$vis:vis] $name:ident $whole:literal
     { $($(#[$what:meta])* $field:ident),+ $(,)? }) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs)]
        $vis struct $name {
            $($(#[$what])* pub $field: u64,)+
        }

        #[allow(non_upper_case_globals, missing_docs, dead_code)]
        impl $name {
            $($(#[$what])*
            pub const $field: $crate::Field<$name> = {
                // SAFETY: it is the number of that field.
                unsafe { $crate::Field::new(::core::mem::offset_of!($name, $field) / 8) }
            };)+
        }

        // SAFETY: the struct is repr(C), and these are all of its fields, of type u64.
        unsafe impl $crate::Fields for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];
            const WHOLE: bool = $whole;
        }
    };
}

/// Statistics: the counters of a struct, which are updated and read together.
///
/// A snapshot contains all of an update or nothing, also if the thread was killed.
///
/// **Context:** adds, updates and [`fetch`](Self::fetch) in any thread, in signal handlers, in
/// children of fork. Snapshots: not in signal handlers.
/// **Progress:** an update takes no lock on tier *rseq* if the struct has up to 8 fields, or is
/// `whole`; otherwise it takes one, hundreds of times slower.
pub struct Stats<T: Fields> {
    handle: Handle<sys::percpu_stats>,
    of: PhantomData<T>,
}

impl<T: Fields> Clone for Stats<T> {
    fn clone(&self) -> Self {
        Self::from_handle(self.handle.clone())
    }
}

impl<T: Fields> Stats<T> {
    const WORDS: usize = size_of::<T>() / 8;
    const FLAGS: u32 = if T::WHOLE { sys::PERCPU_STATS_WHOLE } else { 0 };

    fn from_handle(handle: Handle<sys::percpu_stats>) -> Self {
        Self {
            handle,
            of: PhantomData,
        }
    }

    /// Create statistics of 0 in memory of this process.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call stores statistics.
        Handle::create(|ret| unsafe {
            sys::percpu_stats_create(size_of::<T>(), 1, Self::FLAGS, ret)
        })
        .map(Self::from_handle)
    }

    #[inline(always)]
    fn get(&self) -> &sys::percpu_stats {
        // SAFETY: the handle keeps the struct valid, which does not change.
        unsafe { &*self.handle.raw() }
    }

    /// Where the first field counts, and in which bank; the most words that one store commits.
    #[inline(always)]
    pub(crate) fn place(&self) -> (Cell, Bank, u32) {
        let s = self.get();
        let cell = Cell {
            base: s.block.base.cast(),
            stride: s.block.stride,
        };
        (
            cell,
            Bank {
                word: s.bank,
                mask: s.banks,
            },
            s.vector,
        )
    }

    /// Add n to one field. Never fails, never loses.
    #[inline(always)]
    pub fn add(&self, field: Field<T>, n: u64) {
        let (mut cell, bank, _) = self.place();
        // SAFETY: the struct has that field, and the statistics are valid.
        unsafe {
            cell.base = cell.base.add(field.word * 8);
            if self.get().head != 0 || !seq::bank_add(cell, bank, n as i64) {
                sys::percpu_stats_add_slow(self.get(), 0, field.word, n as i64);
            }
        }
    }

    /// Add each field of the struct to the same counter, with one commit.
    ///
    /// Fails with nothing added: with [`Error::TooLong`] if the struct has more than 64 fields,
    /// with [`Error::Busy`] if the update takes the lock and its holder is stopped for a second.
    #[inline(always)]
    pub fn update(&self, delta: &T) -> Result<(), Error> {
        // SAFETY: T is a struct of that many u64 (Fields).
        let n = unsafe { slice::from_raw_parts((&raw const *delta).cast(), Self::WORDS) };
        if self.commit(n) {
            return Ok(());
        }
        // SAFETY: the statistics are valid, and have these fields.
        check(unsafe { sys::percpu_stats_update_slow(self.get(), 0, 0, n.as_ptr(), Self::WORDS) })
    }

    /// Commit an update of all fields by one store of this CPU, if there is one that wide.
    #[inline(always)]
    fn commit(&self, n: &[u64]) -> bool {
        let (cell, bank, vector) = self.place();
        let word = |i: usize| n.get(i).copied().unwrap_or(0);

        if (vector as usize) < Self::WORDS {
            return false;
        }
        // SAFETY: the statistics have these fields, and the CPU has a store of `vector` words.
        unsafe {
            match Self::WORDS {
                1 => seq::bank_add(cell, bank, word(0) as i64),
                2 => seq::bank_add2(cell, bank, [0, 1].map(word)),
                3..=4 => seq::bank_add4(cell, bank, [0, 1, 2, 3].map(word)),
                5..=8 => seq::bank_add8(cell, bank, [0, 1, 2, 3, 4, 5, 6, 7].map(word)),
                _ => false,
            }
        }
    }

    /// Read each field by itself: fields that are updated together may differ by the updates that
    /// run meanwhile.
    pub fn fetch(&self) -> Result<T, Error> {
        // SAFETY: the call stores a struct of that size.
        self.read(|s, out| unsafe { sys::percpu_stats_fetch(s, 0, 1, out) })
    }

    /// Read all fields as they were at one moment: every update is in it with all of its fields or
    /// with none. Fails with [`Error::Denied`] or [`Error::Busy`] if some CPU could not be fenced.
    pub fn snapshot(&self) -> Result<T, Error> {
        // SAFETY: the call stores a struct of that size.
        self.read(|s, out| unsafe { sys::percpu_stats_snapshot(s, 0, 1, out) })
    }

    /// The same, and reset all fields: the results of all such calls, and what is left, add up to
    /// what was added.
    pub fn fetch_zero(&self) -> Result<T, Error> {
        // SAFETY: the call stores a struct of that size.
        self.read(|s, out| unsafe { sys::percpu_stats_fetch_zero(s, 0, 1, out) })
    }

    fn read(
        &self,
        call: impl FnOnce(*const sys::percpu_stats, *mut std::ffi::c_void) -> i32,
    ) -> Result<T, Error> {
        let mut out = T::default();
        check(call(self.handle.raw(), (&raw mut out).cast()))?;
        Ok(out)
    }

    /// The most fields that an update adds to without a lock, on tier *rseq* and this CPU.
    pub fn commit_words(&self) -> u32 {
        // SAFETY: the handle keeps the statistics valid.
        unsafe { sys::percpu_stats_commit_words(self.handle.raw()) }
    }
}

impl<T: Fields> std::fmt::Debug for Stats<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stats")
            .field("fields", &T::NAMES)
            .finish_non_exhaustive()
    }
}

impl Segment {
    /// Find or create statistics. Each field is a counter of the metric, with one more label whose
    /// value is the name of the field.
    pub fn stats<T: Fields>(&self, metric: &Metric, label: &str) -> Result<Stats<T>, Error> {
        let label = text("label of the fields", label)?;
        let texts = T::NAMES
            .iter()
            .map(|name| text("name of a field", name))
            .collect::<Result<Vec<CString>, Error>>()?;
        let names = pointers(&texts);
        let fields = sys::percpu_metric_fields {
            size: size_of::<sys::percpu_metric_fields>(),
            label: label.as_ptr(),
            names: names.as_ptr(),
            n: names.len(),
        };
        let flags = Stats::<T>::FLAGS;
        // SAFETY: the fields are valid; the other arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_stats(s, m, &fields, flags, ret)
        })
        .map(Stats::from_handle)
    }
}
