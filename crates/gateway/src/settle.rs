//! The way back: every answer, error, refusal and cancellation of a request comes through
//! [`settle`], which counts it for its upstream and emits its event.
//!
//! Events go to `tracing`, target `mcplane::call`. While nobody subscribes, that is one atomic load: no
//! clock is read and no text is made.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use mcplane::proto::error::{Code, ErrorObject, Fault};
use mcplane::proto::message::{self, Kind, Message, Part};
use mcplane::server::relay::Relayed;
use serde::{Deserialize, Serialize};
use tracing::Level;

use crate::clock;
use crate::failure::Failure;
use crate::upstream::pool::Shared;

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
    const fn words(self) -> (&'static str, Option<&'static str>) {
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

/// What goes back to the client.
pub(crate) enum Reply<'a> {
    /// A whole response, and what it is.
    Line(Vec<u8>, message::Outcome),
    Error(&'a ErrorObject),
    /// Nothing: the reply is written already, or the request was cancelled.
    Nothing,
}

/// Where a request went, and when.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    pub(crate) to: To<'a>,
    /// Since when it waited for a worker or for its turn, if it had to.
    pub(crate) waited: Option<Instant>,
    /// When it was sent last.
    pub(crate) sent: Option<Instant>,
    /// When the first byte of its upstream's first message in it was read; only known while
    /// [`is_traced`].
    pub(crate) first_byte: Option<Instant>,
}

/// Who was to answer a request.
#[derive(Clone, Copy)]
pub(crate) enum To<'a> {
    /// The gateway itself: a list, or something that no upstream has.
    Gateway(&'a Tally),
    Upstream(&'a Shared),
}

impl<'a> Way<'a> {
    /// The way of a request that was not sent.
    pub(crate) const fn to(to: To<'a>) -> Self {
        Self { to, waited: None, sent: None, first_byte: None }
    }
}

/// Whether anybody subscribes to the events of calls.
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(target: "mcplane::call", Level::INFO)
}

/// Answers a request, or ends it without an answer: the only place where one goes back.
pub(crate) fn settle(request: Relayed, reply: Reply<'_>, outcome: Outcome, way: Way<'_>) {
    match way.to {
        To::Gateway(tally) => tally.count(outcome),
        To::Upstream(upstream) => upstream.tally.count(outcome),
    }
    if is_traced() {
        tell(&request, &reply, outcome, way);
    }
    match reply {
        Reply::Line(line, outcome) => request.answer(line, outcome),
        Reply::Error(error) => request.fail(error),
        Reply::Nothing => request.forget(),
    }
}

/// Answers a request with an error of the gateway's own.
pub(crate) fn fail(request: Relayed, failure: &Failure, way: Way<'_>) {
    settle(request, Reply::Error(&failure.object()), failure.outcome(), way);
}

#[cold]
fn tell(request: &Relayed, reply: &Reply<'_>, outcome: Outcome, way: Way<'_>) {
    let (now, message) = (clock::now(), request.message());
    let us = |from: Instant, to: Instant| {
        u64::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(u64::MAX)
    };
    let (code, fault) = match outcome {
        Outcome::Error(code, fault) => (Some(code.0), Some(fault)),
        _ => (None, None),
    };
    let name = message.text(Part::Name).or_else(|| message.text(Part::Uri));
    let (outcome, why) = outcome.words();
    let upstream = match way.to {
        To::Gateway(_) => None,
        To::Upstream(upstream) => Some(&*upstream.name),
    };
    let answer_bytes = match reply {
        Reply::Line(line, _) => Some(line.len()),
        Reply::Error(_) | Reply::Nothing => None,
    };
    tracing::info!(
        target: "mcplane::call",
        upstream,
        method = request.method().as_str(),
        name = name.as_deref(),
        outcome,
        why,
        code,
        fault = fault.map(tracing::field::debug),
        waited_us = way.waited.map(|since| us(since, way.sent.unwrap_or(now))),
        first_byte_us = way.sent.zip(way.first_byte).map(|(sent, at)| us(sent, at)),
        ran_us = way.sent.map(|sent| us(sent, now)),
        request_bytes = message.bytes().len(),
        answer_bytes,
    );
}

/// How the requests to one upstream ended, or those that the gateway answered itself.
#[derive(Default)]
pub(crate) struct Tally {
    answered: AtomicU64,
    tool_errors: AtomicU64,
    errors: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    lost: AtomicU64,
}

impl Tally {
    fn count(&self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Answered => &self.answered,
            Outcome::ToolError => &self.tool_errors,
            Outcome::Error(..) => &self.errors,
            Outcome::Refused(_) => &self.refused,
            Outcome::TimedOut => &self.timed_out,
            Outcome::Cancelled => &self.cancelled,
            Outcome::Lost => &self.lost,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn calls(&self) -> Calls {
        Calls {
            answered: self.answered.load(Relaxed),
            tool_errors: self.tool_errors.load(Relaxed),
            errors: self.errors.load(Relaxed),
            refused: self.refused.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            lost: self.lost.load(Relaxed),
        }
    }
}

/// How requests ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Calls {
    /// With a result, or with what the server wants to know first.
    pub answered: u64,
    /// With a result that says that the tool has failed.
    pub tool_errors: u64,
    /// With an error.
    pub errors: u64,
    /// Not sent: too much to do, no worker, an unknown name, or not a request that could be sent.
    pub refused: u64,
    /// Not answered in time.
    pub timed_out: u64,
    /// Given up by their clients.
    pub cancelled: u64,
    /// Lost with the worker that had them.
    pub lost: u64,
}
