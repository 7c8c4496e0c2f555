//! What the client's handles and the task of its connection share.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Waker};

use mcplane_process::ExitReport;

use super::cache::Cache;
use super::handler::Handlers;
use crate::error::Error;

/// Most characters kept of a stray line.
const STRAY_CHARS_MAX: usize = 200;

#[derive(Debug)]
pub(super) struct State {
    pub(super) handlers: Handlers,
    pub(super) cache: Cache,
    given_up: Mutex<GivenUp>,
    strays: Mutex<Strays>,
    end: OnceLock<String>,
    exit: OnceLock<ExitReport>,
}

/// Lines of the server that were not messages, such as a banner. They are dropped. Look at them
/// first when a server does not work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strays {
    /// How many there were.
    pub count: u64,
    /// The beginning of the first one.
    pub first: Option<String>,
}

/// Requests that nobody waits for any more. As many as are in flight, at most.
#[derive(Debug, Default)]
struct GivenUp {
    keys: Vec<(u64, String)>,
    waker: Option<Waker>,
}

impl State {
    pub(super) fn new(handlers: Handlers) -> Self {
        Self {
            handlers,
            cache: Cache::default(),
            given_up: Mutex::default(),
            strays: Mutex::default(),
            end: OnceLock::new(),
            exit: OnceLock::new(),
        }
    }

    /// Tells the connection that nobody waits for a request any more. Never waits itself, so that
    /// it can be called from `drop`.
    pub(super) fn give_up(&self, key: u64, reason: &str) {
        let mut given_up = lock(&self.given_up);
        if self.end.get().is_some() {
            return;
        }
        given_up.keys.push((key, reason.to_owned()));
        if let Some(waker) = given_up.waker.take() {
            waker.wake();
        }
    }

    /// What was given up since the last time; the next one wakes `cx`.
    pub(super) fn given_up(&self, cx: &Context<'_>) -> Vec<(u64, String)> {
        let mut given_up = lock(&self.given_up);
        given_up.waker = Some(cx.waker().clone());
        std::mem::take(&mut given_up.keys)
    }

    pub(super) fn note_stray(&self, line: &[u8]) {
        let mut strays = lock(&self.strays);
        strays.count += 1;
        strays.first.get_or_insert_with(|| {
            let text = String::from_utf8_lossy(line.get(..STRAY_CHARS_MAX * 4).unwrap_or(line));
            text.chars().filter(|c| !c.is_control()).take(STRAY_CHARS_MAX).collect()
        });
    }

    pub(super) fn strays(&self) -> Strays {
        lock(&self.strays).clone()
    }

    /// Notes how the connection ended. The first word counts.
    pub(super) fn set_end(&self, how: String) {
        let _ = self.end.set(how);
    }

    /// The error of whoever uses a connection that has ended; `None` while it lives.
    pub(super) fn end(&self) -> Option<Error> {
        self.end.get().map(Error::closed)
    }

    pub(super) fn set_exit(&self, report: ExitReport) {
        let _ = self.exit.set(report);
    }

    pub(super) fn exit(&self) -> Option<ExitReport> {
        self.exit.get().cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
