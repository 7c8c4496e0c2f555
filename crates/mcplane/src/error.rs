//! What can go wrong, whose fault it is, and whether trying again may help.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use mcplane_proto::error::{Code, ErrorObject, Fault, Retry};
use mcplane_proto::session::HandshakeError;
use serde::Serialize;

/// The result of everything in this library that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library. Opaque: ask it with the `is_*` functions.
///
/// `Display` prints one sentence; the cause, if there is one, is in `source()`.
pub struct Error(Box<Kind>);

#[derive(Debug)]
pub(crate) enum Kind {
    Closed(String),
    Handshake(HandshakeError),
    Io(String, io::Error),
    Malformed(String),
    Misuse(String),
    Overloaded,
    Rpc(ErrorObject),
    Spawn(Box<dyn StdError + Send + Sync>),
    System(String, io::Error),
    TimedOut(String),
    Transport(Failure),
}

/// How a request was lost on its way over HTTP.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failure {
    pub(crate) kind: Lost,
    /// The HTTP status, if there was an answer.
    pub(crate) status: Option<u16>,
    /// What the server said about trying again.
    pub(crate) retry_after_ms: Option<u64>,
    #[serde(skip)]
    pub(crate) message: String,
}

/// The kinds of [`Failure`] that a caller can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Lost {
    /// No connection could be made.
    Unreachable,
    /// The connection ended before the answer.
    Broken,
    /// No answer in time.
    Late,
    /// 401 or 403.
    Unauthorized,
    /// 429 or 503.
    Unavailable,
    /// Another status that is not an answer.
    Status,
    /// An answer that cannot be understood.
    Malformed,
}

impl Failure {
    #[cfg(feature = "http")]
    pub(crate) fn new(kind: Lost, message: impl Into<String>) -> Self {
        Self { kind, status: None, retry_after_ms: None, message: message.into() }
    }

    /// The error that stands for the lost answer where only messages pass.
    pub(crate) fn object(&self) -> ErrorObject {
        ErrorObject::new(Code::UNAVAILABLE, self.message.clone()).with_data(self)
    }
}

impl Error {
    pub(crate) fn new(kind: Kind) -> Self {
        Self(Box::new(kind))
    }

    pub(crate) fn io(doing: impl Into<String>, error: io::Error) -> Self {
        Self::new(Kind::Io(doing.into(), error))
    }

    /// The operating system of this side does not give what is asked of it.
    pub(crate) fn system(what: impl Into<String>, error: io::Error) -> Self {
        Self::new(Kind::System(what.into(), error))
    }

