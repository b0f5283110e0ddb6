// SPDX-License-Identifier: MIT
//! `/metrics`: what Prometheus asks for.

use std::sync::{Arc, PoisonError};

use axum::extract::State;
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};

use super::{say, Shared};
use crate::expose::text::Text;

pub async fn get(State(shared): State<Arc<Shared>>) -> Response {
    match tokio::task::spawn_blocking(move || print(&shared)).await {
        Ok(text) => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn print(shared: &Shared) -> Vec<u8> {
    let collector = shared.collector.lock();
    let mut collector = collector.unwrap_or_else(PoisonError::into_inner);
    let mut text = Vec::new();
    let news = collector.print(&mut Text::new(), &mut |more| text.append(more));
    news.iter().for_each(|sentence| say(sentence));
    text
}
