//! Why an upstream is not what it should be, and the texts that are made of it: one for clients, with
//! nothing about this machine, and one for whoever runs the gateway.

use std::fmt;
use std::sync::Arc;

use mcplane::proto::error::shorten;
use mcplane::proto::session::HandshakeError;
use mcplane::transport::process::{ExitReport, mask_urls};

use super::address;
use super::pool::{Pool, WorkerEvent};
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
    Ended(String, Option<ExitReport>),
    /// The handshake failed.
    Handshake(HandshakeError, Option<ExitReport>),
    /// A worker used too much memory.
    Memory { used_bytes: u64, max: Size },
    /// Not even one of its lists could be read.
    ListsFailed(Vec<FailedList>),
}

/// A list that could not be read, and why.
pub(crate) type FailedList = (Kind, String);

impl Cause {
    /// For clients.
    pub(crate) fn for_clients(&self, pool: &Pool) -> String {
        address::hidden(&self.to_string(), pool).into_owned()
    }

    /// For whoever runs the gateway: command, exit status and last words are in it, and no secrets.
    pub(crate) fn for_operators(&self) -> String {
        let text = match self {
            Self::NotStarted(error) | Self::NotReached(error) => format!("{self}: {error}"),
            Self::Memory { used_bytes, max } => {
                format!("a worker used {used_bytes} bytes of memory, and {max} is the most")
            }
            _ => match self.report() {
                Some(report) => format!("{self}: {report}"),
                None => self.to_string(),
            },
        };
        mask_urls(&text)
    }

    /// How its process ended.
    pub(crate) const fn report(&self) -> Option<&ExitReport> {
        match self {
            Self::Ended(_, report) | Self::Handshake(_, report) => report.as_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(_) => f.write_str("it cannot be started"),
            Self::NotReached(_) => f.write_str("it cannot be reached"),
            Self::Ended(how, report) => {
                f.write_str(how)?;
                match report.as_ref().and_then(|report| report.exit.as_ref()) {
                    Some(exit) => write!(f, "; its process {exit}"),
                    None => Ok(()),
                }
            }
            Self::Handshake(error, _) => error.fmt(f),
            Self::Memory { .. } => f.write_str("it used too much memory"),
            Self::ListsFailed(lists) => {
                write!(f, "its lists could not be read: {}", failed_lists(lists))
            }
        }
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
            Self::ListsMissing(lists) => {
                write!(f, "what it lists is served without what failed: {}", failed_lists(lists))
            }
            Self::StreamsEnd => f.write_str(
                "it does not keep the stream open on which it tells of changes; it is asked again",
            ),
        }
    }
}

impl Pool {
    /// Why no worker of it runs, for clients.
    pub(super) fn why_down(&self) -> String {
        let cause = self.status.cause();
        cause.map_or_else(|| "no worker of it runs".to_owned(), |cause| cause.for_clients(self))
    }

    /// Something went wrong.
    pub(crate) fn failed(self: &Arc<Self>, cause: Cause) {
        let cause = Arc::new(cause);
        self.hear(WorkerEvent::Notice(Notice::Failed(Arc::clone(&cause))));
        self.status.failed(cause);
    }
}
