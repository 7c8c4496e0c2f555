//! Who waits in a lane, and how they go on as soon as there is a place for them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::PoisonError;

use super::places::Places;
use crate::sync::{Mutex, MutexGuard, Ordering, fence};

/// What waits, each caller's in order; callers take turns.
pub(crate) struct Queue<C, T> {
    /// Counted before it is in the queue, and until after it has left.
    places: Places,
    waiting: Mutex<Waiting<C, T>>,
}

struct Waiting<C, T> {
    /// Who comes now must look for another lane.
    is_closed: bool,
    turns: VecDeque<C>,
    of: HashMap<C, VecDeque<T>>,
}

/// Why something cannot wait.
pub(super) enum Refused<T> {
    Full(T),
    Closed(T),
    /// Its caller has as many in the queue as one may have.
    Share(T),
}

impl<C, T> Default for Queue<C, T> {
    fn default() -> Self {
        let (turns, of) = (VecDeque::new(), HashMap::new());
        let waiting = Mutex::new(Waiting { is_closed: false, turns, of });
        Self { places: Places::default(), waiting }
    }
}

impl<C: Clone + Eq + Hash, T> Queue<C, T> {
    /// How many wait.
    pub(crate) fn load(&self, order: Ordering) -> usize {
        self.places.load(order)
    }

    /// Lets this wait, if fewer than `max` do and fewer than `share` of its caller's.
    pub(super) fn push(
        &self,
        caller: &C,
        what: T,
        max: usize,
        share: usize,
    ) -> Result<(), Refused<T>> {
        if !self.places.take(max) {
            return Err(Refused::Full(what));
        }
        let refused = self.insert(caller, what, share);
        if refused.is_err() {
            self.places.free(1);
        }
        refused
    }

