// SPDX-License-Identifier: MIT
//! A plugin that counts: what `dlopen()` loads into a program that knows nothing of this library.
//! Build it with the feature `late` (docs/rust.md).

percpu::static_counter! { static REQUESTS }

/// Count n requests in a new thread, and return how many were counted so far.
#[no_mangle]
pub extern "C" fn plugin_count(n: u64) -> u64 {
    let thread = std::thread::spawn(move || (0..n).for_each(|_| REQUESTS.inc()));
    if thread.join().is_err() {
        return 0;
    }
    REQUESTS.fetch()
}

/// The tier of the calling thread: 0 shared, 1 cpu, 2 rseq.
#[no_mangle]
pub extern "C" fn plugin_tier() -> u32 {
    percpu::selftest();
    REQUESTS.inc();
    percpu::thread_tier() as u32
}
