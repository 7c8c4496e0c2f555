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

use mcplane_process::{Child, Command, Exit, Rung};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

pub(crate) use handshake::{Failure, Opened, open};
pub use handshake::{Peer, Start, Tool};
pub(crate) use wire::{Silence, Wire, answer};

use crate::error::Error;

/// Bytes that an in-memory pipe should hold each way, the target's as well as the floor's.
pub const MEMORY_BYTES: usize = 64 * 1024;

/// How long a server has to stop after its stdin is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// How long a process may take to end after it has closed its output.
const DYING: Duration = Duration::from_millis(100);

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
        let fail = |what: &str| Error::unreachable(&self.to_string(), what);
        let (stream, child) = match self {
            Self::Stdio(command) => {
                let mut child = command
                    .spawn()
                    .map_err(|error| Error::Unreachable { what: error.to_string() })?;
                let (Some(writer), Some(reader)) = (child.take_stdin(), child.take_stdout()) else {
                    return Err(fail("its stdin and stdout are not pipes"));
                };
                (Stream::new(reader, writer), Some(child))
            }
            Self::Memory(memory) => {
                ((memory.connect)().map_err(|error| fail(&error.to_string()))?, None)
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

    /// Ends the process, and says what happened to it.
    pub(crate) async fn fail(mut self, what: impl Into<String>) -> Error {
        let noise = self.wire.noise().map(|line| format!(" (it wrote to stdout: {line})"));
        let (target, noise) = (self.target.clone(), noise.unwrap_or_default());
        let last_words = self.bury().await.map_or_else(String::new, |last| last.to_string());
        Error::unreachable(&target, &format!("{}{noise}{last_words}", what.into()))
    }

    /// Ends the process with the stop ladder.
    pub(crate) async fn stop(mut self) {
        let child = self.child.take();
        drop(self.wire); // closes its stdin
        if let Some(mut child) = child {
            child.stop(GRACE).await;
        }
    }

    /// Ends a process that something is wrong with; gives its last words.
    pub(crate) async fn bury(&mut self) -> Option<LastWords> {
        let mut child = self.child.take()?;
        // A process that dies closes its pipes a moment before it can be seen to have ended.
        let exit = match timeout(DYING, child.wait()).await {
            Ok(exit) => exit,
            Err(_) => child.stop(GRACE).await,
        };
        let stderr = child.report(STDERR_LINES).stderr.unwrap_or_default();
        Some(LastWords { exit: (exit.rung == Rung::Itself).then_some(exit), stderr })
    }
}

/// How a process ended, if it did so before we made it, and the end of its stderr.
pub(crate) struct LastWords {
    pub(crate) exit: Option<Exit>,
    stderr: Vec<String>,
}

impl fmt::Display for LastWords {
    /// Follows another sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.exit {
            Some(exit) => write!(f, "; it {exit}")?,
            None => f.write_str("; it was still running")?,
        }
        if self.stderr.is_empty() {
            return f.write_str("; it wrote nothing to stderr");
        }
        f.write_str("; its last stderr lines:")?;
        self.stderr.iter().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}
