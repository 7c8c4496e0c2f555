//! The pools of one upstream, and which of them a call belongs to: each client is served in its own
//! era where the upstream speaks both, and what may ask has workers of its own (`asking`).
//!
//! An upstream that prefers 2026-07-28 has a second pool, made when the first legacy client calls: its
//! connections begin with `initialize`, so that what the upstream asks and says in the middle of a
//! call needs no translation. Its first worker is the trial: an upstream that takes none has its legacy
//! clients translated. The second pool ends when no legacy client has called for a while.

use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::call::Call;
use super::cause::Spared;
use super::model::{LEAVE_TIME, Other, Pool, Side, Worker, WorkerEvent};
use super::worker::is_modern;
use crate::clock;
use crate::config::{Server, Speaks};
use crate::failure::Failure;

/// How long legacy clients are translated after a trial that failed and said nothing of eras.
const TRIAL_AGAIN: Duration = Duration::from_secs(60);

/// How long they are once the upstream has refused `initialize`.
const FOR_GOOD: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Side {
    /// The pool beside which it was made.
    const fn beside(&self) -> Option<&Weak<Pool>> {
        match self {
            Self::Own => None,
            Self::Legacy(pool) | Self::Alone(pool, _) => Some(pool),
        }
    }
}

impl Other {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.none_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Takes a call to the pool where it belongs.
    pub(super) fn admit(self: &Arc<Self>, call: Arc<Call>) {
        match self.side.beside().map(Weak::upgrade) {
            Some(Some(pool)) => pool.admit(call),
            Some(None) => {
                call.fail(&Failure::Closing("it has ended"));
            }
            None => {
                let legacy = self.for_legacy(&call);
                let pool = legacy.as_ref().unwrap_or(self);
                match pool.for_asking(&call) {
                    Some(alone) => alone.admit_here(call),
                    None => pool.admit_here(call),
                }
            }
        }
    }

    /// Where a call is served whose client is of the older era, unless that is here.
    fn for_legacy(self: &Arc<Self>, call: &Call) -> Option<Arc<Self>> {
        if !self.belongs_elsewhere(call) {
            return None;
        }
        self.beside(&self.legacy, || {
            let settings = Server { revision: Speaks::Legacy, ..self.settings.clone() };
            self.sibling(settings, Side::Legacy(Arc::downgrade(self)))
        })
    }

    /// Whether a call is for a worker of the older era beside this one. What this upstream has asked in
    /// it already, no other worker can take up.
    fn belongs_elsewhere(&self, call: &Call) -> bool {
        !is_modern(call.revision) && self.learned.prefers_modern() && !call.life().is_resumed()
    }

    /// A pool beside this one, which is made if there is none; `None` while there is to be none.
    pub(super) fn beside(
        self: &Arc<Self>,
        other: &Other,
        make: impl FnOnce() -> Arc<Self>,
    ) -> Option<Arc<Self>> {
        if let Some(pool) = other.pool.load_full() {
            return Some(pool);
        }
        let none_until = other.lock();
        if self.is_closing() || none_until.is_some_and(|until| clock::now() < until) {
            return None;
        }
        // Somebody else may have been faster.
        if let Some(pool) = other.pool.load_full() {
            return Some(pool);
        }
        let pool = make();
        other.pool.store(Some(Arc::clone(&pool)));
        drop(none_until);
        pool.start();
        Some(pool)
    }

    /// What the upstream prefers is known now: calls that waited for that and belong elsewhere go
    /// there.
    pub(super) fn sort(self: &Arc<Self>) {
        if self.learned.prefers_modern() {
            let elsewhere = |_, call: &Call| self.belongs_elsewhere(call);
            self.lanes().iter().flat_map(|lane| lane.extract(elsewhere)).for_each(|call| {
                self.admit(call);
            });
        }
    }

    /// A worker could not be started. `Some` if the pool beside this one does without it from now on:
    /// all calls move there. What it goes on without, unless the upstream itself refused it.
    pub(super) fn is_done_without(&self, is_refused: bool) -> Option<Option<Spared>> {
        let pool = self.side.beside()?;
        // One that was taken before is only late or broken now.
        if !is_refused && self.learned.is_known() {
            return None;
        }
        let (after, spared) = match self.side {
            Side::Legacy(_) if is_refused => (FOR_GOOD, None),
            Side::Legacy(_) => (TRIAL_AGAIN, Some(Spared::Legacy)),
            _ => (TRIAL_AGAIN, Some(Spared::Alone)),
        };
        if let Some(pool) = pool.upgrade() {
            pool.let_go(self, Some(clock::now() + after));
        }
        Some(spared)
    }

    /// Ends a pool beside another one that was not used for so long. `last` is how often it had been used
    /// at the last look at which that was news, and when that was.
    pub(super) fn stop_unused(&self, after: Duration, last: &mut (u64, Instant)) {
        let Some(pool) = self.side.beside() else { return };
        let (uses, now) = (self.uses(), clock::now());
        if uses != last.0 || !self.is_idle() {
            *last = (uses, now);
        }
        if let Some(pool) = pool.upgrade().filter(|_| now.duration_since(last.1) >= after) {
            pool.let_go(self, None);
        }
    }

    fn let_go(self: &Arc<Self>, gone: &Self, none_until: Option<Instant>) {
        let other = if matches!(gone.side, Side::Alone(..)) { &self.alone } else { &self.legacy };
        let gone = {
            let mut until = other.lock();
            let is_it = |pool: &Arc<Self>| std::ptr::eq(&raw const **pool, gone);
            if !other.pool.load().as_ref().is_some_and(is_it) {
                return;
            }
            *until = none_until;
            other.pool.swap(None)
        };
        self.shared.drain.note();
        let alive = self.hold();
        tokio::spawn(async move {
            if let Some(gone) = gone {
                gone.close(clock::now() + LEAVE_TIME, "it is not needed any more").await;
            }
            drop(alive);
        });
    }

    /// The pools beside this one that there are at the moment.
    pub(crate) fn others(&self) -> impl Iterator<Item = Arc<Self>> {
        [&self.legacy, &self.alone].into_iter().filter_map(|other| other.pool.load_full())
    }

    /// Takes them out for good: this pool is closing.
    pub(super) fn take_others(&self) -> impl Iterator<Item = Arc<Self>> {
        [&self.legacy, &self.alone].into_iter().filter_map(|other| {
            let _until = other.lock();
            other.pool.swap(None)
        })
    }

    /// What the upstream's task is told: lists are the own pool's to read, from a worker that speaks for
    /// the gateway.
    pub(super) fn word(&self, heard: WorkerEvent) -> WorkerEvent {
        let pool = self.side.beside().map(Weak::upgrade);
        let is_other = |worker: &Worker| pool.is_some() || worker.greeting.client().is_some();
        let reads = || match &pool {
            Some(pool) => pool.as_ref().and_then(|pool| pool.reader()),
            None => self.reader(),
        };
        let heard = match heard {
            WorkerEvent::Ready(worker) if is_other(&worker) => WorkerEvent::Taken(worker),
            WorkerEvent::ListsChanged(worker, method) if is_other(&worker) => {
                WorkerEvent::ListsChanged(reads().unwrap_or(worker), method)
            }
            heard => heard,
        };
        match pool {
            Some(Some(pool)) => pool.word(heard),
            _ => heard,
        }
    }
}
