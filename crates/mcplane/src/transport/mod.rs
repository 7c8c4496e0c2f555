//! The transports that MCP programs use.
//!
//! Streams that carry one message per line:
//!
//! * [`memory`] — a pair inside one process.
//! * [`stdio`] — this process's own standard input and output.
//! * [`process`] — a server that is started as a child process.
//! * [`tcp`], [`unix`] — sockets.
//!
//! And those that need more than lines:
//!
//! * [`websocket`] — one message per text frame, subprotocol `mcp`.
//! * [`http`] — Streamable HTTP in both eras, and HTTP+SSE.
//!
//! All of them are driven by one piece of code, `wire`. A transport that loses a request reports that
//! beside its lines (`loss`).
//!
//! An [`Address`] is where a server is, or listens, and a `Dialer` connects to it. Servers on the
//! network share `listen` (accepting, with its limits) and `tls`.

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
#[cfg_attr(
    not(all(feature = "client", feature = "server", feature = "http")),
    allow(dead_code, reason = "those who tell and those who hear are of one side")
)]
mod loss;
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
#[cfg(any(feature = "client", feature = "server"))]
#[cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(dead_code, reason = "some of it is of one side")
)]
#[doc(hidden)]
pub mod wire;

use tokio::io::{AsyncRead, AsyncWrite};

pub use address::Address;
#[cfg(feature = "client")]
pub use dial::{BoxedReader, BoxedWriter, Dialed, Dialer};
#[cfg(all(feature = "client", feature = "http"))]
pub(crate) use loss::Source;
#[doc(hidden)]
pub use loss::{Loss, Losses};

use crate::error::Result;

/// A connected byte stream in two halves that carries one message per line.
///
/// The halves may fail at any time, which ends the connection.
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

    /// As [`Transport::open`], for whoever asks the third for requests that were lost. Without it, a
    /// transport on which single requests can be lost answers them with an error in the server's place.
    #[doc(hidden)]
    fn open_telling(self) -> Result<(Self::Reader, Self::Writer, Losses)>
    where
        Self: Sized,
    {
        let (reader, writer) = self.open()?;
        Ok((reader, writer, Losses::default()))
    }
}
