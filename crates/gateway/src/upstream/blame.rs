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

use mcplane::proto::error::shorten;
use mcplane::proto::message::Part;
use mcplane::proto::method::Method;
use mcplane::server::relay::Relayed;

use super::call::Call;
use super::drive::{Drive, Tag};
use super::pool::Pool;
use crate::clock;
use crate::failure::Failure;

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

    fn ended(&self, now: Instant, kind: Kind) {
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

    fn went_well(&self, kind: &Kind) {
        let mut kinds = self.kinds();
        kinds.remove(kind);
        self.count.store(kinds.len(), Ordering::Relaxed);
    }

    /// How long calls of this kind are refused yet, if they are, and what for. One that comes later is
    /// let through, and others wait for what comes of it.
    fn refuses(&self, now: Instant, kind: &Kind, pause: Duration) -> Option<(u32, Duration)> {
        let mut kinds = self.kinds();
        let ends = kinds.get_mut(kind).filter(|ends| ends.count >= ENDS_MAX)?;
        let left = pause.saturating_sub(now.duration_since(ends.last));
        if left.is_zero() {
            ends.last = now;
            return None;
        }
        Some((ends.count, left))
    }

    fn is_nobodys(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

impl Pool {
    /// A call was answered.
    pub(super) fn went_well(&self, call: &Call) {
        if !self.shared.blame.is_nobodys()
            && let Some(kind) = kind(call)
        {
            self.shared.blame.went_well(&kind);
        }
    }

    /// Fails a call of a kind that ends its worker. Whether it did.
    pub(super) fn refuses(&self, call: &Call) -> bool {
        if self.shared.blame.is_nobodys() {
            return false;
        }
        let Some(kind) = kind(call) else { return false };
        let pause = self.settings.restart.longest.duration();
        let Some((count, left)) = self.shared.blame.refuses(clock::now(), &kind, pause) else {
            return false;
        };
        let (_, method, name) = kind;
        call.fail(&Failure::Blamed { count, method, name, pause: left });
        true
    }
}

impl Drive<'_> {
    /// The process has ended: it is put down to the call that it was sent last, if any runs. Whether
    /// there is one.
    pub(crate) fn blame(&self) -> bool {
        let calls = self.session.tags().filter_map(|tag| match tag {
            Tag::Call(call) => {
                let number = call.life().sent()?.on.number;
                Some((number, kind(call)?))
            }
            Tag::Gone(_, sent) => Some((sent.on.number, sent.kind.clone()?)),
            Tag::Moved(..) | Tag::Own(_) | Tag::Listen => None,
        });
        let last = calls.max_by_key(|(number, _)| *number);
        last.map(|(_, kind)| self.pool.shared.blame.ended(clock::now(), kind)).is_some()
    }
}

fn kind(call: &Call) -> Option<Kind> {
    let life = call.life();
    let of_request = || life.request().map(|request| call.kind_of(request));
    life.sent().and_then(|sent| sent.kind.clone()).or_else(of_request)
}

impl Call {
    pub(crate) fn kind_of(&self, request: &Relayed) -> Kind {
        let message = request.message();
        let name = message.text(Part::Name).or_else(|| message.text(Part::Uri));
        let name = shorten(&name.unwrap_or_default()).into_owned();
        (self.caller.principal.clone(), self.method, name)
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
