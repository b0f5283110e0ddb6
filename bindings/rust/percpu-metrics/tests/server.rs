// SPDX-License-Identifier: MIT
//! The example `server`: its counts are those of all workers, also of one that was killed.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use common::TemporaryFile;

/// The example, which `cargo test` has built beside this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/server")
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.into()
}

#[test]
fn metrics_are_those_of_all_workers() {
    let file = TemporaryFile::new("server");
    let mut server = Command::new(example())
        .args([file.path(), "2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let _server = Server(server);
    let address = line.trim().strip_prefix("listening on ").unwrap();

    for _ in 0..20 {
        get(address, "/");
    }
    get(address, "/none");
    let worker: i32 = get(address, "/").trim().parse().unwrap();
    // SAFETY: it is a worker of this server.
    assert_eq!(unsafe { libc::kill(worker, libc::SIGKILL) }, 0);
    // SAFETY: the signal 0 is not sent.
    while unsafe { libc::kill(worker, 0) } == 0 {
        std::thread::yield_now();
    }
    for _ in 0..20 {
        get(address, "/");
    }
    let has = |text: &str, line: &str| text.lines().any(|l| l == line);
    let mut text = get(address, "/metrics");
    // The parent replaces the worker soon.
    while !has(&text, "workers_ended_total 1") {
        std::thread::yield_now();
        text = get(address, "/metrics");
    }
    let scrapes: u64 = text
        .lines()
        .find_map(|l| l.strip_prefix("http_requests_total{code=\"200\"} "))
        .unwrap()
        .parse()
        .unwrap();
    assert!(scrapes >= 41, "{text}");
    assert!(has(&text, "http_requests_total{code=\"404\"} 1"), "{text}");
    assert!(
        has(
            &text,
            "# HELP http_requests_total Requests that were answered."
        ),
        "{text}"
    );
    let count = format!("http_request_seconds_count {}", scrapes + 1);
    assert!(has(&text, &count), "{text}");
}
