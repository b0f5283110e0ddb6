// SPDX-License-Identifier: MIT
//! An HTTP server of several processes that counts by the macros of the `metrics` facade. Any of its
//! processes answers `/metrics` for all of them, the killed ones included.
//!
//! ```sh
//! cargo run --example server -- myservice 2    # the segment, and the number of workers
//! ```

use std::io::{BufRead, BufReader, Error, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use metrics::{counter, describe_counter, describe_histogram, gauge, histogram, Unit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let segment = args.next().ok_or("usage: server SEGMENT [WORKERS]")?;
    let workers: u32 = args.next().map_or(Ok(2), |n| n.parse())?;

    let recorder = percpu_metrics::install(&segment)?;
    if let Some(why) = recorder.fallback() {
        eprintln!("server: nobody can read the metrics: {why}");
    }
    describe_counter!("http_requests_total", "Requests that were answered.");
    describe_histogram!("http_request_seconds", Unit::Seconds, "How long they took.");

    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    for _ in 0..workers {
        start_worker(&listener, &segment)?;
    }
    loop {
        // SAFETY: the call may have no place for the status.
        let ended = unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
        if ended < 0 {
            return Err(Error::last_os_error().into());
        }
        counter!("workers_ended_total").increment(1);
        start_worker(&listener, &segment)?;
    }
}

/// Fork a process that answers until it is killed, or the parent ends.
fn start_worker(listener: &TcpListener, segment: &str) -> Result<(), Error> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            // SAFETY: the call asks for a signal when the parent ends.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            loop {
                if let Err(e) = listener.accept().and_then(|(c, _)| answer(c, segment)) {
                    eprintln!("server: {e}");
                }
            }
        }
        _ => Ok(()),
    }
}

/// Answer one request.
fn answer(connection: TcpStream, segment: &str) -> Result<(), Error> {
    let begun = Instant::now();
    let mut line = String::new();
    BufReader::new(&connection).read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or("");
    let (code, body) = match path {
        "/" => ("200", format!("{}\n", std::process::id())),
        "/metrics" => match metrics_text(segment) {
            Ok(text) => ("200", text),
            Err(e) => ("503", format!("{e}\n")),
        },
        _ => ("404", String::new()),
    };
    gauge!("http_last_body_bytes").set(body.len() as f64);
    counter!("http_requests_total", "code" => code).increment(1);
    histogram!("http_request_seconds").record(begun.elapsed());
    write!(
        &connection,
        "HTTP/1.0 {code} -\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n{body}"
    )
}

/// The metrics of all processes.
fn metrics_text(segment: &str) -> Result<String, percpu::Error> {
    let mut reader = percpu::Reader::open(segment)?;
    reader.read()?.prometheus()
}
