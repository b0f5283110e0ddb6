// SPDX-License-Identifier: MIT
//! `/events`: server-sent events for a page. The first has all series, the others what changed.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::hub::{Page, PAGES};
use super::Shared;

pub async fn get(State(shared): State<Arc<Shared>>) -> Response {
    let Some(page) = shared.hub.join() else {
        let text = format!("{PAGES} pages are connected already: close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let next = |mut page: Page| async {
        let event = page.next().await?;
        Some((Ok::<_, Infallible>(event), page))
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Body::from_stream(stream::unfold(page, next))).into_response()
}
