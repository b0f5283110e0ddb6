// SPDX-License-Identifier: MIT
//! A collector for tests: it keeps what is pushed, and answers as a test wants.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{any_value, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics};
use prost::Message;

use crate::common::{percpu, Scratch};

/// What it does with a request.
pub enum Answer {
    /// All that follows the request: the head of the answer, and its body.
    Bytes(Vec<u8>),
    /// It goes on sending until nobody reads any more.
    Endless,
    /// It says nothing.
    Nothing,
    /// As `Bytes`, but not before there is such a file.
    After(PathBuf, Vec<u8>),
    /// It closes the connection.
    Close,
}

/// An answer of HTTP.
pub fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n");
    Answer::Bytes([head.as_bytes(), body].concat())
}

pub fn accepted() -> Answer {
    partial(0, "")
}

pub fn partial(rejected: i64, message: &str) -> Answer {
    let part = (rejected, message) != (0, "");
    let body = ExportMetricsServiceResponse {
        partial_success: part.then(|| ExportMetricsPartialSuccess {
            rejected_data_points: rejected,
            error_message: message.to_string(),
        }),
    };
    let kind = "content-type: application/x-protobuf\r\n";
    answer("200 OK", kind, body.encode_to_vec())
}

/// A request that came.
#[derive(Clone)]
pub struct Received {
    pub head: String,
    pub message: ExportMetricsServiceRequest,
    pub at: Instant,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    received: Vec<Received>,
}

pub struct Sink {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

/// A stream, encrypted or not.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}
type Wrap = dyn Fn(TcpStream) -> Box<dyn Stream> + Send;

impl Sink {
    /// It gives these answers, one after the other, and then accepts all.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::at(0, answers, Box::new(|stream| Box::new(stream)))
    }

    pub fn at(port: u16, answers: impl IntoIterator<Item = Answer>, wrap: Box<Wrap>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let state = Arc::new(Mutex::new(State {
            answers: answers.into_iter().collect(),
            received: Vec::new(),
        }));
        let sink = Self {
            port: listener.local_addr().unwrap().port(),
            state: state.clone(),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                serve(wrap(stream), &state);
            }
        });
        sink
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn received(&self) -> Vec<Received> {
        self.state.lock().unwrap().received.clone()
    }

    /// The requests, as soon as there are so many.
    pub fn wait(&self, n: usize) -> Vec<Received> {
        until(&format!("{n} pushes"), || self.received().len() >= n);
        self.received()
    }
}

/// Serve one request.
fn serve(mut stream: Box<dyn Stream>, state: &Mutex<State>) {
    let Some(received) = receive(&mut stream) else {
        return;
    };
    let answer = {
        let mut state = state.lock().unwrap();
        state.received.push(received);
        state.answers.pop_front().unwrap_or_else(accepted)
    };
    match answer {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(&bytes);
            let _ = stream.flush();
        }
        Answer::After(file, bytes) => {
            until("a file", || file.exists());
            let _ = stream.write_all(&bytes);
        }
        Answer::Close => {}
        // In another thread, so that others are served.
        Answer::Nothing => drop(std::thread::spawn(move || {
            let _ = stream.read(&mut [0]);
        })),
        Answer::Endless => drop(std::thread::spawn(move || {
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            for _ in 0..1_000_000 {
                if stream.write_all(&[0; 1000]).is_err() {
                    return;
                }
            }
        })),
    }
}

fn receive(stream: &mut Box<dyn Stream>) -> Option<Received> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
        if !head.starts_with(b"P") {
            return None;
        }
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1)?.split('\r').next()?;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    let mut bytes = Vec::new();
    if head.contains("\r\ncontent-encoding: gzip\r\n") {
        let mut unzipped = flate2::read::GzDecoder::new(&body[..]);
        unzipped.read_to_end(&mut bytes).unwrap();
    } else {
        bytes = body;
    }
    Some(Received {
        head,
        message: ExportMetricsServiceRequest::decode(&bytes[..]).unwrap(),
        at: Instant::now(),
    })
}

/// Wait until it is so.
pub fn until(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A `percpu push` that runs. It is killed in the end.
pub struct Pusher {
    child: Child,
    log: Scratch,
}

impl Pusher {
    pub fn start(what: &str, url: &str, arguments: &[&str]) -> Self {
        let log = Scratch::new(&format!("push-{what}"));
        let mut command = percpu(&["push", "--otlp", url]);
        command.args(arguments).stdout(Stdio::null());
        command.stderr(File::create(&log.0).unwrap());
        let child = command.spawn().unwrap();
        Self { child, log }
    }

    /// The lines that it has written.
    pub fn said(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log.0).unwrap();
        text.lines().map(String::from).collect()
    }

    pub fn wait_for(&self, text: &str) {
        let has = || self.said().iter().any(|l| l.contains(text));
        until(text, has);
    }

    pub fn status(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/status", self.child.id()))
    }

    /// Ask it to end, and wait.
    pub fn terminate(&mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn text(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let value = |a: &KeyValue| match a.value.as_ref().and_then(|v| v.value.clone()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    };
    let all: BTreeMap<_, _> = attributes
        .iter()
        .map(|a| (a.key.clone(), value(a)))
        .collect();
    assert_eq!(all.len(), attributes.len(), "{attributes:?}");
    all
}

pub fn resource(r: &ResourceMetrics) -> BTreeMap<String, String> {
    text(&r.resource.as_ref().unwrap().attributes)
}

pub fn metrics(r: &ResourceMetrics) -> &[Metric] {
    assert_eq!(r.scope_metrics.len(), 1);
    let scope = r.scope_metrics[0].scope.as_ref().unwrap();
    assert_eq!((&*scope.name, &*scope.version), ("percpu", "0.1.0"));
    &r.scope_metrics[0].metrics
}
