// SPDX-License-Identifier: MIT
//! `percpu top` in a pseudo-terminal, on real segments.

#![allow(clippy::unwrap_used)]

mod tty;

use std::io::{Read, Write};
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
    tty.keys(" ");
    tty.text("FROZEN");
    hits.add(5_000_000);
    tty.keys("\x1b[D");
    tty.text("back");
    assert!(!tty.text("Space go on").contains("5.00M"));
    tty.keys(" ");
    tty.text("5.00M");
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
        tty.keys("fg\n");
        tty.wait("full screen", |s| s.alternate_screen() && s.hide_cursor());
        tty.text(if i == 1 { " 1.00k" } else { " 3.00k" });
    }
    tty.keys("q");
    // After a job was stopped, bash goes on with the next command at once.
    tty.text("prompt:");
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

#[test]
fn what_is_no_terminal_gets_one_sentence() {
    let folder = Folder::new("top-none");
    let (_segment, _hits) = hits(&folder, "a");
    let output = Command::new(PERCPU)
        .args(["top", &folder.path("a")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(
        sentence.starts_with("percpu: top needs a terminal"),
        "{sentence}"
    );
    assert!(sentence.ends_with("percpu watch prints lines\n") && sentence.lines().count() == 1);

    for (term, said) in [("dumb", "TERM is dumb"), ("", "TERM is not set")] {
        let mut command = command(PERCPU, &["top", "./a"]);
        command.cwd(&folder.0);
        command.env("TERM", term);
        let mut tty = Tty::new(command, 100, 24);
        assert_eq!(tty.end(), 2);
        let text = tty.text(said);
        assert!(text.contains("percpu watch"), "{text}");
        assert!(!tty.bytes().contains(&0x1b));
    }
}

#[test]
fn no_segment_of_a_name_is_said_before_the_screen_is_taken() {
    let folder = Folder::new("top-missing");
    let mut tty = top(&folder, &["./missing"], 100, 24);
    assert_eq!(tty.end(), 3);
    assert!(tty.text("missing").contains("percpu: "));
    assert!(!tty.bytes().contains(&0x1b));
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
fn files_that_appear_and_vanish_are_said() {
    // In the folder of all segments of this machine, where others have theirs.
    let name = format!("percpu-test-top-{}", std::process::id());
    let path = format!("/dev/shm/percpu.{name}");
    let folder = Folder::new("top-all");
    let mut tty = top(&folder, &["-n", "0.1"], 120, 50);
    tty.text("percpu top");
    let (_segment, _hits) = {
        let segment = Segment::create(&name).unwrap();
        let hits = segment.counter(&Metric::new("hits_of_all")).unwrap();
        (segment, hits)
    };
    tty.text(&format!("segment {name} appeared"));
    std::fs::remove_file(&path).unwrap();
    tty.text(&format!("segment {name}: "));
    tty.keys("q");
    assert_eq!(tty.end(), 0);
}

/// The prefork server of the examples, on a port of its own.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// `None` if PERCPU_PREFORK does not say where the program is.
    fn start(file: &str) -> Option<Self> {
        let program = std::env::var_os("PERCPU_PREFORK")?;
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let process = Command::new(program)
            .args(["-w", "3", "-p", &port.to_string(), file])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { process, port })
    }

    /// Ask for a page, and return the status. A worker that dies meanwhile gives none.
    fn ask(&self, path: &str) -> Option<String> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer.split(' ').nth(1)?.to_string())
    }

    fn workers(&self) -> Vec<i32> {
        let pid = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap();
        children
            .split_whitespace()
            .map(|p| p.parse().unwrap())
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal("-TERM", self.process.id() as i32);
        self.process.wait().unwrap();
    }
}

#[test]
fn a_server_is_watched_while_its_workers_are_killed() {
    let folder = Folder::new("top-prefork");
    let Some(server) = Server::start(&folder.path("server")) else {
        eprintln!("PERCPU_PREFORK is not set: not tested");
        return;
    };
    while server.ask("/old").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut tty = top(&folder, &["-n", "0.1", "./server"], 160, 50);
    tty.text("prefork_requests_total");
    tty.keys("/2xx\rj");
    tty.text("code = \"2xx\"");
    for round in 1..=3 {
        let found = (0..100).filter(|_| server.ask("/").as_deref() == Some("200"));
        assert_eq!(found.count(), 100);
        tty.text(&format!("value {} ", round * 100));
        let killed = server.workers()[0];
        signal("-KILL", killed);
        // Until the master has replaced it, connections may wait for the dead worker.
        while server.workers().len() < 3 || server.workers().contains(&killed) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    tty.keys("/restarts\r");
    tty.text("value 3 ");
    tty.keys("q");
    assert_eq!(tty.end(), 0);
}

/// Prints screens of `top` on the segment PERCPU_RECORD: for docs/tool/top.md, which says how.
#[test]
#[ignore = "for the documentation"]
fn record() {
    let segment = std::env::var("PERCPU_RECORD").unwrap();
    let mut tty = Tty::new(command(PERCPU, &["top", &segment]), 80, 24);
    let show = |tty: &Tty, seconds, keys: &str| {
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        let screen = tty.text("percpu top");
        let lines: Vec<_> = screen.lines().map(str::trim_end).collect();
        println!("{keys}\n{}\n", lines.join("\n"));
    };
    show(&tty, 20, "started");
    tty.keys("/in_fl\r");
    show(&tty, 5, "/in_fl Enter");
    tty.keys("/seconds\r");
    show(&tty, 5, "/seconds Enter");
    tty.keys("/\rr\x1b[H");
    show(&tty, 5, "/ Enter r Home");
    tty.keys(" \x1b[D\x1b[D");
    show(&tty, 1, "Space Left Left");
    tty.keys("q");
    tty.end();
}
