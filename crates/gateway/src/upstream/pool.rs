//! The workers of one upstream, and which of them gets a call.
//!
//! A *lane* is a set of workers with one queue. `shared` and `exclusive` have one lane for
//! everybody; the keyed modes have a lane of one worker for each session or principal. A call that
//! finds a free place goes to its worker at once, without a lock; else it waits in the lane's queue,
//! where callers take turns.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::method::Method;
use mcplane::server::relay::{Caller, Seal};
use mcplane::transport::process::mask_urls;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::call::Call;
use super::lane::Lane;
use super::start::Connect;
use super::supervise::{self, Learned};
use super::worker::{Command, State, Worker, unavailable};
use super::{Means, address};
use crate::clock;
use crate::config::{Mode, Policy, Server};
use crate::era::questions::Questions;

/// Timeouts in a row after which a worker gets nothing before it has answered a probe.
const TIMEOUTS_MAX: u32 = 3;

/// How long a worker that is told to leave may still work on its calls.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// What the upstream's task must know of.
pub(crate) enum Heard {
    Ready(Arc<Worker>),
    /// A spare worker has got a client.
    Taken(Arc<Worker>),
    ListsChanged(Arc<Worker>, Method),
    /// A client asks for lists that are too old.
    Stale,
    /// A modern upstream tells this worker of changes.
    Listening(Arc<Worker>),
    /// It does not any more, or would not. Whether it never will.
    ListenEnded(Arc<Worker>, bool),
    Updated(String),
    Trouble(String),
}

/// The workers of one upstream.
pub(crate) struct Pool {
    pub(crate) name: Arc<str>,
    pub(crate) settings: Server,
    call_timeout: Option<Duration>,
    /// How long a question may keep a place that others wait for.
    pub(crate) question_timeout: Duration,
    /// One for each worker that there may be: a worker has one until its process is gone.
    pub(crate) places: Arc<Semaphore>,
    /// How many processes the gateway starts at the same time.
    pub(crate) starts: Arc<Semaphore>,
    pub(crate) connect: Arc<dyn Connect>,
    /// What binds the states of a modern upstream to their clients.
    pub(crate) seal: Seal,
    /// The lane of `shared` and `exclusive`; of the keyed modes, the spare workers.
    common: Arc<Lane>,
    keyed: Mutex<HashMap<Key, Arc<Lane>>>,
    turns: HashMap<String, Arc<Semaphore>>,
    /// Calls that wait for one of them.
    pub(super) in_turn: AtomicUsize,
    hasher: RandomState,
    clock: AtomicU64,
    numbers: AtomicUsize,
    heard: mpsc::Sender<Heard>,
    pub(crate) questions: Arc<Questions>,
    /// Log messages and questions that could not be told whose they are.
    pub(crate) unowned: AtomicU64,
    /// The upstream has asked something that named no call.
    pub(crate) asks: AtomicBool,
    /// Calls that were refused because everything was full.
    pub(crate) refused: AtomicU64,
    pub(crate) learned: Learned,
    pub(crate) trouble: ArcSwapOption<Trouble>,
    pub(crate) closing: watch::Sender<Option<Instant>>,
    /// Why calls are refused, once it closes.
    closed: OnceLock<&'static str>,
    /// Held by every task of the pool: when the last is gone, so are its processes.
    pub(crate) alive: Mutex<Option<mpsc::Sender<()>>>,
    gone: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

/// What is wrong with an upstream.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// For clients: nothing about this machine.
    pub(crate) short: String,
    /// For whoever runs the gateway: command, exit code, last words.
    pub(crate) full: String,
}

/// Whose worker it is, in the keyed modes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Session(u64),
    Principal(Option<Arc<str>>),
}

impl Pool {
    pub(crate) fn new(
        name: Arc<str>,
        settings: Server,
        (call_timeout, question_timeout): (Option<Duration>, Duration),
        means: &Means,
        heard: mpsc::Sender<Heard>,
    ) -> Arc<Self> {
        let (alive, gone) = mpsc::channel(1);
        let turns = settings.tools.concurrency.iter();
        let turns =
            turns.map(|(tool, max)| (tool.clone(), Arc::new(Semaphore::new(*max as usize))));
        Arc::new(Self {
            name,
            turns: turns.collect(),
            in_turn: AtomicUsize::new(0),
            places: Arc::new(Semaphore::new(settings.workers_limit() as usize)),
            call_timeout,
            question_timeout,
            starts: Arc::clone(&means.starts),
            connect: Arc::clone(&means.connect),
            seal: means.seal.clone(),
            common: Arc::new(Lane::new()),
            keyed: Mutex::default(),
            hasher: RandomState::new(),
            clock: AtomicU64::new(0),
            numbers: AtomicUsize::new(0),
            heard,
            questions: Arc::default(),
            unowned: AtomicU64::new(0),
            asks: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            learned: Learned::new(settings.revision),
            trouble: ArcSwapOption::empty(),
            closing: watch::Sender::new(None),
            closed: OnceLock::new(),
            alive: Mutex::new(Some(alive)),
            gone: tokio::sync::Mutex::new(gone),
            settings,
        })
    }

