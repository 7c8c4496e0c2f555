//! Tools with a limit of their own: their calls take turns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::call::Call;
use super::model::{Pool, Tools, Turn};
use super::turns::{Asked, Turns};
use crate::clock;
use crate::failure::Failure;

impl Tools {
    pub(super) fn new(limits: &BTreeMap<String, u32>) -> Self {
        let numbers = limits.keys().enumerate().map(|(number, tool)| (tool.clone(), number));
        let turns = Turns::new(limits.values().map(|max| *max as usize));
        Self {
            limits: limits.clone(),
            numbers: numbers.collect(),
            turns: Mutex::new(turns),
            given_up: AtomicBool::new(false),
        }
    }

    pub(crate) fn are_none(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether these are the limits.
    pub(super) fn have(&self, limits: &BTreeMap<String, u32>) -> bool {
        self.limits == *limits
    }

    /// The number of a tool, if it has a limit.
    pub(crate) fn number(&self, tool: &str) -> Option<usize> {
        self.numbers.get(tool).copied()
    }

    /// How many calls wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        if self.are_none() { 0 } else { self.turns().waiting() }
    }

    pub(super) fn is_given_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    /// Fails what has waited for too long, and forgets what nobody waits for any more.
    pub(super) fn expire(&self, patience: Duration) {
        if self.are_none() {
            return;
        }
        let now = clock::now();
        let late = |since: Instant, call: &Arc<Call>| {
            !call.is_to_be_sent() || now.duration_since(since) >= patience
        };
        let late = self.turns().extract(late);
        for call in late {
            call.fail(&Failure::WaitedForTurn);
        }
    }

    fn ask(&self, tool: usize, call: Arc<Call>, max: usize) -> Asked<Arc<Call>> {
        let mut turns = self.turns();
        if turns.waiting() >= max && self.given_up.swap(false, Ordering::AcqRel) {
            // What is dropped has ended, and holds nothing.
            turns.extract(|_, call| !call.is_to_be_sent());
        }
        let now = clock::now();
        let asked = turns.ask(now, tool, Arc::clone(&call), max);
        drop(turns);
        if matches!(asked, Asked::Waits) {
            call.life().wait(now);
        }
        asked
    }

    fn turns(&self) -> MutexGuard<'_, Turns<Arc<Call>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some((tools, tool)) = self.0.take() else { return };
        if !tools.turns().free(tool) {
            return;
        }
        loop {
            let next = tools.turns().next(tool);
            let Some(call) = next else { return };
            let (pool, turn) = (Arc::clone(&call.pool), Self(Some((Arc::clone(&tools), tool))));
            pool.begin(call, turn);
            pool.shared.drain.note();
        }
    }
}

impl Pool {
    /// Takes a call on: to a worker or into a queue, once it is its turn. It ends with an error if
    /// there is no room.
    pub(crate) fn submit(self: &Arc<Self>, call: Arc<Call>) {
        let Some(tool) = call.tool else { return self.begin(call, Turn(None)) };
        let max = self.settings.queue as usize;
        match self.shared.tools.ask(tool, call, max) {
            Asked::Taken(call) => {
                self.begin(call, Turn(Some((Arc::clone(&self.shared.tools), tool))));
            }
            Asked::Waits => {}
            Asked::Full(call) => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                call.fail(&Failure::TurnsFull { max });
            }
        }
    }

    fn begin(self: &Arc<Self>, call: Arc<Call>, turn: Turn) {
        // Dropped behind the lock, if nobody waits any more.
        let begun = call.life().begin(turn);
        if begun.is_ok() {
            self.admit(call);
        }
    }
}
