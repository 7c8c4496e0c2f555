//! Answers over HTTP/2 that their client does not take.
//!
//! Over HTTP/1 such an answer stops the socket, which has a limit. Here each answer has a window of its
//! own, which its client opens as it reads: behind one that stays closed an answer waits, with all that
//! it holds, and the socket knows nothing of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::body::BEAT;

/// The answers on one connection, and when each of them counts as not taken.
pub(super) struct Stalls {
    /// How long a client may take for a piece of an answer.
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    answers: HashMap<u64, Instant>,
    /// There was one.
    is_used: bool,
}

impl Stalls {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// An answer begins; returns its number.
    pub(super) fn begin(&self) -> u64 {
        let mut state = self.lock();
        state.last += 1;
        state.is_used = true;
        let (number, at) = (state.last, Instant::now() + self.limit);
        state.answers.insert(number, at);
        number
    }

    /// Its next piece is asked for, since there is room for it. If there `is_none` yet, the next that
    /// comes of it may be the comment that keeps a stream open.
    pub(super) fn asked(&self, number: u64, is_none: bool) {
        let silence = if is_none { BEAT } else { Duration::ZERO };
        let at = Instant::now() + self.limit + silence;
        self.lock().answers.insert(number, at);
    }

    pub(super) fn end(&self, number: u64) {
        self.lock().answers.remove(&number);
    }

    /// Whether an answer is not taken.
    pub(super) fn is_stalled(&self) -> bool {
        let now = Instant::now();
        self.lock().answers.values().any(|at| *at <= now)
    }

    /// When to look at the latest; `None` if there was never an answer.
    pub(super) fn look(&self) -> Option<Instant> {
        self.lock().is_used.then(|| Instant::now() + self.limit)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_stalled_when_no_piece_of_it_is_asked_for() {
        const SECOND: Duration = Duration::from_secs(1);
        let stalls = Stalls::new(10 * SECOND);
        assert!(stalls.look().is_none() && !stalls.is_stalled());
        let (taken, left) = (stalls.begin(), stalls.begin());
        tokio::time::advance(9 * SECOND).await;
        stalls.asked(taken, false);
        tokio::time::advance(SECOND).await;
        assert!(stalls.is_stalled());
        stalls.end(left);
        assert!(!stalls.is_stalled());
        stalls.asked(taken, true);
        tokio::time::advance(BEAT + 9 * SECOND).await;
        assert!(!stalls.is_stalled(), "there was nothing to take");
        tokio::time::advance(SECOND).await;
        assert!(stalls.is_stalled(), "not even the comment");
        assert_eq!(stalls.look(), Some(Instant::now() + 10 * SECOND));
    }
}
