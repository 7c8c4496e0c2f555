//! Calls that end here before they end at the upstream: given up, late, or sent to another worker.

use std::sync::Arc;
use std::time::Instant;

use mcplane::proto::limits::PROBE_TIMEOUT;
use mcplane::proto::method::Method;

use super::call::Call;
use super::drive::{Drive, Tag, request};
use crate::clock;

impl Drive<'_> {
    /// Takes a call back that nobody waits for any more.
    pub(super) fn cancel(&mut self, now: Instant, id: i64) {
        let call = self.session.cancel(id, "the client cancelled it", &mut self.out);
        if let Some(Tag::Call(call)) = call {
            self.voices.cut(&call);
            self.part(now, Tag::Gone(call));
        }
    }

    /// Sends a call to another worker.
    pub(super) fn move_away(&mut self, call: &Arc<Call>) {
        let tag = self.session.cancel(call.id(), "it is sent elsewhere", &mut self.out);
        if matches!(tag, Some(Tag::Call(_))) {
            self.voices.cut(call);
            self.part(clock::now(), Tag::Moved(call.caller.clone()));
            call.seat().worker = None;
            self.pool.admit(Arc::clone(call));
        }
    }

    /// A call has ended here, and there as soon as this ping is answered: then its place is free,
    /// and what the upstream says without naming a call is not of this one.
    pub(super) fn part(&mut self, now: Instant, tag: Tag) {
        let method = if self.is_modern() { Method::Discover } else { Method::Ping };
        let ping = request(method, b"{}", PROBE_TIMEOUT);
        if let Err(tag) = self.session.call(now, &ping, tag, &mut self.out) {
            self.parted(&tag);
        }
    }

    pub(super) fn parted(&self, tag: &Tag) {
        match tag {
            Tag::Gone(call) => self.pool.release(self.worker, call),
            _ => self.pool.free_place(self.worker),
        }
    }
}
