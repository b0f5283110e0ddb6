// SPDX-License-Identifier: MIT
//! Pictures of HAProxy's shm-stats-file, versions 1.2 and 1.3, which HAProxy describes in
//! doc/internals/shm-stats-file-description.txt. The file is only read. It may be anyone's, so what
//! it says is checked.
//!
//! A frontend, a backend, a listener or a server has an object for each thread group. The objects
//! of one GUID and one side are added up.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustix::fs::OFlags;

use super::haproxy_fields::{Field, Side};
use super::segment::next_id;
use super::{About, Kind, Owner, Picture, Series, Source, Value};
use crate::failure::{Exit, Failure};

const HEAD: usize = 672;
const SLOTS: usize = 64;
const SLOTS_AT: usize = 24;
const OBJECTS_AT: usize = SLOTS_AT + SLOTS * 8;

/// In an object.
const GUID: usize = 128;
const GROUP_AT: usize = 128;
const TYPE_AT: usize = 130;
const USERS_AT: usize = 136;
const COUNTS_AT: usize = 144;

/// More objects than any configuration has: 2000 for each of 64 thread groups by default.
const OBJECTS: usize = 1 << 20;

/// So many objects of different GUIDs or sides are read, half a million series. A file of anyone
/// must not take all memory.
const PROXIES: usize = 1 << 14;

/// Objects that are read at once.
const BLOCK: usize = 1024;

/// An open file, and the series of its latest picture.
pub struct Haproxy {
    file: File,
    path: PathBuf,
    version: Version,
    known: BTreeMap<Key, Vec<Arc<About>>>,
}

#[derive(Clone, Copy)]
struct Version {
    minor: u8,
    /// Bytes of an object.
    object: usize,
}

/// Objects that are added up: of which GUID, and of which side.
type Key = (String, Side);

/// By objects, a sum for each of the fields.
type Sums = BTreeMap<Key, Vec<u64>>;

/// What is read of the head.
struct Head {
    objects: usize,
    owners: Vec<Owner>,
}

impl Haproxy {
    /// Open a file that looks like one. `None` if it does not.
    pub fn open(path: &Path) -> Option<Result<Self, Failure>> {
        // A pipe would wait for a writer.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32)
            .open(path)
            .ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, 0).ok()?;
        let version = match (head[0], head[1]) {
            (1, 2) => Version {
                minor: 2,
                object: 552,
            },
            (1, 3) => Version {
                minor: 3,
                object: 560,
            },
            (1, minor) if path.file_name()?.to_string_lossy().contains("haproxy") => {
                return Some(Err(Failure::new(
                    Exit::BadFile,
                    format!(
                        "{} is a shm-stats-file of version 1.{minor}: 1.2 and 1.3 can be read",
                        path.display()
                    ),
                )))
            }
            _ => return None,
        };
        let slots = number(&head, OBJECTS_AT + 4) as usize;
        let size = file.metadata().ok()?.len();
        let fits = slots
            .checked_mul(version.object)
            .is_some_and(|n| HEAD as u64 + n as u64 <= size);
        let used = number(&head, OBJECTS_AT) as usize;
        if !fits || used > slots || slots > OBJECTS {
            return None;
        }
        Some(Ok(Self {
            file,
            path: path.to_path_buf(),
            version,
            known: BTreeMap::new(),
        }))
    }

    fn head(&self) -> Result<Head, Failure> {
        let mut bytes = [0; HEAD];
        self.file
            .read_exact_at(&mut bytes, 0)
            .map_err(|e| self.unreadable(&e))?;
        if bytes[..2] != [1, self.version.minor] {
            return Err(Failure::new(
                Exit::BadFile,
                format!("{} is no shm-stats-file any more", self.path.display()),
            ));
        }
        let now = number(&bytes, 4);
        let owner = |i: usize| {
            let pid = number(&bytes, SLOTS_AT + 8 * i);
            let until = number(&bytes, SLOTS_AT + 8 * i + 4);
            // A slot is left with a pid of -1; a heartbeat of 0 is none.
            let used = pid != 0 && i32::try_from(pid).is_ok();
            let beats = until != 0 && (until.wrapping_sub(now) as i32) > 0;
            used.then(|| Owner {
                pid,
                alive: beats && Path::new(&format!("/proc/{pid}")).exists(),
                name: String::new(),
            })
        };
        Ok(Head {
            objects: (number(&bytes, OBJECTS_AT) as usize).min(OBJECTS),
            owners: (0..SLOTS).filter_map(owner).collect(),
        })
    }

    /// Add up the objects that are there, and those only: the file may be shorter than it says.
    /// Return also how many are not in use.
    fn sums(&self, n: usize) -> Result<(Sums, u32), Failure> {
        let size = self.file.metadata().map_err(|e| self.unreadable(&e))?.len();
        let length = self.version.object;
        let there = usize::try_from(size).unwrap_or(0).saturating_sub(HEAD) / length;
        let n = n.min(there);
        let (mut sums, mut pending) = (Sums::new(), 0);
        let mut bytes = vec![0; n.min(BLOCK) * length];
        for first in (0..n).step_by(BLOCK) {
            bytes.truncate((n - first) * length);
            self.file
                .read_exact_at(&mut bytes, (HEAD + first * length) as u64)
                .map_err(|e| self.unreadable(&e))?;
            for object in bytes.chunks_exact(length) {
                pending += u32::from(!add(&mut sums, object, self.version.minor));
            }
            if sums.len() > PROXIES {
                let path = self.path.display();
                let sentence = format!("{path} has more than {PROXIES} proxies and servers: percpu reads files with fewer");
                return Err(Failure::new(Exit::BadFile, sentence));
            }
        }
        Ok((sums, pending))
    }

    fn unreadable(&self, e: &std::io::Error) -> Failure {
        Failure::new(
            Exit::BadFile,
            format!("{} cannot be read: {e}", self.path.display()),
        )
    }

    fn replaced(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let ours = self.file.metadata().map(|m| (m.dev(), m.ino()));
        let theirs = std::fs::symlink_metadata(&self.path).map(|m| (m.dev(), m.ino()));
        !matches!((ours, theirs), (Ok(a), Ok(b)) if a == b)
    }
}

