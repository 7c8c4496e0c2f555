//! The life of a call: where it is, and what it has with it there.
//!
//! ```text
//! waiting ─► queued ─► sent ─► answered                  cancelled, from wherever a client waits
//!    ▲         ▲ └──────┘│
//!    │       its worker  ├─► parked ─► kept ─► answered  its client is away with a question
//!    │        is gone    │     └─► sent                  its client is back
//!    └──────────────── replayed                          its client is asked
//! ```
//!
//! What a call may use of others travels in the state in which it may: the turn of its tool from
//! when it has got one until its upstream has answered, the place of a worker while it is sent. So
//! nothing is sent without them, and what has ended has none. Whoever ends a stay is given what was
//! held, to let go of it (a drop frees it) or to hold it for as long as the upstream goes on.

use std::mem;
use std::time::Instant;

use serde_json::Value;

use super::blame::Kind;

/// What lives are made of.
pub(crate) trait Parts {
    /// Who waits for the answer. It can be answered once.
    type Request;
    /// The turn of a tool.
    type Turn;
    /// One of the places of a worker.
    type Place;
    /// What the client was asked that is away.
    type Questions;
    /// How a call ended that nobody was there to hear of.
    type End;
}

/// One call, from the pipeline to its answer.
pub(crate) struct Life<P: Parts> {
    state: State<P>,
    /// What goes with it when it is sent: the answers to what a modern upstream asked before.
    retry: Vec<u8>,
    /// How often it was sent.
    sends: u8,
    /// Since when it waits to be sent, or did when it was sent last.
    waits: Option<Instant>,
    pub(super) asks: Asks,
    pub(super) beside: Beside,
}

enum State<P: Parts> {
    /// Its client waits.
    Open(P::Request, Stage<P>),
    /// Its client is away with a question, and its upstream works on it.
    Parked(P::Questions, Sent<P>),
    /// Its client is away, and what its upstream answered is kept.
    Kept(P::Questions, P::End),
    Answered,
    Cancelled,
}

/// How far a call is whose client waits.
enum Stage<P: Parts> {
    /// It has no turn yet.
    Waiting,
    /// It may be sent: it waits for a worker, or a worker for a moment to send it.
    Queued(P::Turn),
    Sent(Sent<P>),
    /// Its client is asked what its upstream wants to know before it is sent again.
    Replayed,
}

/// What a call holds while its upstream works on it.
pub(crate) struct Sent<P: Parts> {
    turn: P::Turn,
    pub(crate) place: P::Place,
    pub(crate) on: On,
    /// When the first byte came of what its upstream says in it, if somebody wants to know.
    pub(crate) first_byte: Option<Instant>,
    /// What its upstream wanted to ask for and could not, since the client does not declare it.
    pub(crate) lacks: Option<Value>,
    /// What it was, once its request is gone.
    pub(crate) kind: Option<Kind>,
}

/// Where and when a call was sent.
#[derive(Clone, Copy)]
pub(crate) struct On {
    /// On which of its worker's connections, and its id there.
    pub(crate) life: u32,
    pub(crate) id: i64,
    /// Which call it was of all that its worker was sent.
    pub(crate) number: u64,
    pub(crate) at: Instant,
}

/// Whether a call's upstream asks in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Unknown,
    /// What is known of its tool says so.
    Expected,
    /// It has asked something that may have belonged to this call.
    Asked,
}

/// Beside which other calls one is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Those that leave no doubt whose a question is.
    Others,
    /// It is to have a worker to itself, as long as there are such.
    Nobody,
    /// Any: it asks nothing, and has waited for others' questions.
    Anybody,
}

/// What a call held that has ended.
pub(crate) struct Ended<P: Parts> {
    /// Who is to be answered.
    pub(crate) request: Option<P::Request>,
    /// Since when it waited to be sent, if it had to.
    pub(crate) waited: Option<Instant>,
    /// What it held at a worker, if one has it still.
    pub(crate) sent: Option<Sent<P>>,
    /// Its turn, if it was not sent yet.
    _turn: Option<P::Turn>,
}

