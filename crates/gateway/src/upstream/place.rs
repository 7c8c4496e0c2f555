//! A worker's place, while a call has it.

use std::sync::Arc;

use super::model::{Place, Worker};

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
