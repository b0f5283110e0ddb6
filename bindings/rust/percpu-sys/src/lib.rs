// SPDX-License-Identifier: MIT
//! The C functions of libpercpu, as bindgen sees its public headers. `percpu` is the crate for
//! programs: its handles and its sequences stand on this one.
//!
//! The manual of each function is its header, `include/percpu/NAME.h`. What is inline in C has a
//! function with `_call` behind its name.
//!
//! By default the crate links the installed library (`pkg-config percpu`). The feature `vendored`
//! compiles the library into the crate. The feature `late` is for what `dlopen()` loads: it takes
//! the library `percpu-late`, which has no thread-local storage.
//!
//! A Rust dynamic library (`crate-type = ["dylib"]`) whose users use these crates, too, needs the
//! installed library: one that is compiled in shows them none of its functions.

#![no_std]

#[allow(non_camel_case_types, non_upper_case_globals, missing_docs)]
#[allow(clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]
#[allow(unsafe_op_in_unsafe_fn)] // in the functions that bindgen adds to some types
#[rustfmt::skip] // it is as bindgen writes it
mod bindings;

pub use bindings::*;

/// The distance between the lanes of a region of the default lane size, in bytes
/// (`include/percpu/base.h`).
pub const PERCPU_STRIDE: usize = PERCPU_LANE_SIZE as usize
    + if cfg!(target_arch = "x86_64") {
        4096
    } else {
        65536
    }
    + 64;

/// How a thread finds its area in the library `percpu-late` (`include/percpu/arch/self.h`).
#[cfg(feature = "late")]
mod late {
    use super::percpu_rseq;

    /// The value of [`percpu_key`] if there is no key.
    pub const PERCPU_NO_KEY: libc::pthread_key_t = libc::pthread_key_t::MAX;

    extern "C" {
        /// The key whose value points to a thread's `percpu_self`.
        pub static percpu_key: libc::pthread_key_t;
        /// Returns the address of `percpu_self` in a thread for which the key has no value.
        pub fn percpu_self_at() -> *mut *mut percpu_rseq;
    }
}

#[cfg(feature = "late")]
pub use late::*;
