// SPDX-License-Identifier: MIT
//! The sequences for 64-bit Arm, as in `arch/aarch64.h`. The commit is the last instruction in
//! front of label 3: one store of one register.
//!
//! Local labels: 2 start, 3 end, 4 descriptor, 5 abort handler, 7 end of the handler, 8 behind a
//! jump that leaves; 6 where a sequence leaves by a number (`leave.rs`), for which `x9` becomes 0 if
//! it has committed.
//!
//! A sequence leaves by `b`, as in the C headers: conditional branches do not reach each label of a
//! large function.
//!
//! The operands are those of the C headers, and so is what the compiler is told (spec.h, "To the
//! compiler"): adds change cells only, which no Rust expression reads, so `nomem`.

// Labels with names: percpu_seq_stay is there once, and others have a number of their own.
#![allow(named_asm_labels)]
// No Rust expression reads or stores what the pointers lead to: see above.
#![allow(clippy::pointers_in_nomem_asm_block)]

use core::arch::aarch64::uint64x2_t;
use core::arch::asm;
use core::mem::transmute;

#[macro_use]
mod leave;

use super::area::area;
use super::{Bank, Cell};

/// What an object file has once, however many sequences it has: a constructor that keeps a shared
/// object from being unloaded (`src/cpu/stay.c`; in a program it does nothing), and a macro of the
/// assembler that defines a symbol with a number, for debuggers and profilers. With link-time
/// optimization, sequences of C are in the same object: numbers start where theirs do not get.
macro_rules! once {
    () => {
        ".ifndef percpu_seq_stay
        .pushsection .text.percpu_seq_stay, \"axG\", @progbits, percpu_seq_stay, comdat
        percpu_seq_stay: hint #34
        adrp x0, percpu_seq_stay
        add x0, x0, :lo12:percpu_seq_stay
        b percpu_object_stay
        .popsection
        .pushsection .init_array, \"awG\", @init_array, percpu_seq_stay, comdat
        .quad percpu_seq_stay
        .popsection
        .endif
        .ifndef percpu_seq_number
        .set percpu_seq_number, 1000000000
        .macro percpu_seq_symbol what, kind, bytes, number
        percpu_seq_\\what\\().\\number:
        .type percpu_seq_\\what\\().\\number, @\\kind
        .size percpu_seq_\\what\\().\\number, \\bytes
        .endm
        .endif
        .set percpu_seq_number, percpu_seq_number + 1\n"
    };
}

/// The descriptor, the abort handler with the signature in front of it, and the entries in the two
/// lists for debuggers.
macro_rules! record {
    ($name:literal) => {
        concat!(
            ".altmacro
            .pushsection __rseq_cs, \"aw?\"
            .balign 32
            percpu_seq_symbol ",
            $name,
            ".cs, object, 32, %percpu_seq_number
            4:
            .long 0, 0
            .quad 2f, 3f - 2f, 5f
            .popsection
            .pushsection __rseq_cs_ptr_array, \"aw?\"
            .quad 4b
            .popsection
            .pushsection __rseq_exit_point_array, \"aw?\"\n",
            leave!(".quad 2f,"),
            ".popsection
            .pushsection __rseq_failure, \"ax?\"
            .inst 0xd428bc00
            percpu_seq_symbol ",
            $name,
            ".abort, function, 7f-5f, %percpu_seq_number
            5:\n",
            by_number!("mov x9, #1\n"),
            leave!("b"),
            "7:
            .popsection
            .noaltmacro\n"
        )
    };
}

/// Load `percpu_self`: the assembly reads the thread pointer, because compilers may keep that of
/// another thread (`arch/self.h`).
#[cfg(not(feature = "late"))]
macro_rules! load_self {
    () => {
        "mrs x10, tpidr_el0
        ldr x10, [x10, {rs}]\n"
    };
}

#[cfg(feature = "late")]
macro_rules! load_self {
    () => {
        "mov x10, {rs}\n"
    };
}

