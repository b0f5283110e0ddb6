// SPDX-License-Identifier: MIT
//! `/metrics`: what Prometheus asks for, in the format it likes best.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Extension, RawQuery, State};
use axum::http::{header, HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::write::GzEncoder;
use flate2::Compression;
use hyper::body::{Frame, SizeHint};

use super::line::Line;
use super::Shared;
use crate::expose::names::Escaping;
use crate::expose::negotiate::{self, Form};
use crate::expose::openmetrics::OpenMetrics;
use crate::expose::protobuf::Protobuf;
use crate::expose::text::Text;
use crate::expose::{Collector, Format};

/// How much of an answer is kept in one piece.
const CHUNK: usize = 1 << 16;

/// What a client asks for.
#[derive(Clone, Copy)]
struct Asked {
    form: Form,
    gzip: bool,
    /// OpenMetrics with the times at which counts began.
    created: bool,
}

pub async fn get(
    State(shared): State<Arc<Shared>>,
    Extension(line): Extension<Line>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let query = query.unwrap_or_default();
    let asked = Asked {
        form: negotiate::form(texts(&headers, &header::ACCEPT)),
        gzip: negotiate::gzip(texts(&headers, &header::ACCEPT_ENCODING)),
        created: query.split('&').any(|part| part == "created=1"),
    };
    let turn = match shared.turns.wait(&line).await {
        Ok(turn) => turn,
        Err(busy) => return busy,
    };
    let printed = tokio::task::spawn_blocking(move || {
        // The turn is over when the picture is, even if the client has gone.
        let _turn = turn;
        print(&shared, asked)
    });
    // All that is read of files is dropped before the answer begins.
    let Ok(chunks) = printed.await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let about = [
        (header::CONTENT_TYPE, asked.form.content_type()),
        (header::VARY, "Accept, Accept-Encoding".to_string()),
    ];
    let gzip = asked.gzip.then_some([(header::CONTENT_ENCODING, "gzip")]);
    (
        about,
        gzip.map(axum::response::AppendHeaders),
        Body::new(chunks),
    )
        .into_response()
}

/// What headers of a name say, as far as it is text.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let all = headers.get_all(name).into_iter();
    all.filter_map(|value| value.to_str().ok())
}

fn print(shared: &Shared, asked: Asked) -> Chunks {
    let collector = shared.collector.lock();
    let mut collector = collector.unwrap_or_else(PoisonError::into_inner);
    let mut chunks = Chunks::default();
    let news = if asked.gzip {
        let mut gzip = GzEncoder::new(chunks, Compression::fast());
        let news = in_form(&mut collector, asked, &mut |more| {
            // Chunks take all.
            let _ = gzip.write_all(more);
            more.clear();
        });
        chunks = gzip.finish().unwrap_or_default();
        news
    } else {
        in_form(&mut collector, asked, &mut |more| {
            chunks.push(std::mem::replace(
                more,
                Vec::with_capacity(CHUNK + CHUNK / 8),
            ));
        })
    };
    chunks.end();
    news.iter().for_each(|sentence| shared.news.tell(sentence));
    chunks
}

/// Print metrics. Returns what is new of files.
fn in_form(
    collector: &mut Collector,
    asked: Asked,
    sink: &mut dyn FnMut(&mut Vec<u8>),
) -> Vec<String> {
    fn by<F: Format>(
        collector: &mut Collector,
        mut format: F,
        sink: &mut dyn FnMut(&mut Vec<u8>),
    ) -> Vec<String> {
        collector.print(&mut format, sink)
    }
    let plain = Escaping::Underscores;
    match asked.form {
        Form::Text => by(collector, Text::new(plain), sink),
        Form::Text1(e) => by(collector, Text::new(e), sink),
        Form::OpenMetrics0 => by(collector, OpenMetrics::new(plain, asked.created), sink),
        Form::OpenMetrics(e) => by(collector, OpenMetrics::new(e, asked.created), sink),
        Form::Protobuf(e) => by(collector, Protobuf::new(e), sink),
    }
}

/// An answer in pieces, which are dropped when they have been sent.
#[derive(Default)]
struct Chunks {
    whole: VecDeque<Bytes>,
    /// The last one, which is not full yet.
    last: Vec<u8>,
    bytes: u64,
}

impl Chunks {
    fn push(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.bytes += bytes.len() as u64;
            self.whole.push_back(bytes.into());
        }
    }

    fn end(&mut self) {
        let last = std::mem::take(&mut self.last);
        self.push(last);
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.last.extend_from_slice(bytes);
        if self.last.len() >= CHUNK {
            self.end();
            self.last.reserve_exact(CHUNK + CHUNK / 2);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.whole.pop_front();
        self.bytes -= next.as_ref().map_or(0, |bytes| bytes.len() as u64);
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}
