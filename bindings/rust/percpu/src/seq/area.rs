// SPDX-License-Identifier: MIT
//! Where the kernel keeps the calling thread's CPU number (`arch/self.h`).

use core::ffi::c_void;

/// Returns `percpu_self`: the area of the calling thread.
///
/// With the library `percpu-late` a key leads to it. `pthread_getspecific()` may be called in
/// signal handlers.
#[cfg(feature = "late")]
#[inline(always)]
pub(crate) fn area() -> *mut c_void {
    // SAFETY: the library sets the key in a constructor, and never changes it afterwards.
    let key = unsafe { percpu_sys::percpu_key };
    let mut at = core::ptr::null_mut::<*mut percpu_sys::percpu_rseq>();
    if key != percpu_sys::PERCPU_NO_KEY {
        // SAFETY: the key exists. A value of it is the address of percpu_self of this thread.
        at = unsafe { libc::pthread_getspecific(key) }.cast();
    }
    if at.is_null() {
        // SAFETY: it may be called in any thread.
        at = unsafe { percpu_sys::percpu_self_at() };
    }
    // SAFETY: percpu_self of this thread, to which only this thread stores.
    unsafe { *at }.cast()
}

/// Returns `percpu_self`: the area of the calling thread. The compiler may keep it up to the next
/// call of a function, as it may keep a thread-local variable.
#[cfg(all(not(feature = "late"), target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn area() -> *mut c_void {
    let distance: usize;
    let area;
    // SAFETY: loads the distance of a thread-local variable of the initial-exec model, which is the
    // same in all threads, and then the variable, to which only this thread stores.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr [rip + percpu_self@GOTTPOFF]",
            out(reg) distance,
            options(pure, nomem, nostack, preserves_flags)
        );
        core::arch::asm!(
            "mov {}, qword ptr fs:[{}]",
            out(reg) area,
            in(reg) distance,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    area
}

/// Returns the distance from the thread pointer to `percpu_self`, which is the same in all threads:
/// the sequences load `percpu_self` themselves.
#[cfg(all(not(feature = "late"), target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn area() -> *mut c_void {
    let distance;
    // SAFETY: loads a constant of the linker.
    unsafe {
        core::arch::asm!(
            "adrp {0}, :gottprel:percpu_self",
            "ldr {0}, [{0}, #:gottprel_lo12:percpu_self]",
            out(reg) distance,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    distance
}
