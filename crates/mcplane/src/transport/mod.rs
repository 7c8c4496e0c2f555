//! What two MCP programs talk over.
//!
//! Streams that carry one message per line:
//!
//! * [`memory`] — a pair inside one process.
//! * [`stdio`] — this process's own standard input and output.
//! * [`process`] — a server that is started as a child process.
//! * [`tcp`], [`unix`] — sockets.
//!
//! And what needs more than lines:
//!
//! * [`websocket`] — one message per text frame, subprotocol `mcp`.
//! * [`http`] — Streamable HTTP in both eras, and HTTP+SSE.
//!
//! An [`Address`] is where a server is, or listens, and a [`Dialer`] connects to it. Servers on the
//! network share [`listen`] (accepting, with its limits) and [`tls`].

mod address;
#[cfg(feature = "client")]
mod dial;
#[cfg(any(feature = "server", feature = "websocket"))]
#[cfg_attr(
    not(any(feature = "client", feature = "server")),
    allow(dead_code, reason = "it is of one side or the other")
)]
mod end;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "server")]
pub mod listen;
pub mod memory;
#[cfg(feature = "client")]
pub mod process;
pub mod stdio;
#[cfg(feature = "client")]
pub mod tcp;
#[cfg(feature = "tls")]
#[cfg_attr(
    not(any(feature = "client", feature = "server")),
    allow(dead_code, reason = "it is of one side or the other")
)]
pub mod tls;
#[cfg(feature = "client")]
pub mod unix;
#[cfg(feature = "websocket")]
#[cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(dead_code, reason = "some of it is of one side")
)]
pub mod websocket;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use mcplane_proto::frame::Output;
use tokio::io::{AsyncRead, AsyncWrite};

pub use address::Address;
#[cfg(feature = "client")]
pub use dial::{BoxedReader, BoxedWriter, Dialed, Dialer};

use crate::error::Result;

/// A connected byte stream in two halves that carries one message per line.
///
/// The halves may fail at any time; whoever drives them maps that to the end of the connection.
pub trait Transport: Send + 'static {
    /// Where the peer's messages come from.
    type Reader: AsyncRead + Send + Unpin + 'static;
    /// Where our messages go.
    type Writer: AsyncWrite + Send + Unpin + 'static;

    /// Opens the stream. Called once, inside a tokio runtime.
    ///
    /// # Errors
    /// If the stream cannot be opened; the error says which one and why.
    fn open(self) -> Result<(Self::Reader, Self::Writer)>;
}

/// Sends what waits in `output`, and flushes the stream behind it. `Ready(Ok)` when something was
/// sent and more waits, or when all is done; until then whoever calls it may add more.
///
/// Nothing is lost when it is not polled again: `output` remembers how far it came.
///
/// # Errors
/// The stream takes nothing more.
pub fn poll_send(
    output: &mut Output,
    writer: &mut (impl AsyncWrite + Unpin),
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    if output.backlog() > 0 {
        match ready!(Pin::new(&mut *writer).poll_write(cx, output.unsent()))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            len => output.advance(len),
        }
        if output.backlog() > 0 {
            return Poll::Ready(Ok(()));
        }
    }
    if !output.is_done() {
        ready!(Pin::new(writer).poll_flush(cx))?;
        output.flushed();
    }
    Poll::Ready(Ok(()))
}
