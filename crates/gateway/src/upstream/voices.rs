//! Who may still speak on a connection.
//!
//! What an upstream says without naming a call is passed on only if all that may still speak on its
//! connection are one client's. A call speaks until the upstream has answered it: a call that was
//! cancelled may go on, and nothing but its answer or the end of the connection proves that it does
//! not. After its answer it may have left something behind that speaks: for [`ECHO_TIME`], and for
//! much longer at an upstream that was caught at it. That it answers a ping meanwhile proves nothing,
//! since it may do several things at once.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcplane::server::relay::Caller;

use super::call::Call;
use super::drive::{Drive, End, Tag};
use super::state::State;
use super::worker::is_modern;
use crate::config::Mode;

/// How long after its answer a call counts as one that may still speak.
const ECHO_TIME: Duration = Duration::from_millis(3);

/// The same at an upstream that has spoken when no call was left that it could belong to.
const ECHO_TIME_KNOWN: Duration = Duration::from_secs(10);

/// Most cancelled calls of one connection that are told apart; with more of them everybody may
/// still speak.
const CUT_MAX: usize = 256;

/// Who may still speak on a connection, beside the calls in flight.
pub(super) struct Voices {
    /// Sessions of one principal are one client.
    by_principal: bool,
    /// Whose call was answered last, and when.
    last: Option<(Caller, Instant)>,
    /// When the last call of any other client was.
    other: Option<Instant>,
    /// Calls that ended here and, as far as is known, not there.
    cut: Vec<(i64, Caller)>,
    is_crowd: bool,
    /// When a question was last in doubt, or all but.
    blurred: Option<Instant>,
    /// The upstream has spoken when nobody's call was left.
    speaks_late: bool,
}

impl Voices {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            by_principal: mode == Mode::PerPrincipal,
            last: None,
            other: None,
            cut: Vec::new(),
            is_crowd: false,
            blurred: None,
            speaks_late: false,
        }
    }

    /// The upstream has answered a call of this client.
    pub(super) fn ended(&mut self, now: Instant, caller: &Caller) {
        match &mut self.last {
            Some((last, at)) if last == caller => *at = now,
            last => {
                self.other = last.as_ref().map(|(_, at)| *at).or(self.other);
                *last = Some((caller.clone(), now));
            }
        }
    }

    /// The upstream spoke, and there is no call that it could belong to.
    pub(super) const fn caught(&mut self) {
        self.speaks_late = true;
    }

    /// Nothing tells whose a question is that comes now.
    pub(super) const fn blur(&mut self, now: Instant) {
        self.blurred = Some(now);
    }

    /// Whether that was so within this time.
    pub(super) fn were_blurred(&self, now: Instant, within: Duration) -> bool {
        self.blurred.is_some_and(|at| now.saturating_duration_since(at) < within)
    }

    /// A call ended here and not there.
    pub(super) fn cut(&mut self, id: i64, call: &Call) {
        if self.cut.len() >= CUT_MAX {
            self.is_crowd = true;
        } else if call.method.takes_input() {
            self.cut.push((id, call.caller.clone()));
        }
    }

    /// The upstream has answered a call that had ended here.
    pub(super) fn answered_late(&mut self, now: Instant, id: i64) {
        if let Some(at) = self.cut.iter().position(|(cut, _)| *cut == id) {
            let (_, caller) = self.cut.swap_remove(at);
            self.ended(now, &caller);
        }
    }

    /// Whether a call of somebody else than this client may still speak.
    pub(super) fn are_foreign(&self, now: Instant, caller: &Caller) -> bool {
        let is_foreign = |(_, cut): &(i64, Caller)| !self.is_same(cut, caller);
        self.is_crowd || self.cut.iter().any(is_foreign) || self.has_echo(now, caller)
    }

    /// Whether a call of another client was answered a moment ago.
    fn has_echo(&self, now: Instant, caller: &Caller) -> bool {
        let time = if self.speaks_late { ECHO_TIME_KNOWN } else { ECHO_TIME };
        self.were_foreign(now, caller, time)
    }

    /// Whether a call of another client was answered within this time.
    pub(super) fn were_foreign(&self, now: Instant, caller: &Caller, within: Duration) -> bool {
        let at = match &self.last {
            Some((last, at)) if !self.is_same(last, caller) => Some(*at),
            _ => self.other,
        };
        at.is_some_and(|at| now.saturating_duration_since(at) < within)
    }

    /// Whether both are one client, as far as can be told: without a token and without a connection
    /// of its own one client is like another.
    fn is_same(&self, one: &Caller, other: &Caller) -> bool {
        let is_known = self.by_principal && one.principal.is_some();
        let (a, b) = (one.connection, other.connection);
        one.principal == other.principal && (is_known || a == b || a.is_none() || b.is_none())
    }
}

impl Drive<'_> {
    /// Whether a call may be sent here. If not, it has to go elsewhere: a server that asks must not
    /// be left in doubt whom, so it is started again for another client.
    pub(super) fn may_begin(&mut self, now: Instant, call: &Call) -> bool {
        if self.leaves_doubt(now, call) {
            return false;
        }
        let is_certain = self.end.is_none()
            && (!self.pool.asks.load(Ordering::Relaxed)
                || !call.habit().may_ask()
                || self.pool.settings.mode.is_keyed()
                || self.leaves()
                || self.is_modern()
                || !self.voices.are_foreign(now, &call.caller)
                || self.session.tags().any(|tag| matches!(tag, Tag::Call(_))));
        if !is_certain {
            // It costs no budget: nothing is wrong with it.
            self.end.get_or_insert(End::Fresh);
            self.worker.set_state(State::Starting);
        }
        is_certain
    }

    pub(super) fn is_modern(&self) -> bool {
        self.session.peer().is_some_and(|peer| is_modern(peer.revision))
    }
}
