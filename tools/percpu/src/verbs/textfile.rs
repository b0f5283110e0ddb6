// SPDX-License-Identifier: MIT
//! `percpu textfile`: a file for the textfile collector of node_exporter.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};

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
    let mut lock = Some(folder.lock()?);
    let Some(interval) = args.interval else {
        folder.write(&mut collector)?;
        return Ok(Exit::Done);
    };
    let mut told = Told::default();
    let (begin, mut next) = (Instant::now(), Duration::ZERO);
    loop {
        let held = match lock.take() {
            Some(lock) if folder.is_locked_by(&lock) => Ok(lock),
            _ => folder.lock(),
        };
        match held.and_then(|held| folder.write(&mut collector).map(|()| held)) {
            Ok(held) => {
                lock = Some(held);
                told.well(&format!("{} can be written again", folder.path().display()));
            }
            // The folder may be another one next time, so that it is locked anew.
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
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::DIRECTORY.bits() as i32)
            .open(self.0)
            .map_err(|e| Failure::new(Exit::System, format!("{folder} cannot be opened: {e}")))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::new(
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

    /// Whether it is the lock of this folder: another one may have the name now.
    fn is_locked_by(&self, lock: &File) -> bool {
        let is = |m: Metadata| (m.dev(), m.ino());
        let now = fs::metadata(self.0).map(is);
        now.is_ok_and(|now| lock.metadata().map(is).is_ok_and(|locked| locked == now))
    }

    /// Write the file anew: others see the old one, or all of the new one.
    fn write(&self, collector: &mut Collector) -> Result<(), Failure> {
        let unfinished = self.0.join(UNFINISHED);
        let written = create(&unfinished).and_then(|mut file| {
            print(collector, &mut file)?;
            fs::rename(&unfinished, self.path())
        });
        written.map_err(|e| {
            // What is left of it is replaced next time.
            let _ = fs::remove_file(&unfinished);
            self.failure(&e)
        })
    }
}

/// Make a file that is new: one that is there was left by a process that was killed.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    // node_exporter runs as another user.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o644).open(path)
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
