//! How a request ended, as data that is counted and traced.

use mcplane::proto::error::{Code, Fault};
use mcplane::proto::message::{Kind, Message, Part};
use serde::Deserialize;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With a result, or with what its upstream wants to know first.
    Answered,
    /// With a result that says that the tool has failed.
    ToolError,
    /// With an error, and whose fault it is.
    Error(Code, Fault),
    /// It was not sent to its upstream.
    Refused(Refusal),
    /// Its upstream did not answer in time.
    TimedOut,
    /// Its client cancelled it.
    Cancelled,
    /// Its worker died before it had answered.
    Lost,
}

/// Why a request was not sent to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It asks for something that does not exist, or is malformed.
    Unknown,
    /// Its `requestState` is not one of this gateway, for this request.
    State,
    /// Every worker and the queue are full.
    Full,
    /// Its client already has its share of the queue.
    Share,
    /// No worker runs.
    NoWorker,
    /// It waited for a worker, or for its turn, for too long.
    Waited,
    /// Calls like it have ended their worker's process.
    Blamed,
    /// Its upstream or its session is closing.
    Closing,
    /// It belongs to no session, and each session has workers of its own.
    NoSession,
    /// The revision of its upstream does not have its method.
    Method,
}

impl Outcome {
    /// The outcome of an upstream's answer.
    pub(crate) fn of(answer: &Message) -> Self {
        #[derive(Deserialize)]
        struct Coded {
            code: i64,
        }
        match answer.kind() {
            Kind::ErrorResponse => {
                let coded = answer.part(Part::Error).map(serde_json::from_slice::<Coded>);
                let code = coded.and_then(Result::ok).map(|coded| Code(coded.code));
                let code = code.unwrap_or(Code::INTERNAL_ERROR);
                let is_callers = code.fault() == Fault::Caller;
                Self::Error(code, if is_callers { Fault::Caller } else { Fault::Upstream })
            }
            _ if answer.part(Part::IsError).is_some_and(|is_error| is_error == b"true") => {
                Self::ToolError
            }
            _ => Self::Answered,
        }
    }

    /// Its name, and why it was refused if it was.
    pub(crate) const fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Answered => ("answered", None),
            Self::ToolError => ("tool_error", None),
            Self::Error(..) => ("error", None),
            Self::Refused(why) => ("refused", Some(why.word())),
            Self::TimedOut => ("timed_out", None),
            Self::Cancelled => ("cancelled", None),
            Self::Lost => ("lost", None),
        }
    }
}

impl Refusal {
    const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::State => "state",
            Self::Full => "full",
            Self::Share => "share",
            Self::NoWorker => "no_worker",
            Self::Waited => "waited",
            Self::Blamed => "blamed",
            Self::Closing => "closing",
            Self::NoSession => "no_session",
            Self::Method => "method",
        }
    }
}