    fn insert(&self, caller: &C, what: T, share: usize) -> Result<(), Refused<T>> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(Refused::Closed(what));
        }
        match waiting.of.get_mut(caller) {
            Some(own) if own.len() >= share => return Err(Refused::Share(what)),
            Some(own) => own.push_back(what),
            None => {
                waiting.turns.push_back(caller.clone());
                waiting.of.insert(caller.clone(), VecDeque::from([what]));
            }
        }
        Ok(())
    }

    /// Whose turn it is, of those that may go on.
    fn peek(&self, may: impl Fn(&C) -> bool) -> Option<C> {
        self.lock().turns.iter().find(|caller| may(caller)).cloned()
    }

    fn pop(&self, is_meant: impl Fn(&C) -> bool) -> Option<T> {
        let what = self.lock().pop(is_meant)?;
        self.places.free(1);
        Some(what)
    }

    /// Those that wait and `may` go on, as far as `place` finds one. `go` has the place, and gives it back
    /// if nothing of that caller waits any more.
    pub(super) fn advance<P>(
        &self,
        may: impl Fn(&C) -> bool,
        place: impl Fn(&C) -> Option<P>,
        go: impl Fn(P, Option<T>),
    ) {
        while self.is_waited_in() {
            let Some(next) = self.peek(&may) else { return };
            match place(&next) {
                Some(place) => go(place, self.pop(|caller| *caller == next)),
                None if may(&next) => return,
                // It was the one that came in between: the next caller's turn.
                None => {}
            }
        }
    }

    /// Whether something waits, for whoever has just freed a place.
    pub(super) fn is_waited_in(&self) -> bool {
        // One has just become free, or something waits: of two threads one at least sees both.
        fence(Ordering::SeqCst);
        self.load(Ordering::Acquire) > 0
    }

    /// From now on nobody can wait. Takes out who does.
    pub(super) fn close(&self, each: impl Fn(T)) {
        self.lock().is_closed = true;
        while let Some(what) = self.pop(|_| true) {
            each(what);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Takes out those that are meant.
    pub(super) fn extract(&self, is_meant: impl Fn(&T) -> bool) -> Vec<T> {
        let taken = self.lock().extract(is_meant);
        self.places.free(taken.len());
        taken
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<C, T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Eq + Hash, T> Waiting<C, T> {
    /// The first of the first caller that is meant, whose next turn comes after all others'.
    fn pop(&mut self, is_meant: impl Fn(&C) -> bool) -> Option<T> {
        let turn = self.turns.iter().position(is_meant)?;
        let caller = self.turns.remove(turn)?;
        let own = self.of.get_mut(&caller)?;
        let what = own.pop_front();
        if own.is_empty() {
            self.of.remove(&caller);
        } else {
            self.turns.push_back(caller);
        }
        what
    }

    fn extract(&mut self, is_meant: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for own in self.of.values_mut() {
            let (gone, stay) = std::mem::take(own).into_iter().partition(|what| is_meant(what));
            *own = stay;
            taken.extend(VecDeque::into_iter(gone));
        }
        self.of.retain(|_, own| !own.is_empty());
        let Self { turns, of, .. } = self;
        turns.retain(|caller| of.contains_key(caller));
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::upstream::tests::dice::Dice;

    const CALLERS: usize = 4;
    const MAX: usize = 12;
    const SHARE: usize = 5;

    /// What a queue has to do, seen from outside.
    #[derive(Default)]
    struct Watcher {
        waiting: [VecDeque<u32>; CALLERS],
        /// How often each caller went on while another one waited, since that one did last.
        passed: [[u32; CALLERS]; CALLERS],
    }

    impl Watcher {
        fn count(&self) -> usize {
            self.waiting.iter().map(VecDeque::len).sum()
        }

        fn goes_on(&mut self, caller: usize, call: u32, held: usize) {
            assert_eq!(self.waiting[caller].pop_front(), Some(call), "in order");
            assert_ne!(caller, held);
            self.passed[caller] = [0; CALLERS];
            for other in (0..CALLERS).filter(|other| ![caller, held].contains(other)) {
                if !self.waiting[other].is_empty() {
                    self.passed[other][caller] += 1;
                    assert!(self.passed[other][caller] <= 1, "{caller} twice before {other}");
                }
            }
        }
    }

    /// Calls come, go on and are given up in seeded schedules: each caller's in order, callers in
    /// turns, no more than may wait, and nobody waits while a place is free but who is held.
    #[test]
    fn callers_take_turns_and_none_is_lost() {
        for seed in 0..500_u64 {
            let mut dice = Dice(seed);
            let queue: Queue<usize, (usize, u32)> = Queue::default();
            let (seen, free) = (RefCell::new(Watcher::default()), Cell::new(0_usize));
            for call in 0..200 {
                match dice.index(5) {
                    0..=2 => {
                        let caller = dice.index(CALLERS);
                        let mut seen = seen.borrow_mut();
                        let (all, own) = (seen.count(), seen.waiting[caller].len());
                        match queue.push(&caller, (caller, call), MAX, SHARE) {
                            Ok(()) => {
                                assert!(all < MAX && own < SHARE);
                                if own == 0 {
                                    seen.passed[caller] = [0; CALLERS];
                                }
                                seen.waiting[caller].push_back(call);
                            }
                            Err(Refused::Full(_)) => assert_eq!(all, MAX),
                            Err(Refused::Share(_)) => assert_eq!(own, SHARE),
                            Err(Refused::Closed(_)) => unreachable!(),
                        }
                    }
                    3 => free.set(free.get() + dice.index(3)),
                    _ => {
                        for (caller, call) in queue.extract(|(_, call)| call % 5 == 0) {
                            seen.borrow_mut().waiting[caller].retain(|other| *other != call);
                        }
                    }
                }
                // Mostly none.
                let held = dice.index(CALLERS * 2);
                let may = |caller: &usize| *caller != held;
                let place = |_: &usize| (free.get() > 0).then(|| free.set(free.get() - 1));
                queue.advance(may, place, |(), next| match next {
                    Some((caller, call)) => seen.borrow_mut().goes_on(caller, call, held),
                    None => free.set(free.get() + 1),
                });
                let seen = seen.borrow();
                let waiting = seen.count();
                assert_eq!(queue.load(Ordering::Relaxed), waiting, "seed {seed}");
                let is_held = waiting == seen.waiting.get(held).map_or(0, VecDeque::len);
                assert!(is_held || free.get() == 0, "seed {seed}: a place is free");
                free.set(0);
            }
        }
    }
}
