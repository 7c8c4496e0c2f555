//! What is measured, and the way to it.
//!
//! * [`Target`], [`Stream`] — a command or a pair of in-memory halves (this file).
//! * `wire` — lines in and out of a stream, and one request at a time.
//! * `handshake` — which era and revision, who the server is, which tools it has.

mod handshake;
mod wire;

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use mcplane_process::{Child, Command};
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use handshake::{Failure, Opened, open};
pub use handshake::{Peer, Start, Tool};
pub(crate) use wire::{Silence, Wire, answer};

use crate::error::Error;

/// Bytes that an in-memory pipe should hold each way, the target's as well as the floor's.
pub const MEMORY_BYTES: usize = 64 * 1024;

/// How long a server has to stop after its stdin is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// stderr lines quoted when a server fails.
const STDERR_LINES: usize = 8;

/// What is measured.
#[non_exhaustive]
pub enum Target {
    /// A command that speaks over its stdin and stdout. Each session starts it once.
    Stdio(Command),
    /// A server in this process.
    Memory(Memory),
}

/// A server in this process, reached through in-memory pipes.
pub struct Memory {
    name: String,
    connect: Connect,
}

type Connect = Box<dyn Fn() -> io::Result<Stream> + Send + Sync>;

/// The two halves of a connection.
pub struct Stream {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Stream {
    /// A connection made of these halves.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self { reader: Box::new(reader), writer: Box::new(writer) }
    }

    /// A connection made of one object that is both halves.
    pub fn from_duplex(both: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (reader, writer) = tokio::io::split(both);
        Self::new(reader, writer)
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
        Self::Memory(Memory { name: name.into(), connect: Box::new(connect) })
    }

    /// The word for the transport: `stdio` or `memory`.
    #[must_use]
    pub const fn transport(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Memory(_) => "memory",
        }
    }

    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        let started = Instant::now();
        let fail = |what: String| Error::Unreachable { target: self.to_string(), what };
        let (stream, child) = match self {
            Self::Stdio(command) => {
                let mut child = command.spawn().map_err(|error| fail(error.to_string()))?;
                let (Some(writer), Some(reader)) = (child.take_stdin(), child.take_stdout()) else {
                    return Err(fail("its stdin and stdout are not pipes".to_owned()));
                };
                (Stream::new(reader, writer), Some(child))
            }
            Self::Memory(memory) => {
                ((memory.connect)().map_err(|error| fail(error.to_string()))?, None)
            }
        };
        Ok(Connection { wire: Wire::new(stream), child, started, target: self.to_string() })
    }
}

impl fmt::Display for Target {
    /// The command line, or the name of a server in this process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(command) => command.fmt(f),
            Self::Memory(memory) => f.write_str(&memory.name),
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

/// An open connection, and the process at its other end if we started it.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) child: Option<Child>,
    pub(crate) started: Instant,
    target: String,
}

impl Connection {
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().is_some())
    }

    /// Ends the process, and says how it ended and what its last words were.
    pub(crate) async fn fail(self, what: impl Into<String>) -> Error {
        let what = what.into();
        let noise = self.wire.noise().map(|line| format!(" (it wrote to stdout: {line})"));
        let noise = noise.unwrap_or_default();
        let target = self.target.clone();
        let what = match self.stop().await {
            Some(last) => format!("{what}{noise}; {last}"),
            None => format!("{what}{noise}"),
        };
        Error::Unreachable { target, what }
    }

    /// Ends the process and gives its last words, ready to follow another sentence.
    pub(crate) async fn last_words(&mut self) -> String {
        let Some(child) = &mut self.child else { return String::new() };
        child.stop(GRACE).await;
        format!("; {}", child.report(STDERR_LINES))
    }

    /// Ends the process with the stop ladder and gives its last words.
    pub(crate) async fn stop(self) -> Option<String> {
        let Self { wire, child, .. } = self;
        drop(wire); // closes its stdin
        let mut child = child?;
        child.stop(GRACE).await;
        Some(child.report(STDERR_LINES).to_string())
    }
}
