// SPDX-License-Identifier: MIT
//! What is made of files that others replace while this program runs: certificates, tokens.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::say;
use crate::failure::{Exit, Failure};

/// Between two looks whether the files are others.
const LOOK: Duration = Duration::from_secs(1);

/// No file of certificates is larger.
const BYTES: u64 = 1 << 20;

type Load<T> = Box<dyn Fn() -> Result<T, Failure> + Send + Sync>;

/// By which a file is known to be the same: device, inode, size, and when it was changed.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

pub struct Renewed<T> {
    paths: Vec<PathBuf>,
    load: Load<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Arc<T>,
    stamps: Vec<Stamp>,
    looked: Instant,
    /// Why the files cannot be used: what was said already.
    said: String,
}

impl<T> Renewed<T> {
    pub fn new(paths: Vec<PathBuf>, load: Load<T>) -> Result<Self, Failure> {
        let stamps = stamps(&paths);
        let state = State {
            value: Arc::new(load()?),
            stamps,
            looked: Instant::now(),
            said: String::new(),
        };
        Ok(Self {
            paths,
            load,
            state: Mutex::new(state),
        })
    }

    /// What the files have, as of the last second.
    pub fn get(&self) -> Arc<T> {
        self.look(LOOK)
    }

    /// Look at the files now.
    pub fn renew(&self) {
        self.look(Duration::ZERO);
    }

    fn look(&self, after: Duration) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= after {
            state.looked = Instant::now();
            let now = stamps(&self.paths);
            if now != state.stamps {
                self.load(&mut state, now);
            }
        }
        state.value.clone()
    }

    /// Use what the files have now. If that is nothing to use, keep what there was: the other one
    /// of two files may come soon.
    fn load(&self, state: &mut State<T>, stamps: Vec<Stamp>) {
        match (self.load)() {
            Ok(value) => {
                state.value = Arc::new(value);
                state.stamps = stamps;
                state.said.clear();
                say(&format!("{} was read again", self.paths[0].display()));
            }
            Err(f) if f.sentence == state.said => {}
            Err(f) => {
                say(&format!("{}: what was read before is used on", f.sentence));
                state.said = f.sentence;
            }
        }
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let m = fs::metadata(path).ok()?;
        Some((m.dev(), m.ino(), m.size(), m.ctime(), m.ctime_nsec()))
    };
    paths.iter().map(stamp).collect()
}

/// Read a regular file that is not large, and tell its mode.
pub fn read(path: &Path) -> Result<(Vec<u8>, u32), Failure> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;

    let said = |e: std::io::Error| {
        let exit = match e.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            std::io::ErrorKind::PermissionDenied => Exit::Denied,
            _ => Exit::System,
        };
        Failure::new(exit, format!("{} cannot be read: {e}", path.display()))
    };
    // A pipe would wait for a writer.
    let mut options = fs::OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path).map_err(said)?;
    let metadata = file.metadata().map_err(said)?;
    if !metadata.is_file() || metadata.len() > BYTES {
        let text = format!("{} is no file of at most 1 MiB", path.display());
        return Err(Failure::new(Exit::BadFile, text));
    }
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes).map_err(said)?;
    Ok((bytes, metadata.mode()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A file, and what is made of it: its text, by a function that knows how often it was called.
    fn renewed(
        what: &str,
        load: impl Fn(&Path, usize) -> Result<String, Failure> + Send + Sync + 'static,
    ) -> (PathBuf, Renewed<String>) {
        let name = format!("percpu-renewed-{what}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "first").unwrap();
        let (of, calls) = (path.clone(), AtomicUsize::new(0));
        let load = move || load(&of, calls.fetch_add(1, Ordering::Relaxed));
        let renewed = Renewed::new(vec![path.clone()], Box::new(load)).unwrap();
        (path, renewed)
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_that_is_replaced_while_it_is_read_is_read_again() {
        let (path, renewed) = renewed("replaced", |path, call| {
            let read = text(path);
            if call == 0 {
                fs::write(path, "the second").unwrap();
            }
            Ok(read)
        });
        assert_eq!(*renewed.get(), "first");
        renewed.renew();
        assert_eq!(*renewed.get(), "the second");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_could_not_be_read_is_read_as_soon_as_it_can() {
        let (path, renewed) = renewed("failed", |path, call| {
            let failed = Failure::new(Exit::System, "no descriptor is left");
            if call == 1 {
                Err(failed)
            } else {
                Ok(text(path))
            }
        });
        fs::write(&path, "the second").unwrap();
        renewed.renew();
        assert_eq!(*renewed.get(), "first");
        renewed.renew();
        assert_eq!(*renewed.get(), "the second");
        fs::remove_file(path).unwrap();
    }
}
