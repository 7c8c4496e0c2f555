//! A target that is up: its process, if there is one for all sessions, and the connections to it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplane_process::{Child, Command, Exit, Rung};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::address::{Address, Transport};
use super::dial::Dialer;
use super::remote::{Headers, Remote, Served};
use super::traffic::Traffic;
use super::wire::Wire;
use super::{Memory, Stream, Target};
use crate::error::Error;
use crate::results;
use crate::text::shorten;

/// How long a faulty server has to stop, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// The same for a server that listens: it does not wait for the end of its stdin.
const GRACE_LISTENING: Duration = Duration::from_millis(200);

/// How long a process may take to end after it has closed its output.
const DYING: Duration = Duration::from_millis(100);

/// stderr lines quoted when a server fails.
const STDERR_LINES: usize = 8;

/// Longest line with an address, in bytes.
const ADDRESS_BYTES_MAX: u64 = 4096;

/// A target that connections can be opened to.
pub(crate) struct Site {
    way: Way,
    /// The process that listens, if we started one.
    serving: Option<Serving>,
    /// What each byte stream begins with.
    preamble: Vec<u8>,
    name: String,
    started: Instant,
}

enum Way {
    Stdio(Command),
    Memory(Memory),
    Remote { dialer: Dialer, headers: Headers, pid: Option<u32>, falls_back: bool },
}

/// A process that listens. Its pipes stay open as long as it is wanted.
struct Serving {
    child: Child,
    stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    _stdout: Box<dyn AsyncRead + Send + Unpin>,
}

impl Site {
    /// Makes a target reachable; a command that listens is started, and may take `limit` to say
    /// where. `input` is what a process reads first, or each in-memory stream.
    pub(crate) async fn start(
        target: &Target,
        input: Vec<u8>,
        limit: Duration,
    ) -> Result<Self, Error> {
        let (name, started) = (target.to_string(), Instant::now());
        let mut serving = None;
        let mut preamble = Vec::new();
        let way = match target {
            Target::Stdio(command) => {
                preamble = input;
                Way::Stdio(command.clone())
            }
            Target::Memory(memory) => {
                preamble = input;
                Way::Memory(memory.clone())
            }
            Target::Remote(remote) => Self::remote(remote, &name)?,
            Target::Served(served) => {
                let (address, process) = serve(served, &input, limit).await?;
                let pid = Some(process.child.pid());
                serving = Some(process);
                Self::remote(&Remote::new(address).without_fall_back().pid(pid), &name)?
            }
        };
        Ok(Self { way, serving, preamble, name, started })
    }

    fn remote(remote: &Remote, name: &str) -> Result<Way, Error> {
        let dialer = Dialer::new(remote.address.clone(), remote.ca.as_ref());
        Ok(Way::Remote {
            dialer: dialer.map_err(|what| Error::unreachable(name, &what))?,
            headers: remote.headers.clone(),
            pid: remote.pid.or_else(|| remote.address.process()),
            falls_back: remote.falls_back,
        })
    }

    /// The word for the transport in use.
    pub(crate) fn transport(&self) -> results::Transport {
        match &self.way {
            Way::Stdio(_) => results::Transport::Stdio,
            Way::Memory(_) => results::Transport::Memory,
            Way::Remote { dialer, .. } => dialer.address.transport.into(),
        }
    }

    /// How it is reached, if it listens.
    pub(crate) fn listens(&self) -> Option<Transport> {
        match &self.way {
            Way::Stdio(_) | Way::Memory(_) => None,
            Way::Remote { dialer, .. } => Some(dialer.address.transport),
        }
    }

    /// What goes through its sockets; of a site without, nothing.
    pub(crate) fn traffic(&self) -> Arc<Traffic> {
        match &self.way {
            Way::Stdio(_) | Way::Memory(_) => Arc::default(),
            Way::Remote { dialer, .. } => Arc::clone(&dialer.traffic),
        }
    }

    /// Gives the headers of another site to this one, so that both move the same bytes.
    pub(crate) fn with_headers_of(mut self, other: &Self) -> Self {
        if let (Way::Remote { headers, .. }, Way::Remote { headers: theirs, .. }) =
            (&mut self.way, &other.way)
        {
            headers.clone_from(theirs);
        }
        self
    }

    /// Turns from Streamable HTTP to HTTP+SSE, if that may be tried.
    pub(crate) fn fall_back(&mut self) -> bool {
        let Way::Remote { dialer, falls_back: true, .. } = &mut self.way else { return false };
        let Some(address) = dialer.address.over_sse() else { return false };
        *dialer = dialer.with_address(address);
        true
    }

