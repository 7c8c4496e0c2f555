//! What is known of whether an upstream asks, and in which calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcplane::proto::method::Method;

use super::habits::{Habit, Habits, Name};
use crate::catalog::Asking;

/// What is known of whether an upstream asks, and in which calls.
pub(super) struct Asker {
    /// It does: mostly none does.
    pub(super) is_one: AtomicBool,
    habits: Mutex<Habits>,
}

impl Asker {
    /// `said` are the tools of which the settings say it.
    pub(super) fn new(said: &[String]) -> Self {
        let habits = Habits::new(said);
        Self { is_one: AtomicBool::new(!habits.nothing_asks()), habits: Mutex::new(habits) }
    }

    pub(super) fn is_one(&self) -> bool {
        self.is_one.load(Ordering::Relaxed)
    }

    pub(super) fn habits(&self) -> MutexGuard<'_, Habits> {
        self.habits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a call: its method, and its name if that has to be looked up.
    pub(super) fn of(&self, method: Method, name: impl FnOnce() -> Option<Name>) -> Habit {
        if !self.is_one() || !method.takes_input() {
            return Habit::SILENT;
        }
        name().map_or_else(Habit::default, |name| self.habits().of(&name))
    }

    pub(super) fn learned(&self) -> Asking {
        self.habits().learned()
    }

    /// What an earlier run has learned.
    pub(super) fn remember(&self, asking: &Asking) {
        let mut habits = self.habits();
        habits.remember(asking);
        if !habits.nothing_asks() {
            self.is_one.store(true, Ordering::Relaxed);
        }
    }
}
