// SPDX-License-Identifier: MIT
//! `percpu top` in a pseudo-terminal, on real segments.

#![allow(clippy::unwrap_used)]

mod tty;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use percpu::{HistogramOptions, Metric, Rule, Segment};
use tty::{command, Folder, Tty};

const PERCPU: &str = env!("CARGO_BIN_EXE_percpu");

/// `top` on some files of a folder.
fn top(folder: &Folder, args: &[&str], columns: u16, lines: u16) -> Tty {
    let mut command = command(PERCPU, &[&["top"], args].concat());
    command.cwd(&folder.0);
    Tty::new(command, columns, lines)
}

/// A shell that runs `top` on a file, and says before and after how the terminal is set.
fn top_in_shell(folder: &Folder, file: &str) -> Tty {
    let script = format!(
        "stty -g >before; '{PERCPU}' top -n 0.1 ./{file}; echo \"code $?\"; stty -g >after"
    );
    let mut command = command("/bin/sh", &["-c", &script]);
    command.cwd(&folder.0);
    Tty::new(command, 80, 24)
}

fn hits(folder: &Folder, file: &str) -> (Segment, percpu::Counter) {
    let segment = Segment::create(&folder.path(file)).unwrap();
    let hits = segment.counter(&Metric::new("hits").help("Hits.")).unwrap();
    (segment, hits)
}

