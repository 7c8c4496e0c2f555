//! A worker's place, while a call has it.

use std::sync::Arc;

use super::worker::Worker;

/// One of the places of a worker, taken. Dropped, it is free, and who waits for one goes on: so it
/// is never dropped while a lock is held.
pub(crate) struct Place {
    pub(crate) worker: Arc<Worker>,
    /// Whoever drops it looks who waits.
    is_quiet: bool,
}

impl Place {
    /// Of a worker where one has been counted as taken.
    pub(super) const fn of(worker: Arc<Worker>) -> Self {
        Self { worker, is_quiet: false }
    }

    /// Frees it where it is looked who waits anyway.
    pub(super) fn give_back(mut self) {
        self.is_quiet = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.worker.in_flight.free(1);
        if !self.is_quiet
            && let Some(lane) = self.worker.lane.get()
        {
            lane.advance();
        }
    }
}