impl<P: Parts> Life<P> {
    pub(crate) const fn new(request: P::Request, retry: Vec<u8>) -> Self {
        Self {
            state: State::Open(request, Stage::Waiting),
            retry,
            sends: 0,
            waits: None,
            asks: Asks::Unknown,
            beside: Beside::Others,
        }
    }

    /// Who waits for its answer.
    pub(crate) const fn request(&self) -> Option<&P::Request> {
        match &self.state {
            State::Open(request, _) => Some(request),
            _ => None,
        }
    }

    /// Whether it waits to be sent.
    pub(crate) const fn is_to_be_sent(&self) -> bool {
        matches!(&self.state, State::Open(_, Stage::Waiting | Stage::Queued(_)))
    }

    /// It has to wait to be sent, from now on if it did not before.
    pub(super) fn wait(&mut self, now: Instant) {
        if self.is_to_be_sent() {
            self.waits.get_or_insert(now);
        }
    }

    /// Whether it goes on with what a modern upstream asked, which no legacy one can take up.
    pub(super) const fn is_resumed(&self) -> bool {
        !self.retry.is_empty()
    }

    /// How often it was sent.
    pub(crate) const fn sends(&self) -> u8 {
        self.sends
    }

    /// What it holds at a worker.
    pub(crate) const fn sent(&self) -> Option<&Sent<P>> {
        match &self.state {
            State::Open(_, Stage::Sent(sent)) | State::Parked(_, sent) => Some(sent),
            _ => None,
        }
    }

    pub(crate) const fn sent_mut(&mut self) -> Option<&mut Sent<P>> {
        match &mut self.state {
            State::Open(_, Stage::Sent(sent)) | State::Parked(_, sent) => Some(sent),
            _ => None,
        }
    }

    /// What its client was asked that is away.
    pub(crate) const fn questions(&mut self) -> Option<&mut P::Questions> {
        match &mut self.state {
            State::Parked(questions, _) | State::Kept(questions, _) => Some(questions),
            _ => None,
        }
    }

    /// How it ended, if its client was away.
    pub(crate) const fn kept(&mut self) -> Option<(&mut P::Questions, &P::End)> {
        match &mut self.state {
            State::Kept(questions, end) => Some((questions, end)),
            _ => None,
        }
    }

    /// Waiting → queued: it is its turn. The turn comes back if nobody waits for it any more.
    pub(super) fn begin(&mut self, turn: P::Turn) -> Result<(), P::Turn> {
        match &mut self.state {
            State::Open(_, stage @ Stage::Waiting) => {
                *stage = Stage::Queued(turn);
                Ok(())
            }
            _ => Err(turn),
        }
    }

    /// Queued → sent, with the place that it has at a worker. The place comes back if nobody waits
    /// for it any more.
    ///
    /// Gives what is to be sent: the request, and what goes with it.
    pub(super) fn send(
        &mut self,
        place: P::Place,
        on: On,
    ) -> Result<(&P::Request, &[u8]), P::Place> {
        let State::Open(request, stage) = &mut self.state else { return Err(place) };
        match mem::replace(stage, Stage::Waiting) {
            Stage::Queued(turn) => {
                let (first_byte, lacks, kind) = (None, None, None);
                *stage = Stage::Sent(Sent { turn, place, on, first_byte, lacks, kind });
                self.sends = self.sends.saturating_add(1);
                Ok((request, &self.retry))
            }
            other => {
                *stage = other;
                Err(place)
            }
        }
    }

    /// Sent → queued: another worker is to have it. It keeps its turn and leaves its place.
    pub(super) fn requeue(&mut self) -> Option<P::Place> {
        let State::Open(_, stage) = &mut self.state else { return None };
        match mem::replace(stage, Stage::Waiting) {
            Stage::Sent(Sent { turn, place, .. }) => {
                *stage = Stage::Queued(turn);
                self.waits = None;
                Some(place)
            }
            other => {
                *stage = other;
                None
            }
        }
    }

