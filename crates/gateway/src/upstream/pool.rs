//! The workers of one upstream, and which of them gets a call.
//!
//! A *lane* is a set of workers with one queue. `shared` and `exclusive` have one lane for
//! everybody; the keyed modes have a lane of one worker for each session or principal. A call that
//! finds a free place goes to its worker at once, without a lock; else it waits in the lane's queue,
//! where callers take turns.

use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use mcplane::proto::error::ErrorObject;
use mcplane::proto::method::Method;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::asker::Asker;
use super::call::Call;
use super::cause::{Cause, Notice};
use super::keyed::NoLane;
use super::keys::{Key, Keys};
use super::learned::Learned;
use super::model::{
    Command, Lane, Other, Place, Pool, Shared, Side, Times, Tools, Worker, WorkerEvent,
};
use super::state::State;
use super::status::StatusWatch;
use super::worker::unavailable;
use super::{Common, maintenance, supervise};
use crate::clock;
use crate::config::{Gateway, Server};
use crate::era::asked::Questions;
use crate::failure::Failure;
use crate::settle::Tally;

/// Timeouts in a row after which a worker gets nothing before it has answered a probe.
const TIMEOUTS_MAX: u32 = 3;

impl Times {
    pub(crate) fn of(settings: &Gateway, server: &Server) -> Self {
        Self {
            call: server.call_timeout.unwrap_or(settings.call_timeout).limit(),
            question: settings.question_timeout.duration(),
            list: settings.list_deadline.duration(),
            list_age: settings.list_max_age.limit(),
        }
    }
}

impl Pool {
    /// Of an upstream that may take the place of the one `before`.
    pub(crate) fn new(
        (name, settings): (Arc<str>, Server),
        times: Times,
        common: &Common,
        before: Option<&Self>,
        heard: mpsc::Sender<WorkerEvent>,
    ) -> Arc<Self> {
        let tools = before.map(|before| &before.shared.tools);
        let tools = tools.filter(|tools| tools.have(&settings.tools.concurrency)).cloned();
        let tools = tools.unwrap_or_else(|| Arc::new(Tools::new(&settings.tools.concurrency)));
        let parking = before.map(|before| Arc::clone(&before.shared.questions.parking));
        let shared = Shared {
            times: Arc::new(ArcSwap::from_pointee(times)),
            starts: Arc::clone(&common.starts),
            connect: Arc::clone(&common.connect),
            seal: common.seal.clone(),
            tools,
            numbers: Arc::default(),
            heard,
            questions: Arc::new(Questions::with(parking.unwrap_or_default())),
            blame: Arc::default(),
            asker: Arc::new(Asker::new(&settings.tools.asks)),
            has_levels: Arc::default(),
            unowned: Arc::default(),
            refused: Arc::default(),
            tally: Arc::new(Tally::of(Arc::clone(&name))),
            drain: Arc::default(),
            successor: Arc::default(),
            name,
        };
        Self::build(settings, Side::Own, shared)
    }

    /// Another pool of the same upstream.
    pub(super) fn sibling(&self, settings: Server, side: Side) -> Arc<Self> {
        Self::build(settings, side, self.shared.clone())
    }

    fn build(settings: Server, side: Side, shared: Shared) -> Arc<Self> {
        let (alive, gone) = mpsc::channel(1);
        Arc::new_cyclic(|pool| Self {
            given_up: AtomicBool::new(false),
            has_speaker: AtomicBool::new(false),
            places: Arc::new(Semaphore::new(settings.workers_limit() as usize)),
            common: Arc::new(Lane::new(pool.clone(), Arc::clone(&shared.drain), None, None)),
            keyed: Mutex::new(Keys::new(settings.workers_limit() as usize)),
            hasher: RandomState::new(),
            clock: AtomicU64::new(0),
            asks: AtomicBool::new(false),
            learned: Learned::new(settings.revision),
            answers_probes: AtomicBool::new(false),
            status: StatusWatch::default(),
            closing: watch::Sender::new(false),
            closed: OnceLock::new(),
            alive: Mutex::new(Some(alive)),
            gone: tokio::sync::Mutex::new(gone),
            side,
            legacy: Other::default(),
            alone: Other::default(),
            settings,
            shared,
        })
    }

    /// Starts the workers that are to be warm before the first call.
    pub(crate) fn start(self: &Arc<Self>) {
        for _ in 0..self.settings.workers {
            self.add_worker(&self.common, None);
        }
        maintenance::start(self);
    }

