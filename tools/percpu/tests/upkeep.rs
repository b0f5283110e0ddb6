// SPDX-License-Identifier: MIT
//! `percpu gc`, `reset`, `doctor SEGMENT`, `man` and `completions`, as people run them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use percpu::{Metric, Reader, Segment};
use portable_pty::{native_pty_system, CommandBuilder, PtySize};

const PERCPU: &str = env!("CARGO_BIN_EXE_percpu");
const CHILD: &str = "PERCPU_TEST_SEGMENT";

/// A file in a folder of its own, which is removed at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("percpu-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder.join("segment"))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

/// What a run printed, and its exit code.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn percpu(arguments: &[&str]) -> Ran {
    let done = Command::new(PERCPU)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran {
        code: done.status.code().unwrap(),
        out: String::from_utf8(done.stdout).unwrap(),
        err: String::from_utf8(done.stderr).unwrap(),
    }
}

/// The same at a terminal, where a person answers.
fn answered(arguments: &[&str], answer: &str) -> (u32, String) {
    answered_after(arguments, answer, || {})
}

/// The same, where something happens between the question and the answer.
fn answered_after(arguments: &[&str], answer: &str, meanwhile: impl FnOnce()) -> (u32, String) {
    let pty = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut command = CommandBuilder::new(PERCPU);
    command.args(arguments);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut reader = pty.master.try_clone_reader().unwrap();
    let mut screen = Vec::new();
    while !screen.ends_with(b"[y/N] ") {
        let mut byte = [0];
        assert_eq!(reader.read(&mut byte).unwrap(), 1);
        screen.extend(byte);
    }
    meanwhile();
    let mut writer = pty.master.take_writer().unwrap();
    writer.write_all(answer.as_bytes()).unwrap();
    // The other end of a terminal that has gone is an error.
    let _ = reader.read_to_end(&mut screen);
    let code = child.wait().unwrap().exit_code();
    (code, String::from_utf8_lossy(&screen).into_owned())
}

