// SPDX-License-Identifier: MIT
//! The sequences of the Rust crate, each alone and two in one function: rust.py looks at them.

#![no_std]

#[path = "../../bindings/rust/percpu/src/seq/mod.rs"]
mod seq;

use seq::{Bank, Cell};

#[no_mangle]
pub unsafe extern "C" fn rust_add(base: *mut u8, stride: usize, n: i64) -> bool {
    seq::add(Cell { base, stride }, n)
}

#[no_mangle]
pub unsafe extern "C" fn rust_add_one(base: *mut u8) -> bool {
    seq::add(
        Cell {
            base,
            stride: 69696,
        },
        1,
    )
}

#[no_mangle]
pub unsafe extern "C" fn rust_add_double(base: *mut u8, stride: usize, n: f64) -> bool {
    seq::add_double(Cell { base, stride }, n)
}

#[no_mangle]
pub unsafe extern "C" fn rust_add_count_double(base: *mut u8, stride: usize, n: f64) -> bool {
    seq::add_count_double(Cell { base, stride }, n)
}

#[no_mangle]
pub unsafe extern "C" fn rust_bank_add(
    base: *mut u8,
    stride: usize,
    word: *const u64,
    mask: u64,
    n: i64,
) -> bool {
    seq::bank_add(Cell { base, stride }, Bank { word, mask }, n)
}

#[no_mangle]
pub unsafe extern "C" fn rust_bank_add2(
    base: *mut u8,
    stride: usize,
    word: *const u64,
    mask: u64,
    n: &[u64; 2],
) -> bool {
    seq::bank_add2(Cell { base, stride }, Bank { word, mask }, *n)
}

#[no_mangle]
pub unsafe extern "C" fn rust_bank_add4(
    base: *mut u8,
    stride: usize,
    word: *const u64,
    mask: u64,
    n: &[u64; 4],
) -> bool {
    seq::bank_add4(Cell { base, stride }, Bank { word, mask }, *n)
}

#[no_mangle]
pub unsafe extern "C" fn rust_bank_add8(
    base: *mut u8,
    stride: usize,
    word: *const u64,
    mask: u64,
    n: &[u64; 8],
) -> bool {
    seq::bank_add8(Cell { base, stride }, Bank { word, mask }, *n)
}

#[no_mangle]
pub unsafe extern "C" fn rust_two(a: *mut u8, b: *mut u8, n: f64, bank: &u64) -> bool {
    let (a, b) = (
        Cell {
            base: a,
            stride: 4160,
        },
        Cell {
            base: b,
            stride: 69696,
        },
    );
    seq::add_count_double(a, n)
        && seq::bank_add2(
            b,
            Bank {
                word: bank,
                mask: 0,
            },
            [1, n as u64],
        )
        && seq::add_double(b, n * 2.0)
        && seq::add(a, -7)
}
