// SPDX-License-Identifier: MIT
//! Whether this process is the one that it was: a child of fork is another one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;

static FORKS: AtomicU32 = AtomicU32::new(1);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many forks since the first call lead to this process, and 1. It tells processes apart better
/// than their ids do: a child in another PID namespace may have the id of its parent.
#[doc(hidden)]
pub fn forks() -> u32 {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        // SAFETY: the handler stays, and only adds to a number. Without memory for it, a child is
        // taken for its parent.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
    FORKS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_fork_has_another_number() {
        let before = forks();
        let mut status = 0;
        // SAFETY: the child only loads a number and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit((forks() - before) as i32);
            }
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
        }
        assert_eq!(libc::WEXITSTATUS(status), 1);
        assert_eq!(forks(), before);
    }
}