/// A process that counts in the file until it is killed.
fn counting(file: &File) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "a_process_that_counts"])
        .env(CHILD, file.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = String::new();
    let mut out = child.stdout.take().unwrap();
    while !seen.contains("counting") {
        let mut bytes = [0; 64];
        let n = out.read(&mut bytes).unwrap();
        assert_ne!(n, 0, "the child ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    child
}

#[test]
#[ignore = "it is a part of others"]
fn a_process_that_counts() {
    let segment = Segment::create(&std::env::var(CHILD).unwrap()).unwrap();
    segment
        .counter(&Metric::new("requests_total"))
        .unwrap()
        .add(3);
    std::io::stdout().write_all(b"counting\n").unwrap();
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

#[test]
fn a_segment_in_use_is_kept() {
    let file = File::new("gc-live");
    let mut child = counting(&file);
    let ran = percpu(&["gc", "--yes", file.path()]);
    assert_eq!(ran.code, 6, "{}", ran.out);
    assert!(
        ran.out.contains("kept: a process counts in it"),
        "{}",
        ran.out
    );
    assert!(file.0.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = percpu(&["gc", "--yes", file.path()]);
    assert_eq!((ran.code, file.0.exists()), (0, false), "{}", ran.out);
    assert!(ran.out.contains("removed"), "{}", ran.out);
}

#[test]
fn a_person_is_asked() {
    let file = File::new("gc-asks");
    drop(Segment::create(file.path()).unwrap());
    let ran = percpu(&["gc", file.path()]);
    assert_eq!((ran.code, file.0.exists()), (2, true));
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    for answer in ["n\n", "\n", "yesterday\n"] {
        let (code, screen) = answered(&["gc", file.path()], answer);
        assert!(screen.contains("Remove 1 segment ("), "{screen}");
        assert_eq!((code, file.0.exists()), (1, true), "{answer:?}");
    }
    let (code, _) = answered(&["gc", file.path()], "y\n");
    assert_eq!((code, file.0.exists()), (0, false));
    assert_eq!(percpu(&["gc", file.path()]).code, 3);
}

#[test]
fn a_process_that_begins_before_the_answer_keeps_the_file() {
    let file = File::new("gc-late");
    drop(Segment::create(file.path()).unwrap());
    let mut segment = None;
    let (code, screen) = answered_after(&["gc", file.path()], "y\n", || {
        segment = Some(Segment::open(file.path()).unwrap());
    });
    assert!(screen.contains("kept: "), "{screen}");
    assert!(!screen.contains(": removed"), "{screen}");
    assert_eq!((code, file.0.exists()), (6, true));
}

#[test]
fn those_that_are_kept_do_not_keep_others() {
    let (used, idle) = (File::new("gc-used"), File::new("gc-idle"));
    let segment = Segment::create(used.path()).unwrap();
    drop(Segment::create(idle.path()).unwrap());
    let ran = percpu(&["gc", "--yes", used.path(), idle.path()]);
    assert_eq!(
        (ran.code, used.0.exists(), idle.0.exists()),
        (6, true, false)
    );
    drop(segment);
}

/// This is no test of its own: the next one runs it where /dev/shm is another one.
#[test]
#[ignore = "it is a part of others"]
fn all_of_a_machine() {
    let shm = std::path::Path::new("/dev/shm");
    if std::env::var(CHILD).as_deref() != Ok("all") || shm.read_dir().unwrap().next().is_some() {
        return;
    }
    let used = Segment::create("used").unwrap();
    drop(Segment::create("idle").unwrap());
    std::fs::write(shm.join("percpu.text"), "no segment").unwrap();
    // The head of a file of HAProxy, without an object.
    let mut haproxy = [0; 672];
    haproxy[..2].copy_from_slice(&[1, 3]);
    std::fs::write(shm.join("haproxy"), haproxy).unwrap();
    let ran = percpu(&["gc", "--yes"]);
    let mut left: Vec<_> = shm
        .read_dir()
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(
        left,
        ["haproxy", "percpu.text", "percpu.used"],
        "{}",
        ran.out
    );
    assert_eq!(ran.code, 0, "to be kept is no failure: {}", ran.out);
    assert!(
        ran.out.contains("used: kept: a process counts in it\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("idle: removed\n"), "{}", ran.out);
    assert!(!ran.out.contains("haproxy"), "{}", ran.out);
    drop(used);
    println!("all is well");
}

#[test]
fn without_names_all_idle_segments_are_removed() {
    let mount = "mount -t tmpfs none /dev/shm";
    let own_shm = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", script]);
        command
            .arg(std::env::current_exe().unwrap())
            .env(CHILD, "all");
        command.output()
    };
    if !own_shm(mount).is_ok_and(|out| out.status.success()) {
        eprintln!("unshare(1) is not there, or not permitted");
        return;
    }
    let run = "exec \"$0\" --ignored --exact all_of_a_machine --nocapture";
    let out = own_shm(&format!("{mount} && {run}")).unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        said.contains("all is well"),
        "{said}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn files_that_are_no_segments_are_kept() {
    let file = File::new("gc-foreign");
    std::fs::write(&file.0, [0x5a; 100_000]).unwrap();
    let ran = percpu(&["gc", "--yes", file.path()]);
    assert_eq!((ran.code, file.0.exists()), (5, true), "{}", ran.out);
    assert!(ran.out.contains("nothing to remove"), "{}", ran.out);
    assert_eq!(percpu(&["doctor", file.path()]).code, 5);
    assert_eq!(percpu(&["reset", "--yes", file.path()]).code, 5);
    assert_eq!(std::fs::read(&file.0).unwrap(), [0x5a; 100_000]);
}

/// A segment in /dev/shm, with a name that no other test has.
struct Named(String);

impl Named {
    fn new(name: &str) -> Self {
        let named = Self(name.to_string());
        drop(Segment::create(named.path().to_str().unwrap()).unwrap());
        named
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/shm/percpu.{}", self.0))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.path());
    }
}

#[test]
fn without_a_question_names_are_whole() {
    let begin = format!("upkeep-{}", std::process::id());
    let named = Named::new(&format!("{begin}-whole"));
    for verb in ["gc", "reset"] {
        // At a terminal one sees in the question which it is.
        assert_eq!(percpu(&[verb, &begin]).code, 2);
        for name in [begin.as_str(), ""] {
            let ran = percpu(&[verb, "--yes", name]);
            assert_eq!(ran.code, 3, "{verb} {name:?}: {}", ran.out);
            assert!(ran.err.contains("no segment"), "{}", ran.err);
        }
        assert_eq!(percpu(&[verb, ""]).code, 3);
    }
    let mut reader = Reader::open(&named.0).unwrap();
    assert_eq!(reader.read().unwrap().generation(), 1);
    assert_eq!(percpu(&["reset", "--yes", &named.0]).code, 0);
    assert_eq!(percpu(&["gc", "--yes", &named.0]).code, 0);
    assert!(!named.path().exists());
}

#[test]
fn names_of_files_do_not_act() {
    let begin = format!("upkeep-acts-{}", std::process::id());
    let names = ["one\x1b[31m\nx", "two\u{9b}5n\u{202e}"];
    let named = names.map(|name| Named::new(&format!("{begin}-{name}")));
    let none = |text: &str| {
        let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(
            text.contains("\\u{1b}[31m\\nx") && !text.contains(acts),
            "{text:?}"
        );
    };
    // Several match.
    none(&percpu(&["show", &begin]).err);
    let paths = named.each_ref().map(|n| n.path().display().to_string());
    let (code, screen) = answered(&["gc", &named[0].0, &named[1].0], "n\n");
    none(&screen.replace("\r\n", "\n"));
    assert_eq!(code, 1);
    let (_, screen) = answered(&["reset", &paths[0]], "n\n");
    none(&screen.replace("\r\n", "\n"));
    none(&percpu(&["reset", "--yes", &named[0].0]).out);
    none(&percpu(&["gc", "--yes", &named[0].0]).out);
    std::fs::write(named[0].path(), "no segment").unwrap();
    none(&percpu(&["gc", "--yes", &named[0].0]).out);
}

#[test]
fn counts_are_reset_when_it_was_said() {
    let file = File::new("reset");
    let segment = Segment::create(file.path()).unwrap();
    let counter = segment.counter(&Metric::new("requests_total")).unwrap();
    counter.add(5);
    assert_eq!(percpu(&["reset", file.path()]).code, 2);
    let (code, screen) = answered(&["reset", file.path()], "n\n");
    assert!(
        code == 1 && screen.contains("(1 series, program"),
        "{screen}"
    );
    assert_eq!(counter.fetch(), 5);
    assert_eq!(percpu(&["reset", "--yes", file.path()]).code, 0);
    assert_eq!(counter.fetch(), 0);
    counter.add(1);
    assert_eq!(counter.fetch(), 1);
    assert_eq!(
        Reader::open(file.path())
            .unwrap()
            .read()
            .unwrap()
            .generation(),
        2
    );
}

const NOT_IN_USE: &str = "no process has it open to count";

#[test]
fn the_state_of_a_segment_is_told() {
    let file = File::new("doctor");
    let segment = Segment::create(file.path()).unwrap();
    segment.counter(&Metric::new("requests_total")).unwrap();
    let line = |ran: &Ran, name: &str| {
        let found = ran
            .out
            .lines()
            .find(|l| l.starts_with(&format!("{name:18}")));
        found.unwrap_or_else(|| panic!("no {name} in {}", ran.out))[18..].to_string()
    };
    let ran = percpu(&["doctor", file.path()]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(line(&ran, "counting"), "a process has it open to count");
    assert_eq!(line(&ran, "series"), "1, 0 without a value");
    assert_eq!(line(&ran, "lock"), "free");
    assert!(line(&ran, "records").starts_with("1 in use, 0 of them"));
    let room = line(&ran, "room for values");
    assert!(room.ends_with(" used; grows to at most 256 MiB"), "{room}");
    assert_eq!(line(&ran, "verdict"), "nothing to do");
    drop(segment);
    // A child that another test has just forked has it open until it executes a program.
    let in_use = || line(&percpu(&["doctor", file.path()]), "counting") != NOT_IN_USE;
    assert!((0..200).any(|_| !in_use()), "it is in use for ever");
    let whole = std::fs::read(&file.0).unwrap();
    std::fs::write(&file.0, &whole[..6000]).unwrap();
    let ran = percpu(&["doctor", file.path()]);
    assert_eq!(ran.code, 5, "{}", ran.out);
    assert!(
        ran.err.starts_with("percpu: ") && ran.err.lines().count() == 1,
        "{}",
        ran.err
    );
    assert_eq!(percpu(&["doctor", "no-such-segment"]).code, 3);
}

#[test]
fn each_verb_has_a_page() {
    let help = percpu(&["--help"]);
    assert_eq!(help.code, 0);
    for verb in [
        "ls",
        "show",
        "watch",
        "top",
        "doctor",
        "gc",
        "reset",
        "diff",
        "completions",
        "man",
    ] {
        assert!(
            help.out.lines().any(|l| l.trim().starts_with(verb)),
            "{verb}"
        );
        let page = percpu(&["man", verb]);
        assert_eq!(page.code, 0);
        assert!(
            page.out.contains(&format!(".TH percpu-{verb} 1")),
            "{}",
            page.out
        );
        assert!(page.out.contains(".SH SYNOPSIS"), "{}", page.out);
        let examples = ".SH NOTES\n.ad l\n.nh\n";
        assert!(page.out.contains(examples), "{}", page.out);
    }
    let none = percpu(&["man", "none"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("no verb \"none\""), "{}", none.err);
}

#[test]
fn shells_complete_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let script = percpu(&["completions", shell]);
        assert_eq!(script.code, 0);
        for word in ["doctor", "per-cpu", "reset"] {
            assert!(script.out.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(percpu(&["completions", "none"]).code, 2);
}