    /// Ends every worker: calls in flight may finish until `deadline`, then processes are stopped.
    /// `why` is what calls hear that still wait, or come then.
    ///
    /// Every worker hears of it: none moves to another lane once it is said, and what is added to a
    /// lane finds that closed or is seen in it.
    pub(crate) async fn close(self: &Arc<Self>, deadline: Instant, why: &'static str) {
        self.take_no_more(why);
        for lane in self.lanes() {
            lane.close(|call| self.admit(call));
            lane.workers.load().iter().for_each(|worker| self.retire(worker, deadline));
        }
        for other in self.take_others() {
            Box::pin(other.close(deadline, why)).await;
        }
        drop(self.alive.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Nobody sends anything: this waits for the last sender to go.
        let _ = self.gone.lock().await.recv().await;
    }

    /// Says that it closes.
    pub(super) fn take_no_more(&self, why: &'static str) {
        let _ = self.closed.set(why);
        self.status.closing(why);
        self.closing.send_replace(true);
    }

    /// Waits until it closes. Cancel safe.
    pub(super) async fn closes(&self) {
        // The sender lives as long as `self`.
        let _ = self.closing.subscribe().wait_for(|closes| *closes).await;
    }

    /// What keeps [`Pool::close`] waiting; `None` once that has begun to.
    pub(super) fn hold(&self) -> Option<mpsc::Sender<()>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long a call may go without an answer.
    fn patience(&self) -> Option<Duration> {
        self.shared.times.load().call
    }

    /// The same of this call: its tool may have a time of its own.
    pub(super) fn patience_of(&self, call: &Call) -> Option<Duration> {
        let timeouts = &self.settings.tools.timeouts;
        let has_some = call.method == Method::ToolsCall && !timeouts.is_empty();
        let tool = has_some.then(|| call.own_name()).flatten();
        match tool.and_then(|tool| timeouts.get(&tool)) {
            Some(own) => own.limit(),
            None => self.patience(),
        }
    }

    /// The answer to an upstream that asks for roots outside of any call.
    pub(crate) fn roots(&self) -> Vec<u8> {
        let roots: Vec<_> =
            self.settings.roots.iter().map(|uri| serde_json::json!({"uri": uri})).collect();
        serde_json::json!({"roots": roots}).to_string().into_bytes()
    }

    /// Takes a call on that belongs to this pool.
    pub(super) fn admit_here(self: &Arc<Self>, call: Arc<Call>) {
        if let Some(why) = self.closed.get() {
            return match (&self.side, self.successor()) {
                (Side::Own, Some(successor)) => successor.admit(call),
                (Side::Own, None) => call.fail(&Failure::Closing(why)),
                (Side::Legacy(_) | Side::Alone(..), _) => self.admit(call),
            };
        }
        if self.refuses(&call) {
            return;
        }
        let lane = match self.lane(&call) {
            Ok(lane) => lane,
            // It closes since a moment ago, and says why.
            Err(NoLane::Closing) => return self.admit_here(call),
            Err(NoLane::Refused(failure)) => return call.fail(&failure),
        };
        match self.pick(&lane, &call.caller) {
            Some(place) => self.hand(place, call),
            None => {
                self.grow(&lane, &call.caller);
                self.enqueue(&lane, call);
            }
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

    /// A call goes somewhere else.
    pub(crate) fn again(self: &Arc<Self>, place: Place, call: Arc<Call>) {
        drop(place);
        self.admit(call);
    }

    /// The connection of a worker broke with this call in flight.
    pub(crate) fn broken(self: &Arc<Self>, call: &Arc<Call>, why: &str) {
        let place = {
            let mut life = call.life();
            let may_repeat = self.settings.retry && call.repeatable && life.sends() < 2;
            if may_repeat { life.requeue() } else { None }
        };
        match place {
            Some(place) => self.again(place, Arc::clone(call)),
            None => call.fail(&Failure::Lost(why.to_owned())),
        }
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

    pub(crate) fn hear(self: &Arc<Self>, heard: WorkerEvent) {
        if let WorkerEvent::Ready(worker) = &heard {
            if let Some(peer) = worker.peer.load_full() {
                self.learned.met(&peer);
            }
            self.status.ready();
            self.sort();
            self.make_room_for_speaker();
            if let Some(lane) = worker.lane.get() {
                self.advance(lane);
            }
        }
        self.tell_of(heard);
    }

    pub(super) fn tell_of(&self, heard: WorkerEvent) {
        let heard = self.word(heard);
        let is_vital = !matches!(heard, WorkerEvent::Updated(..) | WorkerEvent::Notice(_));
        super::tell(&self.shared.heard, heard, is_vital);
    }

    /// The calls that wait for a worker of this lane go on, as far as there is room.
    pub(crate) fn advance(self: &Arc<Self>, lane: &Arc<Lane>) {
        lane.queued.advance(
            |next| self.may_send(lane, next),
            |next| self.pick(lane, next),
            |place, next| match next {
                Some((_, call)) if call.is_to_be_sent() && !self.refuses(&call) => {
                    self.hand(place, call);
                }
                _ => place.give_back(),
            },
        );
        self.shared.drain.note_after_fence();
    }

    /// Calls that have waited for too long fail.
    pub(crate) fn expire_queues(&self) {
        let approval = self.settings.approval.duration();
        let patience = self.settings.queue_timeout.duration().max(approval);
        let cause = self.status.cause().map(|cause| cause.for_clients());
        let failure = Failure::WaitedForWorker { cause };
        let does_not_answer =
            |worker: &Arc<Worker>| matches!(worker.state(), State::Quarantined | State::Down);
        for lane in self.lanes() {
            // Where no worker is about to be ready, waiting is like waiting for an answer.
            let is_lost = lane.workers.load().iter().all(does_not_answer);
            let most = self.patience().filter(|_| is_lost).unwrap_or(patience);
            lane.expire(most.min(patience), |call| call.fail(&failure));
        }
        self.shared.drain.note();
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

    /// The same, and those of the pools beside this one.
    pub(crate) fn all_workers(&self) -> Vec<Arc<Worker>> {
        let mut all = self.workers();
        all.extend(self.others().flat_map(|other| other.all_workers()));
        all
    }

    pub(crate) fn queued(&self) -> usize {
        let here: usize = self.lanes().iter().map(|lane| lane.queued.load(Ordering::Relaxed)).sum();
        here + self.others().map(|other| other.queued()).sum::<usize>()
    }

    /// Whether no call runs or waits here.
    pub(crate) fn is_idle(&self) -> bool {
        let is_busy = |worker: &Arc<Worker>| worker.in_flight.load(Ordering::Acquire) > 0;
        self.shared.tools.waiting() == 0
            && self.queued() == 0
            && !self.workers().iter().any(is_busy)
            && self.others().all(|other| other.is_idle())
    }

    /// How often a worker was given a call.
    pub(super) fn uses(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Another upstream has its name from now on.
    pub(crate) fn make_way(&self, successor: &Arc<Self>) {
        let _ = self.shared.successor.set(Arc::clone(successor));
    }

    pub(super) fn successor(&self) -> Option<&Arc<Self>> {
        self.shared.successor.get()
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// A worker is gone for good.
    pub(crate) fn forget(&self, worker: &Arc<Worker>) {
        let lane = worker.lane.get().map_or(&self.common, |lane| lane);
        lane.remove(worker);
        self.common.remove(worker);
        if let Side::Alone(_, clients) = &self.side {
            clients.forget(worker.number);
        }
        self.status.forget(worker.number);
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
            let failure = Failure::NoWorker { cause: self.why_down() };
            lane.expire(Duration::ZERO, |call| call.fail(&failure));
            self.shared.drain.note();
        }
    }

    /// Ends a worker of no more use, and starts another one in its place: that is a restart too.
    /// What it works on may end within this time.
    pub(crate) fn replace(self: &Arc<Self>, worker: &Arc<Worker>, leave: Duration) {
        // Whoever lets it go, or starts it again, has decided already; its lane may be nobody's.
        if matches!(worker.state(), State::Leaving | State::Down) {
            return;
        }
        let lane = worker.lane.get().map_or(&self.common, |lane| lane);
        lane.remove(worker);
        self.retire(worker, clock::now() + leave);
        if !self.is_closing() {
            self.add_worker(lane, Some(worker));
        }
    }

    pub(super) fn add_worker(self: &Arc<Self>, lane: &Arc<Lane>, replaced: Option<&Worker>) {
        // Once `close` waits for those that there are, none comes.
        let Some(alive) = self.hold() else { return };
        let number = self.shared.numbers.fetch_add(1, Ordering::Relaxed);
        let name = Arc::clone(&self.shared.name);
        let (worker, commands) = Worker::new(name, number, self.status.clone());
        if let Some(old) = replaced {
            worker.succeed(old);
        }
        let is_spare = self.settings.mode.is_keyed() && Arc::ptr_eq(lane, &self.common);
        if !is_spare {
            let _ = worker.lane.set(Arc::clone(lane));
            worker.greeting.decide(lane.client.clone());
        }
        if !lane.add(&worker) {
            return self.forget(&worker);
        }
        supervise::spawn(self, worker, commands, alive, replaced.is_some());
    }

    pub(super) fn lanes(&self) -> Vec<Arc<Lane>> {
        let mut lanes = vec![Arc::clone(&self.common)];
        lanes.extend(self.keyed().all().cloned());
        lanes
    }

    pub(super) fn keyed(&self) -> MutexGuard<'_, Keys<Key, Arc<Lane>>> {
        self.keyed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why no worker of it runs, for clients.
    pub(super) fn why_down(&self) -> String {
        let cause = self.status.cause();
        cause.map_or_else(|| "no worker of it runs".to_owned(), |cause| cause.for_clients())
    }

    /// Something went wrong.
    pub(crate) fn failed(self: &Arc<Self>, cause: Cause) {
        let cause = Arc::new(cause);
        self.hear(WorkerEvent::Notice(Notice::Failed(Arc::clone(&cause))));
        self.status.failed(cause);
    }
}
