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

    /// Wait for a turn. `Err` is the answer if that takes long, or if the client has closed its side
    /// meanwhile, and so has gone, probably.
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