    /// Whether the way is encrypted.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(&self.way, Way::Remote { dialer, .. } if dialer.address.is_tls())
    }

    /// Whether the server is a process that we did not start, and may know nothing about.
    pub(crate) const fn is_unobserved(&self) -> bool {
        matches!(self.way, Way::Remote { pid: None, .. })
    }

    /// Opens a connection to an address and closes it at once; returns what the connection took, and
    /// TLS after it.
    pub(crate) async fn knock(
        &self,
        limit: Duration,
    ) -> Result<(Duration, Option<Duration>), Error> {
        let Way::Remote { dialer, .. } = &self.way else { return Ok((Duration::ZERO, None)) };
        let fail = |what: &str| Error::unreachable(&self.name, what);
        match timeout(limit, dialer.clone().knock()).await {
            Ok(took) => took.map_err(|error| fail(&format!("cannot connect: {error}"))),
            Err(_) => Err(fail(&format!("no connection within {limit:?}"))),
        }
    }

    /// Opens one connection, within `limit`.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<Connection, Error> {
        let fail = |what: &str| Error::unreachable(&self.name, what);
        let started = if self.serving.is_some() { self.started } else { Instant::now() };
        let (wire, child, pid) = match &self.way {
            Way::Stdio(command) => {
                let mut child = command
                    .spawn()
                    .map_err(|error| Error::Unreachable { what: error.to_string() })?;
                let (Some(writer), Some(reader)) = (child.take_stdin(), child.take_stdout()) else {
                    return Err(fail("its stdin and stdout are not pipes"));
                };
                let wire = Wire::lines(Stream::new(reader, writer), &self.preamble);
                let pid = child.pid();
                (wire, Some(child), Some(pid))
            }
            Way::Memory(memory) => {
                let stream = (memory.connect)().map_err(|error| fail(&error.to_string()))?;
                (Wire::lines(stream, &self.preamble), None, None)
            }
            Way::Remote { dialer, headers, pid, .. } => {
                let wire = timeout(limit, dial(dialer, headers)).await;
                let wire = wire.unwrap_or_else(|_| Err(format!("no connection within {limit:?}")));
                (wire.map_err(|what| fail(&what))?, None, *pid)
            }
        };
        Ok(Connection { wire, child, pid, started, target: self.name.clone() })
    }

    /// Ends a faulty process; returns its last words.
    pub(crate) async fn bury(&mut self) -> Option<LastWords> {
        let mut serving = self.serving.take()?;
        serving.stdin = None;
        Some(bury(&mut serving.child, GRACE_LISTENING).await)
    }

    /// Ends the process.
    pub(crate) async fn stop(&mut self) {
        if let Some(mut serving) = self.serving.take() {
            serving.stdin = None;
            serving.child.stop(GRACE_LISTENING).await;
        }
    }
}

async fn dial(dialer: &Dialer, headers: &Headers) -> Result<Wire, String> {
    match dialer.address.transport {
        // Each connection is opened when a request needs it.
        Transport::Http => Ok(Wire::streamable(dialer.clone(), headers.clone())),
        Transport::Sse => Wire::sse(dialer.clone(), headers.clone()).await,
        Transport::WebSocket => Wire::socket(dialer, headers).await,
        Transport::Tcp | Transport::Unix => {
            let stream = dialer.clone().dial().await;
            let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
            Ok(Wire::lines(stream, &[]))
        }
    }
}

/// Starts a command that listens, and reads where.
async fn serve(
    served: &Served,
    input: &[u8],
    limit: Duration,
) -> Result<(Address, Serving), Error> {
    let name = served.command.to_string();
    let spawned = served.command.spawn();
    let mut child = spawned.map_err(|error| Error::Unreachable { what: error.to_string() })?;
    let (Some(mut stdin), Some(stdout)) = (child.take_stdin(), child.take_stdout()) else {
        return Err(Error::unreachable(&name, "its stdin and stdout are not pipes"));
    };
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    let said = async {
        stdin.write_all(input).await?;
        (&mut stdout).take(ADDRESS_BYTES_MAX).read_line(&mut line).await
    };
    let what = match timeout(limit, said).await {
        Err(_) => format!("it did not say where it listens within {limit:?}"),
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            format!("it cannot be spoken to: {error}")
        }
        // It ended, at once or before it had read its input.
        Ok(Err(_) | Ok(0)) => "it did not say where it listens".to_owned(),
        Ok(Ok(_)) => match Address::parse(line.trim(), served.transport == Transport::Sse) {
            Ok(address) if address.transport == served.transport => {
                let stdin: Box<dyn AsyncWrite + Send + Unpin> = Box::new(stdin);
                let serving = Serving { child, stdin: Some(stdin), _stdout: Box::new(stdout) };
                return Ok((address, serving));
            }
            Ok(address) => format!("it listens at {address}, which is another transport"),
            Err(_) => format!("its first line is not an address: {}", shorten(line.as_bytes())),
        },
    };
    drop(stdin);
    let last_words = bury(&mut child, GRACE_LISTENING).await;
    Err(Error::unreachable(&name, &format!("{what}{last_words}")))
}

/// An open connection, and the process at its other end if it is this connection's own.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    child: Option<Child>,
    /// The process to observe.
    pub(crate) pid: Option<u32>,
    pub(crate) started: Instant,
    target: String,
}

impl Connection {
    /// Ends the process, and says what happened to it.
    pub(crate) async fn fail(mut self, what: impl Into<String>) -> Error {
        let noise = self.wire.noise().map(|line| format!(" (it wrote to stdout: {line})"));
        let (target, noise) = (self.target.clone(), noise.unwrap_or_default());
        let last_words = self.bury().await.map_or_else(String::new, |last| last.to_string());
        Error::unreachable(&target, &format!("{}{noise}{last_words}", what.into()))
    }

    /// Ends the session, and the process with the stop ladder, `grace` for each of its rungs.
    pub(crate) async fn stop(mut self, grace: Duration) {
        let child = self.child.take();
        self.wire.close().await; // closes its stdin
        if let Some(mut child) = child {
            child.stop(grace).await;
        }
    }

    /// Ends a faulty process; returns its last words.
    pub(crate) async fn bury(&mut self) -> Option<LastWords> {
        let mut child = self.child.take()?;
        Some(bury(&mut child, GRACE).await)
    }
}

async fn bury(child: &mut Child, grace: Duration) -> LastWords {
    // A process that dies closes its pipes a moment before it can be seen to have ended.
    let exit = match timeout(DYING, child.wait()).await {
        Ok(exit) => exit,
        Err(_) => child.stop(grace).await,
    };
    let stderr = child.report(STDERR_LINES).stderr.unwrap_or_default();
    LastWords { exit: (exit.rung == Rung::Itself).then_some(exit), stderr }
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