    /// Sent → replayed: its upstream has ended this round of it, and the client is asked.
    pub(crate) fn replay(&mut self) -> Option<Sent<P>> {
        let State::Open(_, stage) = &mut self.state else { return None };
        match mem::replace(stage, Stage::Replayed) {
            Stage::Sent(sent) => Some(sent),
            other => {
                *stage = other;
                None
            }
        }
    }

    /// Replayed → waiting, with what the client answered. `false` if nobody waits any more.
    pub(crate) fn again(&mut self, retry: Vec<u8>) -> bool {
        let State::Open(_, stage @ Stage::Replayed) = &mut self.state else { return false };
        *stage = Stage::Waiting;
        (self.waits, self.retry) = (None, retry);
        true
    }

    /// Sent → parked: its client is asked something, and leaves with that. One that is away already
    /// hears of it with the rest. `None` if its upstream does not work on it.
    pub(crate) fn park(
        &mut self,
        questions: impl FnOnce() -> P::Questions,
    ) -> Option<(&mut P::Questions, Option<P::Request>)> {
        let request = match mem::replace(&mut self.state, State::Answered) {
            State::Open(request, Stage::Sent(sent)) => {
                self.state = State::Parked(questions(), sent);
                Some(request)
            }
            other => {
                self.state = other;
                None
            }
        };
        match &mut self.state {
            State::Parked(questions, _) => Some((questions, request)),
            _ => None,
        }
    }

    /// Parked → sent: its client is back. The request comes back if it was not away.
    pub(crate) fn resume(&mut self, request: P::Request) -> Result<P::Questions, P::Request> {
        match mem::replace(&mut self.state, State::Answered) {
            State::Parked(questions, sent) => {
                self.state = State::Open(request, Stage::Sent(sent));
                Ok(questions)
            }
            other => {
                self.state = other;
                Err(request)
            }
        }
    }

    /// Kept → answered: its client is back, to hear how it ended.
    pub(crate) fn hear(&mut self) -> Option<(P::Questions, P::End)> {
        match mem::replace(&mut self.state, State::Answered) {
            State::Kept(questions, end) => Some((questions, end)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Any state → answered, or → kept if the client is away. What has ended stays as it is.
    pub(crate) fn finish(&mut self, end: impl FnOnce() -> P::End) -> Ended<P> {
        match mem::replace(&mut self.state, State::Answered) {
            State::Open(request, stage) => Ended::of(request, stage, self.waits),
            State::Parked(questions, sent) => {
                self.state = State::Kept(questions, end());
                Ended { sent: Some(sent), ..Ended::nothing() }
            }
            over => {
                self.state = over;
                Ended::nothing()
            }
        }
    }

    /// Any state → cancelled, unless the client is away, to come back.
    pub(crate) fn cancel(&mut self) -> Ended<P> {
        match mem::replace(&mut self.state, State::Cancelled) {
            State::Open(request, stage) => Ended::of(request, stage, self.waits),
            other => {
                self.state = other;
                Ended::nothing()
            }
        }
    }

    /// Parked or kept → cancelled: the client did not come back.
    pub(crate) fn abandon(&mut self) -> Option<(P::Questions, Option<Sent<P>>)> {
        match mem::replace(&mut self.state, State::Cancelled) {
            State::Parked(questions, sent) => Some((questions, Some(sent))),
            State::Kept(questions, _) => Some((questions, None)),
            other => {
                self.state = other;
                None
            }
        }
    }
}

impl<P: Parts> Ended<P> {
    const fn nothing() -> Self {
        Self { request: None, waited: None, sent: None, _turn: None }
    }

    fn of(request: P::Request, stage: Stage<P>, waited: Option<Instant>) -> Self {
        let (sent, turn) = match stage {
            Stage::Sent(sent) => (Some(sent), None),
            Stage::Queued(turn) => (None, Some(turn)),
            Stage::Waiting | Stage::Replayed => (None, None),
        };
        Self { request: Some(request), waited, sent, _turn: turn }
    }
}

#[cfg(test)]
mod tests;
