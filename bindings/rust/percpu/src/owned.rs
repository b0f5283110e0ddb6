// SPDX-License-Identifier: MIT
//! Gauges that lose a process's share when the process ends (`owned.h`).

use std::ffi::{c_char, c_int, CStr};

use percpu_sys as sys;

use crate::error::{check, Error};
use crate::forks::forks;
use crate::handle::{debug_as_name, Handle, Object};
use crate::{Metric, Segment};

/// The segment keeps these, and no process has one of its own.
macro_rules! of_segments {
    ($type:ident) => {
        impl Object for sys::$type {
            unsafe fn destroy(_: *mut Self) {}
        }
    };
}
of_segments!(percpu_owned_gauge);
of_segments!(percpu_owned_fgauge);

/// How the values of several owners become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Their sum.
    #[default]
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The one that was set last. Such a gauge has no adds.
    Recent,
}

impl Rule {
    pub(crate) fn raw(self) -> sys::percpu_owned_rule {
        match self {
            Self::Sum => sys::PERCPU_OWNED_SUM,
            Self::Min => sys::PERCPU_OWNED_MIN,
            Self::Max => sys::PERCPU_OWNED_MAX,
            Self::Recent => sys::PERCPU_OWNED_RECENT,
        }
    }

    /// `None`: a rule of a later version, or damage.
    pub(crate) fn from_raw(raw: sys::percpu_owned_rule) -> Option<Self> {
        let all = [Self::Sum, Self::Min, Self::Max, Self::Recent];
        all.into_iter().find(|rule| rule.raw() == raw)
    }
}

/// A rule, and what readers show of a gauge of a segment. A [`Rule`] is one, too.
///
/// ```
/// use percpu::{OwnedRule, Rule};
///
/// let kept = OwnedRule::new(Rule::Max).keep();
/// assert_eq!(OwnedRule::from(Rule::Max).keep(), kept);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedRule {
    rule: Rule,
    flags: u32,
}

impl OwnedRule {
    /// The rule: readers show the living owners, folded by it.
    pub fn new(rule: Rule) -> Self {
        Self { rule, flags: 0 }
    }

    /// Readers show all owners that ever were, and not only the living: `PERCPU_OWNED_KEEP`.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.flags |= sys::PERCPU_OWNED_KEEP;
        self
    }

    /// Readers show a value for each owner, with a label `pid`: `PERCPU_OWNED_EACH`.
    #[must_use]
    pub fn each(mut self) -> Self {
        self.flags |= sys::PERCPU_OWNED_EACH;
        self
    }

    pub(crate) fn raw(self) -> u32 {
        self.rule.raw() | self.flags
    }
}

impl From<Rule> for OwnedRule {
    fn from(rule: Rule) -> Self {
        Self::new(rule)
    }
}

/// Whose values a read takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Those of all owners that ever were.
    All,
    /// Those of the living owners.
    Living,
}

impl Owners {
    pub(crate) fn raw(self) -> sys::percpu_owned_of {
        match self {
            Self::All => sys::PERCPU_OWNED_ALL,
            Self::Living => sys::PERCPU_OWNED_LIVING,
        }
    }
}

/// The value of one owner.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OwnedValue<T> {
    /// Its process, in its own PID namespace; 0: another process has its slot by now.
    pub pid: u32,
    /// Whether it lives.
    pub alive: bool,
    /// Its name ([`Segment::join`]), or "".
    pub name: String,
    /// Its value.
    pub value: T,
}

impl<T> OwnedValue<T> {
    pub(crate) fn new(v: &sys::percpu_owned_value, value: T) -> Self {
        Self {
            pid: v.pid,
            alive: v.alive != 0,
            name: name_of(&v.name),
            value,
        }
    }
}

/// The string in an array of the library, which ends in a 0.
pub(crate) fn name_of(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|c| c.to_ne_bytes()[0]).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default()
}

const NO_VALUE: sys::percpu_owned_value = sys::percpu_owned_value {
    id: 0,
    when: 0,
    value: 0,
    fvalue: 0.0,
    pid: 0,
    alive: 0,
    name: [0; sys::PERCPU_OWNER_NAME_SIZE as usize],
};

/// Call a function that lists values, again with more room until all have room.
pub(crate) fn list(
    call: impl Fn(*mut sys::percpu_owned_value, usize, *mut usize) -> c_int,
) -> Result<Vec<sys::percpu_owned_value>, Error> {
    let mut out = Vec::new();
    loop {
        let mut n = 0;
        check(call(out.as_mut_ptr(), out.len(), &mut n))?;
        if n <= out.len() {
            out.truncate(n);
            return Ok(out);
        }
        out.resize(n, NO_VALUE);
    }
}