fn signal(name: &str, pid: i32) {
    let done = Command::new("kill")
        .args([name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(done.success());
}

/// Whether a shell found the terminal as it was.
fn assert_as_it_was(folder: &Folder, tty: &Tty) {
    let read = |name| std::fs::read_to_string(folder.path(name)).unwrap();
    assert!(read("before").len() > 10);
    assert_eq!(read("before"), read("after"));
    tty.wait("normal screen with a cursor", |s| {
        !s.alternate_screen() && !s.hide_cursor()
    });
}

/// The seconds since something began are as long as the test takes.
fn without_ages(screen: &str) -> String {
    let mut out = String::new();
    for line in screen.lines() {
        let mut line = line.to_string();
        if let Some(at) = line.find("since ") {
            let digits = line[at + 6..]
                .chars()
                .take_while(char::is_ascii_digit)
                .count();
            if line[at + 6 + digits..].starts_with("s ago") {
                line.replace_range(at + 6..at + 6 + digits, "0");
                line.insert_str(
                    at + "since 0s ago".len(),
                    &" ".repeat(digits.saturating_sub(1)),
                );
            }
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Compare with a file, or write it if PERCPU_BLESS is set.
fn compare(name: &str, screen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/top")
        .join(name);
    let screen = without_ages(screen);
    if std::env::var_os("PERCPU_BLESS").is_some() {
        std::fs::write(&path, &screen).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == screen,
        "{name}: expected\n{expected}\nis\n{screen}"
    );
}

#[test]
fn the_screen_in_four_sizes_and_resized_meanwhile() {
    let folder = Folder::new("top-golden");
    let segment = Segment::create(&folder.path("web")).unwrap();
    for (code, n) in [("200", 1_234_567), ("404", 89), ("500", 0)] {
        let metric = Metric::new("web_requests_total").help("Requests, by code.");
        segment.counter(&metric.label("code", code)).unwrap().add(n);
    }
    let bytes = Metric::new("web_bytes_total")
        .unit("bytes")
        .help("Bytes of all answers.");
    segment.counter(&bytes).unwrap().add(5 << 30);
    let seconds = Metric::new("web_seconds")
        .unit("seconds")
        .help("Time to answer.");
    let seconds = segment
        .histogram(&seconds, &HistogramOptions::new())
        .unwrap();
    (0..100).for_each(|i| seconds.record(0.001 * f64::from(i)));
    segment
        .gauge(&Metric::new("web_connections"))
        .unwrap()
        .set(17)
        .unwrap();

    let mut tty = top(&folder, &["-n", "1000", "./web"], 80, 24);
    tty.text("q quit");
    tty.keys("aj");
    tty.text("code=\"500\"");
    tty.text("▶ web_connections");
    for (columns, lines) in [(80, 24), (40, 20), (120, 40), (200, 50)] {
        // The status line is drawn last.
        tty.resize(1, 1);
        tty.wait("one cell", |s| {
            s.contents().trim() == "?" || s.contents().trim() == "…"
        });
        tty.resize(columns, lines);
        let last = if columns < 64 {
            "Space fre…"
        } else {
            "q quit"
        };
        let screen = tty.text(last);
        compare(&format!("pty-{columns}x{lines}.txt"), &screen);
    }
    tty.keys("q");
    assert_eq!(tty.end(), 0);
}

#[test]
fn it_follows_counts_and_keys() {
    let folder = Folder::new("top-keys");
    let (segment, hits) = hits(&folder, "a");
    segment.counter(&Metric::new("misses")).unwrap();
    let mut tty = top(&folder, &["-n", "0.1", "./a"], 80, 24);
    tty.text("hits");
    hits.add(4321);
    tty.text("4.32k");
    tty.keys("/mis");
    tty.wait("misses alone", |s| {
        let text = s.contents();
        text.contains("misses") && !text.contains("hits") && text.contains("/mis")
    });
    tty.keys("\x1b");
    tty.text("4.32k");
    tty.keys("r");
    tty.text("by rate");
    tty.keys("\x1b[H");
    tty.text("value 4321");
    tty.keys(" ");
    tty.text("FROZEN");
    hits.add(5_000_000);
    // Long enough for several pictures, if it took some.
    std::thread::sleep(std::time::Duration::from_millis(500));
    tty.keys("?");
    tty.text("Ctrl-Z");
    tty.keys("?");
    assert!(!tty.gone("Ctrl-Z").contains("5004321"));
    tty.keys("\x1b[D");
    tty.text("back");
    assert!(!tty.text("Space go on").contains("5.00M"));
    tty.keys(" ");
    tty.text("5.00M");
    tty.text("5004321");
    tty.keys("?");
    tty.text("Ctrl-Z");
    tty.keys("?");
    tty.gone("Ctrl-Z");
    // Esc alone ends it; crossterm waits whether more follows.
    tty.keys("\x1b");
    assert_eq!(tty.end(), 0);
}

#[test]
fn keys_and_signals_leave_the_terminal_as_it_was() {
    let codes = [
        ("q", 0),
        ("\x03", 0),
        ("-TERM", 143),
        ("-HUP", 129),
        ("-INT", 130),
    ];
    for (how, code) in codes {
        let folder = Folder::new(&format!("top-end{code}-{}", how.len()));
        let (_segment, hits) = hits(&folder, "a");
        hits.add(77);
        let mut tty = top_in_shell(&folder, "a");
        tty.text("77");
        tty.wait("full screen", |s| s.alternate_screen() && s.hide_cursor());
        if how.starts_with('-') {
            signal(how, tty.grandchild());
        } else {
            tty.keys(how);
        }
        tty.text(&format!("code {code}"));
        tty.end();
        assert_as_it_was(&folder, &tty);
    }
}

#[test]
fn it_stops_and_goes_on() {
    let folder = Folder::new("top-stop");
    let (_segment, hits) = hits(&folder, "a");
    let mut command = command("bash", &["--norc", "--noprofile", "-i"]);
    command.cwd(&folder.0);
    command.env("PS1", "prompt: ");
    let mut tty = Tty::new(command, 80, 24);
    tty.text("prompt:");
    tty.keys(&format!(
        "stty -g >before; '{PERCPU}' top -n 0.1 ./a; stty -g >after; echo en''ded\n"
    ));
    tty.wait("full screen", |s| {
        s.alternate_screen() && s.contents().contains("hits")
    });
    for i in 1..=2 {
        tty.keys("\x1a");
        tty.wait("prompt", |s| !s.alternate_screen() && !s.hide_cursor());
        tty.text("Stopped");
        tty.keys("stty -g >stopped; clear; echo shell is h''ere\n");
        tty.text("shell is here");
        hits.add(1000 * i);
        // The shell goes on behind it when it stops, or ends.
        tty.keys(&format!("fg; echo ba''ck{i}\n"));
        tty.wait("full screen", |s| s.alternate_screen() && s.hide_cursor());
        tty.text(if i == 1 { " 1.00k" } else { " 3.00k" });
    }
    tty.keys("q");
    tty.text("back2");
    tty.keys("stty -g >after; exit\n");
    tty.end();
    let read = |name| std::fs::read_to_string(folder.path(name)).unwrap();
    assert_eq!(read("before"), read("stopped"));
    assert_as_it_was(&folder, &tty);
}

#[test]
fn a_file_that_is_reset_removed_and_replaced_is_followed() {
    let folder = Folder::new("top-replace");
    let (segment, old) = hits(&folder, "a");
    old.add(111);
    let mut tty = top(&folder, &["-n", "0.1", "./a"], 80, 24);
    tty.text("111");
    percpu::SegmentOptions::new()
        .anew()
        .open(&folder.path("a"))
        .unwrap();
    tty.text("was reset");
    old.add(222);
    tty.text("222");
    std::fs::remove_file(folder.path("a")).unwrap();
    drop(segment);
    tty.text("segment ./a: ");
    assert!(tty.text("222").contains("222"));
    let (_segment, new) = hits(&folder, "a");
    new.add(333);
    tty.text("was replaced");
    tty.text("333");
    tty.keys("q");
    assert_eq!(tty.end(), 0);
}

#[test]
fn a_terminal_that_lies_about_its_size() {
    let folder = Folder::new("top-huge");
    let (_segment, hits) = hits(&folder, "a");
    hits.add(66);
    let mut tty = top(&folder, &["-n", "0.1", "./a"], 80, 24);
    tty.text("66");
    tty.resize_unseen(65535, 65535);
    assert_eq!(tty.end(), 7);
    let screen = tty.text("65535 columns");
    assert!(screen.contains("stty(1)"), "{screen}");
}

#[test]
fn names_do_not_steer_the_terminal() {
    let folder = Folder::new("top-hostile");
    let segment = Segment::create(&folder.path("a")).unwrap();
    let metric = Metric::new("evil\x1b]0;title\x07\x1b[?1049l漢字e\u{301}")
        .help("\x1b[31mred\x1b[2J")
        .label("l", "\u{9b}5n\r\n\x1b[6n");
    segment.counter(&metric).unwrap().add(1);
    let mut tty = top(&folder, &["-n", "0.1", "./a"], 160, 40);
    tty.text("evil\\u{1b}]0;title");
    tty.text("漢字e\u{301}");
    tty.text("\\u{1b}[31mred");
    assert!(tty.wait("screen", |s| s.alternate_screen()).len() > 100);
    for raw in ["\x1b]0;", "\x07", "\x1b[6n", "\u{9b}", "\x1b[31mred"] {
        let bytes = tty.bytes();
        assert!(
            !bytes.windows(raw.len()).any(|w| w == raw.as_bytes()),
            "{raw:?}"
        );
    }
    tty.keys("q");
    assert_eq!(tty.end(), 0);
}

#[test]
fn without_colors_and_without_utf8() {
    let folder = Folder::new("top-plain");
    let (_segment, hits) = hits(&folder, "a");
    hits.add(55);
    for (name, value, colors, ascii) in [
        ("NO_COLOR", "1", false, false),
        ("LANG", "C", true, true),
        ("TERM", "xterm", true, false),
    ] {
        let mut command = command(PERCPU, &["top", "-n", "0.1", "./a"]);
        command.cwd(&folder.0);
        command.env(name, value);
        let mut tty = Tty::new(command, 80, 24);
        tty.text("By CPU");
        tty.keys("q");
        tty.end();
        let bytes = tty.bytes();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.is_ascii(), ascii, "{name}");
        // Parameters of sequences that set styles: 30 to 49 and 90 to 107 are colors.
        let sequences = text.split("\x1b[").skip(1);
        let mut styles = sequences.filter_map(|s| s.split_once('m').map(|(style, _)| style));
        let set = |s: &str| {
            let numbers: Result<Vec<u8>, _> = s.split(';').map(str::parse).collect();
            numbers.is_ok_and(|n| {
                n.iter()
                    .any(|n| (30..=38).contains(n) || (40..=48).contains(n))
            })
        };
        assert_eq!(styles.any(set), colors, "{name}");
        // No color of the background, and neither black nor white.
        assert!(!text.contains("48;5;") && !text.contains("[37m") && !text.contains("[30m"));
    }
}

/// A process that counts until it is killed: not a test of its own.
#[test]
#[ignore = "started by another test"]
fn worker() {
    let segment = Segment::open(&std::env::var("PERCPU_WORKER").unwrap()).unwrap();
    segment.join("worker-7", false).unwrap();
    let in_flight = segment
        .owned_gauge(&Metric::new("in_flight"), Rule::Sum)
        .unwrap();
    in_flight.set(42).unwrap();
    segment.counter(&Metric::new("hits")).unwrap().add(654);
    std::thread::park();
}

fn start_worker(path: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker", "--ignored"])
        .env("PERCPU_WORKER", path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn values_of_killed_workers_do_not_vanish() {
    let folder = Folder::new("top-dead");
    let segment = Segment::create(&folder.path("a")).unwrap();
    segment
        .owned_gauge(&Metric::new("in_flight"), Rule::Sum)
        .unwrap();
    let mut worker = start_worker(&folder.path("a"));
    let mut tty = top(&folder, &["-n", "0.1", "./a"], 120, 40);
    tty.text("654");
    tty.keys("j");
    tty.text("worker-7");
    assert!(!tty.text("By process").contains("dead"));
    worker.kill().unwrap();
    worker.wait().unwrap();
    let screen = tty.text("worker-7 dead");
    let line = screen.lines().find(|l| l.contains("worker-7")).unwrap();
    assert!(line.contains("42"), "{screen}");
    assert!(screen.contains("654"), "{screen}");
    tty.keys("q");
    assert_eq!(tty.end(), 0);
}

#[test]
fn files_appear_and_vanish() {
    // In the folder of all segments of this machine, where others have theirs.
    let name = format!("percpu-test-top-{}", std::process::id());
    let path = format!("/dev/shm/percpu.{name}");
    // With two segments each has a row of its own.
    let other = format!("/dev/shm/percpu.{name}-other");
    let _other = Segment::create(&other).unwrap();
    let folder = Folder::new("top-all");
    let mut tty = top(&folder, &["-n", "0.1"], 120, 50);
    tty.text("percpu top");
    let (_segment, _hits) = {
        let segment = Segment::create(&name).unwrap();
        let hits = segment.counter(&Metric::new("hits_of_all")).unwrap();
        (segment, hits)
    };
    // Others may have had the line at the bottom since: the rows of the segment stay.
    tty.keys("/hits_of_all\r");
    let row = |screen: &vt100::Screen| {
        let text = screen.contents();
        let row = text
            .lines()
            .find(|l| l.contains(&name) && l.contains(" 1 series") && !l.contains("percpu top"));
        row.map(String::from)
    };
    tty.wait("row", |s| {
        row(s).is_some() && s.contents().contains("  hits_of_all ")
    });
    std::fs::remove_file(&path).unwrap();
    tty.wait("sentence", |s| {
        row(s).is_some_and(|r| r.contains(": segment \""))
    });
    std::fs::remove_file(&other).unwrap();
    tty.keys("q");
    assert_eq!(tty.end(), 0);
}
