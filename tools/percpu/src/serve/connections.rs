// SPDX-License-Identifier: MIT
//! Connections of clients.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{header, HeaderName, HeaderValue, Request, Response};
use axum::Router;
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{service_fn, Service};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use super::clients::{Client, Clients, Order};
use super::guard::Guard;
use super::limits::{HEAD_BYTES, HEAD_LINES, LINGER_TIME, SEND_BUFFER};
use super::line::Line;
use super::seldom::Seldom;
use super::tls::Tls;

/// What is read and written at once.
const BUFFER: usize = 64 << 10;

/// After a failure to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A browser shall not take an answer for something else than it is, nor let pages of other sites
/// load it.
const ALWAYS: [(HeaderName, &str); 2] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// For a client for whom there is no place.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

/// What all connections have in common.
pub struct Server {
    pub router: Router,
    pub guard: Guard,
    pub tls: Option<Tls>,
    pub clients: Clients,
    pub news: Seldom,
}

/// Serve clients, until the future is dropped.
pub async fn accept(listener: TcpListener, server: Arc<Server>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => begin(stream, &server).await,
            // A client that has gone already is no news.
            Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
            Err(e) => {
                server.news.say(&format!("clients must wait: {e}"));
                server.clients.end_idle();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn begin(stream: TcpStream, server: &Arc<Server>) {
    let Some(client) = server.clients.enter() else {
        server
            .news
            .say("a client was refused: all connections are waiting for answers");
        if server.tls.is_none() {
            Line::say(&stream, FULL);
        }
        return;
    };
    let _ = stream.set_nodelay(true);
    let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER);
    let line = Line::new(client, stream);
    tokio::spawn(attend(line, server.clone()));
    // One that had to go does so before the next one comes.
    tokio::task::yield_now().await;
}

/// Serve a client until it goes, or must go.
async fn attend(line: Line, server: Arc<Server>) {
    let client = line.client.clone();
    let _place = Place(server.clone(), client.clone());
    let mut orders = client.orders();
    let ended = async {
        // The sender lives as long as the client.
        let _ = orders.wait_for(|order| *order == Order::End).await;
    };
    tokio::select! {
        biased;
        () = ended => {}
        () = talk(&line, &server) => return,
    }
    if client.is_answered() {
        line.forget();
    }
}

/// A place among the connections.
struct Place(Arc<Server>, Arc<Client>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.clients.leave(&self.1);
    }
}

async fn talk(line: &Line, server: &Arc<Server>) {
    match &server.tls {
        None => serve(line.clone(), line, server).await,
        // Somebody who speaks no TLS, or wants another certificate, is no news.
        Some(tls) => {
            if let Ok(stream) = tls.acceptor().accept(line.clone()).await {
                serve(stream, line, server).await;
            }
        }
    }
    let _ = tokio::time::timeout(LINGER_TIME, line.linger()).await;
}

async fn serve<S>(stream: S, line: &Line, server: &Arc<Server>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(server.router.clone());
    let service = service_fn(|request| answer(request, &router, line, server));
    let connection = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .max_headers(HEAD_LINES)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut orders = line.client.orders();
    let stops = orders.wait_for(|order| *order == Order::Finish);
    // A client that breaks the protocol, or goes away, is no news.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stops => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn answer(
    request: Request<Incoming>,
    router: &TowerToHyperService<Router>,
    line: &Line,
    server: &Server,
) -> Result<Response<Answer>, Infallible> {
    let client = line.client.clone();
    client.asked();
    let (mut head, body) = request.into_parts();
    let mut response = match server.guard.refusal(&head) {
        Some(refusal) => refusal,
        None => {
            head.extensions.insert(line.clone());
            router.call(Request::from_parts(head, body)).await?
        }
    };
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    let kind = headers.get(header::CONTENT_TYPE);
    let endless = kind.is_some_and(|k| k.as_bytes().starts_with(b"text/event-stream"));
    client.answers(response.body().size_hint().lower(), endless);
    if server.clients.bound_answers(&client) {
        server
            .news
            .say("an answer was cut off: clients take so many so slowly");
    }
    Ok(response.map(|body| Answer { body, client }))
}

/// The body of an answer, which says when it is over.
struct Answer {
    body: Body,
    client: Arc<Client>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.client.made();
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
