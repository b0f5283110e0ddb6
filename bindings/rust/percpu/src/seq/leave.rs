// SPDX-License-Identifier: MIT
//! How a sequence leaves if it does not commit. There are two ways, of which `build.rs` chooses one.
//!
//! By a label, as in the C headers: a jump out of the assembly. Rust has that since 1.87, and
//! `build.rs` sets the cfg `percpu_labels`.
//!
//! By a number: a jump to label 6, behind the end, with a number that is not 0 in the register of the
//! result: the negative number of a CPU, 1 from the abort handler, or what a condition compared.

/// A sequence: the register of its result, then what `asm!` has. Its value is whether it has
/// committed. Of the result, labels need the register only.
#[cfg(percpu_labels)]
macro_rules! sequence {
    (out($result:tt), $($part:tt)*) => {{
        let mut committed = true;
        asm!($($part)*, left = label { committed = false; }, out($result) _);
        committed
    }};
}

#[cfg(not(percpu_labels))]
macro_rules! sequence {
    (out($result:tt), $($part:tt)*) => {{
        let left: u64;
        asm!($($part)*, out($result) left);
        left == 0
    }};
}

/// An instruction or a directive, whose last operand is the place where the sequence leaves.
#[cfg(percpu_labels)]
macro_rules! leave {
    ($instruction:literal) => {
        concat!($instruction, " {left}\n")
    };
}

#[cfg(not(percpu_labels))]
macro_rules! leave {
    ($instruction:literal) => {
        concat!($instruction, " 6f\n")
    };
}

/// What only a sequence that leaves by a number has.
#[cfg(percpu_labels)]
macro_rules! by_number {
    ($text:literal) => {
        ""
    };
}

#[cfg(not(percpu_labels))]
macro_rules! by_number {
    ($text:literal) => {
        $text
    };
}
