//! What decides inside of a pool, for the suite to drive by itself: the same code, with a number in the
//! place of a worker, of a caller and of a call.

use std::sync::atomic::{AtomicU64, Ordering};

use super::pick::take;
use super::places::Places;
use super::policy::Candidate;
use super::queue;
use super::state::State;
use crate::config::Policy;

/// Those that wait, each caller's in order; callers take turns.
#[derive(Default)]
pub struct Queue(queue::Queue<u64, u64>);

impl Queue {
    /// Lets something of a caller wait; `false` if `max` wait already.
    pub fn push(&self, caller: u64, what: u64, max: usize) -> bool {
        self.0.push(&caller, what, max, max).is_ok()
    }

    /// Up to `room` go on. How many did.
    pub fn advance(&self, room: u64) -> u64 {
        let left = AtomicU64::new(room);
        let less = |left: u64| left.checked_sub(1);
        let place = |_: &u64| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok();
        let go = |_, next: Option<u64>| {
            // What was about to go on went on elsewhere.
            left.fetch_add(next.is_none().into(), Ordering::Relaxed);
        };
        self.0.advance(|_| true, place, go);
        room - left.into_inner()
    }
}

/// Workers that are healthy, and how many calls each has.
pub struct Workers {
    all: Vec<One>,
    policy: Policy,
    each: usize,
    clock: AtomicU64,
}

struct One {
    places: Places,
    used: AtomicU64,
}

impl One {
    const fn places(&self) -> &Places {
        &self.places
    }
}

impl Candidate for One {
    fn state(&self) -> State {
        State::Healthy
    }

    fn load(&self) -> usize {
        self.places.load(Ordering::Acquire)
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Workers {
    /// So many workers with room for `each` calls.
    #[must_use]
    pub fn new(workers: usize, each: usize, policy: Policy) -> Self {
        let one = || One { places: Places::default(), used: AtomicU64::new(0) };
        let all = std::iter::repeat_with(one).take(workers).collect();
        Self { all, policy, each, clock: AtomicU64::new(0) }
    }

    /// Takes a place for a call and gives it back. `false` if there was none.
    pub fn take_and_free(&self) -> bool {
        let tick = self.clock.fetch_add(1, Ordering::Relaxed);
        let room = (One::places, self.each);
        let taken = take(&self.all, (self.policy, tick), State::Healthy, room);
        taken.inspect(|one| one.used.store(tick, Ordering::Relaxed));
        taken.map(|one| one.places.free(1)).is_some()
    }
}
