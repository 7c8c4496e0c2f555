//! What is remembered of servers from one client to the next.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

/// How long a server is assumed to be a legacy one without another probe. Not for long: it may have
/// been replaced by one that can do more, and the client would never notice.
pub const LEGACY_VERDICT_TIME: Duration = Duration::from_secs(5 * 60);

/// The most endpoints whose verdict is remembered.
pub const VERDICTS_MAX: usize = 1024;

/// What a legacy server speaks. A modern one is asked who it is in any case, so there is nothing
/// to save by remembering it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Streamable,
    Sse,
}

/// Verdicts by endpoint: servers behind one origin may differ.
#[derive(Debug, Default)]
pub(super) struct Verdicts(Mutex<HashMap<Url, (Verdict, Instant)>>);

impl Verdicts {
    pub(super) fn find(&self, url: &Url) -> Option<Verdict> {
        let found = self.lock().get(url).copied();
        found.filter(|(_, until)| Instant::now() < *until).map(|(verdict, _)| verdict)
    }

    pub(super) fn remember(&self, url: &Url, verdict: Verdict) {
        let mut verdicts = self.lock();
        if verdicts.len() >= VERDICTS_MAX {
            let now = Instant::now();
            verdicts.retain(|_, (_, until)| now < *until);
        }
        if verdicts.len() < VERDICTS_MAX {
            verdicts.insert(url.clone(), (verdict, Instant::now() + LEGACY_VERDICT_TIME));
        }
    }

    pub(super) fn forget(&self, url: &Url) {
        self.lock().remove(url);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Url, (Verdict, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
