//! Why an upstream is not what it should be, and the texts that are made of it: one for clients, with
//! nothing about this machine, and one for whoever runs the gateway.

use std::sync::Arc;
use std::{fmt, io};

use mcplane::proto::error::shorten;
use mcplane::proto::frame::lines::LineTooLong;
use mcplane::proto::method::Method;
use mcplane::proto::session::HandshakeError;
use mcplane::transport::process::{ExitReport, mask_urls};

use super::loss;
use crate::catalog::Kind;
use crate::config::Size;

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Cause {
    /// Its process could not be started.
    NotStarted(mcplane::Error),
    /// Its address could not be reached.
    NotReached(mcplane::Error),
    /// The connection ended, and most often the process with it.
    Ended(Broken, Option<ExitReport>),
    /// The handshake failed.
    Handshake(HandshakeError, Option<ExitReport>),
    /// This request of it was lost on its way.
    Lost(Method, mcplane::Error),
    /// A worker used too much memory.
    Memory { used_bytes: u64, max: Size },
    /// Not even one of its lists could be read.
    ListsFailed(Vec<FailedList>),
}

/// What ended a connection.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Its process has ended.
    Exited,
    /// The upstream has closed its side.
    Closed,
    Read(io::Error),
    Write(io::Error),
    /// The upstream takes nothing of what is sent.
    Stalled,
    /// What it says is not MCP.
    Strays,
    /// It said something that cannot be read, and it cannot be told whose that was.
    TooLong(LineTooLong),
    NoRoom,
}

impl Broken {
    /// For clients: without what the operating system, or a transport, says of it.
    const fn for_clients(&self) -> &'static str {
        match self {
            Self::Exited => "it has ended",
            Self::Closed => "it closed the connection",
            Self::Read(_) => "reading failed",
            Self::Write(_) => "writing failed",
            Self::Stalled => "it does not read what it is sent",
            Self::Strays => "too many lines in a row on its stdout are not messages",
            Self::TooLong(_) => "the server sent a message that is too long",
            Self::NoRoom => {
                "the server sent a message for which there is no room, while others wait"
            }
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.for_clients())?;
        match self {
            Self::Read(error) | Self::Write(error) => write!(f, ": {error}"),
            Self::TooLong(error) => write!(f, ": {error}"),
            _ => Ok(()),
        }
    }
}

/// A list that could not be read, and why.
pub(crate) type FailedList = (Kind, String);

impl Cause {
    /// For clients: none of the words of the upstream, which may be about the gateway's address of it or
    /// its credentials there.
    pub(crate) fn for_clients(&self) -> String {
        match self {
            Self::NotStarted(_) => "it cannot be started".into(),
            Self::NotReached(_) => "it cannot be reached".into(),
            Self::Ended(how, report) => with_exit(how.for_clients(), report.as_ref()),
            Self::Handshake(HandshakeError::Refused { method, .. }, _) => {
                format!("the server refused `{method}`")
            }
            Self::Handshake(HandshakeError::Malformed { method, .. }, _) => {
                format!("the answer to `{method}` is not what the protocol says")
            }
            Self::Handshake(error, _) => error.to_string(),
            Self::Lost(_, error) => loss::for_clients(error).into(),
            Self::Memory { .. } => "it used too much memory".into(),
            Self::ListsFailed(_) => "its lists could not be read".into(),
        }
    }

    /// For whoever runs the gateway: command, exit status and last words are in it, and no secrets.
    pub(crate) fn for_operators(&self) -> String {
        let text = match self {
            Self::NotStarted(error) | Self::NotReached(error) => {
                format!("{}: {error}", self.for_clients())
            }
            Self::Ended(how, report) => with_exit(how, report.as_ref()),
            Self::Handshake(error, _) => error.to_string(),
            Self::Lost(method, error) => {
                format!("`{method}` was lost on its way: {}", loss::for_operators(error))
            }
            Self::Memory { used_bytes, max } => {
                format!("a worker used {used_bytes} bytes of memory, and {max} is the most")
            }
            Self::ListsFailed(lists) => format!("{}: {}", self.for_clients(), failed_lists(lists)),
        };
        mask_urls(&match self.report() {
            Some(report) => format!("{text}: {report}"),
            None => text,
        })
    }

    /// How its process ended.
    pub(crate) const fn report(&self) -> Option<&ExitReport> {
        match self {
            Self::Ended(_, report) | Self::Handshake(_, report) => report.as_ref(),
            _ => None,
        }
    }
}

fn with_exit(how: impl fmt::Display, report: Option<&ExitReport>) -> String {
    match report.and_then(|report| report.exit.as_ref()) {
        Some(exit) => format!("{how}; its process {exit}"),
        None => how.to_string(),
    }
}

/// The lists and what is wrong with them, in one line.
pub(crate) fn failed_lists(lists: &[FailedList]) -> String {
    let of = |(kind, error): &FailedList| {
        format!("{}: {}", kind.method(), shorten(error).escape_debug())
    };
    lists.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// Something that whoever runs the gateway should know of an upstream.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// It is not what it should be.
    Failed(Arc<Cause>),
    /// Workers of this kind do not start, and it goes on without them.
    Without(Spared, Arc<Cause>),
    /// A request of a client's was lost on its way.
    Lost(Method, String),
    /// What it lists is served without these lists.
    ListsMissing(Vec<FailedList>),
    /// The streams on which it tells of changes do not last.
    StreamsEnd,
}

/// Workers that an upstream can do without.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spared {
    /// Those that begin with `initialize`, for older clients.
    Legacy,
    /// Those that have one call at a time, since it may ask.
    Alone,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(cause) => f.write_str(&cause.for_operators()),
            Self::Without(spared, cause) => {
                let what = match spared {
                    Spared::Legacy => {
                        "older clients are translated for, since it does not start for them"
                    }
                    Spared::Alone => {
                        "calls that may ask share a worker with others, since no other one starts"
                    }
                };
                write!(f, "{what}: {}", cause.for_operators())
            }
            Self::Lost(method, why) => write!(f, "a `{method}` was lost on its way: {why}"),
            Self::ListsMissing(lists) => {
                write!(f, "what it lists is served without what failed: {}", failed_lists(lists))
            }
            Self::StreamsEnd => f.write_str(
                "it does not keep the stream open on which it tells of changes; it is asked again",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_for_operators() {
        let refused = || io::Error::other("tls: http://u:p@10.0.0.1/?key=hunter2 says no");
        let cause = Cause::Ended(Broken::Read(refused()), None);
        assert_eq!(cause.for_clients(), "reading failed");
        let told = cause.for_operators();
        assert!(told.starts_with("reading failed: tls: http://"), "{told}");
        assert!(told.ends_with("says no") && !told.contains("hunter2"), "{told}");
    }
}
