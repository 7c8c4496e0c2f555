//! Calls that end their worker's process each time: they cost whoever makes them, and not everybody
//! the restarts that the server has.
//!
//! A process that ends while calls run is put down to the one that was sent last, by its principal,
//! method and name; one that its client has given up meanwhile runs still. After some in a row, such calls are refused, and one is let through now and then.
//! A call that is answered clears its kind.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcplane::proto::method::Method;

/// Ends in a row after which calls of a kind are refused.
const ENDS_MAX: u32 = 3;

/// Most kinds of calls that are remembered: the longest ago is forgotten first.
const KINDS_MAX: usize = 1024;

/// Calls that are alike: whose, which method, and of what.
pub(crate) type Kind = (Option<Arc<str>>, Method, String);

/// The kinds of calls that ended their worker, and have not been answered since.
#[derive(Default)]
pub(super) struct Blame {
    kinds: Mutex<HashMap<Kind, Ends>>,
    /// How many there are: mostly none.
    count: AtomicUsize,
}

struct Ends {
    count: u32,
    /// When there was the last one, or when a call was let through.
    last: Instant,
}

impl Blame {
    fn kinds(&self) -> MutexGuard<'_, HashMap<Kind, Ends>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ended(&self, now: Instant, kind: Kind) {
        let mut kinds = self.kinds();
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&kind) {
            let oldest = kinds.iter().min_by_key(|(_, ends)| ends.last);
            if let Some(oldest) = oldest.map(|(kind, _)| kind.clone()) {
                kinds.remove(&oldest);
            }
        }
        let ends = kinds.entry(kind).or_insert(Ends { count: 0, last: now });
        (ends.count, ends.last) = (ends.count + 1, now);
        self.count.store(kinds.len(), Ordering::Relaxed);
    }

    pub(super) fn went_well(&self, kind: &Kind) {
        let mut kinds = self.kinds();
        kinds.remove(kind);
        self.count.store(kinds.len(), Ordering::Relaxed);
    }

    /// How long calls of this kind are refused yet, if they are, and what for. One that comes later is
    /// let through, and others wait for what comes of it.
    pub(super) fn refuses(
        &self,
        now: Instant,
        kind: &Kind,
        pause: Duration,
    ) -> Option<(u32, Duration)> {
        let mut kinds = self.kinds();
        let ends = kinds.get_mut(kind).filter(|ends| ends.count >= ENDS_MAX)?;
        let left = pause.saturating_sub(now.duration_since(ends.last));
        if left.is_zero() {
            ends.last = now;
            return None;
        }
        Some((ends.count, left))
    }

    pub(super) fn is_nobodys(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    fn of(who: &str) -> Kind {
        (Some(who.into()), Method::ToolsCall, "die".into())
    }

    #[test]
    fn after_three_ends_in_a_row_one_is_let_through_now_and_then() {
        let (blame, mut now) = (Blame::default(), Instant::now());
        for count in 1..=3 {
            assert!(blame.refuses(now, &of("alice"), PAUSE).is_none(), "{count}");
            blame.ended(now, of("alice"));
        }
        assert_eq!(blame.refuses(now, &of("alice"), PAUSE), Some((3, PAUSE)));
        assert!(blame.refuses(now, &of("bob"), PAUSE).is_none());
        now += PAUSE;
        assert!(blame.refuses(now, &of("alice"), PAUSE).is_none());
        assert!(blame.refuses(now, &of("alice"), PAUSE).is_some(), "only one is");
        blame.went_well(&of("alice"));
        assert!(blame.refuses(now, &of("alice"), PAUSE).is_none());
        assert!(blame.is_nobodys());
    }

    #[test]
    fn so_many_kinds_are_remembered() {
        let (blame, mut now) = (Blame::default(), Instant::now());
        for number in 0..=KINDS_MAX {
            blame.ended(now, of(&number.to_string()));
            now += Duration::from_millis(1);
        }
        assert_eq!(blame.kinds().len(), KINDS_MAX);
        assert!(!blame.kinds().contains_key(&of("0")), "the longest ago");
    }
}
