// SPDX-License-Identifier: MIT
//! `percpu serve` as a process, and clients that write what they like.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

/// No test waits longer for anything.
pub const BOUND: Duration = Duration::from_secs(30);

/// A server that listens. It ends with the test.
pub struct Server {
    child: Child,
    said: Receiver<String>,
    pub address: SocketAddr,
}

impl Server {
    /// `percpu serve` with arguments, at a free port.
    pub fn start(arguments: &[&str]) -> Self {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        Self::run(super::common::percpu(&all))
    }

    /// A command that says where it listens.
    pub fn run(mut command: Command) -> Self {
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (send, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let mut server = Self {
            child,
            said,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let line = server.says("/metrics");
        let address = line.split('/').nth(2).unwrap();
        server.address = address.parse().unwrap();
        server
    }

    /// Wait for a line of the log that has a text.
    pub fn says(&self, text: &str) -> String {
        let until = Instant::now() + BOUND;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.said.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("it never says {text}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The lines of the log that nobody has waited for.
    pub fn said(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Wait for its end.
    pub fn ends(&mut self) -> ExitStatus {
        let until = Instant::now() + BOUND;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream.set_write_timeout(Some(BOUND)).unwrap();
        stream
    }

    /// Send bytes, close that side, and return the answer; "" if there is none.
    pub fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may have answered and closed before all is sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Ask for a path, with more lines in the head.
    pub fn ask(&self, path: &str, lines: &str) -> String {
        let host = format!("Host: {}\r\n", self.address);
        let host = if lines.contains("Host:") { "" } else { &host };
        let head = format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n{lines}\r\n");
        self.send(head.as_bytes())
    }

    /// The metrics.
    pub fn scrape(&self) -> String {
        let answer = self.ask("/metrics", "");
        assert_eq!(status(&answer), 200, "{answer}");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status of an answer; 0 if there is none.
pub fn status(answer: &str) -> u16 {
    let first = answer.strip_prefix("HTTP/1.").unwrap_or("");
    first.get(2..5).and_then(|s| s.parse().ok()).unwrap_or(0)
}
