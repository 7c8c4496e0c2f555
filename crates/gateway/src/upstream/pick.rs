//! Which worker gets a call: the fast path. A free place goes to whoever comes, without a lock.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcplane::server::relay::Caller;

use super::call::Call;
use super::lane::Lane;
use super::place::Place;
use super::places::take_of_least;
use super::pool::Pool;
use super::worker::{Command, State, Worker};
use crate::config::Policy;

impl Pool {
    /// The place of a worker, if there is a free one.
    pub(super) fn pick(&self, lane: &Lane, caller: &Caller) -> Option<Place> {
        let workers = lane.workers.load();
        [State::Healthy, State::Degraded]
            .into_iter()
            .find_map(|state| self.pick_among(&workers, state, caller))
            .map(Place::of)
    }

    fn pick_among(
        &self,
        workers: &[Arc<Worker>],
        state: State,
        caller: &Caller,
    ) -> Option<Arc<Worker>> {
        let max = self.settings.calls_limit() as usize;
        let load = |worker: &Arc<Worker>| worker.in_flight.load(Ordering::Acquire);
        let usable = |worker: &&Arc<Worker>| worker.state() == state;
        let at = |number: u64| {
            let len = workers.len() as u64;
            workers.get(usize::try_from(number.checked_rem(len)?).ok()?).filter(|w| usable(w))
        };
        let tick = || self.clock.fetch_add(1, Ordering::Relaxed);
        let first = match self.settings.policy {
            Policy::RecentIdle => {
                let idle = workers.iter().filter(usable).filter(|worker| load(worker) == 0);
                let recent = idle.max_by_key(|worker| worker.used.load(Ordering::Relaxed));
                // Somebody else may have been faster.
                recent.filter(|worker| worker.reserve(1)).map(|worker| (worker, true))
            }
            Policy::LeastBusy => None,
            Policy::TwoChoices => {
                let dice = self.hasher.hash_one(tick());
                let (a, b) = (at(dice), at(dice >> 32));
                a.into_iter().chain(b).min_by_key(|worker| load(worker)).map(|w| (w, false))
            }
            Policy::RoundRobin => at(tick()).map(|worker| (worker, false)),
            Policy::Sticky => at(self.hasher.hash_one(caller)).map(|worker| (worker, false)),
        };
        if let Some((worker, is_reserved)) = first
            && (is_reserved || worker.reserve(max))
        {
            return Some(Arc::clone(worker));
        }
        let usable = workers.iter().filter(usable);
        take_of_least(usable, |worker| &worker.in_flight, max).cloned()
    }

    /// Has a worker send a call, which has this place at it.
    pub(super) fn hand(self: &Arc<Self>, place: Place, call: Arc<Call>) {
        let worker = Arc::clone(&place.worker);
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        worker.used.store(now, Ordering::Relaxed);
        if let Err(Command::Call(call, place)) = worker.send(Command::Call(call, place)) {
            // It is gone for good, and nobody may come to it any more.
            worker.set_state(State::Down);
            self.again(place, call);
        }
    }
}
