// SPDX-License-Identifier: MIT
//! The sequences for x86-64, as in `arch/x86_64.h`. The commit is the last instruction in front of
//! label 3. A read-modify-write of memory is one instruction, so for this CPU it commits as a
//! whole.
//!
//! Local labels: 2 start, 3 end, 4 descriptor, 5 abort handler, 7 end of the handler; 6 where a
//! sequence leaves by a number (`leave.rs`), for which `rax` becomes 0 if it has committed.
//!
//! The operands are those of the C headers, and so is what the compiler is told (spec.h, "To the
//! compiler"): adds change cells only, which no Rust expression reads, so `nomem`.

// Labels with names: percpu_seq_stay is there once, and others have a number of their own.
#![allow(named_asm_labels)]
// No Rust expression reads or stores what the pointers lead to: see above.
#![allow(clippy::pointers_in_nomem_asm_block)]

use core::arch::asm;
use core::arch::x86_64::__m128i;
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
        percpu_seq_stay: endbr64
        lea rdi, [rip + percpu_seq_stay]
        jmp percpu_object_stay@PLT
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
/// lists for debuggers. `ud1` makes a disassembler take the signature for an operand.
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
            .byte 0x0f, 0xb9, 0x3d
            .long 0x53053053
            percpu_seq_symbol ",
            $name,
            ".abort, function, 7f-5f, %percpu_seq_number
            5:\n",
            by_number!("mov eax, 1\n"),
            leave!("jmp"),
            "7:
            .popsection
            .noaltmacro\n"
        )
    };
}

/// Arm the sequence; then within it: rax = the CPU number, leave if it is negative, rax = the
/// distance of the CPU's lane. The instructions `$before` run before the kernel knows of it.
macro_rules! begin {
    ($name:literal, $before:literal) => {
        concat!(
            note!("begin"),
            once!(),
            record!($name),
            $before,
            "
            lea rax, [rip + 4b]
            mov qword ptr [{rs} + 8], rax
            2:
            mov eax, dword ptr [{rs} + 4]
            test eax, eax\n",
            leave!("js"),
            "imul rax, {stride}\n"
        )
    };
}

/// The same, and rax = the address of the CPU's cell. It is one register, not base and index,
/// because otherwise some CPUs (Golden Cove) delay the forwarding of a store to the next load.
macro_rules! begin_cell {
    ($name:literal, $before:literal) => {
        concat!(begin!($name, $before), "add rax, {cell}\n")
    };
}

/// The same, for the cell in the bank that counts now.
macro_rules! begin_banked {
    ($name:literal, $before:literal) => {
        concat!(
            begin!($name, $before),
            "mov {b}, qword ptr [{bank}]
            and {b}, {mask}
            add rax, {cell}
            add rax, {b}\n"
        )
    };
}

