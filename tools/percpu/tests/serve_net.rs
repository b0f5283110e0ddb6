// SPDX-License-Identifier: MIT
//! `percpu serve` and clients of all kinds: whatever one does, others get their answers.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
mod server;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use common::{fails, percpu, Named};
use percpu::{Metric, Segment};
use rustix::process::Signal;
use server::{status, Server};

/// A segment with one counter.
fn counting(what: &str, n: u64) -> (Named, Segment) {
    let named = Named::new(what);
    let segment = named.make();
    let counter = segment.counter(&Metric::new("things_total")).unwrap();
    counter.add(n);
    (named, segment)
}

fn has(answer: &str, named: &Named, n: u64) -> bool {
    answer.contains(&format!("things_total{{segment=\"{}\"}} {n}\n", named.0))
}

#[test]
fn addresses_that_cannot_be_listened_to() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (code, sentence) = fails(&["serve", "--listen", &taken]);
    assert_eq!(
        (code, sentence.contains("is in use by another program")),
        (7, true),
        "{sentence}"
    );
    let (code, sentence) = fails(&["serve", "--listen", "192.0.2.1:0"]);
    assert_eq!(
        (code, sentence.contains("no address of this machine")),
        (7, true),
        "{sentence}"
    );
    for name in ["localhost:9180", "9180", "127.0.0.1", "::1:x"] {
        let out = common::run(&["serve", "--listen", name]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains("names are not looked up"), "{name}: {said}");
    }
}

#[test]
fn several_addresses_and_a_warning_for_one_that_others_reach() {
    let (named, _segment) = counting("net_several", 3);
    let arguments = [
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--listen",
        "127.0.0.1:0",
        &named.0,
    ];
    let mut server = Server::run(percpu(&arguments));
    let warning = server.says("whoever reaches 0.0.0.0:");
    assert!(
        warning.contains("can read the names, labels and values"),
        "{warning}"
    );
    let second = server.says("http://127.0.0.1:");
    assert!(has(&server.scrape(), &named, 3));
    server.address = second.split('/').nth(2).unwrap().parse().unwrap();
    assert!(has(&server.scrape(), &named, 3));
    assert_eq!(server.said(), [""; 0]);
}

