//! Refusals because of overload, a few at a time.
//!
//! Whoever is refused comes back, and to refuse costs nearly as much as to answer: if everybody heard
//! of it at once, those whom a server cannot serve would take its time from those whom it can. So
//! refusals have a rate. Below it they are told at once; above it they wait for their turn, and with
//! them their clients, who have nothing else to do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcplane_proto::id::Id;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::context::{Event, Reply};
use super::outlet::{Events, Outlet};

/// How often refusals are told, and how many of them: 2,000 a second, which takes a twentieth of a core.
const TURN: Duration = Duration::from_millis(10);
const PER_TURN: usize = 20;

/// Refusals that wait, at most: none is older than about two seconds. Beyond it the oldest is told for
/// each that comes.
const WAITING_MAX: usize = 4000;

/// The refusals of one server.
#[derive(Default)]
pub(crate) struct Refusals {
    /// How many wait; looked at without a lock.
    waiting: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Refusal>,
    /// When the turn began, and how many were told in it.
    turn: Option<Instant>,
    told: usize,
    /// Somebody tells those that wait.
    is_telling: bool,
}

struct Refusal {
    outlet: Outlet,
    id: Id,
    response: Reply,
}

impl Refusal {
    /// `false` if there is nobody to be told any more.
    fn tell(self) -> bool {
        self.outlet.send(Event::Done(self.id, self.response))
    }
}

impl Refusals {
    /// Whether one more may be told at once; it counts as told.
    pub(super) fn may_tell(&self) -> bool {
        let mut state = self.lock();
        state.waiting.is_empty() && state.begin_turn(Instant::now()) && {
            state.told += 1;
            true
        }
    }

    /// Answers a request with a refusal, now or later.
    pub(super) fn send(self: &Arc<Self>, outlet: Outlet, id: Id, response: Reply) {
        let refusal = Refusal { outlet, id, response };
        let Ok(runtime) = Handle::try_current() else {
            refusal.tell();
            return;
        };
        if self.may_tell() {
            refusal.tell();
            return;
        }
        let mut state = self.lock();
        state.waiting.push_back(refusal);
        let oldest = match state.waiting.len() {
            0..=WAITING_MAX => None,
            _ => state.waiting.pop_front(),
        };
        self.waiting.store(state.waiting.len(), Ordering::Release);
        if !std::mem::replace(&mut state.is_telling, true) {
            runtime.spawn(Arc::clone(self).tell());
        }
        drop(state);
        oldest.map(Refusal::tell);
    }

    /// Forgets a request that was cancelled: its client may use the id again.
    pub(super) fn withdraw(&self, events: &Events, id: &Id) {
        if self.waiting.load(Ordering::Acquire) > 0 {
            let mut state = self.lock();
            state.waiting.retain(|waits| waits.id != *id || !events.are_of(&waits.outlet));
            self.waiting.store(state.waiting.len(), Ordering::Release);
        }
    }

    /// Tells those that wait, turn by turn, until none is left.
    async fn tell(self: Arc<Self>) {
        loop {
            sleep(TURN).await;
            let mut told = 0;
            while told < PER_TURN {
                let next = self.lock().waiting.pop_front();
                // Those who have gone cost nothing.
                let Some(refusal) = next else { break };
                told += usize::from(refusal.tell());
            }
            let mut state = self.lock();
            self.waiting.store(state.waiting.len(), Ordering::Release);
            state.turn = Some(Instant::now());
            state.told = told;
            if state.waiting.is_empty() {
                state.is_telling = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Begins a turn if the last one is over; whether there is room in it.
    fn begin_turn(&mut self, now: Instant) -> bool {
        if self.turn.is_none_or(|since| now.duration_since(since) >= TURN) {
            self.turn = Some(now);
            self.told = 0;
        }
        self.told < PER_TURN
    }
}

#[cfg(test)]
mod tests {
    use mcplane_proto::error::Code;
    use mcplane_proto::message::Outcome;

    use super::*;
    use crate::budget::Budget;

    fn connection(refusals: &Arc<Refusals>) -> Events {
        Events::new(Budget::new(1024 * 1024), Arc::clone(refusals))
    }

    fn refusal() -> Reply {
        Reply { message: Vec::new(), outcome: Outcome::Error(Code::OVERLOADED) }
    }

    /// The ids of what was told.
    fn told(events: &Events) -> Vec<i64> {
        let id = |event| match event {
            Event::Done(Id::Integer(id), _) => id,
            _ => panic!("no answer"),
        };
        std::iter::from_fn(|| Some(id(events.try_recv()?.0))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn few_are_told_at_once_and_many_in_turns_in_their_order() {
        let refusals = Arc::new(Refusals::default());
        let events = connection(&refusals);
        let many = i64::try_from(PER_TURN).unwrap();
        for id in 0..5 * many {
            events.outlet().refuse(Id::Integer(id), refusal());
        }
        assert_eq!(told(&events), (0..many).collect::<Vec<_>>(), "at once");
        for turn in 1..5 {
            sleep(TURN).await;
            tokio::task::yield_now().await;
            assert_eq!(told(&events), (turn * many..(turn + 1) * many).collect::<Vec<_>>());
        }
        sleep(10 * TURN).await;
        assert!(told(&events).is_empty());
        events.outlet().refuse(Id::Integer(-1), refusal());
        assert_eq!(told(&events), [-1], "after a pause there are few again");
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_have_a_bound() {
        let refusals = Arc::new(Refusals::default());
        let events = connection(&refusals);
        let all = PER_TURN + WAITING_MAX + 10;
        for id in 0..all {
            events.outlet().refuse(Id::Integer(i64::try_from(id).unwrap()), refusal());
        }
        assert_eq!(told(&events).len(), PER_TURN + 10);
        assert_eq!(refusals.lock().waiting.len(), WAITING_MAX);
        sleep(Duration::from_millis(2050)).await;
        assert_eq!(told(&events).len(), WAITING_MAX, "none is older than about two seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_is_never_answered_and_who_is_gone_costs_no_turn() {
        let refusals = Arc::new(Refusals::default());
        let (events, gone) = (connection(&refusals), connection(&refusals));
        while refusals.may_tell() {}
        for id in 0..1000 {
            gone.outlet().refuse(Id::Integer(id), refusal());
        }
        for id in [1, 2, 3] {
            events.outlet().refuse(Id::Integer(id), refusal());
        }
        refusals.withdraw(&events, &Id::Integer(2));
        drop(gone);
        sleep(2 * TURN).await;
        assert_eq!(told(&events), [1, 3]);
    }
}
