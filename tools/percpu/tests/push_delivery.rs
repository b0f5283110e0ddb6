// SPDX-License-Identifier: MIT
//! `percpu push`: collectors that are down, slow, or lie.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
mod sink;

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{fails, failure, percpu, run, Named, Scratch};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use percpu::{Counter, Metric, Segment};
use sink::{accepted, answer, metrics, partial, Answer, Pusher, Received, Sink, Stream};

/// A segment that has a counter.
struct Counted {
    name: Named,
    counter: Counter,
    _segment: Segment,
}

impl Counted {
    fn new(what: &str) -> Self {
        let name = Named::new(&format!("push_{what}"));
        let segment = name.make();
        let counter = segment.counter(&Metric::new("a_total")).unwrap();
        Self {
            name,
            counter,
            _segment: segment,
        }
    }

    fn name(&self) -> &str {
        &self.name.0
    }
}

/// The counter in a push.
fn total(received: &Received) -> i64 {
    let metrics = metrics(&received.message.resource_metrics[0]);
    let a = metrics.iter().find(|m| m.name == "a_total").unwrap();
    match a.data.as_ref().unwrap() {
        Data::Sum(s) => match s.data_points[0].value {
            Some(Number::AsInt(n)) => n,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The sentence with which one push fails.
fn refused(url: &str, segment: &str, more: &[&str]) -> String {
    let arguments = [&["push", "--otlp", url, "--once", segment], more].concat();
    let (exit, sentence) = fails(&arguments);
    assert_eq!(exit, 7, "{sentence}");
    sentence
}

#[test]
fn what_fails_is_sent_again_with_newer_totals() {
    let counted = Counted::new("retry");
    let sink = Sink::new([
        answer("503 Busy", "retry-after: 2\r\n", "overload"),
        answer("502 Bad Gateway", "", ""),
        answer("400 Bad", "", "never again"),
    ]);
    counted.counter.add(1);
    let mut pusher = Pusher::start("retry", &sink.url(), &[counted.name()]);
    sink.wait(1);
    counted.counter.add(1);
    let received = sink.wait(3);
    // Neither the time of a push, nor that which the collector wants.
    assert!(received[1].at - received[0].at >= Duration::from_secs(2));
    assert_eq!((total(&received[0]), total(&received[2])), (1, 2));
    pusher.wait_for("answers 400 Bad Request: never again");
    let lines = pusher.said();
    for (line, part) in lines.iter().zip([
        "/v1/metrics answers 503 Service Unavailable: overload",
        "/v1/metrics answers 502 Bad Gateway",
        "answers 400 Bad Request: never again; some receivers do not read gzip",
    ]) {
        assert!(line.starts_with("percpu: http://127.0.0.1:"), "{lines:?}");
        assert!(line.contains(part), "{lines:?}");
    }
    assert_eq!(lines.len(), 3, "{lines:?}");
    // With the end comes a last push.
    counted.counter.add(40);
    assert_eq!(pusher.terminate().code(), Some(0));
    let received = sink.received();
    assert_eq!((received.len(), total(&received[3])), (4, 42));
    assert!(pusher.said().last().unwrap().ends_with("works again"));
}

/// The end comes while a collector has not answered yet.
#[test]
fn the_last_totals_follow_a_push_that_is_under_way() {
    let counted = Counted::new("under_way");
    let go = Scratch::new("push-go");
    let Answer::Bytes(bytes) = accepted() else {
        panic!()
    };
    let sink = Sink::new([Answer::After(go.0.clone(), bytes)]);
    counted.counter.add(1);
    let mut pusher = Pusher::start("under_way", &sink.url(), &[counted.name()]);
    sink.wait(1);
    counted.counter.add(41);
    let answers = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        fs::write(&go.0, "").unwrap();
        go
    });
    assert_eq!(pusher.terminate().code(), Some(0));
    drop(answers.join().unwrap());
    let received = sink.received();
    assert_eq!((received.len(), total(&received[1])), (2, 42));
    assert_eq!(pusher.said(), [""; 0]);
}

#[test]
fn a_refusal_is_not_sent_again() {
    let counted = Counted::new("refusal");
    let sink = Sink::new([answer("400 Bad", "", "no")]);
    let pusher = Pusher::start("refusal", &sink.url(), &[counted.name()]);
    pusher.wait_for("answers 400 Bad Request: no");
    // Longer than the first wait, and shorter than the minute between two pushes.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(sink.received().len(), 1);
}

#[test]
fn a_trouble_is_said_once_and_its_end_too() {
    let counted = Counted::new("down");
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let url = format!("http://127.0.0.1:{port}");
    let arguments = [counted.name(), "-n", "0.05"];
    let pusher = Pusher::start("down", &url, &arguments);
    pusher.wait_for("nobody listens there");
    std::thread::sleep(Duration::from_millis(1200));
    let sink = Sink::at(
        port,
        [
            accepted(),
            accepted(),
            answer("500 No", "", ""),
            answer("500 No", "", "x"),
        ],
        Box::new(|stream| Box::new(stream)),
    );
    let received = sink.wait(8);
    let lines = pusher.said();
    let ends: Vec<_> = lines
        .iter()
        .map(|l| l.split("/v1/metrics ").nth(1).unwrap())
        .collect();
    assert_eq!(
        ends,
        [
            "cannot be reached: nobody listens there",
            "works again",
            "answers 500 Internal Server Error",
            "works again"
        ]
    );
    assert_eq!(total(&received[7]), 0);
}

#[test]
fn points_that_are_refused_are_said_once() {
    let counted = Counted::new("partial");
    let many = || (0..100).map(|i| partial(0, &format!("number {i}")));
    let answers = [
        partial(3, "too old"),
        partial(2, "too old"),
        partial(0, "slow down"),
        partial(1, ""),
    ];
    let sink = Sink::new(answers.into_iter().chain(many()));
    let arguments = [counted.name(), "-n", "0.01"];
    let pusher = Pusher::start("partial", &sink.url(), &arguments);
    sink.wait(105);
    let lines = pusher.said();
    let ends: Vec<_> = lines
        .iter()
        .map(|l| l.split("/v1/metrics ").nth(1).unwrap())
        .collect();
    assert_eq!(
        ends[..4],
        [
            "refuses 3 points: too old",
            "takes all points, but warns: slow down",
            "refuses 1 point",
            "takes all points, but warns: number 0"
        ]
    );
    // One that never says the same has no endless log.
    assert_eq!(ends.len(), 64);
    let sink = Sink::new([partial(1, "too old"), partial(0, "as you like")]);
    let sentence = refused(&sink.url(), counted.name(), &[]);
    assert!(sentence.ends_with("refuses 1 point: too old"), "{sentence}");
    let out = run(&["push", "--otlp", &sink.url(), "--once", counted.name()]);
    assert_eq!(out.status.code(), Some(0));
}

#[test]
fn lies_are_one_sentence() {
    let counted = Counted::new("lies");
    let html = "content-type: text/html\r\n";
    let moved = "location: http://127.0.0.1:1/other\r\n";
    let status = b"\x08\x03\x12\x09not today";
    for (answer, says) in [
        (
            answer("200 OK", html, "<html>hello"),
            "answers 200, but not as OTLP says",
        ),
        (
            answer("301 Moved", moved, ""),
            "answers 301 Moved Permanently, to http://127.0.0.1:1/other",
        ),
        (
            answer("307 Moved", moved, ""),
            "answers 307 Temporary Redirect, to http://127.0.0.1:1/other",
        ),
        (
            answer("404 No", html, "nothing\x1b[2J here"),
            "answers 404 Not Found: nothing\\u{1b}[2J here: is it the right URL?",
        ),
        (
            answer("401 No", "", ""),
            "answers 401 Unauthorized: --header gives a token",
        ),
        (
            answer("400 No", "content-type: application/x-protobuf\r\n", status),
            "answers 400 Bad Request: not today",
        ),
        (
            answer("500 No", "", "x".repeat(100_000)),
            "answers 500 Internal Server Error",
        ),
        (Answer::Endless, "gave an answer of more than 64 KiB"),
        (
            Answer::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
            "does not speak HTTP",
        ),
        (
            Answer::Bytes(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)).into()),
            "too large a head",
        ),
        (
            Answer::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_vec()),
            "closed the connection",
        ),
        (Answer::Close, "closed the connection without an answer"),
    ] {
        let sink = Sink::new([answer]);
        let sentence = refused(&sink.url(), counted.name(), &[]);
        assert!(sentence.contains(says), "{says}: {sentence}");
        assert!(sentence.len() < 300, "{sentence}");
        assert_eq!(sink.received().len(), 1);
    }
    let sink = Sink::new([answer("301 Moved", "", "")]);
    let sentence = refused(&sink.url(), counted.name(), &[]);
    assert!(
        sentence.ends_with("answers 301 Moved Permanently"),
        "{sentence}"
    );
    // A query may be secret.
    let sentence = refused(
        "http://no.such.host.invalid/x?key=hidden",
        counted.name(),
        &[],
    );
    assert!(sentence.contains("not known"), "{sentence}");
    assert!(!sentence.contains("hidden"), "{sentence}");
}

