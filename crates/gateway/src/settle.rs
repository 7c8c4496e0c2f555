//! The way back: every answer, error, refusal and cancellation of a request comes through
//! [`settle`], which counts it for its upstream and emits its event.
//!
//! Events go to `tracing`, target `mcplane::call`. While nobody subscribes, that is one atomic load: no
//! clock is read and no text is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use mcplane::proto::error::ErrorObject;
use mcplane::proto::message::{self, Part};
use mcplane::server::relay::Relayed;
use serde::Serialize;
use tracing::Level;

use crate::clock;
use crate::failure::Failure;
use crate::outcome::Outcome;

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
    /// Where it is counted: with its upstream, or with what the gateway answers itself.
    pub(crate) to: &'a Tally,
    /// Since when it waited for a worker or for its turn, if it had to.
    pub(crate) waited: Option<Instant>,
    /// When it was sent last.
    pub(crate) sent: Option<Instant>,
    /// When the first byte of its upstream's first message in it was read; only known while
    /// [`is_traced`].
    pub(crate) first_byte: Option<Instant>,
}

impl<'a> Way<'a> {
    /// The way of a request that was not sent.
    pub(crate) const fn to(to: &'a Tally) -> Self {
        Self { to, waited: None, sent: None, first_byte: None }
    }
}

/// Whether anybody subscribes to the events of calls.
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(target: "mcplane::call", Level::INFO)
}

/// Answers a request, or ends it without an answer: the only place where one goes back.
pub(crate) fn settle(request: Relayed, reply: Reply<'_>, outcome: Outcome, way: Way<'_>) {
    way.to.count(outcome);
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
    let answer_bytes = match reply {
        Reply::Line(line, _) => Some(line.len()),
        Reply::Error(_) | Reply::Nothing => None,
    };
    tracing::info!(
        target: "mcplane::call",
        upstream = way.to.upstream.as_deref(),
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
    /// The upstream; `None` for the gateway itself.
    upstream: Option<Arc<str>>,
    answered: AtomicU64,
    tool_errors: AtomicU64,
    errors: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    lost: AtomicU64,
}

impl Tally {
    pub(crate) fn of(upstream: Arc<str>) -> Self {
        Self { upstream: Some(upstream), ..Self::default() }
    }

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
