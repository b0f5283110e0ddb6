// SPDX-License-Identifier: MIT
//! Who may read from `percpu serve`: tokens and TLS; and what systemd passes and is told.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
mod server;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{fails, percpu, Named};
use percpu::{Metric, Segment};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use server::{status, Server, BOUND};

/// An address of no machine: a server that wants to listen there ends.
const NOWHERE: &str = "192.0.2.1:0";

fn counting(what: &str) -> (Named, Segment) {
    let named = Named::new(what);
    let segment = named.make();
    let counter = segment.counter(&Metric::new("things_total")).unwrap();
    counter.add(3);
    (named, segment)
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(what: &str) -> Self {
        let name = format!("percpu-serve-{what}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }

    /// Write a file under another name, and move it to its own, as people do who replace one.
    fn write(&self, name: &str, text: &str, mode: u32) -> String {
        let (new, file) = (self.file("new"), self.file(name));
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, PermissionsExt::from_mode(mode)).unwrap();
        std::fs::rename(&new, &file).unwrap();
        file
    }

    /// A certificate for 127.0.0.1, and its key. `None`: openssl is not installed.
    fn certificate(&self, name: &str) -> Option<(String, String)> {
        let (cert, key) = (self.file("new.pem"), self.file("new.key"));
        let mut command = Command::new("openssl");
        command.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes".split(' '));
        command.args(["-days", "2", "-subj", &format!("/CN={name}")]);
        command.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        let out = command
            .args(["-out", &cert, "-keyout", &key])
            .output()
            .ok()?;
        assert!(out.status.success(), "{out:?}");
        let moved = (
            self.file(&format!("{name}.pem")),
            self.file(&format!("{name}.key")),
        );
        std::fs::rename(&cert, &moved.0).unwrap();
        std::fs::rename(&key, &moved.1).unwrap();
        Some(moved)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Try until it is so.
fn becomes(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + BOUND;
    while !is() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_token_must_be_shown() {
    let (named, _segment) = counting("keep_token");
    let folder = Folder::new("token");
    let file = folder.write("token", "\n  s3cret:word\n", 0o640);
    let server = Server::start(&[&named.0, "--token-file", &file]);
    let with = |line: &str| {
        let line = format!("Authorization: {line}\r\n");
        status(&server.ask("/metrics", &line))
    };
    let answer = server.ask("/metrics", "");
    assert_eq!(status(&answer), 401, "{answer}");
    assert!(
        answer.contains("www-authenticate: Basic realm="),
        "{answer}"
    );
    assert_eq!(status(&server.ask("/nothing", "")), 401);
    assert_eq!(with("Bearer s3cret:word"), 200);
    assert_eq!(with("Basic bWU6czNjcmV0OndvcmQ="), 200);
    for wrong in [
        "Bearer s3cret:wore",
        "Bearer s3cret:wordy",
        "Bearer s3cret",
        "Bearer ",
        "Basic bWU6czNjcmV0",
        "s3cret:word",
    ] {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    // Another site would have to know the token, whatever its name is.
    let lines = "Host: proxy.example\r\nAuthorization: Bearer s3cret:word\r\n";
    assert_eq!(status(&server.ask("/metrics", lines)), 200);
    folder.write("token", "another", 0o600);
    becomes("the new token", || with("Bearer another") == 200);
    assert_eq!(with("Bearer s3cret:word"), 401);
    server.says("was read again");
    folder.write("token", "third", 0o644);
    server.signal(Signal::HUP);
    let said = server.says("is open to all users");
    assert!(said.contains("what was read before is used on"), "{said}");
    server.signal(Signal::HUP);
    (0..5).for_each(|_| assert_eq!(with("Bearer another"), 200));
    assert_eq!(server.said(), [""; 0], "it is said once");
}

#[test]
fn files_without_a_token() {
    let folder = Folder::new("tokens");
    let refused = |file: &str, code: i32, text: &str| {
        let (got, sentence) = fails(&["serve", "--listen", NOWHERE, "--token-file", file]);
        assert!(got == code && sentence.contains(text), "{got}: {sentence}");
    };
    for (mode, code) in [(0o644, 4), (0o602, 4), (0o606, 4)] {
        refused(&folder.write("open", "abc", mode), code, "chmod o-rw");
    }
    refused(&folder.write("empty", " \n", 0o600), 5, "has no token");
    refused(&folder.write("two", "a b\n", 0o600), 5, "has no token");
    refused(
        &folder.write("long", &"a".repeat(5000), 0o600),
        5,
        "has no token",
    );
    let longest = folder.write("longest", &"a".repeat(4096), 0o600);
    refused(&longest, 7, "no address of this machine");
    refused(&folder.file("none"), 3, "cannot be read");
    refused(&folder.file("."), 5, "is no file");
}

/// What a client gets that trusts that certificate.
fn ask_by_tls(
    server: &Server,
    trusted: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    let pem = std::fs::read(trusted)?;
    roots
        .add(CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::from(server.address.ip());
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, server.connect());
    // A site that has made its name lead here does not have the certificate.
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn tls_and_certificates_that_are_renewed() {
    let (named, _segment) = counting("keep_tls");
    let folder = Folder::new("tls");
    let (Some(one), Some(two)) = (folder.certificate("one"), folder.certificate("two")) else {
        return;
    };
    let copy =
        |name: &str, from: &str| folder.write(name, &std::fs::read_to_string(from).unwrap(), 0o600);
    let (cert, key) = (copy("cert", &one.0), copy("key", &one.1));
    let server = Server::start(&[&named.0, "--tls-cert", &cert, "--tls-key", &key]);
    for versions in [&[&TLS12], &[&TLS13]] {
        let answer = ask_by_tls(&server, &one.0, versions).unwrap();
        assert_eq!(status(&answer), 200, "{answer}");
        assert!(answer.contains("things_total{segment="), "{answer}");
        assert!(ask_by_tls(&server, &two.0, versions).is_err());
    }
    let plain = server.send(b"GET /metrics HTTP/1.0\r\n\r\n");
    assert!(!plain.contains("things_total"), "{plain}");
    // With one of two files, the old ones are used.
    copy("cert", &two.0);
    server.signal(Signal::HUP);
    server.says("what was read before is used on");
    assert_eq!(
        status(&ask_by_tls(&server, &one.0, &[&TLS13]).unwrap()),
        200
    );
    copy("key", &two.1);
    let renewed = || ask_by_tls(&server, &two.0, &[&TLS13]).is_ok_and(|a| status(&a) == 200);
    becomes("the new certificate", renewed);
    assert!(ask_by_tls(&server, &one.0, &[&TLS13]).is_err());
    server.says("was read again");
    assert_eq!(server.said(), [""; 0]);
}

#[test]
fn tls_alone_keeps_nobody_out() {
    let (named, _segment) = counting("keep_tls_open");
    let folder = Folder::new("tls-open");
    let Some((cert, key)) = folder.certificate("one") else {
        return;
    };
    let token = folder.write("token", "secret", 0o600);
    // The second line of the log.
    let second = |more: &[&str]| {
        let mut command = percpu(&["serve", &named.0, "--tls-cert", &cert, "--tls-key", &key]);
        command.args(["--listen", "0.0.0.0:0", "--listen", "127.0.0.1:0"]);
        command.args(more);
        Server::run(command).says("")
    };
    let warning = second(&[]);
    assert!(
        warning.ends_with("--token-file keeps others out"),
        "{warning}"
    );
    let next = second(&["--token-file", &token]);
    assert!(next.contains("https://127.0.0.1:"), "{next}");
}

#[test]
fn files_without_certificates() {
    let folder = Folder::new("no-tls");
    let (Some(one), Some(two)) = (folder.certificate("one"), folder.certificate("two")) else {
        return;
    };
    let refused = |cert: &str, key: &str, code: i32, text: &str| {
        let (got, sentence) = fails(&[
            "serve",
            "--listen",
            NOWHERE,
            "--tls-cert",
            cert,
            "--tls-key",
            key,
        ]);
        assert!(got == code && sentence.contains(text), "{got}: {sentence}");
    };
    let none = folder.file("none");
    refused(&none, &one.1, 3, "cannot be read");
    refused(&one.0, &none, 3, "cannot be read");
    refused(&one.1, &one.1, 5, "has no certificate in PEM");
    refused(&one.0, &one.0, 5, "has no private key in PEM");
    refused(&one.0, &two.1, 5, "cannot be used with");
    let damaged = std::fs::read_to_string(&one.0).unwrap().replace('M', "*");
    let damaged = folder.write("damaged", &damaged, 0o600);
    refused(&damaged, &one.1, 5, "is damaged");
    let alone = percpu(&["serve", "--tls-cert", &one.0]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
}

/// What comes to a socket as systemd has it.
fn told(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let n = socket.recv(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

#[test]
fn systemd_is_told() {
    let (named, _segment) = counting("keep_told");
    let folder = Folder::new("notify");
    let path = folder.file("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    let mut command = percpu(&["serve", "--listen", "127.0.0.1:0", &named.0]);
    command.env("NOTIFY_SOCKET", &path);
    command
        .env("WATCHDOG_USEC", "30000000")
        .env_remove("WATCHDOG_PID");
    let mut server = Server::run(command);
    assert!(told(&socket).contains("READY=1"));
    assert!(told(&socket).contains("WATCHDOG=1"));
    server.signal(Signal::TERM);
    let mut last = told(&socket);
    while last.contains("WATCHDOG=1") {
        last = told(&socket);
    }
    assert!(last.contains("STOPPING=1"), "{last}");
    assert_eq!(server.ends().code(), Some(0));
}

#[test]
fn sockets_that_systemd_passes() {
    let activate = "/usr/bin/systemd-socket-activate";
    if !Path::new(activate).exists() {
        return;
    }
    let (named, _segment) = counting("keep_passed");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let own = percpu(&["serve", &named.0]);
    let mut command = Command::new(activate);
    command
        .args(["-l", &address.to_string()])
        .arg(own.get_program())
        .args(own.get_args());
    // It starts the server when the first client comes.
    let client = std::thread::spawn(move || {
        let until = Instant::now() + BOUND;
        loop {
            match std::net::TcpStream::connect(address) {
                Ok(stream) => return stream,
                Err(e) => assert!(Instant::now() < until, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut server = Server::run(command);
    assert_eq!(server.address, address);
    let mut stream = client.join().unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("things_total{segment="), "{answer}");
    server.signal(Signal::TERM);
    assert_eq!(server.ends().code(), Some(0));
}
