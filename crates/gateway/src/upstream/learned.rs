//! What the gateway has learned of what an upstream speaks.

use std::sync::atomic::{AtomicU8, Ordering};

use mcplane::proto::session::{EraChoice, Peer};
use mcplane::proto::version::{Era, Revision};

use crate::config::Speaks;

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
        self.0.store(if peer.era() == Era::Modern { modern } else { 1 }, Ordering::Relaxed);
    }

    pub(super) fn is_legacy(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    pub(super) fn is_met_as_legacy(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
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

    /// Whether it speaks an older revision, or may do so as far as is known.
    pub(super) fn may_be_legacy(&self) -> bool {
        match self.1 {
            Speaks::Revision(revision) => revision.era() == Era::Legacy,
            Speaks::Legacy => true,
            Speaks::Auto => self.0.load(Ordering::Relaxed) < MODERN,
        }
    }

    /// Whether it was met as a modern one, and might have been met as another.
    pub(super) fn prefers_modern(&self) -> bool {
        matches!(self.1, Speaks::Auto) && self.0.load(Ordering::Relaxed) >= MODERN
    }
}
