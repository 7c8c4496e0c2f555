//! Waiting until an upstream that is not needed any more has nothing left to do.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::time::timeout_at;

/// Tells whoever waits for it that something has ended. That costs one look while nobody waits.
#[derive(Default)]
pub(super) struct Drain {
    is_awaited: AtomicBool,
    ended: Notify,
}

impl Drain {
    /// A call has ended, or left its queue.
    pub(super) fn note(&self) {
        fence(Ordering::SeqCst);
        self.note_after_fence();
    }

    /// The same; what says so was written before a fence.
    pub(super) fn note_after_fence(&self) {
        if self.is_awaited.load(Ordering::Relaxed) {
            self.ended.notify_one();
        }
    }

    /// Waits until this holds, or until the deadline. One at a time may wait. Cancel safe.
    pub(super) async fn until(&self, deadline: Instant, holds: impl Fn() -> bool) {
        self.is_awaited.store(true, Ordering::Relaxed);
        // Either what ends now sees that it is awaited, or it is seen to have ended.
        fence(Ordering::SeqCst);
        while !holds() && timeout_at(deadline.into(), self.ended.notified()).await.is_ok() {}
        self.is_awaited.store(false, Ordering::Relaxed);
    }
}
