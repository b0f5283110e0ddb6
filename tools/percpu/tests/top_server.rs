// SPDX-License-Identifier: MIT
//! `percpu top` on the prefork server of the examples. PERCPU_PREFORK says where the program is.

#![allow(clippy::unwrap_used)]

mod tty;

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use tty::{command, Folder, Tty};

const PERCPU: &str = env!("CARGO_BIN_EXE_percpu");

fn signal(name: &str, pid: i32) {
    let done = Command::new("kill")
        .args([name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(done.success());
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
    let mut tty = Tty::new(
        command(PERCPU, &["top", "-n", "0.1", &folder.path("server")]),
        160,
        50,
    );
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
