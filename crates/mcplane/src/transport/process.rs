//! A server that is started as a child process, and spoken to over its standard input and output.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use mcplane_process::observe::{Tree, Usage};
pub use mcplane_process::{
    Child, Command, Exit, ExitReport, INHERITED, Rung, SpawnError, Stderr, StderrTail, mask_urls,
    mask_words,
};

use super::Transport;
use crate::error::{Error, Result};

/// How long a server may take to end after its stdin is closed, and again after SIGTERM.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// How many of a server's last stderr lines an error quotes.
pub const STDERR_LINES: usize = 10;

/// A server to start. Clone it to start it again.
///
/// As a [`Transport`] its reader owns the child: dropping the reader kills the process group at
/// once. Call [`Process::start`] instead to stop it gently and to learn how it ended.
#[derive(Clone, Debug)]
pub struct Process {
    command: Command,
    grace: Duration,
}

impl Process {
    /// A server that `command` starts.
    #[must_use]
    pub const fn new(command: Command) -> Self {
        Self { command, grace: STOP_GRACE }
    }

    /// The same with another grace period than [`STOP_GRACE`].
    #[must_use]
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts the server: the process, its stdout and its stdin.
    ///
    /// # Errors
    /// [`Error::is_spawn`]: the message names the command and says what to do about it.
    pub fn start(&self) -> Result<(Running, ProcessReader, ProcessWriter)> {
        let mut child = self.command.spawn()?;
        // Both pipes are always there: `Command` asks for them.
        let (Some(stdin), Some(stdout)) = (child.take_stdin(), child.take_stdout()) else {
            return Err(Error::closed(format!("`{}` has no pipes", self.command)));
        };
        let reader = ProcessReader(Box::new(stdout), None);
        let writer = ProcessWriter(Box::new(stdin));
        Ok((Running { child, grace: self.grace }, reader, writer))
    }
}

impl From<Command> for Process {
    fn from(command: Command) -> Self {
        Self::new(command)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

impl Transport for Process {
    type Reader = ProcessReader;
    type Writer = ProcessWriter;

    fn open(self) -> Result<(Self::Reader, Self::Writer)> {
        let (running, ProcessReader(stdout, _), writer) = self.start()?;
        Ok((ProcessReader(stdout, Some(running)), writer))
    }
}

/// A server's process. Dropping it kills the process group with SIGKILL.
#[derive(Debug)]
pub struct Running {
    child: Child,
    grace: Duration,
}

impl Running {
    /// The process id, which is also the id of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// What the process writes to stderr; `None` unless it is captured.
    #[must_use]
    pub fn stderr(&self) -> Option<StderrTail> {
        self.child.stderr()
    }

    /// Stops the process: waits for it to end by itself (drop the writer first: that closes its
    /// stdin), then SIGTERM, then SIGKILL to the group, with a grace before each.
    ///
    /// If cancelled, it stays at the step reached; dropping `self` then kills the group.
    pub async fn stop(&mut self) -> Exit {
        self.child.stop(self.grace).await
    }

    /// Waits up to `time` for the process to end by itself. Cancel safe.
    pub async fn ended_within(&mut self, time: Duration) -> Option<Exit> {
        tokio::time::timeout(time, self.child.wait()).await.ok()
    }

    /// The command, how it ended, and its last [`STDERR_LINES`] stderr lines.
    #[must_use]
    pub fn report(&self) -> ExitReport {
        self.child.report(STDERR_LINES)
    }
}

/// The server's stdout.
pub struct ProcessReader(pub(super) Box<dyn AsyncRead + Send + Unpin>, pub(super) Option<Running>);

impl AsyncRead for ProcessReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buffer)
    }
}

impl fmt::Debug for ProcessReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProcessReader").field(&self.1).finish()
    }
}

/// The server's stdin.
pub struct ProcessWriter(Box<dyn AsyncWrite + Send + Unpin>);

impl AsyncWrite for ProcessWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}

impl fmt::Debug for ProcessWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessWriter")
    }
}