/// Requests that HTTP allows, however few clients send them.
#[test]
fn requests_of_other_shapes() {
    let (named, _segment) = counting("net_shapes", 3);
    let server = Server::start(&[&named.0]);
    let host = format!("Host: {}\r\n", server.address);
    for request in [
        "GET /metrics HTTP/1.0\r\n\r\n".to_string(),
        format!(
            "GET http://{}/metrics HTTP/1.1\r\n{host}\r\n",
            server.address
        ),
        format!("GET /metrics HTTP/1.1\r\n{host}Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"),
        format!("GET /metrics HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\nabc"),
        format!(
            "GET /metrics HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n0\r\n\r\n"
        ),
    ] {
        let answer = server.send(request.as_bytes());
        assert_eq!(status(&answer), 200, "{request}: {answer}");
        assert!(has(&answer, &named, 3), "{request}: {answer}");
    }
    let two = format!("GET /metrics HTTP/1.1\r\n{host}\r\n").repeat(2);
    let answer = server.send(two.as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(status(&server.ask("/nothing", "")), 404);
}

#[test]
fn heads_without_an_end() {
    let (named, _segment) = counting("net_heads", 3);
    let server = Server::start(&[&named.0]);
    let large = format!("X: {}\r\n", "a".repeat(1 << 20));
    assert_eq!(status(&server.ask("/metrics", &large)), 431);
    let long = format!("/{}", "a".repeat(1 << 20));
    assert!(matches!(status(&server.ask(&long, "")), 414 | 431));
    assert_eq!(
        status(&server.ask("/metrics", &"X: y\r\n".repeat(200))),
        431
    );
    assert!(has(
        &server.ask("/metrics", &"X: y\r\n".repeat(90)),
        &named,
        3
    ));
}

/// Numbers by the xorshift of Marsaglia.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn requests_of_random_bytes() {
    let (named, _segment) = counting("net_random", 3);
    let server = Server::start(&[&named.0]);
    let whole = format!(
        "GET /metrics HTTP/1.1\r\nHost: {}\r\nX: y\r\n\r\n",
        server.address
    );
    let hello = [0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
    server.send(&hello);
    let mut state = 0x1234_5678_9abc_def1;
    for round in 0..300 {
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..=round % 8 {
            let at = random(&mut state) as usize % bytes.len();
            match random(&mut state) % 3 {
                0 => bytes[at] = random(&mut state) as u8,
                1 => bytes.truncate(at + 1),
                _ => bytes.insert(at, random(&mut state) as u8),
            }
        }
        server.send(&bytes);
    }
    assert!(has(&server.scrape(), &named, 3));
    assert_eq!(server.said(), [""; 0]);
}

/// Names of other sites that lead here, as a hostile page in a browser would use them.
#[test]
fn hosts_of_others() {
    let (named, _segment) = counting("net_hosts", 3);
    let server = Server::start(&[&named.0, "--host", "web1.example"]);
    let port = server.address.port();
    for host in [
        "localhost",
        "LOCALHOST",
        "127.0.0.1",
        "[::1]",
        "web1.example",
    ] {
        let answer = server.ask("/metrics", &format!("Host: {host}:{port}\r\n"));
        assert!(has(&answer, &named, 3), "{host}: {answer}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "web1.example.evil",
        "",
    ] {
        for path in ["/metrics", "/", "/nothing"] {
            let answer = server.ask(path, &format!("Host: {host}:{port}\r\n"));
            assert_eq!(status(&answer), 421, "{host}: {answer}");
            assert!(!answer.contains("things_total"), "{answer}");
        }
    }
    let good = format!("Host: 127.0.0.1:{port}\r\n");
    let answer = server.ask("http://evil.example/metrics", &good);
    assert_eq!(status(&answer), 421, "{answer}");
    let two = format!("{good}Host: evil.example\r\n");
    assert_eq!(status(&server.ask("/metrics", &two)), 400);
    assert_eq!(status(&server.send(b"GET /metrics HTTP/1.1\r\n\r\n")), 400);
    let answer = server.ask("/metrics", "Origin: http://evil.example\r\n");
    assert!(
        !answer.to_lowercase().contains("access-control"),
        "{answer}"
    );
    assert!(answer.contains("nosniff"), "{answer}");
}

/// Run the server with so few descriptors.
fn with_descriptors(n: u32, arguments: &[&str]) -> Server {
    let mut command = Command::new("sh");
    let own = percpu(arguments);
    let script = format!("ulimit -n {n}; exec \"$0\" serve --listen 127.0.0.1:0 \"$@\"");
    command.args(["-c", &script]).arg(own.get_program());
    command.args(own.get_args()).stdin(Stdio::null());
    Server::run(command)
}

#[test]
fn idle_connections_make_room_for_a_scrape() {
    let (named, _segment) = counting("net_many", 3);
    let server = with_descriptors(64, &[&named.0]);
    let held: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    assert!(has(&server.scrape(), &named, 3));
    // A quarter of the descriptors is for connections: all others were closed.
    let closed = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        !matches!(stream.read(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
    };
    let open = held.iter().filter(|s| !closed(s)).count();
    assert!(open < 16, "{open}");
    assert!(has(&server.scrape(), &named, 3));
}

#[test]
fn a_scrape_with_sixteen_descriptors() {
    let (named, _segment) = counting("net_few", 3);
    let server = with_descriptors(16, &[&named.0]);
    let held: Vec<TcpStream> = (0..50).map(|_| server.connect()).collect();
    assert!(has(&server.scrape(), &named, 3));
    drop(held);
    assert!(has(&server.scrape(), &named, 3));
}

/// Files that are kept open and connections have all descriptors, so that no folder can be listed.
#[test]
fn segments_are_found_when_descriptors_are_short() {
    let counted: Vec<_> = (0..30)
        .map(|n| counting(&format!("net_short{n}"), 3))
        .collect();
    let names: Vec<_> = counted.iter().map(|(named, _)| named.0.as_str()).collect();
    let server = with_descriptors(32, &names);
    let up = |answer: &str| {
        let answer = answer.lines();
        let up = answer.filter(|l| l.starts_with("percpu_segment_up{") && l.ends_with(" 1"));
        up.count()
    };
    assert!(up(&server.scrape()) >= 10);
    let held: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    for _ in 0..2 {
        let answer = server.scrape();
        assert!(up(&answer) >= 10, "{answer}");
        assert_eq!(answer.matches("percpu_segment_up{").count(), 30, "{answer}");
    }
    drop(held);
    let said = server.said();
    let wrong = said.iter().find(|l| l.contains("there is no segment"));
    assert_eq!(wrong, None);
}

#[test]
fn signals_end_it() {
    let (named, _segment) = counting("net_signals", 3);
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&[&named.0]);
        let mut idle = server.connect();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
        idle.write_all(request.as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        assert_ne!(idle.read(&mut bytes).unwrap(), 0);
        let _silent = server.connect();
        server.signal(Signal::HUP);
        assert!(has(&server.scrape(), &named, 3));
        server.signal(signal);
        assert_eq!(server.ends().code(), Some(0));
    }
}

const PLAIN: &[u8] = b"GET /metrics HTTP/1.0\r\n\r\n";

/// A server whose answer is larger than all buffers between it and a client, that answer, and a
/// client that has read the first bytes of it.
fn large_answer(what: &str) -> (Server, String, TcpStream, Named) {
    let named = Named::new(what);
    common::every_kind(&named.make());
    let label = format!("pad={}", "x".repeat(100_000));
    let server = Server::start(&[&named.0, "--label", &label]);
    let whole = server.send(PLAIN);
    assert!(whole.len() > 10 << 20, "{}", whole.len());
    let mut client = server.connect();
    client.write_all(PLAIN).unwrap();
    client.read_exact(&mut [0; 1]).unwrap();
    (server, whole, client, named)
}

#[test]
fn an_answer_is_finished_before_the_end() {
    let (mut server, whole, mut client, _named) = large_answer("net_finish");
    server.signal(Signal::TERM);
    let until = std::time::Instant::now() + server::BOUND;
    while TcpStream::connect(server.address).is_ok() {
        assert!(std::time::Instant::now() < until, "it still listens");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8(rest).unwrap();
    let body = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.len();
    assert_eq!(body(&rest), body(&whole));
    assert_eq!(server.ends().code(), Some(0));
}

#[test]
fn a_second_signal_does_not_wait_for_answers() {
    let (mut server, _, _client, _named) = large_answer("net_second");
    server.signal(Signal::TERM);
    while TcpStream::connect(server.address).is_ok() {}
    server.signal(Signal::INT);
    assert_eq!(server.ends().code(), Some(0));
}

#[test]
fn it_serves_without_standard_streams() {
    let (named, _segment) = counting("net_streams", 3);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let mut command = Command::new("sh");
    let script = "exec \"$0\" serve --listen \"$1\" \"$2\" <&- >&- 2>&-";
    let program = percpu(&[]);
    command.args(["-c", script]).arg(program.get_program());
    let mut child = command
        .args([&address.to_string(), &named.0])
        .spawn()
        .unwrap();
    let until = std::time::Instant::now() + server::BOUND;
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(e) => assert!(std::time::Instant::now() < until, "{e}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(has(&answer, &named, 3), "{answer}");
    child.kill().unwrap();
    child.wait().unwrap();
}
