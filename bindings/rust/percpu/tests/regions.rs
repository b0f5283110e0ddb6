// SPDX-License-Identifier: MIT
//! Objects in regions: against a plain model of each, by several handles; their files; and processes
//! that share a region and are killed.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use common::{Progress, Random, TemporaryFile, SLOTS};
use percpu::{ApproxSum, Error, Rate, Region, RegionOptions, Ring, WhenFull};

const ROUNDS: u64 = 5_000;
const HOUR: Duration = Duration::from_secs(3600);

/// Handles of one object: the first one's, one by the key, one at the root, and those of another
/// mapping of the file.
fn handles<T>(
    file: &TemporaryFile,
    open: impl Fn(&Region) -> Result<T, Error>,
    attach: impl Fn(&Region, u64) -> Result<T, Error>,
    key: impl Fn(&T) -> u64,
) -> Vec<T> {
    let (region, again) = (
        Region::create(file.path()).unwrap(),
        Region::open(file.path()).unwrap(),
    );
    let first = open(&region).unwrap();
    let number = key(&first);
    assert!(matches!(
        attach(&region, number + 64),
        Err(Error::NotFound(_))
    ));
    let mut all = vec![first];
    for r in [&region, &again] {
        all.push(attach(r, number).unwrap());
        all.push(open(r).unwrap());
    }
    assert!(all.iter().all(|object| key(object) == number));
    all
}

#[test]
fn rates() {
    let file = TemporaryFile::new("region-rate");
    let open = |r: &Region| Rate::open(r, 3, 1000, HOUR);
    let rates = handles(&file, open, Rate::attach, Rate::key);
    let mut random = Random::new(11);
    let (mut allowed, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        if rates[random.below(5) as usize].check() {
            allowed += 1;
        } else {
            refused += 1;
        }
        let any = &rates[random.below(5) as usize];
        assert_eq!((any.allowed(), any.refused()), (allowed, refused));
    }
    assert_eq!(allowed, 1000);
}

#[test]
fn approximate_sums() {
    let file = TemporaryFile::new("region-approx");
    let open = |r: &Region| ApproxSum::open(r, 15, 100);
    let sums = handles(&file, open, ApproxSum::attach, ApproxSum::key);
    let (mut model, mut random) = (0, Random::new(12));
    for _ in 0..ROUNDS {
        let (one, other) = (random.below(5) as usize, random.below(5) as usize);
        let n = random.below(1000) as i64 - 450;
        if random.below(2) == 0 {
            sums[one].add(n);
            model += n;
        } else if sums[one].add_below(n, 5000).is_ok() {
            model += n;
        } else {
            assert!(model + n > 5000);
        }
        assert_eq!(sums[other].fetch(), model);
    }
}

#[test]
fn rings() {
    let file = TemporaryFile::new("region-ring");
    let open = |r: &Region| Ring::open(r, 0, 1 << 14, WhenFull::Keep);
    let rings = handles(&file, open, Ring::attach, Ring::key);
    let (mut model, mut random) = (VecDeque::new(), Random::new(13));
    let mut reader = rings[4].reader().unwrap();
    for n in 0..ROUNDS {
        if random.below(2) == 0 {
            rings[random.below(5) as usize]
                .put(&n.to_ne_bytes())
                .unwrap();
            model.push_back(n.to_ne_bytes());
        } else {
            let found = reader.read().unwrap().map(|record| record.data.to_vec());
            assert_eq!(found, model.pop_front().map(|n| n.to_vec()));
        }
    }
}

#[test]
fn an_object_keeps_its_region() {
    let file = TemporaryFile::new("region-kept");
    let is_mapped = || {
        let number = std::fs::metadata(file.path()).unwrap().ino().to_string();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines()
            .any(|l| l.split_whitespace().nth(4) == Some(&number))
    };
    let region = Region::create(file.path()).unwrap();
    let ring = Ring::new_in(&region.clone(), 1024, WhenFull::Overwrite).unwrap();
    let key = ring.key();
    drop(region);
    ring.put(b"kept").unwrap();
    let mut reader = ring.reader().unwrap();
    drop(ring);
    assert_eq!(reader.read().unwrap().unwrap().data, b"kept");
    drop(reader);
    assert!(!is_mapped());

    // The object stays in the file.
    let region = RegionOptions::new().read_only().open(file.path()).unwrap();
    let ring = Ring::attach(&region, key).unwrap();
    assert!(is_mapped());
    assert_eq!(
        ring.reader().unwrap().read().unwrap().unwrap().data,
        b"kept"
    );
    assert!(matches!(ring.put(b"no"), Err(Error::Denied(_))));
    assert!(matches!(
        Rate::new_in(&region, 1, HOUR),
        Err(Error::Denied(_))
    ));
}

