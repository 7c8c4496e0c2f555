//! The keyed modes: workers of one session or principal.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcplane::server::relay::Caller;

use super::call::Call;
use super::lane::Lane;
use super::pool::{LEAVE_TIME, Pool, WorkerEvent};
use super::worker::Worker;
use crate::clock;
use crate::config::Mode;
use crate::failure::Failure;

/// Whose worker it is, in the keyed modes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Session(u64),
    Principal(Option<Arc<str>>),
}

impl Key {
    /// Whose workers serve a caller.
    pub(crate) fn of(mode: Mode, caller: &Caller) -> Option<Self> {
        let principal = || Self::Principal(caller.principal.clone());
        match (mode, caller.connection) {
            (Mode::PerSession, Some(connection)) => Some(Self::Session(connection)),
            (Mode::PerSession, None) => caller.principal.is_some().then(principal),
            _ => Some(principal()),
        }
    }
}

impl Pool {
    /// The lane of a caller. A keyed one is made when it is first needed.
    pub(super) fn lane(self: &Arc<Self>, call: &Call) -> Result<Arc<Lane>, Failure> {
        if !self.settings.mode.is_keyed() {
            return Ok(Arc::clone(&self.common));
        }
        let Some(key) = self.key(&call.caller) else {
            return Err(Failure::NoSession { upstream: self.shared.name.to_string() });
        };
        let (lane, idle) = self.lane_of(key, call)?;
        // Without the lock: a call that ends may hold a turn that others wait for.
        idle.into_iter().for_each(|idle| self.leave(&idle));
        Ok(lane)
    }

    /// The lane of a key, and the one whose place it has taken.
    fn lane_of(
        self: &Arc<Self>,
        key: Key,
        call: &Call,
    ) -> Result<(Arc<Lane>, Option<Arc<Lane>>), Failure> {
        let mut replaced = None;
        let mut keyed = self.keyed();
        if let Some(lane) = keyed.get(&key) {
            lane.touch();
            return Ok((Arc::clone(lane), None));
        }
        let max = self.settings.workers_limit() as usize;
        if keyed.len() >= max {
            let idle = keyed.iter().filter(|(_, lane)| lane.is_idle());
            let oldest = idle.max_by_key(|(_, lane)| lane.idle_for()).map(|(key, _)| key.clone());
            match oldest.and_then(|key| keyed.remove(&key)) {
                Some(lane) => replaced = Some(lane),
                None => {
                    self.shared.refused.fetch_add(1, Ordering::Relaxed);
                    let upstream = self.shared.name.to_string();
                    return Err(Failure::WorkersTaken { upstream, max });
                }
            }
        }
        let client = self.client_of(call);
        let spare = self.take_spare(client.as_ref());
        let lane = Arc::new(Lane::new(
            Arc::downgrade(self),
            Arc::clone(&self.shared.drain),
            Some(key.clone()),
            client,
        ));
        match spare {
            Some(spare) => {
                let _ = spare.lane.set(Arc::clone(&lane));
                self.hear(WorkerEvent::Taken(Arc::clone(&spare)));
                lane.add(spare);
            }
            None => self.add_worker(&lane, None),
        }
        keyed.insert(key, Arc::clone(&lane));
        self.restock(keyed.len());
        Ok((lane, replaced))
    }

    /// Spare workers for the next keys, as far as there is room beside those that are in use.
    pub(super) fn restock(self: &Arc<Self>, keys: usize) {
        let room = (self.settings.workers_limit() as usize).saturating_sub(keys);
        let spare = self.spares();
        let wanted = room.min(self.settings.workers as usize) + self.speakers();
        (spare..wanted).for_each(|_| self.add_worker(&self.common, None));
    }

    pub(super) fn key(&self, caller: &Caller) -> Option<Key> {
        Key::of(self.settings.mode, caller)
    }

    /// A connection that lasted has ended.
    pub(crate) fn ended(self: &Arc<Self>, caller: &Caller) {
        let (Mode::PerSession, Some(connection)) = (self.settings.mode, caller.connection) else {
            return;
        };
        let (lane, left) = {
            let mut keyed = self.keyed();
            (keyed.remove(&Key::Session(connection)), keyed.len())
        };
        lane.into_iter().for_each(|lane| self.leave(&lane));
        self.restock(left);
        self.others().for_each(|other| other.ended(caller));
    }

    /// Stops the workers of keys that have been idle for too long.
    pub(crate) fn stop_idle(self: &Arc<Self>, after: Duration) {
        let (idle, left): (Vec<_>, _) = {
            let mut keyed = self.keyed();
            let is_idle = |lane: &Lane| lane.is_idle() && lane.idle_for() >= after;
            let idle = keyed.extract_if(|_, lane| is_idle(lane)).map(|(_, lane)| lane).collect();
            (idle, keyed.len())
        };
        idle.iter().for_each(|lane| self.leave(lane));
        self.restock(left);
    }

    /// The workers that a caller watches resources through: its own in either era, or all of them if
    /// they are shared.
    pub(crate) fn workers_of(&self, caller: &Caller) -> Vec<Arc<Worker>> {
        let lane = match (self.settings.mode.is_keyed(), self.key(caller)) {
            (false, _) => Some(Arc::clone(&self.common)),
            (true, key) => key.and_then(|key| self.keyed().get(&key).cloned()),
        };
        let mut all = lane.map(|lane| lane.workers.load().to_vec()).unwrap_or_default();
        all.extend(self.others().flat_map(|other| other.workers_of(caller)));
        all
    }

    fn leave(&self, lane: &Lane) {
        let deadline = clock::now() + LEAVE_TIME;
        lane.workers.load().iter().for_each(|worker| self.retire(worker, deadline));
        lane.close(|call| call.fail(&Failure::Closing("its session has ended")));
        self.shared.drain.note();
    }
}
