//! How many handlers run or wait, counted without a lock.

use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering};

/// So many at the same time. Every clone is the same.
#[derive(Clone)]
pub(super) struct Load {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// One of them, until it is dropped.
pub(super) struct Taken(Arc<AtomicUsize>);

impl Load {
    pub(super) fn new(max: usize) -> Self {
        Self { taken: Arc::new(AtomicUsize::new(0)), max }
    }

    pub(super) fn is_full(&self) -> bool {
        self.taken.load(Ordering::Acquire) >= self.max
    }

    pub(super) fn take(&self) -> Option<Taken> {
        // A client that is refused is never counted: others would be refused for it.
        let more = |taken: usize| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Taken(Arc::clone(&self.taken)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
