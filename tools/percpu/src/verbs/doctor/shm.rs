// SPDX-License-Identifier: MIT
//! Whether segments can be created in /dev/shm, where they are unless their name is a path.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use percpu::{Metric, SegmentOptions};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{meaning, Report};

pub fn look(report: &mut Report) {
    let unnamed = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(OFlags::TMPFILE.bits() as i32)
        .open("/dev/shm");
    let file = match unnamed {
        Ok(file) => file,
        Err(e) => {
            let errno = e.raw_os_error().unwrap_or(0);
            report.line(
                "/dev/shm",
                format!("no file can be created: {}", meaning(errno)),
            );
            return advise(report, errno);
        }
    };
    let space = rustix::fs::fstatvfs(&file); // before the segment takes space
    match (try_segment(&file), space) {
        (Ok(()), Ok(s)) => {
            let free = s.f_bavail * s.f_frsize / 1024;
            report.line("/dev/shm", format!("writable, {free} KiB free"));
        }
        (Ok(()), Err(e)) => report.line(
            "/dev/shm",
            format!(
                "writable, how much is free is not told: {}",
                meaning(e.raw_os_error())
            ),
        ),
        (Err(e), _) => {
            let full = matches!(e, percpu::Error::Full(_));
            let why = if full { "full: " } else { "" };
            let text = format!(
                "{why}no segment with a counter can be created: {}",
                cause(&e)
            );
            report.line("/dev/shm", text);
            advise(report, e.errno());
        }
    }
}

/// Why, without the name of the file, which is nobody's. EPERM is of a filter, not of the file.
fn cause(e: &percpu::Error) -> String {
    let sentence = e.to_string();
    match sentence.split_once(": ") {
        Some((_, cause)) if e.errno() != Errno::PERM.raw_os_error() => cause.to_string(),
        _ => meaning(e.errno()),
    }
}

/// Make a segment with a counter in this file.
fn try_segment(file: &File) -> Result<(), percpu::Error> {
    let segment = SegmentOptions::new().create().open_fd(file.as_fd())?;
    segment.counter(&Metric::new("doctor_total"))?;
    Ok(())
}

/// What to change if a segment cannot be created.
fn advise(report: &mut Report, errno: i32) {
    report.advise(match Errno::from_raw_os_error(errno) {
        Errno::NOSPC | Errno::DQUOT => {
            "make room in /dev/shm, or give it a larger size= or nr_inodes= when it is mounted"
        }
        Errno::FBIG => "raise the limit of the size of files (ulimit -f, RLIMIT_FSIZE)",
        Errno::MFILE => "raise the limit of descriptors of a process (ulimit -n, RLIMIT_NOFILE)",
        Errno::NFILE => "raise the limit of open files of the machine (sysctl fs.file-max)",
        Errno::NOMEM => {
            "give this process memory and address space (ulimit -v, limits of its cgroup)"
        }
        // Not a permission: the file is this user's.
        Errno::PERM | Errno::NOSYS => {
            "let gettid(2) and the other calls of docs/cpu/process.md through the seccomp filter: \
             segments need them"
        }
        _ => {
            "make /dev/shm a tmpfs that this user may write to, or name segments by a path \
             elsewhere"
        }
    });
}
