// SPDX-License-Identifier: MIT
//! `percpu textfile`: the file of node_exporter's textfile collector.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{every_kind, fails, failure, filter, percpu, prints, run, Named};
use percpu::Metric;
use rustix::fs::{flock, FlockOperation};

/// A folder that no other test has. It is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(what: &str) -> Self {
        let name = format!("percpu-textfile-{what}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn file(&self) -> PathBuf {
        self.0.join("percpu.prom")
    }

    fn read(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = names
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that writes again and again. It is killed in the end.
struct Writer(Child);

impl Writer {
    fn start(arguments: &[&str], stderr: &Path) -> Self {
        let mut command = percpu(&["textfile"]);
        command.args(arguments).args(["-n", "0.05"]);
        command.stderr(fs::File::create(stderr).unwrap());
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Wait until it is so.
fn until(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_file_has_the_values_of_show() {
    let name = Named::new("textfile");
    let segment = name.make();
    every_kind(&segment);
    let folder = Folder::new("values");
    prints(&["textfile", folder.text(), &name.0, "--label", "site=a"]);
    assert_eq!(folder.names(), ["percpu.prom"]);
    let mode = fs::metadata(folder.file()).unwrap().permissions().mode();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let umask = status.lines().find_map(|l| l.strip_prefix("Umask:"));
    let umask = u32::from_str_radix(umask.unwrap().trim(), 8).unwrap();
    // node_exporter runs as another user.
    assert_eq!(mode & 0o777, 0o644 & !umask);
    let text = folder.read();
    let own = format!("site=\"a\", segment=\"{}\"", name.0);
    for line in prints(&["show", &name.0, "--text"]).lines() {
        let (series, value) = line.rsplit_once(' ').unwrap_or((line, ""));
        // What show prints of names and labels, with the two labels in front.
        let line = match series.split_once('{') {
            _ if line.starts_with('#') => line.to_string(),
            Some((name, labels)) => format!("{name}{{{own}, {labels} {value}"),
            None => format!("{series}{{{own}}} {value}"),
        };
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    // No time stamps: node_exporter refuses a file that has some.
    let values = text.lines().filter(|l| !l.starts_with('#'));
    let time = |l: &&str| l.rsplit_once("} ").is_none_or(|(_, v)| v.contains(' '));
    assert_eq!(values.filter(time).collect::<Vec<_>>(), Vec::<&str>::new());
    let up = format!("percpu_segment_up{{{own}}} 1");
    assert!(text.lines().any(|l| l == up), "{text}");
    match filter(&["promtool", "check", "metrics"], &text) {
        Some(out) => assert!(out.status.success(), "{out:?}"),
        None => eprintln!("promtool is not there"),
    }
}

#[test]
fn readers_see_whole_files_alone() {
    let name = Named::new("textfile_whole");
    let segment = name.make();
    let counters: Vec<_> = (0..400)
        .map(|i| {
            let i = i.to_string();
            segment
                .counter(&Metric::new("a_total").label("i", &i))
                .unwrap()
        })
        .collect();
    let folder = Folder::new("whole");
    prints(&["textfile", folder.text(), &name.0]);
    let writer = Writer::start(&[folder.text(), &name.0], &folder.0.join("log"));
    let begin = fs::metadata(folder.file()).unwrap().modified().unwrap();
    let mut versions = std::collections::HashSet::new();
    for round in 0u64.. {
        counters.iter().for_each(|c| c.add(1));
        let text = folder.read();
        assert_eq!(text.lines().count(), 2 + 1 + 2 + 400, "{text}");
        versions.insert(text);
        if versions.len() > 5 || round > 1_000_000 {
            break;
        }
    }
    assert!(fs::metadata(folder.file()).unwrap().modified().unwrap() > begin);
    // A second one would replace the file of the first.
    let (exit, sentence) = fails(&["textfile", folder.text(), &name.0]);
    assert_eq!(exit, 6);
    assert!(sentence.contains("another process writes"), "{sentence}");
    drop(writer);
    // The lock of a killed one is free, and what it left is replaced.
    let left = folder.0.join(".percpu.prom.new");
    fs::write(&left, "half of a f").unwrap();
    fs::set_permissions(&left, PermissionsExt::from_mode(0o600)).unwrap();
    prints(&["textfile", folder.text(), &name.0]);
    assert_eq!(folder.names(), ["log", "percpu.prom"]);
    // A link that somebody has put there is not followed.
    let other = folder.0.join("other");
    fs::write(&other, "kept").unwrap();
    symlink(&other, &left).unwrap();
    prints(&["textfile", folder.text(), &name.0]);
    assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
    assert_eq!(folder.names(), ["log", "other", "percpu.prom"]);
    assert!(fs::symlink_metadata(folder.file()).unwrap().is_file());
}

#[test]
fn what_cannot_be_written_is_said_and_the_old_file_stays() {
    let name = Named::new("textfile_bad");
    let segment = name.make();
    every_kind(&segment);
    let folder = Folder::new("bad");
    let missing = folder.0.join("no/folder");
    let (exit, sentence) = fails(&["textfile", missing.to_str().unwrap(), &name.0]);
    assert_eq!(exit, 7);
    assert!(
        sentence.contains("cannot be opened: No such file"),
        "{sentence}"
    );
    let log = folder.0.join("log");
    fs::write(&log, "").unwrap();
    let (exit, sentence) = fails(&["textfile", log.to_str().unwrap(), &name.0]);
    assert_eq!(exit, 7);
    assert!(sentence.contains("Not a directory"), "{sentence}");
    let (exit, _) = fails(&["textfile", folder.text(), "--match", "[", &name.0]);
    assert_eq!(exit, 2);
    assert_eq!(folder.names(), ["log"]);
    // No room: here a limit of the process is the disk's.
    fs::write(folder.file(), "old").unwrap();
    let limited = r#"ulimit -f 1; exec "$@""#;
    let out = Command::new("bash")
        .args(["-c", limited, "-", env!("CARGO_BIN_EXE_percpu"), "textfile"])
        .args([folder.text(), &name.0])
        .output()
        .unwrap();
    let (exit, sentence) = failure(&out, &["textfile"]);
    assert_eq!(exit, 7);
    assert!(
        sentence.contains("cannot be written: File too large"),
        "{sentence}"
    );
    assert_eq!(folder.names(), ["log", "percpu.prom"]);
    assert_eq!(folder.read(), "old");
    // Something is in the way that is not a file.
    fs::create_dir(folder.0.join(".percpu.prom.new")).unwrap();
    let (exit, sentence) = fails(&["textfile", folder.text(), &name.0]);
    assert_eq!(exit, 7);
    assert!(
        sentence.contains("cannot be written: Is a dir"),
        "{sentence}"
    );
    assert_eq!(folder.read(), "old");
}

#[test]
fn a_trouble_is_said_once_and_its_end_too() {
    let name = Named::new("textfile_once");
    let segment = name.make();
    segment.counter(&Metric::new("a_total")).unwrap().add(1);
    let (folder, log) = (Folder::new("once"), Folder::new("once_log"));
    let log = log.0.join("log");
    let said = || fs::read_to_string(&log).unwrap();
    let _writer = Writer::start(&[folder.text(), &name.0, "no_such"], &log);
    until("the first file", || folder.file().exists());
    let text = folder.read();
    assert!(
        text.contains("percpu_segment_up{segment=\"no_such\"} 0\n"),
        "{text}"
    );
    fs::remove_dir_all(&folder.0).unwrap();
    until("a sentence", || said().contains("cannot be"));
    std::thread::sleep(Duration::from_millis(300));
    fs::create_dir(&folder.0).unwrap();
    until("the file again", || said().contains("can be written again"));
    let said = said();
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines[0].contains("no_such cannot be read: there is no segment"),
        "{said}"
    );
    // The folder goes while the file is written, or before.
    assert!((3..=4).contains(&lines.len()), "{said}");
    assert!(folder.file().exists());
    // Its lock is held again.
    let out = run(&["textfile", folder.text(), &name.0]);
    assert_eq!(out.status.code(), Some(6), "{out:?}");
}

/// Another folder gets the name: the lock goes with the name.
#[test]
fn the_lock_is_that_of_the_folder_that_is_written() {
    let name = Named::new("textfile_moved");
    let segment = name.make();
    segment.counter(&Metric::new("a_total")).unwrap().add(1);
    let [one, two, links] = ["one", "two", "links"].map(Folder::new);
    let (link, new) = (links.0.join("folder"), links.0.join("new"));
    symlink(&one.0, &link).unwrap();
    let arguments = [link.to_str().unwrap(), &name.0];
    let _writer = Writer::start(&arguments, &links.0.join("log"));
    until("the file", || one.file().exists());
    symlink(&two.0, &new).unwrap();
    fs::rename(&new, &link).unwrap();
    until("the file in the other folder", || two.file().exists());
    let (exit, sentence) = fails(&["textfile", two.text(), &name.0]);
    assert_eq!(exit, 6, "{sentence}");
    prints(&["textfile", one.text(), &name.0]);
}

/// The path leads to another folder, in which somebody else writes.
#[test]
fn a_folder_that_is_replaced_is_locked_anew() {
    let name = Named::new("textfile_replaced");
    let segment = name.make();
    segment.counter(&Metric::new("a_total")).unwrap().add(1);
    let (folder, log) = (Folder::new("replaced"), Folder::new("replaced_log"));
    let (other, away) = (Folder::new("replaced_other"), Folder::new("replaced_away"));
    let log = log.0.join("log");
    let lock = fs::File::open(&other.0).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let _writer = Writer::start(&[folder.text(), &name.0], &log);
    until("the first file", || folder.file().exists());
    fs::rename(&folder.0, &away.0).unwrap();
    fs::rename(&other.0, &folder.0).unwrap();
    until("a sentence", || {
        let said = fs::read_to_string(&log).unwrap();
        said.contains("another process writes")
    });
    assert_eq!(folder.names(), [""; 0]);
    drop(lock);
    until("a file in the other folder", || folder.file().exists());
    assert_eq!(folder.read(), fs::read_to_string(away.file()).unwrap());
}
