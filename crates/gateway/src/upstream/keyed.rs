//! The keyed modes: workers of one session or principal.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcplane::server::relay::Caller;

use super::call::Call;
use super::client::Client;
use super::keys::{Full, Key, Keys};
use super::model::{LEAVE_TIME, Lane, Pool, Worker, WorkerEvent};
use crate::clock;
use crate::config::Mode;
use crate::failure::Failure;

/// Why a call has no lane.
pub(super) enum NoLane {
    /// The pool closes.
    Closing,
    Refused(Failure),
}

impl Pool {
    /// The lane of a caller. A keyed one is made when it is first needed.
    pub(super) fn lane(self: &Arc<Self>, call: &Call) -> Result<Arc<Lane>, NoLane> {
        if !self.settings.mode.is_keyed() {
            return Ok(Arc::clone(&self.common));
        }
        let Some(key) = self.key(&call.caller) else {
            let upstream = self.shared.name.to_string();
            return Err(NoLane::Refused(Failure::NoSession { upstream }));
        };
        let (lane, idle) = self.lane_of(key, || self.client_of(call))?;
        // Without the lock: a call that ends may hold a turn that others wait for.
        idle.into_iter().for_each(|idle| self.leave(&idle));
        Ok(lane)
    }

    /// The lane of a key, and the one whose place it has taken.
    pub(super) fn lane_of(
        self: &Arc<Self>,
        key: Key,
        client: impl FnOnce() -> Option<Arc<Client>>,
    ) -> Result<(Arc<Lane>, Option<Arc<Lane>>), NoLane> {
        let now = clock::now();
        let mut keyed = self.keyed();
        if let Some(lane) = keyed.take(now, &key) {
            return Ok((Arc::clone(lane), None));
        }
        // Who looks for all workers has this lock, and misses none that changes its lane.
        if self.is_closing() {
            return Err(NoLane::Closing);
        }
        let replaced = keyed.make_room(|lane| lane.is_idle()).map_err(|Full| self.full())?;
        let client = client();
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
                let _ = lane.add(&spare);
            }
            None => self.add_worker(&lane, None),
        }
        keyed.add(now, key, Arc::clone(&lane));
        self.restock(&keyed);
        Ok((lane, replaced))
    }

    fn full(&self) -> NoLane {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        let max = self.settings.workers_limit() as usize;
        NoLane::Refused(Failure::WorkersTaken { upstream: self.shared.name.to_string(), max })
    }

    /// Adds the spare workers that are missing, while nobody else does.
    pub(super) fn restock(self: &Arc<Self>, keyed: &Keys<Key, Arc<Lane>>) {
        let warm = self.settings.workers as usize;
        let missing = keyed.spares_missing(self.spares(), warm, self.speakers());
        (0..missing).for_each(|_| self.add_worker(&self.common, None));
    }

    pub(super) fn key(&self, caller: &Caller) -> Option<Key> {
        Key::of(self.settings.mode, caller)
    }

    /// A connection that lasted has ended.
    pub(crate) fn ended(self: &Arc<Self>, caller: &Caller) {
        let (Mode::PerSession, Some(connection)) = (self.settings.mode, caller.connection) else {
            return;
        };
        let lane = {
            let mut keyed = self.keyed();
            let lane = keyed.remove(&Key::Session(connection));
            self.restock(&keyed);
            lane
        };
        lane.into_iter().for_each(|lane| self.leave(&lane));
        self.others().for_each(|other| other.ended(caller));
    }

    /// Stops the workers of keys that have been idle for too long.
    pub(crate) fn stop_idle(self: &Arc<Self>, after: Duration) {
        let idle = {
            let mut keyed = self.keyed();
            let idle = keyed.remove_idle(clock::now(), after, |lane| lane.is_idle());
            self.restock(&keyed);
            idle
        };
        idle.iter().for_each(|lane| self.leave(lane));
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
        lane.close(|call| call.fail(&Failure::Closing("its session has ended")));
        let deadline = clock::now() + LEAVE_TIME;
        lane.workers.load().iter().for_each(|worker| self.retire(worker, deadline));
        self.shared.drain.note();
    }
}
