//! Calls that may ask their client, and a worker to itself for each.
//!
//! On a connection of the legacy revisions nothing says which call a question belongs to, and where
//! several clients share a worker it could be anybody's. So at an upstream that has asked once no call
//! that may ask is sent to a worker where calls of another client run: it goes to a pool of its own,
//! where a worker has one call at a time. That starts processes when they are needed, and ends when
//! nothing needed it for a while. What may ask is learned (`habits`): all that has not yet gone well
//! twice without a question.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcplane::proto::message::{Kind, Message, Part};
use mcplane::proto::method::Method;
use mcplane::server::relay::Caller;

use super::call::Call;
use super::clients::Clients;
use super::drive::{Drive, Tag};
use super::habits::{Habit, Name};
use super::life::{Asks, Beside};
use super::model::{Lane, Pool, Side, Worker, WorkerEvent};
use super::owner::is_same;
use crate::clock;
use crate::config::{Mode, Server, Speaks};

/// How long ago another client's call ended, at least, where what has asked shares a worker.
const OTHERS_TIME: Duration = Duration::from_secs(60);

/// How long a call that asks nothing waits, at least, for a worker to itself, so that it is in nobody's
/// way. Who asks may be a person who takes long.
const QUIET_TIME_MAX: Duration = Duration::from_secs(1);

/// What is called; `None` if its request has gone or its name is too long.
fn name(call: &Call) -> Option<Name> {
    let name = match (&call.name, call.method) {
        (None, Method::ResourcesRead) => String::new(),
        _ => call.own_name()?,
    };
    Name::new(call.method, name)
}

impl Call {
    /// What is known of calls like it.
    pub(super) fn habit(&self) -> Habit {
        self.pool.shared.asker.of(self.method, || name(self))
    }
}

impl Pool {
    /// Where a call has a worker to itself that is to have one.
    pub(super) fn for_asking(self: &Arc<Self>, call: &Call) -> Option<Arc<Self>> {
        let settings = &self.settings;
        let is_meant = self.shared.asker.is_one()
            && self.learned.is_met_as_legacy()
            && call.life().beside == Beside::Nobody;
        if !is_meant {
            return None;
        }
        self.beside(&self.alone, || {
            let revision = match settings.revision {
                Speaks::Auto => Speaks::Legacy,
                said => said,
            };
            let (mode, workers_max) = (Mode::Exclusive, Some(settings.ask_workers));
            let settings =
                Server { mode, workers: 0, workers_max, revision, ..self.settings.clone() };
            self.sibling(settings, Side::Alone(Arc::downgrade(self), Clients::default()))
        })
    }

    /// How many places one client may have while calls wait for its answers: all but one.
    pub(super) fn share(&self) -> usize {
        let places = self.settings.workers_limit() as usize * self.settings.calls_limit() as usize;
        places.saturating_sub(1).max(1)
    }

    /// How many calls of one client may wait for its answers. Where each call has a worker to itself, no
    /// more of them are sent than that.
    pub(crate) fn question_share(&self) -> usize {
        let is_held_anyway = self.settings.mode.is_keyed() || matches!(self.side, Side::Alone(..));
        if is_held_anyway { usize::MAX } else { self.share() }
    }

    /// Whether a call of a client may be sent as soon as a worker of the lane is free.
    pub(super) fn may_send(&self, lane: &Lane, client: &Caller) -> bool {
        let Side::Alone(_, clients) = &self.side else { return true };
        clients.count(client, |number| is_busy(&lane.workers.load(), number)) < self.share()
    }

    /// Whether a call may wait there that asks nothing: half of the queue is for those that may.
    fn may_wait_for_one(&self) -> bool {
        let queued = self.alone.pool.load().as_deref().map_or(0, Self::queued);
        queued < self.settings.queue as usize / 2
    }

    /// The calls go back that ask nothing and have waited here for as long as they are to.
    pub(super) fn release_quiet(self: &Arc<Self>) {
        if !matches!(self.side, Side::Alone(..)) {
            return;
        }
        let now = clock::now();
        let is_released = |since: Instant, call: &Call| {
            now.duration_since(since) >= QUIET_TIME_MAX && !call.habit().may_ask()
        };
        for call in self.common.extract(is_released) {
            call.life().beside = Beside::Anybody;
            self.admit(call);
        }
    }

    /// One more worker where calls have one each, if all that there are have a call or will have.
    pub(super) fn grow(self: &Arc<Self>, lane: &Arc<Lane>, client: &Caller) {
        if !matches!(self.side, Side::Alone(..)) || !self.may_send(lane, client) {
            return;
        }
        let workers = lane.workers.load();
        let coming = workers.iter().filter(|worker| worker.state().is_starting()).count();
        let has_room = workers.len() < self.settings.workers_limit() as usize;
        if has_room && coming <= lane.queued.load(Ordering::Acquire) {
            self.add_worker(lane, None);
        }
    }

