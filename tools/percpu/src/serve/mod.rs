// SPDX-License-Identifier: MIT
//! `percpu serve`: metrics by HTTP.

mod clients;
mod connections;
mod detail;
mod events;
mod guard;
mod hub;
mod limits;
mod line;
mod listen;
mod message;
mod metrics;
mod page;
mod renewed;
mod seldom;
mod systemd;
mod tls;
mod token;
mod turns;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::routing::get;
use axum::Router;
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, Signal, SignalKind};
use tokio::task::JoinSet;

use crate::args::Serve;
use crate::expose::Collector;
use crate::failure::{Exit, Failure};
use crate::text::clean;
use clients::Clients;
use connections::Server;
use guard::Guard;
use hub::Hub;
use limits::STOP_TIME;
pub use renewed::read;
use seldom::Seldom;
use tls::Tls;
use token::Token;
use turns::Turns;

/// Between two looks at what connections do.
const SWEEP: Duration = Duration::from_secs(1);

/// What all requests share.
pub struct Shared {
    collector: Mutex<Collector>,
    turns: Turns,
    /// Of files.
    news: Seldom,
    hub: Arc<Hub>,
}

pub fn run(args: &Serve) -> Result<Exit, Failure> {
    let shared = Arc::new(Shared {
        collector: Mutex::new(Collector::new(&args.exposed)?),
        turns: Turns::new(),
        news: Seldom::default(),
        hub: Hub::new(&args.exposed)?,
    });
    let token = args.token_file.as_deref().map(Token::new).transpose()?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::new(certificate, key)?),
        _ => None,
    };
    let server = Arc::new(Server {
        router: router(shared),
        guard: Guard::new(&args.hosts, token, tls.is_some()),
        tls,
        clients: Clients::new(limits::connections()),
        news: Seldom::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system)?;
    let result = runtime.block_on(serve(args, &server));
    // A scrape for nobody may be going on.
    runtime.shutdown_background();
    result
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/page/{name}", get(page::asset))
        .route("/events", get(events::get))
        .route("/detail", get(detail::get))
        .route("/metrics", get(metrics::get))
        .with_state(shared)
}

async fn serve(args: &Serve, server: &Arc<Server>) -> Result<Exit, Failure> {
    let mut signals = Signals::catch().map_err(system)?;
    let mut listeners = JoinSet::new();
    for socket in listen::sockets(&args.listen)? {
        socket.set_nonblocking(true).map_err(system)?;
        let listener = TcpListener::from_std(socket).map_err(system)?;
        tell(server, &listener)?;
        listeners.spawn(connections::accept(listener, server.clone()));
    }
    systemd::ready();
    attend(server, &mut signals).await;
    systemd::stopping();
    listeners.shutdown().await;
    finish(server, &mut signals).await;
    Ok(Exit::Done)
}

/// Say where clients are waited for, and who may read.
fn tell(server: &Server, listener: &TcpListener) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(system)?;
    let scheme = if server.tls.is_some() {
        "https"
    } else {
        "http"
    };
    say(&format!("{scheme}://{address}/metrics"));
    if listen::is_open(address) && server.guard.token.is_none() {
        say(&format!(
            "whoever reaches {address} can read the names, labels and values of all metrics: \
             --token-file keeps others out"
        ));
    }
    Ok(())
}

/// Do what is due once a second, until a signal says that the program is to end.
async fn attend(server: &Server, signals: &mut Signals) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                for why in server.clients.sweep(Instant::now()) {
                    server.news.say(&format!("a client was cut off: it {why}"));
                }
                systemd::alive();
            }
            _ = signals.hangup.recv() => {
                server.tls.iter().for_each(Tls::renew);
                server.guard.token.iter().for_each(Token::renew);
            }
            () = signals.ends.come() => return,
        }
    }
}

/// Let answers be finished, for a while, or until another signal comes.
async fn finish(server: &Server, signals: &mut Signals) {
    server.clients.stop();
    let finished = async {
        while !server.clients.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = finished => {}
        () = tokio::time::sleep(STOP_TIME) => {}
        () = signals.ends.come() => {}
    }
}

/// Signals that are waited for.
struct Signals {
    hangup: Signal,
    ends: Ends,
}

/// Those that end the program.
struct Ends([Signal; 2]);

impl Signals {
    fn catch() -> io::Result<Self> {
        let [terminate, interrupt] = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            ends: Ends([terminate?, interrupt?]),
        })
    }
}

impl Ends {
    async fn come(&mut self) {
        let [terminate, interrupt] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
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