/// Arm the sequence; then within it: x9 = the CPU number, leave if it is negative, x9 = the
/// distance of the CPU's lane, x10 = the address of the CPU's cell.
macro_rules! begin_cell {
    ($name:literal) => {
        concat!(
            note!("begin"),
            once!(),
            record!($name),
            "adrp x9, 4b
            add x9, x9, :lo12:4b\n",
            load_self!(),
            "str x9, [x10, #8]
            2:
            ldr w9, [x10, #4]
            tbz w9, #31, 8f\n",
            leave!("b"),
            "8:
            mul x9, x9, {stride}
            add x10, {cell}, x9\n"
        )
    };
}

/// The same, for the cell in the bank that counts now.
macro_rules! begin_banked {
    ($name:literal) => {
        concat!(
            begin_cell!($name),
            "ldr x9, [{bank}]
            and x9, x9, {mask}
            add x10, x10, x9\n"
        )
    };
}

/// Behind the commit.
macro_rules! end {
    ($name:literal, $operands:literal) => {
        concat!(
            "\n3:\n",
            note!("end", $name, $operands),
            by_number!("mov x9, xzr\n6:\n")
        )
    };
}

/// Notes for `tests/objects/rust.py`, which compiles this file with them: where a statement begins
/// and ends, and what stands for each operand.
#[cfg(percpu_notes)]
macro_rules! note {
    ("begin") => {
        "9:\n"
    };
    ("end", $name:literal, $operands:literal) => {
        concat!(
            ".pushsection .percpu_statements, \"?\"\n.asciz \"",
            $name,
            "~",
            $operands,
            "\"\n",
            leave!(".quad 9b, 3b,"),
            ".popsection\n"
        )
    };
}

#[cfg(not(percpu_notes))]
macro_rules! note {
    ("begin") => {
        ""
    };
    ("end", $name:literal, $operands:literal) => {
        ""
    };
}

/// One word.
///
/// # Safety
/// The cell is a counter's.
#[inline(always)]
pub(crate) unsafe fn add(c: Cell, n: i64) -> bool {
    // SAFETY: changes only the cell of the CPU, by one store, and rseq_cs of this thread.
    unsafe {
        sequence!(
            out("x9"),
            begin_cell!("add"),
            "ldr x9, [x10]
            add x9, x9, {n}
            str x9, [x10]",
            end!("add", "{rs}~{cell}~{stride}~{n}"),
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            n = in(reg) n,
            out("x10") _,
            options(nomem, nostack)
        )
    }
}

/// One word, a double. A sum of 2^1000 or more, of either sign, or one that is not a number is
/// refused.
///
/// # Safety
/// The cell is that of a counter of doubles.
#[inline(always)]
pub(crate) unsafe fn add_double(c: Cell, n: f64) -> bool {
    // SAFETY: as in add().
    unsafe {
        sequence!(
            out("x9"),
            begin_cell!("add_double"),
            "ldr d0, [x10]
            fadd d0, d0, {n:d}
            fmov x9, d0
            ubfx x9, x9, #52, #11
            cmp x9, #{limit}
            b.lo 8f",
            leave!("b"),
            "8:
            str d0, [x10]",
            end!("add_double", "{rs}~{cell}~{stride}~{n:d}~{limit}"),
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            n = in(vreg) n,
            limit = const 1023 + 1000,
            out("x10") _,
            out("v0") _,
            options(nomem, nostack)
        )
    }
}

/// A count and a sum of doubles, aligned to 16 bytes, in one store.
///
/// # Safety
/// The cell is that of a histogram of doubles.
#[inline(always)]
pub(crate) unsafe fn add_count_double(c: Cell, n: f64) -> bool {
    // SAFETY: as in add().
    unsafe {
        sequence!(
            out("x9"),
            begin_cell!("add_count_double"),
            "ldr x9, [x10]
            ldr d1, [x10, #8]
            add x9, x9, #1
            fadd d1, d1, {n:d}
            fmov d0, x9
            mov v0.d[1], v1.d[0]
            str q0, [x10]",
            end!("add_count_double", "{rs}~{cell}~{stride}~{n:d}"),
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            n = in(vreg) n,
            out("x10") _,
            out("v0") _,
            out("v1") _,
            options(nomem, nostack)
        )
    }
}

/// One word in the bank that counts.
///
/// # Safety
/// The cell is one of statistics with that bank.
#[inline(always)]
pub(crate) unsafe fn bank_add(c: Cell, bank: Bank, n: i64) -> bool {
    // SAFETY: as in add(); loads the bank.
    unsafe {
        sequence!(
            out("x9"),
            begin_banked!("bank_add"),
            "ldr x9, [x10]
            add x9, x9, {n}
            str x9, [x10]",
            end!("bank_add", "{rs}~{cell}~{stride}~{bank}~{mask}~{n}"),
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            bank = in(reg) bank.word,
            mask = in(reg) bank.mask,
            n = in(reg) n,
            out("x10") _,
            options(nomem, nostack)
        )
    }
}

/// Two adjacent words in the bank that counts, aligned to 16 bytes, in one store.
///
/// # Safety
/// The cell is one of statistics or of a histogram, with that bank.
#[inline(always)]
pub(crate) unsafe fn bank_add2(c: Cell, bank: Bank, n: [u64; 2]) -> bool {
    // SAFETY: as in bank_add(). All bits make a vector.
    unsafe {
        sequence!(
            out("x9"),
            begin_banked!("bank_add2"),
            "ldr q0, [x10]
            add v0.2d, v0.2d, {n:v}.2d
            str q0, [x10]",
            end!("bank_add2", "{rs}~{cell}~{stride}~{bank}~{mask}~{n:v}"),
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            bank = in(reg) bank.word,
            mask = in(reg) bank.mask,
            n = in(vreg) transmute::<[u64; 2], uint64x2_t>(n),
            out("x10") _,
            out("v0") _,
            options(nomem, nostack)
        )
    }
}

/// No instruction stores so much, so no statistics allow it here.
///
/// # Safety
/// As [`bank_add2`].
#[inline(always)]
pub(crate) unsafe fn bank_add4(_: Cell, _: Bank, _: [u64; 4]) -> bool {
    false
}

/// No instruction stores so much, so no statistics allow it here.
///
/// # Safety
/// As [`bank_add2`].
#[inline(always)]
pub(crate) unsafe fn bank_add8(_: Cell, _: Bank, _: [u64; 8]) -> bool {
    false
}