/// A gauge of integers in which each process has a value of its own, such as its requests in
/// flight. When a process is killed, its share leaves every read of the living at once.
///
/// **Context:** any thread. Signal handlers, once this process has updated the gauge. A child of
/// fork has no share until its own first update.
/// **Progress:** a process's first update takes locks, and waits a second at most. Later ones are
/// one atomic addition.
///
/// ```
/// use percpu::{Metric, Owners, Rule, Segment};
///
/// # let name = std::env::temp_dir().join(format!("percpu-doc-owned-{}", std::process::id()));
/// # let name = name.to_str().unwrap();
/// let segment = Segment::create(name)?;
/// let in_flight = segment.owned_gauge(&Metric::new("requests_in_flight"), Rule::Sum)?;
/// in_flight.add(1)?;
/// assert_eq!(in_flight.fetch(Owners::Living)?, 1);
/// # std::fs::remove_file(name).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Clone)]
pub struct OwnedGauge(pub(crate) Handle<sys::percpu_owned_gauge>);

impl OwnedGauge {
    /// Add n, which may be negative, to this process's value. Fails with [`Error::Invalid`] for
    /// [`Rule::Recent`], and at the process's first update as `percpu_owners_join()`.
    pub fn add(&self, n: i64) -> Result<(), Error> {
        // SAFETY: the handle keeps the gauge valid.
        check(unsafe { sys::percpu_owned_gauge_add_call(self.0.raw(), n) })
    }

    /// Add n until the result is dropped, such as 1 for a request in flight. Fails as
    /// [`OwnedGauge::add`].
    pub fn hold(&self, n: i64) -> Result<Held<'_>, Error> {
        let forks = forks();
        self.add(n)?;
        Ok(Held {
            gauge: self,
            n,
            forks,
        })
    }

    /// Set this process's value. Fails as [`OwnedGauge::add`].
    pub fn set(&self, v: i64) -> Result<(), Error> {
        // SAFETY: the handle keeps the gauge valid.
        check(unsafe { sys::percpu_owned_gauge_set(self.0.raw(), v) })
    }

    /// This process's own value. Fails with [`Error::Empty`] if it has none.
    pub fn own(&self) -> Result<i64, Error> {
        let mut v = 0;
        // SAFETY: the handle keeps the gauge valid; the call stores the result.
        check(unsafe { sys::percpu_owned_gauge_own(self.0.raw(), &mut v) })?;
        Ok(v)
    }

    /// Fold the values into one by the gauge's rule. Fails with [`Error::Empty`] if there is none,
    /// except for [`Rule::Sum`].
    pub fn fetch(&self, whose: Owners) -> Result<i64, Error> {
        let mut v = 0;
        // SAFETY: the handle keeps the gauge valid; the call stores the result.
        check(unsafe { sys::percpu_owned_gauge_fetch(self.0.raw(), whose.raw(), &mut v) })?;
        Ok(v)
    }

    /// List the values, one for each owner that has updated the gauge.
    pub fn each(&self, whose: Owners) -> Result<Vec<OwnedValue<i64>>, Error> {
        // SAFETY: the handle keeps the gauge valid; the call stores as many as there is room for.
        let values = list(|out, n, all| unsafe {
            sys::percpu_owned_gauge_each(self.0.raw(), whose.raw(), out, n, all)
        })?;
        Ok(values.iter().map(|v| OwnedValue::new(v, v.value)).collect())
    }
}
debug_as_name!(OwnedGauge);

/// What [`OwnedGauge::hold`] has added. It is subtracted when this is dropped, also when a panic
/// unwinds.
///
/// It may be moved to another thread, so it may live across an `await`. A child of fork, which has no
/// share of its parent's, subtracts nothing. A set meanwhile replaces what was added, and the drop
/// subtracts from what was set.
///
/// ```
/// # use percpu::{Metric, Owners, Rule, Segment};
/// # let name = std::env::temp_dir().join(format!("percpu-doc-held-{}", std::process::id()));
/// # let name = name.to_str().unwrap();
/// # let segment = Segment::create(name)?;
/// let in_flight = segment.owned_gauge(&Metric::new("requests_in_flight"), Rule::Sum)?;
/// {
///     let _request = in_flight.hold(1)?;
///     assert_eq!(in_flight.fetch(Owners::Living)?, 1);
/// }
/// assert_eq!(in_flight.fetch(Owners::Living)?, 0);
/// # std::fs::remove_file(name).unwrap();
/// # Ok::<(), percpu::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it subtracts when it is dropped"]
pub struct Held<'a> {
    gauge: &'a OwnedGauge,
    n: i64,
    /// Of the process that has added.
    forks: u32,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.forks == forks() {
            // It fails only at a process's first update, and this is a later one.
            let _ = self.gauge.add(self.n.wrapping_neg());
        }
    }
}

