//! Which worker gets a call: the fast path. A free place goes to whoever comes, without a lock.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcplane::server::relay::Caller;

use super::asking::is_busy;
use super::call::Call;
use super::model::{Command, Lane, Place, Pool, Side, Worker};
use super::places::{Places, take_of_least};
use super::policy::{Candidate, preferred};
use super::state::State;
use crate::config::Policy;

impl Pool {
    /// The place of a worker, if there is a free one that this client may have.
    pub(super) fn pick(&self, lane: &Lane, caller: &Caller) -> Option<Place> {
        let workers = lane.workers.load();
        let choice = || {
            let states = [State::Healthy, State::Degraded];
            states.into_iter().find_map(|state| self.pick_among(&workers, state, caller))
        };
        let worker = match &self.side {
            Side::Alone(_, clients) => {
                let choice = || choice().map(|worker| (worker.number, worker));
                let is_busy = |number| is_busy(&workers, number);
                clients.pick(caller, (is_busy, self.share()), choice)
            }
            _ => choice(),
        };
        worker.map(Place::of)
    }

    fn pick_among(
        &self,
        workers: &[Arc<Worker>],
        state: State,
        caller: &Caller,
    ) -> Option<Arc<Worker>> {
        let tick = || self.clock.fetch_add(1, Ordering::Relaxed);
        let policy = self.settings.policy;
        let number = match policy {
            Policy::RecentIdle | Policy::LeastBusy => 0,
            Policy::TwoChoices => self.hasher.hash_one(tick()),
            Policy::RoundRobin => tick(),
            Policy::Sticky => self.hasher.hash_one(caller),
        };
        let max = self.settings.calls_limit() as usize;
        take(workers, (policy, number), state, (|worker| &worker.in_flight, max)).cloned()
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

/// Takes a place of the worker that a policy prefers, or else of the one with the fewest calls.
pub(super) fn take<W: Candidate>(
    workers: &[W],
    (policy, number): (Policy, u64),
    state: State,
    (places, max): (impl Fn(&W) -> &Places, usize),
) -> Option<&W> {
    // If it is idle still.
    let most = if policy == Policy::RecentIdle { 1 } else { max };
    let first = preferred(policy, workers, state, number);
    if let Some(worker) = first.filter(|worker| places(worker).take(most)) {
        return Some(worker);
    }
    let usable = workers.iter().filter(|worker| worker.state() == state);
    take_of_least(usable, places, max)
}

impl Candidate for Arc<Worker> {
    fn state(&self) -> State {
        Worker::state(self)
    }

    fn load(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