    /// A call was answered. One that went well may have shown that it does not ask.
    pub(super) fn was_quiet(&self, call: &Call, answer: &Message) {
        if self.shared.asker.is_one()
            && call.method.takes_input()
            && answer.kind() == Kind::Response
            && answer.part(Part::IsError).is_none_or(|is_error| is_error != b"true")
            && call.asks() != Asks::Asked
        {
            let is_news = name(call).is_some_and(|name| self.shared.asker.habits().went_well(name));
            if is_news {
                self.tell_of(WorkerEvent::Asks);
            }
        }
    }
}

/// Whether the worker of that number has a call.
pub(super) fn is_busy(workers: &[Arc<Worker>], number: usize) -> bool {
    let mut busy = workers.iter().filter(|worker| worker.in_flight.load(Ordering::Acquire) > 0);
    busy.any(|worker| worker.number == number)
}

impl Drive<'_> {
    /// A question came that named no call: each that it may belong to may ask from now on.
    pub(super) fn learn_who_asks(&self) {
        if self.pool.settings.mode.is_keyed() || self.is_modern() {
            return;
        }
        let asker = &self.pool.shared.asker;
        let mut is_news = !asker.is_one.swap(true, Ordering::Relaxed);
        let calls: Vec<_> = self.asking_calls().collect();
        let is_certain = calls.len() == 1;
        for call in calls {
            call.life().asks = Asks::Asked;
            is_news |= name(call).is_some_and(|name| asker.habits().asked(name, is_certain));
        }
        if is_news {
            self.pool.tell_of(WorkerEvent::Asks);
        }
    }

    /// A question that may be several clients': where all their calls may be repeated, each is sent
    /// again to a worker of its own, and asks there. Whether they are.
    pub(super) fn ask_again_elsewhere(&mut self) -> bool {
        let has_gone = self.session.tags().any(|tag| matches!(tag, Tag::Gone(..) | Tag::Moved(..)));
        let calls: Vec<_> = self.asking_calls().cloned().collect();
        if has_gone || calls.is_empty() || !self.has_workers_for_one() {
            return false;
        }
        let may_move = |call: &Arc<Call>| {
            let life = call.life();
            call.repeatable && life.sends() < 2 && life.request().is_some()
        };
        if !calls.iter().all(may_move) {
            return false;
        }
        for call in calls {
            call.set_alone();
            self.move_away(&call);
        }
        true
    }

    /// Whether nobody could tell whose a call's questions are, here: then it goes to a worker of its
    /// own. What has asked goes there already if another client was here a moment ago. What may ask does
    /// not: a server may remember in its process what it was told.
    pub(super) fn leaves_doubt(&mut self, now: Instant, call: &Call) -> bool {
        let asker = &self.pool.shared.asker;
        if !asker.is_one() || !self.has_workers_for_one() {
            return false;
        }
        let habit = call.habit();
        let asks = habit.asks();
        call.expect_questions(asks);
        if !habit.may_ask() {
            return self.would_blur(now, call) && call.set_alone();
        }
        let is_beside_others = || {
            self.session.tags().any(|tag| match tag {
                Tag::Call(other) | Tag::Gone(other, _) if other.method.takes_input() => {
                    !is_same(&other.caller, &call.caller)
                }
                Tag::Moved(other, _) => !is_same(other, &call.caller),
                _ => false,
            })
        };
        // What is on its way here is not its client's then, as far as can be told.
        let is_nobodys = || !is_same(&call.caller, &call.caller);
        let were_others = || {
            self.voices.were_foreign(now, &call.caller, OTHERS_TIME)
                || self.voices.are_foreign(now, &call.caller)
                || self.voices.were_blurred(now, OTHERS_TIME)
                || is_nobodys() && self.worker.in_flight.load(Ordering::Acquire) > 1
        };
        (asks && were_others() || is_beside_others()) && call.set_alone()
    }

    /// Whether a call that does not ask would leave it in doubt whose the question is that another
    /// client's call is about to put. That one is given the time; the next ones have workers to themselves.
    fn would_blur(&mut self, now: Instant, call: &Call) -> bool {
        let is_about_to_ask = |other: &Arc<Call>| {
            other.asks() == Asks::Expected && !is_same(&other.caller, &call.caller)
        };
        if !call.method.takes_input() || !self.asking_calls().any(is_about_to_ask) {
            return false;
        }
        self.voices.blur(now);
        call.life().beside != Beside::Anybody && self.pool.may_wait_for_one()
    }

    fn has_workers_for_one(&self) -> bool {
        let settings = &self.pool.settings;
        !self.is_modern()
            && settings.mode == Mode::Shared
            && settings.calls_per_worker > 1
            && settings.ask_workers > 0
    }

    fn asking_calls(&self) -> impl Iterator<Item = &Arc<Call>> {
        self.session.tags().filter_map(|tag| match tag {
            Tag::Call(call) if call.method.takes_input() => Some(call),
            _ => None,
        })
    }
}
