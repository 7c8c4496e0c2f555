//! Being told of changes by an upstream of 2026-07-28: one long request on each connection, whose
//! stream may end at any time and is opened again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mcplane::proto::id::Id;
use mcplane::proto::limits::PROBE_TIMEOUT;
use mcplane::proto::message::{Message, Part};
use mcplane::proto::method::Method;

use super::drive::{Drive, Tag, request};
use super::model::WorkerEvent;
use crate::clock;

/// The requests of one connection.
#[derive(Default)]
pub(super) struct Listening {
    /// The one that was acknowledged.
    open: Option<i64>,
    /// The one that is to take its place.
    opening: Option<i64>,
    /// The parameters of the one after that.
    next: Option<Vec<u8>>,
}

impl Drive<'_> {
    /// Listens for something else than before. What is open goes on until that is acknowledged, so
    /// that no change in between is lost.
    pub(super) fn listen(&mut self, now: Instant, params: &[u8]) {
        if self.listening.opening.is_some() {
            self.listening.next = Some(params.to_vec());
            return;
        }
        let call = request(Method::Listen, params, PROBE_TIMEOUT);
        self.listening.opening = self.session.call(now, &call, Tag::Listen, &mut self.out).ok();
        if self.listening.opening.is_none() {
            self.pool.hear(WorkerEvent::ListenEnded(Arc::clone(self.worker), false));
        }
    }

    pub(super) fn listen_acknowledged(&mut self, message: &Message) {
        let named = message.part(Part::SubscriptionId).and_then(Id::from_json);
        let is_named = |id: &i64| named.as_ref().is_none_or(|named| *named == Id::from(*id));
        let Some(id) = self.listening.opening.take_if(|id| is_named(id)) else { return };
        self.session.hold(id);
        if let Some(before) = self.listening.open.replace(id) {
            self.session.cancel(before, "another one takes its place", &mut self.out);
        }
        self.worker.is_told.store(true, Ordering::Relaxed);
        self.pool.hear(WorkerEvent::Listening(Arc::clone(self.worker)));
        if let Some(next) = self.listening.next.take() {
            self.listen(clock::now(), &next);
        }
    }

    /// It has ended; whether the upstream `refuses` to have any.
    pub(super) fn listen_ended(&mut self, id: i64, refuses: bool) {
        let listening = &mut self.listening;
        let was_opening = listening.opening.take_if(|opening| *opening == id).is_some();
        let was_open = listening.open.take_if(|open| *open == id).is_some();
        self.worker.is_told.store(listening.open.is_some(), Ordering::Relaxed);
        // Another one is on its way already.
        if was_opening || (was_open && listening.opening.is_none()) {
            // The one that is opened again is for what is wanted then.
            listening.next = None;
            let is_refused = was_opening && refuses;
            self.pool.hear(WorkerEvent::ListenEnded(Arc::clone(self.worker), is_refused));
        }
    }
}