#[test]
fn the_slow_are_not_waited_for() {
    let counted = Counted::new("slow");
    let nothing = || (0..100).map(|_| Answer::Nothing);
    let sink = Sink::new(nothing());
    let arguments = [counted.name(), "-n", "0.05"];
    let mut pusher = Pusher::start("slow", &sink.url(), &arguments);
    pusher.wait_for("gave no answer in 1 s");
    sink.wait(2);
    let memory = fs::read_to_string(pusher.status()).unwrap();
    let peak = memory
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 100_000, "{peak} kB");
    // The last push has a bound, too.
    assert_eq!(pusher.terminate().code(), Some(0));
    let lines = pusher.said();
    assert!(lines.len() <= 2, "{lines:?}");
}

#[test]
fn a_wrong_command_line_is_said_before_anything_is_sent() {
    let counted = Counted::new("usage");
    let bad = Scratch::with("push-ca", "no certificate");
    let url = "http://127.0.0.1:1";
    for (arguments, says) in [
        (vec!["--otlp", "127.0.0.1:4318"], "give a URL such as"),
        (vec!["--otlp", "ftp://x"], "has no http, https"),
        (vec!["--otlp", "http://user:pass@x"], "--header would give"),
        (vec!["--otlp", url, "--header", "a b=c"], "has a wrong name"),
        (
            vec!["--otlp", url, "--header", "a=b\nc"],
            "a header cannot have",
        ),
        (
            vec!["--otlp", url, "--header", "Content-Length=1"],
            "is made by percpu",
        ),
        (
            vec!["--otlp", url, "--ca", "/no/such"],
            "cannot be read: No such file",
        ),
        (
            vec!["--otlp", url, "--ca", "/dev/null"],
            "--ca /dev/null is no file of at most 1 MiB",
        ),
        (
            vec!["--otlp", "http://127.0.0.1:65617"],
            "has no port from 1 to 65535",
        ),
        (
            vec!["--otlp", url, "--ca", bad.text()],
            "has no certificate in PEM",
        ),
        (
            vec!["--otlp", url, "--match", "["],
            "the pattern \"[\" is wrong",
        ),
    ] {
        let arguments = [vec!["push", counted.name()], arguments].concat();
        let (exit, sentence) = fails(&arguments);
        assert!(exit == 2 && sentence.contains(says), "{says}: {sentence}");
    }
    let mut command = percpu(&["push", "--otlp", url, "--once"]);
    let out = command
        .env("OTEL_RESOURCE_ATTRIBUTES", "a")
        .output()
        .unwrap();
    let (exit, sentence) = failure(&out, &["push"]);
    assert!(
        exit == 2 && sentence.contains("OTEL_RESOURCE_ATTRIBUTES is wrong"),
        "{sentence}"
    );
    let compressed = |how: &str, url: &str| {
        let mut command = percpu(&["push", "--otlp", url, "--once", counted.name()]);
        command.env("OTEL_EXPORTER_OTLP_COMPRESSION", how).output()
    };
    let (exit, sentence) = failure(&compressed("zip", url).unwrap(), &["push"]);
    assert!(
        exit == 2 && sentence.contains("give gzip or none"),
        "{sentence}"
    );
    let sink = Sink::new([]);
    for how in ["none", "gzip", ""] {
        assert!(compressed(how, &sink.url()).unwrap().status.success());
        let head = &sink.received().pop().unwrap().head;
        assert_eq!(head.contains("content-encoding"), how != "none", "{head}");
    }
    #[cfg(not(feature = "grpc"))]
    {
        let (exit, sentence) = fails(&["push", "--otlp", "grpc://127.0.0.1:1"]);
        assert!(
            exit == 2 && sentence.contains("built without gRPC"),
            "{sentence}"
        );
    }
}

