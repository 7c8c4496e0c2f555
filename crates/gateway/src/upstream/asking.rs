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

use super::call::Call;
use super::drive::{Drive, Tag};
use super::habits::{Habit, Name};
use super::life::Asks;
use super::model::{Lane, Pool, Side, WorkerEvent};
use super::owner::is_same;
use crate::config::{Mode, Server, Speaks};

/// How long ago another client's call ended, at least, where what has asked shares a worker.
const OTHERS_TIME: Duration = Duration::from_secs(60);

/// What is called; `None` if its request has gone or its name is too long.
fn name(call: &Call) -> Option<Name> {
    let name = match &call.name {
        Some(name) => name.to_string(),
        None if call.method == Method::ResourcesRead => String::new(),
        None => call.life().request()?.message().text(Part::Name)?.into_owned(),
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
        let is_meant =
            self.shared.asker.is_one() && self.learned.is_met_as_legacy() && call.life().is_alone;
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
            self.sibling(settings, Side::Alone(Arc::downgrade(self)))
        })
    }

    /// Whether a call finds a worker for itself without waiting for another call.
    fn has_room_for_one(&self) -> bool {
        let count = |alone: &Self| {
            let workers = alone.workers();
            let calls = workers.iter().map(|worker| worker.in_flight.load(Ordering::Acquire));
            calls.sum::<usize>() + alone.queued()
        };
        let taken = self.alone.pool.load().as_deref().map_or(0, count);
        taken < self.settings.ask_workers as usize
    }

    /// One more worker where calls have one each, if all that there are have a call or will have.
    pub(super) fn grow(self: &Arc<Self>, lane: &Arc<Lane>) {
        if !matches!(self.side, Side::Alone(_)) {
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
        self.pool.has_room_for_one()
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
