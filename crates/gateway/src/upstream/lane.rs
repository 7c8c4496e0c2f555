//! A set of workers with one queue, where callers take turns.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::call::Call;
use super::client::Client;
use super::drain::Drain;
use super::keys::Key;
use super::model::{Lane, Pool, Worker};
use super::queue::{Queue, Refused};
use super::state::State;
use crate::clock;
use crate::failure::Failure;

impl Lane {
    pub(super) fn new(
        pool: Weak<Pool>,
        drain: Arc<Drain>,
        key: Option<Key>,
        client: Option<Arc<Client>>,
    ) -> Self {
        Self { pool, drain, key, client, workers: ArcSwap::default(), queued: Queue::default() }
    }

    /// `false` if it is closed: what closes it looks for its workers after that, and sees this one or
    /// has closed it before.
    #[must_use]
    pub(super) fn add(&self, worker: &Arc<Worker>) -> bool {
        self.workers.rcu(|workers| {
            let mut workers = Vec::clone(workers);
            workers.push(Arc::clone(worker));
            workers
        });
        !self.queued.is_closed()
    }

    pub(super) fn remove(&self, gone: &Arc<Worker>) {
        self.workers.rcu(|workers| {
            let rest = workers.iter().filter(|worker| !Arc::ptr_eq(worker, gone));
            rest.cloned().collect::<Vec<_>>()
        });
    }

    /// Takes one worker out that may be: the first that is ready, else the first.
    pub(super) fn take(&self, may_be: impl Fn(&Worker) -> bool) -> Option<Arc<Worker>> {
        let workers = self.workers.load();
        let is_ready = |worker: &&Arc<Worker>| {
            matches!(worker.state(), State::Healthy | State::Spare) && may_be(worker)
        };
        let is_usable = |worker: &&Arc<Worker>| {
            !matches!(worker.state(), State::Leaving | State::Down) && may_be(worker)
        };
        let ready = workers.iter().find(is_ready);
        let taken = Arc::clone(ready.or_else(|| workers.iter().find(is_usable))?);
        drop(workers);
        self.remove(&taken);
        Some(taken)
    }

    /// A place has become free: who waits goes on.
    pub(super) fn advance(self: &Arc<Self>) {
        if self.queued.is_waited_in()
            && let Some(pool) = self.pool.upgrade()
        {
            return pool.advance(self);
        }
        self.drain.note_after_fence();
    }

    /// From now on it takes no calls, and no workers.
    pub(super) fn close(&self, each: impl Fn(Arc<Call>)) {
        self.queued.close(|(_, call)| each(call));
    }

    pub(super) fn expire(&self, patience: Duration, each: impl Fn(&Call)) {
        let now = clock::now();
        let late = |since: Instant, call: &Call| {
            !call.is_to_be_sent() || now.duration_since(since) >= patience
        };
        self.extract(late).iter().for_each(|call| each(call));
    }

    /// Takes the calls out for which this holds, given since when they wait.
    pub(super) fn extract(&self, is_meant: impl Fn(Instant, &Call) -> bool) -> Vec<Arc<Call>> {
        let taken = self.queued.extract(|(since, call)| is_meant(*since, call));
        taken.into_iter().map(|(_, call)| call).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        let busy = |worker: &Arc<Worker>| worker.in_flight.load(Ordering::Acquire) > 0;
        self.queued.load(Ordering::Acquire) == 0 && !self.workers.load().iter().any(busy)
    }
}

impl Pool {
    /// A call was given up before a worker had it, in a queue of any of the pools.
    pub(super) fn is_given_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.shared.tools.is_given_up();
        self.others().for_each(|other| other.is_given_up());
        self.successor().into_iter().for_each(|successor| successor.is_given_up());
    }

    /// Lets a call wait, if there is room.
    pub(super) fn enqueue(self: &Arc<Self>, lane: &Arc<Lane>, call: Arc<Call>) {
        let workers = lane.workers.load();
        if workers.iter().all(|worker| worker.state() == State::Down) {
            return call.fail(&Failure::NoWorker { cause: self.why_down() });
        }
        let max = self.settings.queue as usize;
        if lane.queued.load(Ordering::Acquire) >= max && self.given_up.swap(false, Ordering::AcqRel)
        {
            self.lanes().iter().for_each(|lane| lane.expire(Duration::MAX, |_| {}));
        }
        // What is left is for others.
        let share = max - max / 4;
        let caller = call.caller.clone();
        let now = clock::now();
        call.life().wait(now);
        let (call, failure) = match lane.queued.push(&caller, (now, call), max, share) {
            // A place may have become free in between.
            Ok(()) => return self.advance(lane),
            Err(Refused::Closed((_, call))) => return self.admit(call),
            Err(Refused::Full((_, call))) => {
                let upstream = self.shared.name.to_string();
                let (calls, workers) = (self.settings.calls_limit(), workers.len());
                (call, Failure::QueueFull { upstream, calls, workers, queue: max })
            }
            Err(Refused::Share((_, call))) => (call, Failure::ShareFull { max: share }),
        };
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        call.fail(&failure);
    }
}
