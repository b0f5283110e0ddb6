// SPDX-License-Identifier: MIT
//! `percpu serve`: metrics by HTTP.

mod connections;
mod metrics;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::routing::get;
use axum::Router;
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};

use crate::args::Serve;
use crate::expose::Collector;
use crate::failure::{Exit, Failure};
use crate::text::clean;

/// What all connections share.
pub struct Shared {
    collector: Mutex<Collector>,
}

pub fn run(args: &Serve) -> Result<Exit, Failure> {
    let shared = Arc::new(Shared {
        collector: Mutex::new(Collector::new(&args.exposed)?),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system)?;
    runtime.block_on(serve(args.listen, shared))
}

async fn serve(listen: SocketAddr, shared: Arc<Shared>) -> Result<Exit, Failure> {
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|e| cannot_listen(listen, &e))?;
    let address = listener.local_addr().map_err(system)?;
    let mut ends = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(terminate), Ok(interrupt)] = &mut ends else {
        return Err(Failure::new(Exit::System, "signals cannot be caught"));
    };
    let router = Router::new()
        .route("/metrics", get(metrics::get))
        .with_state(shared);
    say(&format!("http://{address}/metrics"));
    tokio::select! {
        () = connections::accept(&listener, router) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(Exit::Done)
}

fn cannot_listen(address: SocketAddr, e: &io::Error) -> Failure {
    let text = match e.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{address} is in use by another program: give another one by --listen")
        }
        _ => format!("{address} cannot be listened to: {e}"),
    };
    Failure::new(Exit::System, text)
}

fn system(e: io::Error) -> Failure {
    Failure::new(Exit::System, format!("a system call failed: {e}"))
}

/// Write a line to the log, which is stderr.
pub fn say(sentence: &str) {
    let line = format!("percpu: {}\n", clean(sentence));
    // With stderr closed, nobody would read it.
    let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
}
