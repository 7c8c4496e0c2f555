//! What is measured, and the way to it.
//!
//! * [`Target`], [`Stream`] — a command, a pair of in-memory halves, an address (this file).
//! * `address`   — what an address says.
//! * `remote`    — a server that listens.
//! * `dial`      — TCP, TLS and Unix sockets; `traffic` — what goes through them.
//! * `site`      — a target that is up, and its connections.
//! * `wire`      — messages in and out, whatever carries them.
//! * `speak`     — which handshake is asked for.
//! * `handshake` — which era and revision, who the server is, which tools it has.

mod address;
mod dial;
mod handshake;
mod remote;
mod site;
mod speak;
mod traffic;
mod wire;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcplane_process::Command;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use address::{Address, Transport};
pub(crate) use handshake::{Failure, Opened, Opening, open};
pub use handshake::{Peer, Start, Tool};
pub use remote::{Remote, Served};
pub(crate) use site::{Connection, LastWords, Site};
pub use speak::Speak;
pub(crate) use traffic::Traffic;
pub(crate) use wire::{Arrival, Call, Lost, SUBPROTOCOL, Silence, UNSTAMPED, stamp, stamps};

/// Bytes that an in-memory pipe should hold each way, the target's as well as the floor's.
pub const MEMORY_BYTES: usize = 64 * 1024;

/// What is measured.
#[derive(Clone)]
#[non_exhaustive]
pub enum Target {
    /// A command that speaks over its stdin and stdout. Each session starts it once.
    Stdio(Command),
    /// A server in this process.
    Memory(Memory),
    /// A server that listens at an address. Each session connects to it.
    Remote(Box<Remote>),
    /// A command that listens. It is started once, and each session connects to it.
    Served(Served),
}

/// A server in this process, reached through in-memory pipes.
#[derive(Clone)]
pub struct Memory {
    name: String,
    connect: Connect,
}

type Connect = Arc<dyn Fn() -> io::Result<Stream> + Send + Sync>;

/// The two halves of a connection.
pub struct Stream(Box<dyn Duplex>);

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl Stream {
    /// A connection made of these halves.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::from_duplex(tokio::io::join(reader, writer))
    }

    /// A connection made of one object that is both halves.
    pub fn from_duplex(both: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Box::new(both))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Target {
    /// A server in this process. `connect` is called once for each session, inside the lab's own
    /// single-threaded tokio runtime: a server that it spawns shares the generator's thread, as the
    /// in-memory floor does. Its pipes should hold [`MEMORY_BYTES`].
    pub fn memory(
        name: impl Into<String>,
        connect: impl Fn() -> io::Result<Stream> + Send + Sync + 'static,
    ) -> Self {
        Self::Memory(Memory { name: name.into(), connect: Arc::new(connect) })
    }

    /// The word for the transport: `stdio`, `memory`, `http`, `sse`, `ws`, `tcp` or `unix`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Memory(_) => "memory",
            Self::Remote(remote) => remote.address.transport.as_str(),
            Self::Served(served) => served.transport.as_str(),
        }
    }
}

impl fmt::Display for Target {
    /// The command line, the address, or the name of a server in this process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(command) => command.fmt(f),
            Self::Memory(memory) => f.write_str(&memory.name),
            Self::Remote(remote) => remote.address.fmt(f),
            Self::Served(served) => served.command.fmt(f),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target::{}({self})", self.transport())
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({})", self.name)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}
