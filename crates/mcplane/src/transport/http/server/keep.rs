//! What sessions keep for clients that went away, and which of them has to forget.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcplane_proto::limits::MESSAGE_BYTES_MAX;

use super::session::Session;
use crate::budget::{Budget, Charge};

/// The most that one session keeps for its client to come back for, in bytes: the longest message.
const KEPT_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

/// The part of a session's own memory that it may keep so: the rest is for what is under way.
const OWN_SHARE: usize = 2;

/// The part of all memory that the sessions of an endpoint may keep so, and the part that is always left
/// to what is under way.
const KEPT_SHARE: usize = 4;
const BUSY_SHARE: usize = 2;

/// What the sessions of one endpoint keep.
pub(super) struct Keep {
    all: Budget,
    kept: Budget,
}

impl Keep {
    pub(super) fn new(all: Budget) -> Self {
        // It only counts: the bytes are charged as they come.
        let kept = Budget::new(all.max() / KEPT_SHARE);
        Self { all, kept }
    }

    fn is_too_much(&self) -> bool {
        let kept = self.kept.used();
        kept > self.kept.max() || kept > 0 && self.all.used() > self.all.max() / BUSY_SHARE
    }

    /// Has sessions forget until there is room: each time the oldest stream of the one that keeps the
    /// most, of the principal that keeps the most.
    pub(super) fn relieve(&self, sessions: impl Fn() -> Vec<Arc<Session>>) {
        while self.is_too_much() {
            let all = sessions();
            let Some(session) = heaviest(&all) else { return };
            if !session.forget_oldest(self) {
                return;
            }
        }
    }
}

/// How many bytes a session with this memory keeps. The oldest streams go first, the newest never.
pub(super) fn kept_max(own: &Budget) -> usize {
    KEPT_BYTES_MAX.min(own.max() / OWN_SHARE)
}

fn heaviest(sessions: &[Arc<Session>]) -> Option<&Arc<Session>> {
    let mut of_principals: HashMap<Option<&str>, usize> = HashMap::new();
    for session in sessions {
        *of_principals.entry(session.principal()).or_default() += session.kept().bytes();
    }
    let (principal, _) = of_principals.into_iter().max_by_key(|(_, kept)| *kept)?;
    let its = sessions.iter().filter(|session| session.principal() == principal);
    its.max_by_key(|session| session.kept().bytes())
}

/// How much one session keeps, for others to see.
#[derive(Default)]
pub(super) struct Kept(AtomicUsize);

impl Kept {
    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// It is so much from now on.
    pub(super) fn set(&self, keep: &Keep, charge: &mut Charge, bytes: usize) {
        charge.shrink(bytes);
        charge.cover_anyway(&keep.kept, bytes);
        self.0.store(bytes, Ordering::Relaxed);
    }
}