/// The same, of doubles.
#[derive(Clone)]
pub struct OwnedFGauge(pub(crate) Handle<sys::percpu_owned_fgauge>);

impl OwnedFGauge {
    /// Add n to this process's value. Fails as [`OwnedGauge::add`], and with [`Error::OutOfRange`]
    /// if n is not finite, or the value would reach 2^1000 in size.
    pub fn add(&self, n: f64) -> Result<(), Error> {
        // SAFETY: the handle keeps the gauge valid.
        check(unsafe { sys::percpu_owned_fgauge_add(self.0.raw(), n) })
    }

    /// Set this process's value. Fails as [`OwnedFGauge::add`].
    pub fn set(&self, v: f64) -> Result<(), Error> {
        // SAFETY: the handle keeps the gauge valid.
        check(unsafe { sys::percpu_owned_fgauge_set(self.0.raw(), v) })
    }

    /// This process's own value, as [`OwnedGauge::own`].
    pub fn own(&self) -> Result<f64, Error> {
        let mut v = 0.0;
        // SAFETY: the handle keeps the gauge valid; the call stores the result.
        check(unsafe { sys::percpu_owned_fgauge_own(self.0.raw(), &mut v) })?;
        Ok(v)
    }

    /// Fold the values into one by the gauge's rule, as [`OwnedGauge::fetch`].
    pub fn fetch(&self, whose: Owners) -> Result<f64, Error> {
        let mut v = 0.0;
        // SAFETY: the handle keeps the gauge valid; the call stores the result.
        check(unsafe { sys::percpu_owned_fgauge_fetch(self.0.raw(), whose.raw(), &mut v) })?;
        Ok(v)
    }

    /// List the values, one for each owner that has updated the gauge.
    pub fn each(&self, whose: Owners) -> Result<Vec<OwnedValue<f64>>, Error> {
        // SAFETY: the handle keeps the gauge valid; the call stores as many as there is room for.
        let values = list(|out, n, all| unsafe {
            sys::percpu_owned_fgauge_each(self.0.raw(), whose.raw(), out, n, all)
        })?;
        Ok(values
            .iter()
            .map(|v| OwnedValue::new(v, v.fvalue))
            .collect())
    }
}
debug_as_name!(OwnedFGauge);

impl Segment {
    /// Find or create an owned gauge of integers, with a [`Rule`] or an [`OwnedRule`]. A process that
    /// declares it with another rule gets [`Error::Exists`].
    pub fn owned_gauge(
        &self,
        metric: &Metric,
        rule: impl Into<OwnedRule>,
    ) -> Result<OwnedGauge, Error> {
        let rule = rule.into().raw();
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_owned_gauge(s, m, rule, ret)
        })
        .map(OwnedGauge)
    }

    /// Find or create an owned gauge of doubles.
    pub fn owned_fgauge(
        &self,
        metric: &Metric,
        rule: impl Into<OwnedRule>,
    ) -> Result<OwnedFGauge, Error> {
        let rule = rule.into().raw();
        // SAFETY: the arguments are those of declare().
        self.declare(metric, |s, m, ret| unsafe {
            sys::percpu_segment_owned_fgauge(s, m, rule, ret)
        })
        .map(OwnedFGauge)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{list, NO_VALUE};

    /// Owners come and go between two calls of a list.
    #[test]
    fn lists_have_those_of_the_last_call() {
        for (there, calls) in [
            ([0, 0, 0], 1),
            ([2, 2, 0], 2),
            ([2, 3, 3], 3),
            ([3, 1, 0], 2),
        ] {
            let call = Cell::new(0);
            let all = list(|out, room, n| {
                let now: usize = there[call.get()];
                call.set(call.get() + 1);
                for i in 0..now.min(room) {
                    // SAFETY: there is room for so many.
                    unsafe { *out.add(i) = NO_VALUE };
                    // SAFETY: as above.
                    unsafe { (*out.add(i)).pid = call.get() as u32 };
                }
                // SAFETY: the number is valid.
                unsafe { *n = now };
                0
            });
            let pids: Vec<_> = all.unwrap().iter().map(|v| v.pid).collect();
            assert_eq!(call.get(), calls);
            assert_eq!(pids, vec![calls as u32; there[calls - 1]]);
        }
        assert!(list(|_, _, _| -libc::EBADMSG).is_err());
    }
}