#[test]
fn a_region_may_be_private_or_in_a_memfd() {
    let region = Region::new().unwrap();
    let sum = ApproxSum::new_in(&region, 0).unwrap();
    let (rate, ring) = (
        Rate::new_in(&region, 2, HOUR).unwrap(),
        Ring::new_in(&region, 1 << 15, WhenFull::Keep).unwrap(),
    );
    drop(region);
    sum.add(5);
    ring.put(b"r").unwrap();
    assert_eq!((0..5).filter(|_| rate.check()).count(), 2);
    assert_eq!(sum.fetch(), 5);
    assert_eq!(ApproxSum::new().unwrap().key(), 0);
    assert_eq!(Rate::new(1, HOUR).unwrap().key(), 0);

    // SAFETY: the name is a string.
    let fd = unsafe { libc::memfd_create(c"percpu".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: the descriptor is new.
    let memfd = unsafe { File::from_raw_fd(fd) };
    let large = RegionOptions::new().create().lane_size(1 << 20).cpus(512);
    let region = large.open_fd(&memfd).unwrap();
    let ring = Ring::open(&region, 0, 1 << 18, WhenFull::Keep).unwrap();
    ring.put(&[7; 100]).unwrap();
    let again = RegionOptions::new().open_fd(&memfd).unwrap();
    assert_eq!(memfd.as_raw_fd(), fd);
    let to_read = RegionOptions::new().read_only().open_fd(&memfd).unwrap();
    let denied = Ring::attach(&to_read, ring.key()).unwrap().put(b"no");
    assert!(matches!(denied, Err(Error::Denied(_))));
    drop((memfd, region, ring));
    let ring = Ring::open(&again, 0, 1 << 18, WhenFull::Keep).unwrap();
    let mut reader = ring.reader().unwrap();
    assert_eq!(reader.read().unwrap().unwrap().data, [7; 100]);
    assert!(matches!(
        ApproxSum::new_in(&again, 0),
        Err(Error::Invalid(_))
    ));
}

#[test]
fn what_cannot_be_is_an_error() {
    let file = TemporaryFile::new("region-errors");
    let path = file.path();
    let nowhere = Region::open(path).unwrap_err();
    assert!(matches!(nowhere, Error::NotFound(_)));
    assert!(nowhere.to_string().starts_with(&format!("{path}: ")));
    assert!(matches!(Region::create("a\0b"), Err(Error::Invalid(_))));
    let region = RegionOptions::new().create_new().mode(0o700);
    let region = region.open(path).unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o700);
    let new = RegionOptions::new().create_new().open(path);
    assert!(matches!(new, Err(Error::Exists(_))));

    let sum = ApproxSum::open(&region, 0, 64).unwrap();
    for e in [
        Rate::open(&region, 0, 5, HOUR).unwrap_err(),
        ApproxSum::open(&region, 0, 65).unwrap_err(),
        Ring::open(&region, 0, 1024, WhenFull::Keep).unwrap_err(),
    ] {
        assert!(matches!(e, Error::Exists(_)), "{e:?}");
    }
    for e in [
        Rate::attach(&region, sum.key()).unwrap_err(),
        Ring::attach(&region, u64::MAX).unwrap_err(),
        ApproxSum::attach(&region, 0).unwrap_err(),
    ] {
        assert!(matches!(e, Error::NotFound(_)), "{e:?}");
    }
    for e in [
        Rate::open(&region, 16, 5, HOUR).unwrap_err(),
        Ring::new_in(&region, 1 << 16, WhenFull::Keep).unwrap_err(),
        ApproxSum::new_in(&region, -1).unwrap_err(),
        ApproxSum::open(&Region::new().unwrap(), 0, 0).unwrap_err(),
    ] {
        assert!(matches!(e, Error::Invalid(_)), "{e:?}");
    }
    drop((region, sum));
    std::fs::write(path, [1; 5000]).unwrap();
    assert!(matches!(Region::open(path), Err(Error::Damaged(_))));
}

const LIMIT: i64 = 100_000;

/// What the processes share.
struct Shared {
    rate: Rate,
    sum: ApproxSum,
    ring: Ring,
}

impl Shared {
    fn open(region: &Region) -> Self {
        percpu::selftest(); // until then no sequence runs
        Self {
            rate: Rate::open(region, 0, LIMIT as u64, HOUR).unwrap(),
            sum: ApproxSum::open(region, 1, 16).unwrap(),
            ring: Ring::open(region, 2, 4096, WhenFull::Overwrite).unwrap(),
        }
    }

    /// Count until the process is killed. What is put tells the slot, and the number twice.
    fn count(&self, progress: &Progress, slot: usize) -> ! {
        loop {
            let n = progress.word(slot, 0).fetch_add(1, SeqCst);
            let _ = self.rate.check();
            let _ = self.sum.add_below(1, LIMIT);
            let words = [slot as u64, n, !n];
            let _ = self.ring.put(words.map(u64::to_ne_bytes).as_flattened());
            progress.word(slot, 1).fetch_add(1, SeqCst);
        }
    }
}

/// Not a test of its own: what another program runs.
#[test]
fn this_program_as_a_worker() {
    let Ok(arguments) = std::env::var("PERCPU_WORKER") else {
        return;
    };
    let arguments: Vec<&str> = arguments.lines().collect();
    let region = Region::open(arguments[0]).unwrap();
    let progress = Progress::open(arguments[1]);
    Shared::open(&region).count(&progress, arguments[2].parse().unwrap());
}

/// Start a process that counts: a child of fork, or another program.
fn start(slot: usize, region: &str, page: &str, shared: &Shared, progress: &Progress) -> Worker {
    if slot % 2 == 0 {
        // SAFETY: the child only counts.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            shared.count(progress, slot);
        }
        return Worker::Forked(pid);
    }
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "this_program_as_a_worker", "--nocapture"]);
    program.env("PERCPU_WORKER", format!("{region}\n{page}\n{slot}"));
    Worker::Program(program.stdout(Stdio::null()).spawn().unwrap())
}

