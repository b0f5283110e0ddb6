// SPDX-License-Identifier: MIT
//! Bad input: one sentence on stderr, an exit code of the table, and nothing on stdout.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use common::{every_kind, fails, failure, json, percpu, Named, Scratch};

/// Each verb of a segment that fails at its first look.
fn all_fail(segment: &str, code: i32, words: &str) {
    for arguments in [
        &["show", segment][..],
        &["show", segment, "--json"],
        &["show", segment, "--text"],
        &["watch", segment, "--count", "1"],
        &["watch", segment, "--count", "1", "--csv"],
        &["diff", segment, segment],
    ] {
        let (got, sentence) = fails(arguments);
        assert!(sentence.contains(words), "{arguments:?}: {sentence}");
        assert_eq!(got, code, "{arguments:?}: {sentence}");
    }
}

#[test]
fn files_that_are_no_segments() {
    let real = Named::new("real");
    every_kind(&real.make());
    let mut bytes = Vec::new();
    let file = std::fs::File::open(real.path()).unwrap();
    file.take(1 << 20).read_to_end(&mut bytes).unwrap();
    let foreign = Scratch::with("foreign", "dear diary\n".repeat(1000));
    all_fail(foreign.text(), 5, "");
    let empty = Scratch::with("empty", "");
    all_fail(empty.text(), 5, "empty");
    let cut = Scratch::with("cut", &bytes[..5000]);
    all_fail(cut.text(), 5, "");
    // Bytes 8 to 11 are the version: docs/memory/format.md.
    bytes[8] += 1;
    let newer = Scratch::with("newer", bytes);
    all_fail(newer.text(), 5, "version");
    all_fail(std::env::temp_dir().to_str().unwrap(), 5, "directory");
    all_fail("/dev/null", 5, "");
    let pipe = Scratch::new("pipe");
    assert!(Command::new("mkfifo")
        .arg(&pipe.0)
        .status()
        .unwrap()
        .success());
    all_fail(pipe.text(), 5, "");
    let nothing = Scratch::new("no-such");
    all_fail(nothing.text(), 3, "there is no such file");
}

#[test]
fn names_that_lead_nowhere() {
    all_fail(
        "no_such_segment",
        3,
        "there is no segment \"no_such_segment\"",
    );
    let (one, two) = (Named::new("prefix_a"), Named::new("prefix_b"));
    drop(one.make());
    drop(two.make());
    let common = format!("tool_prefix_{}", "");
    let (code, sentence) = fails(&["show", &common]);
    assert_eq!(code, 3);
    assert!(
        sentence.contains(&one.0) && sentence.contains(&two.0),
        "{sentence}"
    );
    // A name that others begin with is that of one.
    let longer = Named(format!("{}0", one.0));
    drop(longer.make());
    assert_eq!(json(&["show", &one.0, "--json"])["segment"], one.0.as_str());
    drop(longer);
    let unique = one.0.strip_suffix(char::is_numeric).unwrap();
    assert_eq!(json(&["show", unique, "--json"])["segment"], one.0.as_str());
}

#[test]
fn usage() {
    for arguments in [
        &["show"][..],
        &["show", "--json", "--text", "x"],
        &["watch", "x", "-n", "0"],
        &["watch", "x", "-n", "soon"],
        &["diff", "x"],
        &["no_verb"],
    ] {
        let out = percpu(arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert!(
            out.stdout.is_empty() && !out.stderr.is_empty(),
            "{arguments:?}"
        );
    }
    for verb in ["ls", "show", "watch", "diff"] {
        let help = common::prints(&[verb, "--help"]);
        let examples = help.split("Examples:").nth(1).unwrap();
        assert_eq!(examples.matches("\n  percpu ").count(), 2, "{help}");
    }
}

/// Root reads all files: then the command is run as a user without rights.
fn without_rights(arguments: &[&str]) -> Option<Command> {
    let own = percpu(arguments);
    if std::fs::File::open("/proc/self/mem").is_ok() && !is_root() {
        return Some(own);
    }
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    other.arg(own.get_program()).args(own.get_args());
    let can = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
            "test",
            "-x",
        ])
        .arg(own.get_program())
        .status();
    can.is_ok_and(|s| s.success()).then_some(other)
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .unwrap()
        .lines()
        .any(|l| l.starts_with("Uid:") && l.split_whitespace().nth(2) == Some("0"))
}

#[test]
fn no_permission() {
    let name = Named::new("secret");
    every_kind(&name.make());
    std::fs::set_permissions(name.path(), PermissionsExt::from_mode(0o000)).unwrap();
    for arguments in [
        &["show", name.0.as_str()][..],
        &["watch", &name.0],
        &["diff", &name.0, &name.0],
    ] {
        let Some(mut command) = without_rights(arguments) else {
            eprintln!("no setpriv, or the command is where another user may not look");
            return;
        };
        let (code, _) = failure(&command.output().unwrap(), arguments);
        assert_eq!(code, 4, "{arguments:?}");
    }
    let out = without_rights(&["ls"]).unwrap().output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let line = text.lines().find(|l| l.starts_with(&name.0)).unwrap();
    assert!(
        line.contains("permission") || line.contains("Permission"),
        "{line}"
    );
    assert_eq!(out.status.code(), Some(0), "{text}");
}

#[test]
fn nobody_reads_the_output() {
    let name = Named::new("pipe");
    let segment = name.make();
    let many = segment
        .family::<percpu::Counter>(&percpu::Metric::new("n"), &["i"], 5000)
        .unwrap();
    (0..5000).for_each(|i| many.add(&[&i.to_string()], 1).unwrap());
    for arguments in [
        &["show", name.0.as_str()][..],
        &["show", &name.0, "--json"],
        &["show", &name.0, "--text"],
        &["watch", &name.0, "-n", "0.01"],
        &["watch", &name.0, "-n", "0.01", "--json"],
    ] {
        let mut child = percpu(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut some = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{arguments:?}");
        assert_eq!(out.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn the_output_cannot_be_written() {
    let name = Named::new("full");
    every_kind(&name.make());
    for arguments in [&["show", name.0.as_str()][..], &["ls"], &["watch", &name.0]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let out = percpu(arguments).stdout(full.unwrap()).output().unwrap();
        let (code, sentence) = failure(&out, arguments);
        assert_eq!(code, 7);
        assert!(sentence.contains("cannot be written"), "{sentence}");
    }
}

#[test]
fn a_limit_of_files_is_an_error() {
    let name = Named::new("file_limit");
    every_kind(&name.make());
    let output = Scratch::new("file-limit");
    let script = format!(
        "ulimit -f 1; exec '{}' show '{}' --json >'{}'",
        env!("CARGO_BIN_EXE_percpu"),
        name.0,
        output.text()
    );
    let arguments = ["-c", &script];
    let out = Command::new("/bin/sh").args(arguments).output();
    let (code, said) = failure(&out.unwrap(), &arguments);
    assert_eq!(code, 7, "{said}");
    assert!(said.contains("cannot be written"), "{said}");
}
