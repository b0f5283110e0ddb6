// SPDX-License-Identifier: MIT
//! Scrapes, one after the other: each reads all segments, and has them all in memory.

use std::sync::Arc;

use axum::http::{header, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::TURN_TIME;
use super::line::Line;

pub struct Turns(Arc<Semaphore>);

/// Whoever has it may scrape.
pub type Turn = OwnedSemaphorePermit;

impl Turns {
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Wait for a turn. `Err` is the answer if that takes long, or if the client has closed its
    /// side meanwhile, and so has gone, probably.
    pub async fn wait(&self, line: &Line) -> Result<Turn, Response> {
        if let Ok(turn) = self.0.clone().try_acquire_owned() {
            return Ok(turn);
        }
        tokio::select! {
            Ok(turn) = self.0.clone().acquire_owned() => Ok(turn),
            () = line.closed() => Err(busy()),
            () = tokio::time::sleep(TURN_TIME) => Err(busy()),
            else => Err(busy()),
        }
    }
}

/// Come again in a second.
pub fn busy() -> Response {
    let text = "other scrapes take all the time\n";
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    let seconds = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::super::clients::Clients;
    use super::*;

    /// A client, and its line.
    fn connect() -> (TcpStream, Line) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        (client, Line::new(Clients::new(1).enter().unwrap(), stream))
    }

    #[test]
    fn a_client_that_goes_waits_no_longer() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let turns = Turns::new();
            let (mut client, line) = connect();
            let first = turns.wait(&line).await.unwrap();
            // What it sends more does not hide that it goes.
            client.write_all(b"GET").unwrap();
            let began = Instant::now();
            let waits = async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                drop(client);
            };
            let (refused, ()) = tokio::join!(turns.wait(&line), waits);
            let refused = refused.unwrap_err();
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(refused.headers().contains_key(header::RETRY_AFTER));
            assert!(began.elapsed() < TURN_TIME);
            drop(first);
            let (_client, line) = connect();
            assert!(turns.wait(&line).await.is_ok());
        });
    }
}
