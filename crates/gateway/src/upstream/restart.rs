//! The pause before a worker is started again, and how often it may be.

use std::time::Duration;

use super::pool::Pool;
use super::worker::Worker;
use crate::clock;

/// The pause before a start that is not to be.
pub(super) const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How long to wait before the next start: not at all for one that lived, then longer each time.
pub(super) fn pause_before_next(pool: &Pool, worker: &Worker, lived: bool) -> Duration {
    let restart = &pool.settings.restart;
    let (now, window) = (clock::now(), restart.window.duration());
    let mut starts = worker.starts();
    while starts.front().is_some_and(|at| now.duration_since(*at) > window) {
        starts.pop_front();
    }
    if restart.budget == 0 {
        return NEVER;
    }
    let recent = starts.len();
    starts.push_back(now);
    if recent >= restart.budget as usize {
        let oldest = starts.front().map_or(window, |at| now.duration_since(*at));
        return window.saturating_sub(oldest).max(restart.longest.duration());
    }
    if lived && recent == 0 {
        return Duration::ZERO;
    }
    let doubled = 1u32.checked_shl(u32::try_from(recent).unwrap_or(31).min(16)).unwrap_or(1);
    restart.first.duration().saturating_mul(doubled).min(restart.longest.duration())
}
