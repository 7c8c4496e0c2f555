//! Calls on a connection: sent, answered, and those that end here before they end at the upstream,
//! since they were given up, came too late, or were sent to another worker.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mcplane::proto::limits::PROBE_TIMEOUT;
use mcplane::proto::message::Message;
use mcplane::proto::method::Method;
use mcplane::proto::session::client::Answer;

use super::call::{Call, Sent};
use super::drive::{BACKLOG_BYTES_MAX, Drive, Tag, request};
use super::life::On;
use super::model::Place;
use super::state::State;
use crate::failure::Failure;
use crate::{clock, era};

impl Drive<'_> {
    /// Sends a call, unless it was cancelled while it waited.
    pub(super) fn call(&mut self, now: Instant, call: Arc<Call>, place: Place) {
        if !call.is_to_be_sent() {
            return;
        }
        if !self.may_begin(now, &call) {
            return self.pool.again(place, call);
        }
        let Some(revision) = self.session.peer().map(|peer| peer.revision) else {
            // Not ready any more: somewhere else it may be.
            return self.pool.again(place, call);
        };
        if self.out.backlog() > BACKLOG_BYTES_MAX {
            return call.fail(&Failure::Backlog);
        }
        let patience = self.pool.patience_of(&call);
        let tag = Tag::Call(Arc::clone(&call));
        let Ok(id) = self.session.open(now, call.method, patience, tag) else {
            return call.fail(&Failure::NoMethod { revision, method: call.method });
        };
        let number = self.worker.calls.load(Ordering::Relaxed);
        let on = On { life: self.worker.life(), id, number, at: now };
        let out = &mut self.out;
        let sent = call.send(place, on, |request, retry| {
            out.line(|out| era::write_request(request, &call, revision, id, retry, out));
        });
        if let Err(place) = sent {
            // It was cancelled a moment ago, when no worker had it.
            self.session.forget(id);
            return drop(place);
        }
        self.worker.calls.store(number + 1, Ordering::Relaxed);
    }

    pub(super) fn answered(
        &mut self,
        now: Instant,
        id: i64,
        call: &Arc<Call>,
        (answer, message): (Answer, Option<&Message>),
    ) {
        let Some(peer) = self.session.peer() else { return };
        if message.is_some() {
            call.hears(self.began);
            if call.method.takes_input() {
                self.voices.ended(now, &call.caller);
            }
        }
        match (answer, message) {
            (Answer::TimedOut, _) => {
                self.voices.cut(id, call);
                self.pool.timed_out(self.worker);
                if let Some(sent) = call.fail_at_worker(&Failure::TimedOut(call.method)) {
                    self.part(now, Tag::Gone(Arc::clone(call), sent));
                }
            }
            (Answer::Malformed(_), Some(message)) if era::is_of_extension(call, message, peer) => {
                self.worker.timeouts.store(0, Ordering::Relaxed);
                era::answer(call, message, peer);
            }
            (Answer::Malformed(why), _) => call.fail(&Failure::Malformed(why)),
            (Answer::Closed, _) | (_, None) => self.pool.broken(call, "the connection ended"),
            (Answer::InputRequired(round), Some(message)) => {
                self.worker.timeouts.store(0, Ordering::Relaxed);
                era::replay::round(call, round, message, peer);
            }
            (Answer::Complete(_) | Answer::Error(_), Some(message)) => {
                self.was_well(call);
                self.pool.was_quiet(call, message);
                era::answer(call, message, peer);
            }
        }
    }

    /// The worker is well, and its call did it no harm.
    pub(super) fn was_well(&self, call: &Arc<Call>) {
        self.pool.went_well(call);
        self.worker.timeouts.store(0, Ordering::Relaxed);
        if self.worker.state() == State::Degraded {
            self.worker.set_state(State::Healthy);
        }
    }

    /// Takes a call back that nobody waits for any more.
    pub(super) fn cancel(&mut self, now: Instant, sent: Box<Sent>) {
        if sent.on.life != self.worker.life() {
            return;
        }
        let call = self.session.cancel(sent.on.id, "the client cancelled it", &mut self.out);
        if let Some(Tag::Call(call)) = call {
            self.voices.cut(sent.on.id, &call);
            self.part(now, Tag::Gone(call, sent));
        }
    }

    /// Sends a call to another worker.
    pub(super) fn move_away(&mut self, call: &Arc<Call>) {
        let Some(id) = call.life().sent().map(|sent| sent.on.id) else { return };
        let tag = self.session.cancel(id, "it is sent elsewhere", &mut self.out);
        // Its client may give it up at this moment: what it says still is not somebody else's.
        if matches!(tag, Some(Tag::Call(_))) {
            self.voices.cut(id, call);
        }
        let place = call.life().requeue();
        if let Some(place) = place {
            self.part(clock::now(), Tag::Moved(call.caller.clone(), place));
            self.pool.admit(Arc::clone(call));
        }
    }

    /// A call has ended here, and there as soon as this ping is answered: then its place is free,
    /// and what the upstream says without naming a call is not of this one.
    pub(super) fn part(&mut self, now: Instant, tag: Tag) {
        let method = if self.is_modern() { Method::Discover } else { Method::Ping };
        let ping = request(method, b"{}", PROBE_TIMEOUT);
        // What cannot be asked for is over.
        drop(self.session.call(now, &ping, tag, &mut self.out));
    }
}
