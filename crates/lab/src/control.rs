//! What passes between a run and whoever watches it: progress one way, the wish to stop the other.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// How often a wait looks whether it should stop.
const LOOK_MS: u64 = 25;

/// Shared by a run and its watcher. Relaxed counters: a progress bar may lag by a batch.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    stage: AtomicU8,
    permille: AtomicU64,
    calls: AtomicU64,
    errors: AtomicU64,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Starting the server and shaking hands.
    Starting,
    /// Calling the tool to see that it works.
    Validating,
    /// Making calls that are thrown away.
    WarmingUp,
    /// Measuring.
    Measuring,
    /// Stopping the processes.
    Finishing,
}

impl Control {
    /// Ends the run early: what was measured so far is reported, marked as interrupted.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked for an end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What the run is doing.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Starting,
            1 => Stage::Validating,
            2 => Stage::WarmingUp,
            3 => Stage::Measuring,
            _ => Stage::Finishing,
        }
    }

    /// How much of the measurement is done, 0 to 1000.
    #[must_use]
    pub fn permille(&self) -> u64 {
        self.permille.load(Ordering::Relaxed).min(1000)
    }

    /// Calls of the target that were answered so far, warm-up excluded.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Errors of the target so far, warm-up excluded.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Forgets the progress of an earlier run; the wish to stop stays.
    pub(crate) fn begin(&self) {
        self.enter(Stage::Starting);
        self.set_permille(0);
        self.calls.store(0, Ordering::Relaxed);
        self.errors.store(0, Ordering::Relaxed);
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    pub(crate) fn set_permille(&self, permille: u64) {
        self.permille.store(permille, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, calls: u64, errors: u64) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
        if errors > 0 {
            self.errors.fetch_add(errors, Ordering::Relaxed);
        }
    }

    /// Returns when somebody has asked for an end. Cancel safe.
    pub(crate) async fn stopped(&self) {
        while !self.is_stopped() {
            sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }
}
