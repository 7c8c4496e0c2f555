//! A worker, as those see it who use it. Its loop is in `drive`.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::id::Id;
use mcplane::proto::message::Message;
use mcplane::proto::method::Method;
use mcplane::proto::session::Peer;
use mcplane::proto::version::{Era, Revision};
use mcplane::server::relay::Caller;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::call::{Call, Sent};
use super::greeting::Greeting;
use super::lane::LaneOf;
use super::place::Place;
use super::places::Places;
use super::restart::Restarts;
use super::status::StatusWatch;
use super::subscriptions::Told;
use crate::clock;

/// What a worker can do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Its process is being started, or a connection opened.
    Starting = 0,
    Healthy = 1,
    /// It has let a call time out; others are preferred.
    Degraded = 2,
    /// It let several time out in a row: it gets nothing before it has answered a probe.
    Quarantined = 3,
    /// It takes no more calls and ends when it is idle.
    Leaving = 4,
    Down = 5,
    /// It is connected, and waits with the handshake for its client.
    Spare = 6,
    /// It is connected, and the handshake is not done.
    Handshaking = 7,
}

impl State {
    /// Whether it is on the way to being ready.
    pub(crate) const fn is_starting(self) -> bool {
        matches!(self, Self::Starting | Self::Handshaking)
    }
}

/// A worker, as those see it who use it.
pub(crate) struct Worker {
    upstream: Arc<str>,
    pub(crate) number: usize,
    inbox: mpsc::UnboundedSender<Command>,
    pub(crate) in_flight: Places,
    /// When it was last used, as a place in the order of all uses of its pool.
    pub(crate) used: AtomicU64,
    /// As `status` has it, for those who must be fast.
    state: AtomicU8,
    status: StatusWatch,
    pub(crate) timeouts: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) restarts: AtomicU32,
    /// When it was started again, within the window of the budget.
    starts: Mutex<Restarts>,
    /// Answers that came after their call had ended, or to no call at all.
    pub(crate) late: AtomicU64,
    /// Lines on its stdout that were no messages.
    pub(crate) strays: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) peer: ArcSwapOption<Peer>,
    /// A modern upstream has agreed to tell of changes, and still does.
    pub(crate) is_told: AtomicBool,
    pub(crate) lane: LaneOf,
    pub(crate) greeting: Greeting,
    /// 1 while a probe is under way.
    pub(crate) probing: AtomicU8,
    /// When it was probed, or made.
    probed: Mutex<Instant>,
    pub(super) life: AtomicU32,
    /// What it was told that its clients want to hear of.
    told: Mutex<Told>,
}

/// What is wanted of a worker's connection.
pub(crate) enum Command {
    /// A call is to be sent, and has this place for it.
    Call(Arc<Call>, Place),
    /// Nobody waits any more for the call that holds this.
    Cancel(Box<Sent>),
    /// A request of the gateway itself: method, parameters, patience, who waits.
    Ask(Method, Vec<u8>, Duration, Waiting),
    /// A question of the upstream that was put to this caller and not answered, on the connection
    /// on which it was asked.
    Asked(u32, Caller, Method, Box<Message>),
    /// The answer to a question of the upstream, on the connection on which it was asked.
    Reply(u32, Id, Result<Bytes, ErrorObject>),
    /// The parameters of the one `subscriptions/listen` of a modern upstream.
    Listen(Vec<u8>),
    /// A whole notification of its client's, on the connection that it is for.
    Note(u32, Vec<u8>),
    /// Take no more calls, and end when idle or when the time has come.
    Leave(Instant),
}

pub(crate) type Waiting = oneshot::Sender<Result<Bytes, ErrorObject>>;

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

    /// Takes a place for one call, if there are fewer than `max`.
    pub(crate) fn reserve(&self, max: usize) -> bool {
        self.in_flight.take(max)
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
