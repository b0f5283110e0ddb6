// SPDX-License-Identifier: MIT
//! The socket of a client, which tells what the client takes and sends.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use rustix::net::{shutdown, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::clients::Client;

/// How often to look whether a client that has sent more has gone.
const LOOK: Duration = Duration::from_millis(200);

/// What a client sends after its last request is read up to here, so that it gets the answer.
const LINGER_BYTES: usize = 4 << 20;

/// A socket, and the client behind it.
#[derive(Clone)]
pub struct Line {
    pub client: Arc<Client>,
    stream: Arc<TcpStream>,
}

impl Line {
    pub fn new(client: Arc<Client>, stream: TcpStream) -> Self {
        Self {
            client,
            stream: Arc::new(stream),
        }
    }

    /// Wait until the client has closed its side.
    pub async fn closed(&self) {
        loop {
            match self.stream.ready(Interest::READABLE).await {
                Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(LOOK).await,
                _ => return,
            }
        }
    }

    /// Wait until the client has closed its side, after the last answer. If bytes of the client
    /// were left unread, the kernel would throw away the answer.
    pub async fn linger(&self) {
        self.client.closes();
        let _ = shutdown(&*self.stream, Shutdown::Write);
        let mut rest = LINGER_BYTES;
        let mut bytes = [0; 4096];
        while self.stream.readable().await.is_ok() {
            match self.stream.try_read(&mut bytes) {
                Ok(n) if n != 0 && n <= rest => rest -= n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }

    /// Let the kernel forget at once what the client has not taken.
    pub fn forget(&self) {
        let _ = self.stream.set_zero_linger();
    }

    /// Say something in at most one packet, without waiting.
    pub fn say(stream: &TcpStream, bytes: &[u8]) {
        let _ = stream.try_write(bytes);
    }

    fn write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(ready) = self.stream.poll_write_ready(cx) else {
                self.client.blocked();
                return Poll::Pending;
            };
            ready?;
            match write(&self.stream) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    self.client.took();
                    return Poll::Ready(result);
                }
            }
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buf.initialize_unfilled()) {
                Ok(n) => {
                    buf.advance(n);
                    if n != 0 {
                        self.client.received();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.client.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&*self.stream, Shutdown::Write).map_err(Into::into))
    }
}
