//! Places for connections, and which connection loses its place when none is free.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};

/// So many connections at the same time. One that has not shown yet that there is a client at its
/// end makes room for the next: the oldest first, for a client speaks as soon as it is connected,
/// and the one that has been silent for longest is the least likely to be one.
pub(super) struct Places(Mutex<State>);

struct State {
    max: usize,
    taken: usize,
    next: u64,
    /// The others are settled.
    newcomers: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Places {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { max, taken: 0, next: 0, newcomers: BTreeMap::new() })))
    }

    /// A place, and what comes when it is lost to another; `None` if all are settled.
    pub(super) fn take(self: &Arc<Self>) -> Option<(Place, Lost)> {
        let (sender, lost) = oneshot::channel();
        let mut state = self.lock();
        if state.taken < state.max {
            state.taken += 1;
        } else {
            let (_, oldest) = state.newcomers.pop_first()?;
            // Its connection may be ending already.
            let _ = oldest.send(());
        }
        let number = state.next;
        state.next += 1;
        state.newcomers.insert(number, sender);
        let place = Place { places: Arc::clone(self), number, is_settled: AtomicBool::new(false) };
        Some((place, Lost(Some(lost))))
    }

    pub(super) fn taken(&self) -> usize {
        self.lock().taken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place, which its newcomer may lose; free again on drop.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    is_settled: AtomicBool,
}

impl Place {
    /// There is a client: from now on nobody takes the place away.
    pub(crate) fn settle(&self) {
        if !self.is_settled() && self.places.lock().newcomers.remove(&self.number).is_some() {
            self.is_settled.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        if self.is_settled() || state.newcomers.remove(&self.number).is_some() {
            state.taken = state.taken.saturating_sub(1);
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.number).finish()
    }
}

/// Comes when a place is lost; never once it is settled.
#[derive(Debug)]
pub(crate) struct Lost(Option<oneshot::Receiver<()>>);

impl Future for Lost {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(lost) = &mut self.0 else { return Poll::Pending };
        let outcome = std::task::ready!(Pin::new(lost).poll(cx));
        self.0 = None;
        if outcome.is_ok() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost(lost: &mut Lost) -> bool {
        Pin::new(lost).poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_newcomer_makes_room_and_who_is_settled_never_does() {
        let places = Places::new(2);
        let (first, mut first_lost) = places.take().unwrap();
        let (second, mut second_lost) = places.take().unwrap();
        first.settle();
        let (third, mut third_lost) = places.take().unwrap();
        assert!(is_lost(&mut second_lost));
        assert_eq!(places.taken(), 2);
        second.settle();
        assert!(!second.is_settled(), "too late");
        drop(second);
        assert_eq!(places.taken(), 2, "the place is another's");
        third.settle();
        assert!(places.take().is_none());
        assert!(!is_lost(&mut first_lost) && !is_lost(&mut third_lost));
        drop((first, third));
        assert_eq!(places.taken(), 0);
        drop(places.take());
        assert_eq!(places.taken(), 0);
        assert!(Places::new(0).take().is_none());
    }
}
