// SPDX-License-Identifier: MIT
//! `percpu push`: metrics to an OpenTelemetry collector.

mod answer;
mod endpoint;
#[cfg(feature = "grpc")]
mod grpc;
mod http;
mod message;
mod pace;
mod pairs;
mod points;
mod pusher;
mod resource;
mod split;
mod unit;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{signal, SignalKind};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout_at, Instant};

use crate::args::Push;
use crate::failure::{Exit, Failure};
use crate::serve::say;
use pace::Pace;
use pusher::{Outcome, Pusher};

/// How long an answer may take: as long as in OpenTelemetry's own exporters.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the last push may take, after a signal.
const LAST: Duration = Duration::from_secs(5);

pub fn run(args: &Push) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system)?;
    let exit = start(args, &runtime);
    // A push that still waits for an answer is left alone.
    runtime.shutdown_background();
    exit
}

fn start(args: &Push, runtime: &Runtime) -> Result<Exit, Failure> {
    let pusher = {
        let _guard = runtime.enter();
        Arc::new(Mutex::new(Pusher::new(args)?))
    };
    if args.once {
        let outcome = runtime.block_on(async { begin(&pusher, ANSWER).await });
        return match outcome {
            Ok(Outcome::Accepted) => Ok(Exit::Done),
            Ok(_) | Err(_) => Ok(Exit::System),
        };
    }
    runtime.block_on(push(&pusher, args.interval))
}

/// Push again and again, until a signal comes.
async fn push(pusher: &Arc<Mutex<Pusher>>, interval: Duration) -> Result<Exit, Failure> {
    let mut ends = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(terminate), Ok(interrupt)] = &mut ends else {
        return Err(Failure::new(Exit::System, "signals cannot be caught"));
    };
    let mut end = std::pin::pin!(async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    let mut pace = Pace::new(interval);
    // A push is given up before the next one is due, but not within a second.
    let answer = interval.clamp(Duration::from_secs(1), ANSWER);
    loop {
        let mut round = begin(pusher, answer);
        tokio::select! {
            outcome = &mut round => pace.after(&outcome.unwrap_or(Outcome::Refused)),
            () = &mut end => {
                last(pusher, Some(round)).await;
                return Ok(Exit::Done);
            }
        }
        if ends_before(&mut end, pace.next()).await {
            last(pusher, None).await;
            return Ok(Exit::Done);
        }
    }
}

/// Whether the end comes before that time, at which this returns.
async fn ends_before(end: &mut (impl Future<Output = ()> + Unpin), time: Instant) -> bool {
    tokio::select! {
        () = end => true,
        () = sleep_until(time) => false,
    }
}

/// Take a picture and push it, in a thread that may wait.
fn begin(pusher: &Arc<Mutex<Pusher>>, answer: Duration) -> JoinHandle<Outcome> {
    let pusher = pusher.clone();
    tokio::task::spawn_blocking(move || {
        let pusher = pusher.lock();
        pusher.unwrap_or_else(PoisonError::into_inner).round(answer)
    })
}

/// Push what was counted up to now, after the push that is under way.
async fn last(pusher: &Arc<Mutex<Pusher>>, before: Option<JoinHandle<Outcome>>) {
    let end = Instant::now() + LAST;
    let mut pushed = true;
    if let Some(before) = before {
        pushed = timeout_at(end, before).await.is_ok();
    }
    if pushed {
        let rest = end.saturating_duration_since(Instant::now());
        pushed = timeout_at(end, begin(pusher, rest)).await.is_ok();
    }
    if !pushed {
        say("the last push is given up: there is no answer");
    }
}

fn system(e: std::io::Error) -> Failure {
    Failure::new(Exit::System, format!("a system call failed: {e}"))
}