    pub(crate) fn closed(how: impl Into<String>) -> Self {
        Self::new(Kind::Closed(how.into()))
    }

    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self::new(Kind::Malformed(why.into()))
    }

    pub(crate) fn misuse(why: impl Into<String>) -> Self {
        Self::new(Kind::Misuse(why.into()))
    }

    /// The peer answered with a JSON-RPC error; [`Error::rpc`] has it.
    #[must_use]
    pub fn is_rpc(&self) -> bool {
        matches!(*self.0, Kind::Rpc(_))
    }

    /// The JSON-RPC error with which the peer answered.
    #[must_use]
    pub fn rpc(&self) -> Option<&ErrorObject> {
        match &*self.0 {
            Kind::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// No answer came in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(*self.0, Kind::TimedOut(_) | Kind::Handshake(HandshakeError::TimedOut { .. }))
            || self.lost() == Some(Lost::Late)
    }

    /// The connection ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(*self.0, Kind::Closed(_) | Kind::Handshake(HandshakeError::Closed { .. }))
            || self.lost() == Some(Lost::Broken)
    }

    /// A limit of this side has been reached; try again later.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        matches!(*self.0, Kind::Overloaded)
    }

    /// The two sides could not agree on a protocol revision.
    #[must_use]
    pub fn is_handshake(&self) -> bool {
        matches!(*self.0, Kind::Handshake(_))
    }

    /// The server's command could not be started.
    #[must_use]
    pub fn is_spawn(&self) -> bool {
        matches!(*self.0, Kind::Spawn(_))
    }

    /// Reading or writing failed, or something else that the operating system was asked for.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(*self.0, Kind::Io(..) | Kind::System(..))
    }

    /// The peer violated the protocol.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(*self.0, Kind::Malformed(_)) || self.lost() == Some(Lost::Malformed)
    }

    /// The server wants credentials that were not given, or refuses the ones that were (HTTP 401
    /// and 403).
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.lost() == Some(Lost::Unauthorized)
    }

    /// The server cannot be reached: no address, no connection, or no TLS.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.lost() == Some(Lost::Unreachable)
    }

    /// The server is overloaded (HTTP 503 and 429); [`Error::retry_after`] may say when to try
    /// again.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.lost() == Some(Lost::Unavailable)
    }

    /// How long the server asks clients to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.failure()?.retry_after_ms.map(Duration::from_millis)
    }

    /// The HTTP status that came instead of an answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.failure()?.status
    }

    /// The library was used wrongly: a programming error of the caller.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(*self.0, Kind::Misuse(_))
    }

    const fn failure(&self) -> Option<&Failure> {
        match &*self.0 {
            Kind::Transport(failure) => Some(failure),
            _ => None,
        }
    }

    fn lost(&self) -> Option<Lost> {
        self.failure().map(|failure| failure.kind)
    }

    /// Whose fault it is.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match &*self.0 {
            Kind::Rpc(error) => error.code.fault(),
            Kind::Misuse(_) | Kind::Spawn(_) => Fault::Caller,
            Kind::Overloaded | Kind::System(..) => Fault::Us,
            Kind::Transport(Failure { kind: Lost::Unauthorized, .. }) => Fault::Caller,
            Kind::Closed(_)
            | Kind::Handshake(_)
            | Kind::Io(..)
            | Kind::Malformed(_)
            | Kind::TimedOut(_)
            | Kind::Transport(_) => Fault::Peer,
        }
    }

    /// Whether the same request may succeed if it is sent again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match &*self.0 {
            Kind::Rpc(error) => error.code.retry(),
            Kind::Overloaded => Retry::Later,
            Kind::Closed(_) | Kind::Io(..) | Kind::System(..) | Kind::TimedOut(_) => Retry::Perhaps,
            Kind::Handshake(_) | Kind::Malformed(_) | Kind::Misuse(_) | Kind::Spawn(_) => {
                Retry::Never
            }
            Kind::Transport(failure) => match failure.kind {
                Lost::Unreachable | Lost::Broken | Lost::Late => Retry::Perhaps,
                Lost::Unauthorized => Retry::Changed,
                Lost::Unavailable => Retry::Later,
                Lost::Status if failure.status >= Some(500) => Retry::Perhaps,
                Lost::Status | Lost::Malformed => Retry::Never,
            },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Closed(how) => write!(f, "the connection is closed: {how}"),
            Kind::Handshake(error) => write!(f, "{error}"),
            Kind::Io(doing, error) | Kind::System(doing, error) => write!(f, "{doing}: {error}"),
            Kind::Malformed(why) => write!(f, "the peer broke the protocol: {why}"),
            Kind::Misuse(why) => f.write_str(why),
            Kind::Overloaded => f.write_str("too many requests are in flight; try again later"),
            Kind::Rpc(error) => write!(f, "{error}"),
            Kind::Spawn(error) => write!(f, "{error}"),
            Kind::TimedOut(what) => write!(f, "no answer in time: {what}"),
            Kind::Transport(failure) => f.write_str(&failure.message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mcplane::Error({:?})", self.0)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &*self.0 {
            Kind::Io(_, error) | Kind::System(_, error) => Some(error),
            Kind::Spawn(error) => error.source(),
            _ => None,
        }
    }
}

impl From<ErrorObject> for Error {
    fn from(error: ErrorObject) -> Self {
        Self::new(Kind::Rpc(error))
    }
}

impl From<HandshakeError> for Error {
    fn from(error: HandshakeError) -> Self {
        Self::new(Kind::Handshake(error))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(Kind::Transport(failure))
    }
}

#[cfg(feature = "client")]
impl From<mcplane_process::SpawnError> for Error {
    fn from(error: mcplane_process::SpawnError) -> Self {
        Self::new(Kind::Spawn(Box::new(error)))
    }
}