/// Behind the commit.
macro_rules! end {
    ($name:literal, $operands:literal) => {
        concat!(
            "\n3:\n",
            note!("end", $name, $operands),
            by_number!("xor eax, eax\n6:\n")
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

/// One word. The amount is in a register, so the sum is made in one, too: `add` of a register to
/// memory takes longer on some CPUs.
///
/// # Safety
/// The cell is a counter's.
#[inline(always)]
pub(crate) unsafe fn add(c: Cell, n: i64) -> bool {
    // SAFETY: changes only the cell of the CPU, by one store, and rseq_cs of this thread.
    unsafe {
        sequence!(
            out("rax"),
            begin_cell!("add", ""),
            "mov {t}, qword ptr [rax]
            add {t}, {n}
            mov qword ptr [rax], {t}",
            end!("add", "{t}~{rs}~{cell}~{stride}~{n}"),
            t = out(reg) _,
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            n = in(reg) n,
            options(nomem, nostack)
        )
    }
}

/// One word, a double. A sum of 2^1000 or more, of either sign, or one that is not a number is
/// refused. Shifting the sign out leaves the exponent in the highest bits.
///
/// # Safety
/// The cell is that of a counter of doubles.
#[inline(always)]
pub(crate) unsafe fn add_double(c: Cell, n: f64) -> bool {
    // SAFETY: as in add().
    unsafe {
        sequence!(
            out("rax"),
            begin_cell!("add_double", "movaps xmm0, {n}"),
            "addsd xmm0, qword ptr [rax]
            movq {t}, xmm0
            add {t}, {t}
            cmp {t}, {limit}",
            leave!("jae"),
            "movsd qword ptr [rax], xmm0",
            end!("add_double", "{t}~{rs}~{cell}~{stride}~{n}~{limit}"),
            t = out(reg) _,
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            n = in(xmm_reg) n,
            limit = in(reg) (1023u64 + 1000) << 53,
            out("xmm0") _,
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
            out("rax"),
            begin_cell!("add_count_double", "movaps xmm1, {n}"),
            "mov {t}, qword ptr [rax]
            addsd xmm1, qword ptr [rax + 8]
            inc {t}
            movq xmm0, {t}
            movlhps xmm0, xmm1
            movaps xmmword ptr [rax], xmm0",
            end!("add_count_double", "{t}~{rs}~{cell}~{stride}~{n}"),
            t = out(reg) _,
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            n = in(xmm_reg) n,
            out("xmm0") _,
            out("xmm1") _,
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
            out("rax"),
            begin_banked!("bank_add", ""),
            "add qword ptr [rax], {n}",
            end!("bank_add", "{b}~{rs}~{cell}~{stride}~{bank}~{mask}~{n}"),
            b = out(reg) _,
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            bank = in(reg) bank.word,
            mask = in(reg) bank.mask,
            n = in(reg) n,
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
            out("rax"),
            begin_banked!("bank_add2", "movdqa xmm0, {n}"),
            "paddq xmm0, xmmword ptr [rax]
            movdqa xmmword ptr [rax], xmm0",
            end!("bank_add2", "{b}~{rs}~{cell}~{stride}~{bank}~{mask}~{n}"),
            b = out(reg) _,
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            bank = in(reg) bank.word,
            mask = in(reg) bank.mask,
            n = in(xmm_reg) transmute::<[u64; 2], __m128i>(n),
            out("xmm0") _,
            options(nomem, nostack)
        )
    }
}

/// Clear the upper halves of the vector registers in a program that is compiled for the older
/// encodings, which are slow while these are in use.
#[inline(always)]
fn vzeroupper() {
    // SAFETY: all registers that it may change are named.
    #[cfg(not(target_feature = "avx"))]
    unsafe {
        asm!(
            "vzeroupper",
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Four words, aligned to 32 bytes, in one store of AVX2.
///
/// # Safety
/// As [`bank_add2`]; and the CPU has AVX2.
#[inline(always)]
pub(crate) unsafe fn bank_add4(c: Cell, bank: Bank, n: [u64; 4]) -> bool {
    // SAFETY: as in bank_add2().
    let committed = unsafe {
        sequence!(
            out("rax"),
            begin_banked!(
                "bank_add4",
                "vmovdqa xmm0, {n0}
                vinserti128 ymm0, ymm0, {n2}, 1"
            ),
            "vpaddq ymm0, ymm0, ymmword ptr [rax]
            vmovdqa ymmword ptr [rax], ymm0",
            end!("bank_add4", "{b}~{rs}~{cell}~{stride}~{bank}~{mask}~{n0}~{n2}"),
            b = out(reg) _,
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            bank = in(reg) bank.word,
            mask = in(reg) bank.mask,
            n0 = in(xmm_reg) transmute::<[u64; 2], __m128i>([n[0], n[1]]),
            n2 = in(xmm_reg) transmute::<[u64; 2], __m128i>([n[2], n[3]]),
            out("xmm0") _,
            options(nomem, nostack)
        )
    };
    vzeroupper();
    committed
}

/// Eight words, aligned to 64 bytes, in one store of AVX-512.
///
/// # Safety
/// As [`bank_add2`]; and the CPU has AVX-512.
#[inline(always)]
pub(crate) unsafe fn bank_add8(c: Cell, bank: Bank, n: [u64; 8]) -> bool {
    // SAFETY: as in bank_add2().
    let committed = unsafe {
        sequence!(
            out("rax"),
            begin_banked!(
                "bank_add8",
                "vmovdqa xmm0, {n0}
                vinserti128 ymm0, ymm0, {n2}, 1
                vmovdqa xmm1, {n4}
                vinserti128 ymm1, ymm1, {n6}, 1
                vinserti64x4 zmm0, zmm0, ymm1, 1"
            ),
            "vpaddq zmm0, zmm0, zmmword ptr [rax]
            vmovdqa64 zmmword ptr [rax], zmm0",
            end!("bank_add8", "{b}~{rs}~{cell}~{stride}~{bank}~{mask}~{n0}~{n2}~{n4}~{n6}"),
            b = out(reg) _,
            rs = in(reg) area(),
            cell = in(reg) c.base,
            stride = in(reg) c.stride,
            bank = in(reg) bank.word,
            mask = in(reg) bank.mask,
            n0 = in(xmm_reg) transmute::<[u64; 2], __m128i>([n[0], n[1]]),
            n2 = in(xmm_reg) transmute::<[u64; 2], __m128i>([n[2], n[3]]),
            n4 = in(xmm_reg) transmute::<[u64; 2], __m128i>([n[4], n[5]]),
            n6 = in(xmm_reg) transmute::<[u64; 2], __m128i>([n[6], n[7]]),
            out("xmm0") _,
            out("xmm1") _,
            options(nomem, nostack)
        )
    };
    vzeroupper();
    committed
}
