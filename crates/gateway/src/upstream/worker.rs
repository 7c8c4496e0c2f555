//! A worker, as those see it who use it. Its loop is in `drive`.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::version::{Era, Revision};
use serde_json::json;
use tokio::sync::mpsc;

use super::call::Sent;
use super::client::Greeting;
use super::model::{Command, LaneOf, Told, Worker};
use super::places::Places;
use super::restart::Restarts;
use super::state::State;
use super::status::StatusWatch;
use crate::clock;

impl Worker {
    /// A worker of this upstream that is about to be started; `status` is its pool's.
    pub(crate) fn new(
        upstream: Arc<str>,
        number: usize,
        status: StatusWatch,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Command>) {
        #[allow(
            clippy::disallowed_methods,
            reason = "bounded by what is sent: calls by the worker's places, cancellations by calls; \
                      and the loop takes everything at once"
        )]
        let (inbox, commands) = mpsc::unbounded_channel();
        let worker = Self {
            upstream,
            number,
            inbox,
            in_flight: Places::default(),
            used: AtomicU64::new(0),
            state: AtomicU8::new(State::Starting as u8),
            status,
            timeouts: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            restarts: AtomicU32::new(0),
            starts: Mutex::default(),
            late: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            peer: ArcSwapOption::empty(),
            is_told: AtomicBool::new(false),
            lane: LaneOf::new(),
            greeting: Greeting::default(),
            probing: AtomicU8::new(0),
            probed: Mutex::new(clock::now()),
            life: AtomicU32::new(0),
            told: Mutex::default(),
        };
        worker.status.add(number);
        (Arc::new(worker), commands)
    }

    /// Takes the place of another one, whose restarts count as its own.
    pub(super) fn succeed(&self, old: &Self) {
        self.restarts.store(old.restarts.load(Ordering::Relaxed), Ordering::Relaxed);
        self.starts().clone_from(&old.starts());
    }

    pub(super) fn starts(&self) -> MutexGuard<'_, Restarts> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Starting,
            1 => State::Healthy,
            2 => State::Degraded,
            3 => State::Quarantined,
            4 => State::Leaving,
            6 => State::Spare,
            7 => State::Handshaking,
            _ => State::Down,
        }
    }

    /// Whether its connection is past the handshake, and stays.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state(), State::Healthy | State::Degraded | State::Quarantined)
    }

    /// How long its handshake has been under way, if it is.
    pub(crate) fn handshakes_for(&self) -> Duration {
        let since = self.status.now().since(self.number);
        since.map_or(Duration::ZERO, |since| clock::now().saturating_duration_since(since))
    }

    /// Whether it was probed no later than so long ago.
    pub(super) fn probed_before(&self, every: Duration) -> bool {
        let probed = *self.probed.lock().unwrap_or_else(PoisonError::into_inner);
        clock::now().duration_since(probed) >= every
    }

    pub(super) fn was_probed(&self) {
        *self.probed.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
    }

    /// From leaving there is no way but down.
    pub(crate) fn set_state(&self, state: State) {
        let ends = matches!(state, State::Leaving | State::Down);
        self.change(|before| (before != State::Leaving || ends).then_some(state));
    }

    /// The same, unless it is leaving.
    pub(super) fn enter(&self, state: State) {
        self.change(|before| (before != State::Leaving).then_some(state));
    }

    fn change(&self, next: impl FnOnce(State) -> Option<State>) {
        let mut changed = None;
        self.status.track(self.number, || {
            let state = next(self.state())?;
            if self.state.swap(state as u8, Ordering::AcqRel) != state as u8 {
                changed = Some(state);
            }
            Some(state)
        });
        let Some(state) = changed else { return };
        tracing::info!(
            target: "mcplane::worker",
            upstream = &*self.upstream,
            worker = self.number,
            state = ?state,
            pid = self.pid.load(Ordering::Relaxed),
            restarts = self.restarts.load(Ordering::Relaxed),
        );
    }

    /// `Err` if the worker is gone for good.
    pub(crate) fn send(&self, command: Command) -> Result<(), Command> {
        self.inbox.send(command).map_err(|error| error.0)
    }

    /// Has the worker of a call take it back.
    pub(super) fn cancel(sent: Sent) {
        let worker = Arc::clone(&sent.place.worker);
        // A worker that is gone has nothing to take back.
        drop(worker.send(Command::Cancel(Box::new(sent))));
    }

    /// Whether calls wait for a place at it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.lane.get().is_some_and(|lane| lane.queued.load(Ordering::Acquire) > 0)
    }

    /// The number of its connection: ids on one mean nothing on the next.
    pub(crate) fn life(&self) -> u32 {
        self.life.load(Ordering::Relaxed)
    }
}

pub(crate) fn unavailable(why: &str) -> ErrorObject {
    ErrorObject::new(Code::UNAVAILABLE, format!("the server is not available: {why}"))
        .with_data(&json!({"retry": true}))
}

/// Whether a peer must be told of capabilities with every request.
pub(crate) const fn is_modern(revision: Revision) -> bool {
    matches!(revision.era(), Era::Modern)
}
