//! Each client its own era, at an upstream that speaks both.
//!
//! An upstream that prefers 2026-07-28 has a second pool, made when the first legacy client calls: its
//! connections begin with `initialize`, so that what the upstream asks and says in the middle of a
//! call needs no translation. Its first worker is the trial: an upstream that takes none has its legacy
//! clients translated. The second pool ends when no legacy client has called for a while.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use mcplane::proto::session::{EraChoice, Peer};
use mcplane::proto::version::Revision;

use super::call::Call;
use super::pool::{Heard, LEAVE_TIME, Pool};
use super::worker::{State, Worker, is_modern, unavailable};
use crate::clock;
use crate::config::{Server, Speaks};

/// How long legacy clients are translated after a trial that failed and said nothing of eras.
const TRIAL_AGAIN: Duration = Duration::from_secs(60);

/// How long they are once the upstream has refused `initialize`.
const FOR_GOOD: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What [`Learned`] has of a modern upstream: this, and the place of its revision among all.
const MODERN: u8 = 2;

/// What the gateway has learned of what an upstream speaks, so that it is asked only once.
pub(crate) struct Learned(AtomicU8, Speaks);

impl Learned {
    pub(super) const fn new(said: Speaks) -> Self {
        Self(AtomicU8::new(0), said)
    }

    pub(super) fn met(&self, peer: &Peer) {
        let at = Revision::ALL.iter().position(|known| *known == peer.revision).unwrap_or(0);
        let modern = u8::try_from(at).unwrap_or(0).saturating_add(MODERN);
        self.0.store(if is_modern(peer.revision) { modern } else { 1 }, Ordering::Relaxed);
    }

    pub(super) fn is_legacy(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    pub(super) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    pub(super) fn choice(&self) -> EraChoice {
        match (self.1, self.0.load(Ordering::Relaxed)) {
            (Speaks::Revision(revision), _) => EraChoice::Only(revision),
            (Speaks::Legacy, _) | (Speaks::Auto, 1) => EraChoice::Legacy,
            (Speaks::Auto, met) => {
                let at = met.checked_sub(MODERN).map(usize::from);
                let revision = at.and_then(|at| Revision::ALL.get(at));
                revision.map_or(EraChoice::Auto, |revision| EraChoice::Only(*revision))
            }
        }
    }

    /// Whether it was met as a modern one, and might have been met as another.
    fn prefers_modern(&self) -> bool {
        matches!(self.1, Speaks::Auto) && self.0.load(Ordering::Relaxed) >= MODERN
    }
}

/// Which of an upstream's two pools this is.
pub(super) enum Side {
    /// The one that every upstream has, of the era that it prefers. All calls come to it first.
    Own(Other),
    /// The one for legacy clients, of this one.
    Legacy(Weak<Pool>),
}

/// The pool for legacy clients, as the other one has it.
#[derive(Default)]
pub(super) struct Other {
    pool: ArcSwapOption<Pool>,
    /// Until when there is to be none. Held to make the pool and to let it go.
    none_until: Mutex<Option<Instant>>,
}

impl Other {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.none_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Takes a call to the pool of its client's era.
    pub(super) fn admit(self: &Arc<Self>, call: Arc<Call>) {
        match &self.side {
            Side::Own(other) => match self.other_for(other, call.revision) {
                Some(legacy) => legacy.admit_here(call),
                None => self.admit_here(call),
            },
            Side::Legacy(own) => match own.upgrade() {
                Some(own) => own.admit(call),
                None => call.fail(&unavailable("it has ended")),
            },
        }
    }

    /// Where a client of this revision is served, unless that is here.
    fn other_for(self: &Arc<Self>, other: &Other, revision: Revision) -> Option<Arc<Self>> {
        if is_modern(revision) || !self.learned.prefers_modern() {
            return None;
        }
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
        let settings = Server { revision: Speaks::Legacy, ..self.settings.clone() };
        let pool = self.sibling(settings, Side::Legacy(Arc::downgrade(self)));
        other.pool.store(Some(Arc::clone(&pool)));
        drop(none_until);
        pool.start();
        Some(pool)
    }

    /// What the upstream prefers is known now: calls that waited for that and belong elsewhere go
    /// there.
    pub(super) fn sort(self: &Arc<Self>) {
        if self.learned.prefers_modern() {
            let legacy = |_, call: &Call| !is_modern(call.revision);
            self.lanes().iter().flat_map(|lane| lane.extract(legacy)).for_each(|call| {
                self.admit(call);
            });
        }
    }

    /// A worker could not begin with `initialize`. `true` if legacy clients are translated from now
    /// on: all of it moves to the other pool.
    pub(super) fn has_no_legacy(&self, is_refused: bool) -> bool {
        let Side::Legacy(own) = &self.side else { return false };
        // One that was taken before is only late or broken now.
        if !is_refused && self.learned.is_known() {
            return false;
        }
        let after = if is_refused { FOR_GOOD } else { TRIAL_AGAIN };
        if let Some(own) = own.upgrade() {
            own.let_go(self, Some(clock::now() + after));
        }
        true
    }

    /// Ends a pool that no legacy client has used for so long. `last` is how often it had been used
    /// at the last look at which that was news, and when that was.
    pub(super) fn stop_unused(&self, after: Duration, last: &mut (u64, Instant)) {
        let Side::Legacy(own) = &self.side else { return };
        let (uses, now) = (self.uses(), clock::now());
        if uses != last.0 || !self.is_idle() {
            *last = (uses, now);
        }
        if let Some(own) = own.upgrade().filter(|_| now.duration_since(last.1) >= after) {
            own.let_go(self, None);
        }
    }

    fn let_go(self: &Arc<Self>, legacy: &Self, none_until: Option<Instant>) {
        let Side::Own(other) = &self.side else { return };
        let gone = {
            let mut until = other.lock();
            let is_it = |pool: &Arc<Self>| std::ptr::eq(&raw const **pool, legacy);
            if !other.pool.load().as_ref().is_some_and(is_it) {
                return;
            }
            *until = none_until;
            other.pool.swap(None)
        };
        let alive = self.hold();
        tokio::spawn(async move {
            if let Some(gone) = gone {
                gone.close(clock::now() + LEAVE_TIME, "it is not needed any more").await;
            }
            drop(alive);
        });
    }

    /// The pool for legacy clients, if there is one at the moment.
    pub(crate) fn other(&self) -> Option<Arc<Self>> {
        match &self.side {
            Side::Own(other) => other.pool.load_full(),
            Side::Legacy(_) => None,
        }
    }

    /// Takes it out for good: this pool is closing.
    pub(super) fn take_other(&self) -> Option<Arc<Self>> {
        let Side::Own(other) = &self.side else { return None };
        let _until = other.lock();
        other.pool.swap(None)
    }

    /// What the upstream's task is told: lists are the own pool's to read.
    pub(super) fn word(&self, heard: Heard) -> Heard {
        let Side::Legacy(own) = &self.side else { return heard };
        let healthy = |own: Arc<Self>| {
            own.workers().into_iter().find(|worker: &Arc<Worker>| worker.state() == State::Healthy)
        };
        match heard {
            Heard::Ready(worker) => Heard::Taken(worker),
            Heard::ListsChanged(worker, method) => {
                Heard::ListsChanged(own.upgrade().and_then(healthy).unwrap_or(worker), method)
            }
            heard => heard,
        }
    }
}