    /// Starts the workers that are to be warm before the first call.
    pub(crate) fn start(self: &Arc<Self>) {
        for _ in 0..self.settings.workers {
            self.add_worker(&self.common, None);
        }
        supervise::tend(self);
    }

    /// Ends every worker: calls in flight may finish until `deadline`, then processes are stopped.
    /// `why` is what calls hear that still wait, or come then.
    pub(crate) async fn close(&self, deadline: Instant, why: &'static str) {
        let _ = self.closed.set(why);
        self.closing.send_replace(Some(deadline));
        for worker in self.workers() {
            self.retire(&worker, deadline);
        }
        for lane in self.lanes() {
            lane.close(|call| call.fail(&unavailable(why)));
        }
        drop(self.alive.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Nobody sends anything: this waits for the last sender to go.
        let _ = self.gone.lock().await.recv().await;
    }

    /// How long a call may go without an answer.
    pub(crate) const fn patience(&self) -> Option<Duration> {
        self.call_timeout
    }

    /// The answer to an upstream that asks for roots outside of any call.
    pub(crate) fn roots(&self) -> Vec<u8> {
        let roots: Vec<_> =
            self.settings.roots.iter().map(|uri| serde_json::json!({"uri": uri})).collect();
        serde_json::json!({"roots": roots}).to_string().into_bytes()
    }

    /// Takes a call on: to a worker, or into the queue. It ends with an error if there is no room.
    pub(crate) fn submit(self: &Arc<Self>, call: Arc<Call>, tool: Option<&str>) {
        if let Some(turns) = tool.and_then(|tool| self.turns.get(tool)) {
            call.seat().turns = Some(Arc::clone(turns));
        }
        self.resubmit(call);
    }

    /// Sends a call, for the first time or again, when it is its turn.
    pub(crate) fn resubmit(self: &Arc<Self>, call: Arc<Call>) {
        let turns = {
            let seat = call.seat();
            seat.turns.clone().filter(|_| seat.turn.is_none())
        };
        match turns {
            None => self.admit(call),
            Some(turns) => self.take_turn(call, turns),
        }
    }

    pub(super) fn admit(self: &Arc<Self>, call: Arc<Call>) {
        if let Some(why) = self.closed.get() {
            return call.fail(&unavailable(why));
        }
        let lane = match self.lane(&call.caller) {
            Ok(lane) => lane,
            Err(error) => return call.fail(&error),
        };
        match self.pick(&lane, &call.caller) {
            Some(worker) => self.hand(&worker, call),
            None => self.enqueue(&lane, call),
        }
    }

    /// Asks a worker something on the gateway's own account.
    ///
    /// # Errors
    /// What the upstream answered, or that it did not.
    pub(crate) async fn ask(
        &self,
        worker: &Worker,
        method: Method,
        params: Vec<u8>,
        patience: Duration,
    ) -> Result<Bytes, ErrorObject> {
        let (waiting, answer) = oneshot::channel();
        let gone = || unavailable("its worker has ended");
        worker.send(Command::Ask(method, params, patience, waiting)).map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// A call of this worker has ended: its place is free, and its turn is over.
    pub(crate) fn release(self: &Arc<Self>, worker: &Arc<Worker>, call: &Call) {
        let turn = call.seat().turn.take();
        drop(turn);
        self.leave_place(worker, call);
    }

    /// A call leaves its worker and keeps its turn.
    fn leave_place(self: &Arc<Self>, worker: &Arc<Worker>, call: &Call) {
        call.seat().worker = None;
        worker.in_flight.fetch_sub(1, Ordering::AcqRel);
        if let Some(lane) = worker.lane.get() {
            self.advance(lane);
        }
    }

    /// A call goes somewhere else.
    pub(crate) fn again(self: &Arc<Self>, worker: &Arc<Worker>, call: Arc<Call>) {
        self.leave_place(worker, &call);
        self.admit(call);
    }

    /// The connection of a worker broke with this call in flight.
    pub(crate) fn broken(self: &Arc<Self>, worker: &Arc<Worker>, call: &Arc<Call>, why: &str) {
        let may_repeat = self.settings.retry
            && call.repeatable
            && call.sent.load(Ordering::Relaxed) < 2
            && call.seat().request.is_some();
        if may_repeat {
            return self.again(worker, Arc::clone(call));
        }
        self.release(worker, call);
        call.fail(&unavailable(&format!("{why}; the call may or may not have had its effect")));
    }

    /// A worker let a call time out.
    pub(crate) fn timed_out(&self, worker: &Worker) {
        let state = match worker.timeouts.fetch_add(1, Ordering::AcqRel) + 1 {
            TIMEOUTS_MAX.. => State::Quarantined,
            _ => State::Degraded,
        };
        if matches!(worker.state(), State::Healthy | State::Degraded) {
            worker.set_state(state);
        }
    }

    pub(crate) fn hear(self: &Arc<Self>, heard: Heard) {
        if let Heard::Ready(worker) = &heard {
            self.trouble.store(None);
            if let Some(peer) = worker.peer.load_full() {
                self.learned.met(&peer);
            }
            if let Some(lane) = worker.lane.get() {
                self.advance(lane);
            }
        }
        let is_vital = !matches!(heard, Heard::Updated(_) | Heard::Trouble(_));
        super::tell(&self.heard, heard, is_vital);
    }

    /// Something is wrong.
    pub(crate) fn troubled(self: &Arc<Self>, trouble: Trouble) {
        let short = address::hidden(&trouble.short, self).into_owned();
        let trouble = Trouble { short, full: mask_urls(&trouble.full) };
        self.hear(Heard::Trouble(trouble.full.clone()));
        self.trouble.store(Some(Arc::new(trouble)));
    }

    /// A trouble that began like this is over.
    pub(crate) fn recovered(&self, from: &str) {
        if self.trouble.load().as_ref().is_some_and(|trouble| trouble.short.starts_with(from)) {
            self.trouble.store(None);
        }
    }

    /// The calls that wait for a worker of this lane go on, as far as there is room.
    pub(crate) fn advance(self: &Arc<Self>, lane: &Arc<Lane>) {
        while lane.queued.load(Ordering::Acquire) > 0 {
            let Some(next) = lane.peek() else { return };
            let Some(worker) = self.pick(lane, &next) else { return };
            match lane.pop() {
                Some(call) if call.is_wanted() => self.hand(&worker, call),
                _ => drop(worker.in_flight.fetch_sub(1, Ordering::AcqRel)),
            }
        }
    }

    /// Calls that have waited for too long fail.
    pub(crate) fn expire_queues(&self, patience: Duration) {
        let why = match self.trouble.load_full() {
            Some(trouble) => format!("the call waited too long for a worker; {}", trouble.short),
            None => "the call waited too long for a worker".to_owned(),
        };
        let does_not_answer =
            |worker: &Arc<Worker>| matches!(worker.state(), State::Quarantined | State::Down);
        for lane in self.lanes() {
            // Where no worker is about to be ready, waiting is like waiting for an answer.
            let is_lost = lane.workers.load().iter().all(does_not_answer);
            let most = self.call_timeout.filter(|_| is_lost).unwrap_or(patience);
            lane.expire(most.min(patience), |call| call.fail(&unavailable(&why)));
        }
    }

    /// A connection that lasted has ended.
    pub(crate) fn ended(self: &Arc<Self>, caller: &Caller) {
        let (Mode::PerSession, Some(connection)) = (self.settings.mode, caller.connection) else {
            return;
        };
        let (lane, left) = {
            let mut keyed = self.keyed();
            (keyed.remove(&Key::Session(connection)), keyed.len())
        };
        lane.into_iter().for_each(|lane| self.leave(&lane));
        self.restock(left);
    }

    /// Stops the workers of keys that have been idle for too long.
    pub(crate) fn stop_idle(self: &Arc<Self>, after: Duration) {
        let (idle, left): (Vec<_>, _) = {
            let mut keyed = self.keyed();
            let is_idle = |lane: &Lane| lane.is_idle() && lane.idle_for() >= after;
            let idle = keyed.extract_if(|_, lane| is_idle(lane)).map(|(_, lane)| lane).collect();
            (idle, keyed.len())
        };
        idle.iter().for_each(|lane| self.leave(lane));
        self.restock(left);
    }

    /// The worker that a caller watches resources through; all of them if they are shared.
    pub(crate) fn workers_of(&self, caller: &Caller) -> Vec<Arc<Worker>> {
        if !self.settings.mode.is_keyed() {
            return self.common.workers.load().to_vec();
        }
        let Some(key) = self.key(caller) else { return Vec::new() };
        self.keyed().get(&key).map(|lane| lane.workers.load().to_vec()).unwrap_or_default()
    }

    /// Every worker there is.
    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        let mut all = Vec::new();
        for lane in self.lanes() {
            all.extend(lane.workers.load().iter().cloned());
        }
        all.sort_by_key(|worker| worker.number);
        all
    }

    pub(crate) fn queued(&self) -> usize {
        self.lanes().iter().map(|lane| lane.queued.load(Ordering::Relaxed)).sum()
    }

    /// Whether no call runs or waits here.
    pub(crate) fn is_idle(&self) -> bool {
        let is_busy = |worker: &Arc<Worker>| worker.in_flight.load(Ordering::Acquire) > 0;
        self.in_turn.load(Ordering::Acquire) == 0
            && self.queued() == 0
            && !self.workers().iter().any(is_busy)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closed.get().is_some()
    }

    /// A worker is gone for good.
    pub(crate) fn forget(&self, worker: &Arc<Worker>) {
        let lane = worker.lane.get().map_or(&self.common, |lane| lane);
        lane.remove(worker);
        self.common.remove(worker);
    }

    /// Ends a worker when it is idle, or at the deadline.
    pub(crate) fn retire(&self, worker: &Arc<Worker>, deadline: Instant) {
        worker.set_state(State::Leaving);
        let _ = worker.send(Command::Leave(deadline));
    }

    /// A worker will not be there soon: calls that wait fail, unless another one may take them.
    pub(crate) fn give_up(&self, worker: &Worker) {
        let lane = worker.lane.get().map_or(&self.common, |lane| lane);
        let is_no_use =
            |other: &Arc<Worker>| other.number == worker.number || other.state() == State::Down;
        if lane.workers.load().iter().all(is_no_use) {
            let trouble = self.trouble.load_full();
            let why = trouble.as_ref().map_or("no worker of it runs", |trouble| &trouble.short);
            lane.expire(Duration::ZERO, |call| call.fail(&unavailable(why)));
        }
    }

    /// Ends a worker of no more use, and starts another one in its place: that is a restart too.
    pub(crate) fn replace(self: &Arc<Self>, worker: &Arc<Worker>) {
        let lane = worker.lane.get().map_or(&self.common, |lane| lane);
        lane.remove(worker);
        self.retire(worker, clock::now() + LEAVE_TIME);
        if !self.is_closing() {
            self.add_worker(lane, Some(worker));
        }
    }

    fn leave(&self, lane: &Lane) {
        let deadline = clock::now() + LEAVE_TIME;
        lane.workers.load().iter().for_each(|worker| self.retire(worker, deadline));
        lane.close(|call| call.fail(&unavailable("its session has ended")));
    }

    fn hand(self: &Arc<Self>, worker: &Arc<Worker>, call: Arc<Call>) {
        worker.used.store(self.clock.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        if let Err(Command::Call(call)) = worker.send(Command::Call(call)) {
            self.again(worker, call);
        }
    }

    /// The lane of a caller. A keyed one is made when it is first needed.
    fn lane(self: &Arc<Self>, caller: &Caller) -> Result<Arc<Lane>, ErrorObject> {
        if !self.settings.mode.is_keyed() {
            return Ok(Arc::clone(&self.common));
        }
        let Some(key) = self.key(caller) else {
            let why = format!(
                "server `{}` has a worker for each session, and this request belongs to none: use \
                 a connection that lasts, authenticate, or set mode = \"exclusive\"",
                self.name
            );
            return Err(ErrorObject::new(Code::INVALID_REQUEST, why));
        };
        let mut keyed = self.keyed();
        if let Some(lane) = keyed.get(&key) {
            lane.touch();
            return Ok(Arc::clone(lane));
        }
        let max = self.settings.workers_limit() as usize;
        if keyed.len() >= max {
            let idle = keyed.iter().filter(|(_, lane)| lane.is_idle());
            let oldest = idle.max_by_key(|(_, lane)| lane.idle_for()).map(|(key, _)| key.clone());
            match oldest.and_then(|key| keyed.remove(&key)) {
                Some(lane) => self.leave(&lane),
                None => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    let why = format!("all {max} workers of server `{}` are taken", self.name);
                    return Err(ErrorObject::new(Code::OVERLOADED, why));
                }
            }
        }
        let lane = Arc::new(Lane::new());
        match self.common.take() {
            Some(spare) => {
                let _ = spare.lane.set(Arc::clone(&lane));
                self.hear(Heard::Taken(Arc::clone(&spare)));
                lane.add(spare);
            }
            None => self.add_worker(&lane, None),
        }
        keyed.insert(key, Arc::clone(&lane));
        self.restock(keyed.len());
        Ok(lane)
    }

    /// Spare workers for the next keys, as far as there is room beside those that are in use.
    fn restock(self: &Arc<Self>, keys: usize) {
        let room = (self.settings.workers_limit() as usize).saturating_sub(keys);
        let spare = self.common.workers.load().len();
        let wanted = room.min(self.settings.workers as usize);
        (spare..wanted).for_each(|_| self.add_worker(&self.common, None));
    }

    pub(super) fn key(&self, caller: &Caller) -> Option<Key> {
        let principal = || Key::Principal(caller.principal.clone());
        match (self.settings.mode, caller.connection) {
            (Mode::PerSession, Some(connection)) => Some(Key::Session(connection)),
            (Mode::PerSession, None) => caller.principal.is_some().then(principal),
            _ => Some(principal()),
        }
    }

    fn add_worker(self: &Arc<Self>, lane: &Arc<Lane>, replaced: Option<&Worker>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (worker, commands) = Worker::new(number);
        if let Some(old) = replaced {
            worker.succeed(old);
        }
        let is_spare = self.settings.mode.is_keyed() && Arc::ptr_eq(lane, &self.common);
        if !is_spare {
            let _ = worker.lane.set(Arc::clone(lane));
        }
        lane.add(Arc::clone(&worker));
        supervise::spawn(self, worker, commands, replaced.is_some());
    }

    /// A worker with a free place, which is taken.
    fn pick(&self, lane: &Lane, caller: &Caller) -> Option<Arc<Worker>> {
        let workers = lane.workers.load();
        [State::Healthy, State::Degraded]
            .into_iter()
            .find_map(|state| self.pick_among(&workers, state, caller))
    }

    fn pick_among(
        &self,
        workers: &[Arc<Worker>],
        state: State,
        caller: &Caller,
    ) -> Option<Arc<Worker>> {
        let max = self.settings.calls_limit() as usize;
        let load = |worker: &Arc<Worker>| worker.in_flight.load(Ordering::Acquire);
        let usable = |worker: &&Arc<Worker>| worker.state() == state;
        let at = |number: u64| {
            let len = workers.len() as u64;
            workers.get(usize::try_from(number.checked_rem(len)?).ok()?).filter(|w| usable(w))
        };
        let tick = || self.clock.fetch_add(1, Ordering::Relaxed);
        let first = match self.settings.policy {
            Policy::RecentIdle => {
                let idle = workers.iter().filter(usable).filter(|worker| load(worker) == 0);
                let recent = idle.max_by_key(|worker| worker.used.load(Ordering::Relaxed));
                // Somebody else may have been faster.
                recent.filter(|worker| worker.reserve(1)).map(|worker| (worker, true))
            }
            Policy::LeastBusy => None,
            Policy::TwoChoices => {
                let dice = self.hasher.hash_one(tick());
                let (a, b) = (at(dice), at(dice >> 32));
                a.into_iter().chain(b).min_by_key(|worker| load(worker)).map(|w| (w, false))
            }
            Policy::RoundRobin => at(tick()).map(|worker| (worker, false)),
            Policy::Sticky => at(self.hasher.hash_one(caller)).map(|worker| (worker, false)),
        };
        if let Some((worker, is_reserved)) = first
            && (is_reserved || worker.reserve(max))
        {
            return Some(Arc::clone(worker));
        }
        loop {
            let least = workers.iter().filter(usable).min_by_key(|worker| load(worker))?;
            if least.reserve(max) {
                return Some(Arc::clone(least));
            }
            if load(least) >= max {
                return None;
            }
        }
    }

    fn lanes(&self) -> Vec<Arc<Lane>> {
        let mut lanes = vec![Arc::clone(&self.common)];
        lanes.extend(self.keyed().values().cloned());
        lanes
    }

    pub(super) fn keyed(&self) -> MutexGuard<'_, HashMap<Key, Arc<Lane>>> {
        self.keyed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