impl Source for Haproxy {
    fn read(&mut self, _: &dyn Fn(&About) -> bool) -> Result<Picture, Failure> {
        if self.replaced() {
            return Err(Failure::new(
                Exit::NotFound,
                format!("{} is another file now, or none", self.path.display()),
            ));
        }
        let head = self.head()?;
        let (sums, pending) = self.sums(head.objects)?;
        let moment = Instant::now();
        let since = self.file.metadata().and_then(|m| m.created());
        let since = since.unwrap_or(SystemTime::UNIX_EPOCH);
        let mut known = std::mem::take(&mut self.known);
        let mut series = Vec::new();
        for (key, counts) in sums {
            let abouts = known.remove(&key);
            let abouts = abouts.unwrap_or_else(|| describe(&key, since, self.version.minor));
            series.extend(abouts.iter().zip(counts).map(|(about, sum)| Series {
                about: about.clone(),
                value: Ok(Value::Count(sum)),
                family: None,
                details: None,
            }));
            self.known.insert(key, abouts);
        }
        series.sort_by(|a, b| {
            (&a.about.name, &a.about.labels).cmp(&(&b.about.name, &b.about.labels))
        });
        Ok(Picture {
            program: "haproxy".to_string(),
            generation: 1,
            since,
            taken: SystemTime::now(),
            moment,
            cpus: 0,
            pending,
            owners: head.owners,
            series,
        })
    }
}

/// Add what an object has to the sums. Return whether it is in use and whole.
fn add(sums: &mut Sums, object: &[u8], minor: u8) -> bool {
    let users = wide(object, USERS_AT);
    let group = u16::from_le_bytes([object[GROUP_AT], object[GROUP_AT + 1]]);
    let side = match object[TYPE_AT] {
        0 => Side::Front,
        1 => Side::Back,
        _ => return false,
    };
    let end = object[..GUID].iter().position(|b| *b == 0);
    let guid = end.and_then(|n| std::str::from_utf8(&object[..n]).ok());
    match guid {
        Some(guid) if users != 0 && group != 0 && !guid.is_empty() => {
            let counts = side.fields().filter_map(|f| f.at(side, minor));
            let sums = sums.entry((guid.to_string(), side)).or_default();
            for (i, at) in counts.enumerate() {
                let n = wide(object, COUNTS_AT + at);
                match sums.get_mut(i) {
                    Some(sum) => *sum = sum.wrapping_add(n),
                    None => sums.push(n),
                }
            }
            true
        }
        _ => false,
    }
}

/// Describe each of the fields that the version has.
fn describe((guid, side): &Key, since: SystemTime, minor: u8) -> Vec<Arc<About>> {
    let fields = side.fields().filter(|f| f.at(*side, minor).is_some());
    let describe = |field: &Field| {
        let mut labels = vec![("guid".to_string(), guid.clone())];
        let own = field.label;
        labels.extend(own.map(|(name, value)| (name.to_string(), value.to_string())));
        Arc::new(About {
            id: next_id(),
            name: format!("haproxy_{}_{}", side.word(), field.name),
            help: field.help.to_string(),
            unit: field.unit().to_string(),
            kind: Kind::Counter,
            labels,
            since,
        })
    };
    fields.map(describe).collect()
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

#[cfg(test)]
#[path = "haproxy_tests.rs"]
mod tests;