enum Worker {
    Forked(libc::pid_t),
    Program(Child),
}

impl Worker {
    fn kill(self) {
        match self {
            Self::Program(mut child) => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            Self::Forked(pid) => {
                // SAFETY: it is a child of this process.
                unsafe {
                    libc::kill(pid, libc::SIGKILL);
                    assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
                }
            }
        }
    }
}

/// Read records: whole ones, in order for each slot. Return how many were put.
fn read(reader: &mut percpu::RingReader, most: usize, last: &mut HashMap<u64, u64>) -> u64 {
    let mut put = 0;
    for _ in 0..most {
        let Some(record) = reader.read().unwrap() else {
            break;
        };
        let word = |i: usize| u64::from_ne_bytes(record.data[8 * i..8 * i + 8].try_into().unwrap());
        assert_eq!((record.data.len(), word(1)), (24, !word(2)));
        let before = last.insert(word(0), word(1));
        assert!(before.is_none_or(|n| n < word(1)), "{before:?} {}", word(1));
        put += 1 + record.lost;
    }
    put
}

#[test]
fn processes_that_are_killed_lose_nothing() {
    let (file, page) = (
        TemporaryFile::new("region-killed"),
        TemporaryFile::new("region-page"),
    );
    let progress = Progress::open(page.path());
    let shared = Shared::open(&Region::create(file.path()).unwrap());
    let mut reader = shared.ring.reader().unwrap();
    let (mut last, mut put) = (HashMap::new(), 0);
    let start = |slot| start(slot, file.path(), page.path(), &shared, &progress);
    let mut workers: Vec<_> = (0..SLOTS).map(|slot| Some(start(slot))).collect();
    let mut random = Random::new(14);
    for _ in 0..40 {
        let slot = random.below(SLOTS as u64) as usize;
        let begun = progress.word(slot, 0).load(SeqCst);
        while progress.word(slot, 0).load(SeqCst) == begun {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        workers[slot].take().unwrap().kill();
        put += read(&mut reader, 100, &mut last);
        workers[slot] = Some(start(slot));
    }
    workers.into_iter().flatten().for_each(Worker::kill);
    put += read(&mut reader, usize::MAX, &mut last);

    let (begun, ended) = (progress.sum(0), progress.sum(1));
    assert!(ended <= put && put <= begun, "{put} records");
    let checks = shared.rate.allowed() + shared.rate.refused();
    assert!(ended <= checks && checks <= begun, "{checks} checks");
    assert!(shared.rate.allowed() <= LIMIT as u64);
    // Each add was counted, or refused at the limit.
    let (sum, limit) = (shared.sum.fetch(), LIMIT.min(ended as i64));
    assert!(
        limit <= sum && sum <= LIMIT.min(begun as i64),
        "a sum of {sum}"
    );
}
