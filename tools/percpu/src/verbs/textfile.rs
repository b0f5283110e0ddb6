// SPDX-License-Identifier: MIT
//! `percpu textfile`: a file for the textfile collector of node_exporter.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{flock, openat, renameat, unlinkat, AtFlags, FlockOperation, Mode, OFlags, CWD};
use rustix::io::Errno;

use crate::args::Textfile;
use crate::expose::names::Escaping;
use crate::expose::text::Text;
use crate::expose::Collector;
use crate::failure::{Exit, Failure};
use crate::serve::say;
use crate::told::Told;

/// What node_exporter reads: names that end in `.prom`.
const NAME: &str = "percpu.prom";
/// What is being written.
const UNFINISHED: &str = ".percpu.prom.new";

pub fn run(args: &Textfile) -> Result<Exit, Failure> {
    let mut collector = Collector::new(&args.exposed)?;
    let folder = Folder(&args.folder);
    // Held as long as this process runs: the kernel frees the lock of a killed one.
    let first = folder.lock()?;
    let Some(interval) = args.interval else {
        folder.write(&first, &mut collector)?;
        return Ok(Exit::Done);
    };
    let mut lock = Some(first);
    let mut told = Told::default();
    let (begin, mut next) = (Instant::now(), Duration::ZERO);
    loop {
        // The path may lead to another folder than before, in which another process writes.
        let held = match lock.take().filter(|held| folder.is(held)) {
            Some(held) => Ok(held),
            None => folder.lock(),
        };
        match held.and_then(|held| folder.write(&held, &mut collector).map(|()| held)) {
            Ok(held) => {
                lock = Some(held);
                told.well(&format!("{} can be written again", folder.path().display()));
            }
            Err(f) => told.trouble(&f.sentence, &f.sentence),
        }
        // By the clock, whatever writing takes; what comes late moves all that follow.
        next = (next + interval).max(begin.elapsed());
        std::thread::sleep(next.saturating_sub(begin.elapsed()));
    }
}

/// Where the file is.
struct Folder<'a>(&'a Path);

impl Folder<'_> {
    fn path(&self) -> PathBuf {
        self.0.join(NAME)
    }

    fn failure(&self, e: &io::Error) -> Failure {
        let path = self.path();
        Failure::new(
            Exit::System,
            format!("{} cannot be written: {e}", path.display()),
        )
    }

    /// Let no other process write the file meanwhile.
    fn lock(&self) -> Result<File, Failure> {
        let folder = self.0.display();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = openat(CWD, self.0, flags, Mode::empty())
            .map(File::from)
            .map_err(|e| {
                let e = io::Error::from(e);
                Failure::new(Exit::System, format!("{folder} cannot be opened: {e}"))
            })?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Failure::new(
                Exit::InUse,
                format!(
                    "another process writes {}: end it, or give this one another folder",
                    self.path().display()
                ),
            )),
            // A file system without locks.
            Ok(()) | Err(_) => Ok(file),
        }
    }

    /// Whether the path leads to the folder that is held.
    fn is(&self, held: &File) -> bool {
        let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let there = fs::metadata(self.0).and_then(|there| Ok(same(there, held.metadata()?)));
        there.unwrap_or(false)
    }

    /// Write the file anew, in the folder that is held: others see the old one, or all of the new
    /// one.
    fn write(&self, held: &File, collector: &mut Collector) -> Result<(), Failure> {
        let written = create(held).and_then(|mut file| {
            print(collector, &mut file)?;
            Ok(renameat(held, UNFINISHED, held, NAME)?)
        });
        written.map_err(|e| {
            // What is left of it is replaced next time.
            let _ = unlinkat(held, UNFINISHED, AtFlags::empty());
            self.failure(&e)
        })
    }
}

/// Make a file that is new: one that is there was left by a process that was killed.
fn create(folder: &File) -> io::Result<File> {
    match unlinkat(folder, UNFINISHED, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(e.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    // node_exporter runs as another user.
    let mode = Mode::from_raw_mode(0o644);
    Ok(openat(folder, UNFINISHED, flags, mode)?.into())
}

/// Print all metrics, and say what is new of the files they are read from.
fn print(collector: &mut Collector, file: &mut File) -> io::Result<()> {
    let mut written = Ok(());
    let news = collector.print(&mut Text::new(Escaping::Underscores), &mut |more| {
        if written.is_ok() {
            written = file.write_all(more);
        }
        more.clear();
    });
    news.iter().for_each(|sentence| say(sentence));
    written
}
