// SPDX-License-Identifier: MIT
//! Connections of clients.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

/// How long a client may take for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Serve clients, until the future is dropped.
pub async fn accept(listener: &TcpListener, router: Router) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks the protocol, or goes away, is no news.
            let _ = connection.await;
        });
    }
}
