// SPDX-License-Identifier: MIT
//! Machines for which this crate has no sequences: nothing commits here.

use super::{Bank, Cell};

/// # Safety
/// None is needed: the function does nothing. It is unsafe like those of the other machines.
#[inline(always)]
pub(crate) unsafe fn add(_: Cell, _: i64) -> bool {
    false
}

/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn add_double(_: Cell, _: f64) -> bool {
    false
}

/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn add_count_double(_: Cell, _: f64) -> bool {
    false
}

/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn bank_add(_: Cell, _: Bank, _: i64) -> bool {
    false
}

/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn bank_add2(_: Cell, _: Bank, _: [u64; 2]) -> bool {
    false
}

/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn bank_add4(_: Cell, _: Bank, _: [u64; 4]) -> bool {
    false
}

/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn bank_add8(_: Cell, _: Bank, _: [u64; 8]) -> bool {
    false
}