/// A certificate of this host that nobody else knows, and its key. `None`: there is no openssl.
fn certificate() -> Option<(Scratch, Scratch)> {
    let (cert, key) = (Scratch::new("push-cert"), Scratch::new("push-key"));
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
               -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1";
    let mut command = Command::new("openssl");
    command
        .args(new.split_whitespace())
        .args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.args(["-keyout", key.text(), "-out", cert.text()]);
    match command.output() {
        Ok(out) => assert!(out.status.success(), "{out:?}"),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        Err(e) => panic!("{e}"),
    }
    Some((cert, key))
}

#[test]
fn https_wants_a_certificate_that_is_known() {
    use rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
    let Some((cert, key)) = certificate() else {
        eprintln!("openssl is not there");
        return;
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::from_pem_file(&cert.0).unwrap();
    let key = PrivateKeyDer::from_pem_file(&key.0).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    let config = Arc::new(config);
    let wrap = move |stream| {
        let connection = rustls::ServerConnection::new(config.clone()).unwrap();
        Box::new(rustls::StreamOwned::new(connection, stream)) as Box<dyn Stream>
    };
    let counted = Counted::new("https");
    counted.counter.add(7);
    let sink = Sink::at(0, [], Box::new(wrap));
    let url = format!("https://localhost:{}", sink.port);
    let known = [
        "push",
        "--otlp",
        &url,
        "--once",
        "--ca",
        cert.text(),
        counted.name(),
    ];
    assert_eq!(common::prints(&known), "");
    assert_eq!(total(&sink.received()[0]), 7);
    let sentence = refused(&url, counted.name(), &[]);
    assert!(sentence.contains("cannot be trusted"), "{sentence}");
    // Neither does it speak to one without TLS.
    let plain = Sink::new([]);
    let url = format!("https://localhost:{}", plain.port);
    let silent = refused(&url, counted.name(), &["--ca", cert.text()]);
    assert!(
        silent.contains("closed") || silent.contains("TLS"),
        "{silent}"
    );
    assert_eq!((sink.received().len(), plain.received().len()), (1, 0));
}
