//! Places that are taken and given back without a lock: those of a worker, those in a queue.

use crate::sync::{AtomicUsize, Ordering};

/// How many are taken.
#[derive(Default)]
pub(crate) struct Places(AtomicUsize);

impl Places {
    /// Takes one, if fewer than `max` are taken.
    pub(super) fn take(&self, max: usize) -> bool {
        let taken = |count: usize| (count < max).then_some(count + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_ok()
    }

    pub(super) fn free(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::AcqRel);
    }

    /// How many are taken.
    pub(crate) fn load(&self, order: Ordering) -> usize {
        self.0.load(order)
    }
}

/// Takes a place where the fewest are taken; `None` if there is none.
pub(super) fn take_of_least<'a, T>(
    all: impl Iterator<Item = &'a T> + Clone,
    of: impl Fn(&T) -> &Places,
    max: usize,
) -> Option<&'a T> {
    loop {
        let loads = all.clone().map(|one| (of(one).load(Ordering::Acquire), one));
        let (taken, least) = loads.min_by_key(|(taken, _)| *taken)?;
        if taken >= max {
            return None;
        }
        // Somebody else may have been faster, and another may have room.
        if of(least).take(max) {
            return Some(least);
        }
    }
}
