// SPDX-License-Identifier: MIT
//! In which state the file of a segment is.

use percpu::{Facts, LockState, Reader};

use super::Report;
use crate::failure::{Exit, Failure};
use crate::model::find;
use crate::numbers::with_unit;

pub fn look(name: &str) -> Result<Exit, Failure> {
    let found = find::one(name)?;
    let mut reader = Reader::open(&found.path.to_string_lossy())?;
    let facts = reader.facts()?;
    let mut report = Report::default();
    report.line("file", found.path.display().to_string().escape_debug());
    tell_size(&mut report, &facts);
    tell_processes(&mut report, &facts);
    tell_picture(&mut report, &mut reader);
    report.print()
}

fn bytes(n: u64) -> String {
    with_unit(n as f64, "bytes")
}

fn tell_size(report: &mut Report, f: &Facts) {
    let room = f.cells_used.saturating_add(f.cells_free);
    let a_chunk = room.checked_div(f.chunks.into()).unwrap_or(0);
    let (major, minor) = f.format;
    report.line(
        "version",
        format!("{major}.{minor} of the file, {} of the segment", f.version),
    );
    report.line(
        "size",
        format!(
            "{}, of which {} are in memory or on the disk",
            bytes(f.file_bytes),
            bytes(f.disk_bytes)
        ),
    );
    report.line(
        "room for values",
        format!(
            "{} of {} used; grows to at most {}",
            bytes(f.cells_used),
            bytes(room),
            bytes(a_chunk.saturating_mul(f.chunks_most.into()))
        ),
    );
    report.line(
        "room for names",
        format!(
            "{} of {} used",
            bytes(f.records_bytes),
            bytes(f.records_most)
        ),
    );
    report.line(
        "records",
        format!(
            "{} in use, {} of them without a metric yet; {} removed",
            f.records_in_use, f.records_pending, f.records_removed
        ),
    );
    if f.chunks >= f.chunks_most && f.cells_free < 4096 {
        report.advise("declare fewer series, or give families a lower cap: the segment is full");
    }
    if f.records_bytes > f.records_most / 10 * 9 {
        report.advise("declare fewer series: names have taken 9 tenths of their room");
    }
}

fn tell_processes(report: &mut Report, f: &Facts) {
    report.line(
        "counting",
        match f.counting {
            Some(true) => "a process has it open to count",
            Some(false) => "no process has it open to count",
            None => "it cannot be known whether a process has it open to count",
        },
    );
    report.line(
        "owners",
        format!("{} alive, {} dead", f.owners_alive, f.owners_dead),
    );
    report.line(
        "lock",
        match f.lock {
            LockState::Free => "free".to_string(),
            LockState::Held(thread) => format!("held by thread {thread}"),
            LockState::Died(None) => "its holder has died: the next process takes it over".into(),
            LockState::Died(Some(thread)) => {
                format!("its holder, thread {thread}, has died: the next process takes it over")
            }
            _ => "of a later version".to_string(),
        },
    );
    report.line(
        "reset",
        if f.reset_unfinished {
            "not finished"
        } else {
            "none going on"
        },
    );
    if f.reset_unfinished && f.counting == Some(false) {
        report.advise("open the segment to count: that completes the reset");
    }
}

fn tell_picture(report: &mut Report, reader: &mut Reader) {
    match reader.read() {
        Ok(p) => {
            report.line("program", p.program().escape_debug());
            report.line("generation", p.generation());
            report.line(
                "series",
                format!("{}, {} without a value", p.series().count(), p.missing()),
            );
            if let Some(why) = p.why_missing() {
                report.line("missing", why);
            }
        }
        Err(e) => {
            report.line("series", format!("cannot be read: {e}"));
            report.advise("look at the file: its values cannot be read");
        }
    }
}
