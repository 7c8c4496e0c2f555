//! What keeps workers alive: starting, restarting with a pause and a budget, probing, and stopping
//! those that are idle or too big.

use std::hash::RandomState;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use mcplane::proto::method::Method;
use mcplane::proto::session::{ClientConfig, EraChoice, HandshakeError, Ids, Peer};
use mcplane::proto::types::{ClientCapabilities, Implementation};
use mcplane::proto::version::{Era, Revision};
use mcplane::transport::process::{Running, Tree};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{interval, sleep, sleep_until, timeout_at};

use super::address;
use super::drive::{Drive, End};
use super::pool::{Pool, Trouble};
use super::start::Connected;
use super::worker::{Command, State, Worker, is_modern, unavailable};
use crate::clock;
use crate::config::Speaks;

/// How long a process may take to end after it has closed its stdout, to tell how it ended.
const EXIT_WAIT: Duration = Duration::from_millis(500);

/// How long a call may wait for a worker that is ready.
pub(super) const QUEUE_TIME_MAX: Duration = Duration::from_secs(60);

/// How long the handshake may take, unless a person must approve the server first.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(30);

/// The pause before a start that is not to be.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A pause that is worth waiting for. During a longer one calls fail at once.
const SHORT_PAUSE: Duration = Duration::from_secs(2);

/// A handshake that takes longer waits for somebody, most likely a person: where the settings expect
/// one, and where they do not.
pub(crate) const APPROVAL_AFTER: (Duration, Duration) =
    (Duration::from_secs(3), Duration::from_secs(15));

/// The pause before a quarantined worker is probed, and how long the probe may take.
const PROBE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(2));

/// Probes without an answer after which a worker is replaced.
const PROBES_MAX: u32 = 3;

/// What [`Learned`] has of a modern upstream: this, and the place of its revision among all.
const MODERN: u8 = 2;

/// What the gateway has learned of what an upstream speaks, so that it is asked only once.
pub(crate) struct Learned(AtomicU8, Speaks);

impl Learned {
    pub(crate) const fn new(said: Speaks) -> Self {
        Self(AtomicU8::new(0), said)
    }

    pub(crate) fn met(&self, peer: &Peer) {
        let at = Revision::ALL.iter().position(|known| *known == peer.revision).unwrap_or(0);
        let modern = u8::try_from(at).unwrap_or(0).saturating_add(MODERN);
        self.0.store(if is_modern(peer.revision) { modern } else { 1 }, Ordering::Relaxed);
    }

    fn is_legacy(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    fn choice(&self) -> EraChoice {
        match (self.1, self.0.load(Ordering::Relaxed)) {
            (Speaks::Revision(revision), _) => EraChoice::Only(revision),
            (Speaks::Legacy, _) | (Speaks::Auto, 1) => EraChoice::Legacy,
            (Speaks::Auto, met) => {
                let at = met.checked_sub(MODERN).map(usize::from);
                let revision = at.and_then(|at| Revision::ALL.get(at));
                revision.map_or(EraChoice::Auto, |revision| EraChoice::Only(*revision))
            }
        }
    }
}

/// Starts a worker, and keeps starting it until the pool closes or the worker is let go. To take
/// another one's place is to be started again: that may need a pause first.
pub(super) fn spawn(
    pool: &Arc<Pool>,
    worker: Arc<Worker>,
    commands: mpsc::UnboundedReceiver<Command>,
    replaces: bool,
) {
    let pool = Arc::clone(pool);
    let alive = pool.alive.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if alive.is_none() {
        return;
    }
    tokio::spawn(async move {
        let mut supervisor = Supervisor { commands, place: None };
        supervisor.run(&pool, &worker, replaces).await;
        worker.set_state(State::Down);
        pool.forget(&worker);
        // Who sends something from now on learns that nobody takes it.
        supervisor.commands.close();
        supervisor.give_back(&pool, &worker);
        drop(alive);
    });
}

struct Supervisor {
    commands: mpsc::UnboundedReceiver<Command>,
    /// Among the workers that there may be.
    place: Option<Arc<OwnedSemaphorePermit>>,
}

impl Supervisor {
    async fn run(&mut self, pool: &Arc<Pool>, worker: &Arc<Worker>, replaces: bool) {
        let mut closing = pool.closing.subscribe();
        if replaces && (pool.is_closing() || !self.pause(pool, worker, true, &mut closing).await) {
            return;
        }
        self.place = tokio::select! {
            place = Arc::clone(&pool.places).acquire_owned() => place.ok().map(Arc::new),
            _ = closing.changed() => return,
        };
        self.wait_for_first(pool, worker, &mut closing).await;
        loop {
            if pool.is_closing() || worker.state() == State::Leaving {
                return;
            }
            let began = clock::now();
            let (end, report, was_ready) = self.live(pool, worker, &mut closing).await;
            let is_late = matches!(&end, End::Refused(HandshakeError::TimedOut { .. }));
            let short = match end {
                End::Left => return,
                End::Respawn => {
                    pool.learned.is_legacy();
                    continue;
                }
                End::Fresh => {
                    worker.restarts.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                End::Refused(error) => error.to_string(),
                End::Broken(why) => why,
            };
            let full = report.map_or_else(|| short.clone(), |report| format!("{short}: {report}"));
            pool.troubled(Trouble { short, full });
            self.give_back(pool, worker);
            if is_late {
                pool.give_up(worker);
            }
            let lived = was_ready && clock::now().duration_since(began) > Duration::from_secs(1);
            if !self.pause(pool, worker, lived, &mut closing).await {
                return;
            }
        }
    }

    /// The first worker goes ahead: should a person have to approve the server, once is enough, and
    /// what it speaks has to be found out only once.
    async fn wait_for_first(
        &self,
        pool: &Pool,
        worker: &Worker,
        closing: &mut watch::Receiver<Option<Instant>>,
    ) {
        // The first may have been let go: then the next one goes ahead.
        let is_first = || pool.workers().first().is_none_or(|w| w.number >= worker.number);
        while !is_first() && pool.learned.0.load(Ordering::Relaxed) == 0 {
            let first_failed = pool.trouble.load().is_some();
            if first_failed || pool.is_closing() || worker.state() == State::Leaving {
                return;
            }
            tokio::select! {
                _ = closing.changed() => return,
                () = sleep(Duration::from_millis(10)) => {}
            }
        }
    }

    /// One life of the worker. Tells how it ended, what there is to say about that on this machine,
    /// and whether it was ever ready.
    async fn live(
        &mut self,
        pool: &Arc<Pool>,
        worker: &Arc<Worker>,
        closing: &mut watch::Receiver<Option<Instant>>,
    ) -> (End, Option<String>, bool) {
        let permit = tokio::select! {
            permit = Arc::clone(&pool.starts).acquire_owned() => permit.ok(),
            _ = closing.changed() => return (End::Left, None, false),
        };
        if worker.state() != State::Leaving {
            worker.set_state(State::Starting);
        }
        let connected = tokio::select! {
            connected = pool.connect.connect(&pool.name, &pool.settings) => connected,
            _ = closing.changed() => return (End::Left, None, false),
        };
        let Connected { mut reader, mut writer, mut running } = match connected {
            Ok(connected) => connected,
            Err(error) => {
                let end = End::Broken("it cannot be started or reached".into());
                return (end, Some(error.to_string()), false);
            }
        };
        worker.pid.store(running.as_ref().map_or(0, Running::pid), Ordering::Relaxed);
        let mut drive = Drive::new(worker, pool, client_config(pool), permit);
        let mut end = tokio::select! {
            end = drive.run(&mut reader, &mut writer, &mut self.commands) => end,
            () = ended(&mut running) => End::Broken("it has ended".into()),
        };
        let (was_ready, leaves) =
            (worker.state() != State::Starting, worker.state() == State::Leaving);
        // Calls that come now may wait for the next start.
        worker.set_state(if leaves { State::Leaving } else { State::Starting });
        worker.pid.store(0, Ordering::Relaxed);
        drop((reader, writer));
        let mut report = None;
        if let Some(mut running) = running {
            if matches!(end, End::Broken(_) | End::Refused(HandshakeError::Closed { .. })) {
                running.ended_within(EXIT_WAIT).await;
            }
            if let (End::Broken(why), Some(exit)) = (&mut end, running.report().exit) {
                *why = format!("{why}; its process {exit}");
            }
            report = Some(running.report().to_string());
            stop(pool, running, self.place.clone());
        }
        drive.abandon(&match &end {
            End::Broken(why) => address::hidden(why, pool),
            _ => "it was stopped".into(),
        });
        // However it ended, another one has its place already.
        (if leaves { End::Left } else { end }, report, was_ready)
    }

    /// Waits until the worker may be started again. `false` if it is to end instead.
    async fn pause(
        &mut self,
        pool: &Arc<Pool>,
        worker: &Arc<Worker>,
        lived: bool,
        closing: &mut watch::Receiver<Option<Instant>>,
    ) -> bool {
        let pause = pause_before_next(pool, worker, lived);
        if pause > SHORT_PAUSE {
            worker.set_state(State::Down);
            pool.give_up(worker);
        }
        if pause > Duration::ZERO && !self.rest(pool, worker, pause, closing).await {
            return false;
        }
        worker.restarts.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Waits out a pause. What is asked of the worker meanwhile goes elsewhere. `false` if it is to
    /// end instead.
    async fn rest(
        &mut self,
        pool: &Arc<Pool>,
        worker: &Arc<Worker>,
        pause: Duration,
        closing: &mut watch::Receiver<Option<Instant>>,
    ) -> bool {
        let until = tokio::time::Instant::now() + pause;
        loop {
            tokio::select! {
                () = sleep_until(until) => return true,
                _ = closing.changed() => return false,
                command = self.commands.recv() => match command {
                    Some(Command::Leave(_)) | None => return false,
                    Some(command) => turn_away(pool, worker, command),
                },
            }
        }
    }

    /// What was asked of the worker and not begun goes elsewhere.
    fn give_back(&mut self, pool: &Arc<Pool>, worker: &Arc<Worker>) {
        while let Ok(command) = self.commands.try_recv() {
            turn_away(pool, worker, command);
        }
    }
}

/// How long to wait before the next start: not at all for one that lived, then longer each time.
fn pause_before_next(pool: &Pool, worker: &Worker, lived: bool) -> Duration {
    let restart = &pool.settings.restart;
    let (now, window) = (clock::now(), restart.window.duration());
    let mut starts = worker.starts();
    while starts.front().is_some_and(|at| now.duration_since(*at) > window) {
        starts.pop_front();
    }
    if restart.budget == 0 {
        return NEVER;
    }
    let recent = starts.len();
    starts.push_back(now);
    if recent >= restart.budget as usize {
        let oldest = starts.front().map_or(window, |at| now.duration_since(*at));
        return window.saturating_sub(oldest).max(restart.longest.duration());
    }
    if lived && recent == 0 {
        return Duration::ZERO;
    }
    let doubled = 1u32.checked_shl(u32::try_from(recent).unwrap_or(31).min(16)).unwrap_or(1);
    restart.first.duration().saturating_mul(doubled).min(restart.longest.duration())
}

fn turn_away(pool: &Arc<Pool>, worker: &Arc<Worker>, command: Command) {
    match command {
        Command::Call(call) => pool.again(worker, call),
        Command::Ask(_, _, _, waiting) => {
            let _ = waiting.send(Err(unavailable("its worker is being started again")));
        }
        _ => {}
    }
}

/// Comes when a process has ended and what it said last has been read. Its end is the end of its
/// group; a child that has left the group may hold its stdout open for ever.
async fn ended(running: &mut Option<Running>) {
    let Some(running) = running else { return std::future::pending().await };
    running.ended_within(Duration::MAX).await;
    sleep(EXIT_WAIT).await;
}

/// Stops a process beside the worker's next start. The pool waits for it at its end.
fn stop(pool: &Pool, mut running: Running, place: Option<Arc<OwnedSemaphorePermit>>) {
    let alive = pool.alive.lock().unwrap_or_else(PoisonError::into_inner).clone();
    tokio::spawn(async move {
        running.stop().await;
        drop((place, alive));
    });
}

/// What the gateway says of itself to upstreams. It declares all that some client may be able to
/// do; a question that the client at hand cannot answer is refused.
fn client_config(pool: &Pool) -> ClientConfig {
    let capabilities = ClientCapabilities::new()
        .with_elicitation_form()
        .with_elicitation_url()
        .with_sampling()
        .with_sampling_tools()
        .with_roots(false);
    let approval = pool.settings.approval.duration();
    ClientConfig {
        info: Implementation::new("mcplane", env!("CARGO_PKG_VERSION")),
        capabilities,
        choice: pool.learned.choice(),
        timeout: if approval.is_zero() { HANDSHAKE_TIME_MAX } else { approval },
        // Clients share the connection, and servers can be talked into many things.
        ids: Ids::Keyed(RandomState::new()),
    }
}

/// The regular look at a pool: calls that waited too long, workers that are idle, too big, or
/// quarantined.
pub(super) fn tend(pool: &Arc<Pool>) {
    let pool = Arc::downgrade(pool);
    tokio::spawn(async move {
        let mut ticks = interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            let Some(pool) = pool.upgrade().filter(|pool| !pool.is_closing()) else { return };
            let approval = pool.settings.approval.duration();
            pool.expire_queues(QUEUE_TIME_MAX.max(approval));
            pool.questions.expire(pool.question_timeout);
            if let (true, Some(after)) =
                (pool.settings.mode.is_keyed(), pool.settings.idle_stop.limit())
            {
                pool.stop_idle(after);
            }
            for worker in pool.workers() {
                weigh(&pool, &worker).await;
                look_at(&pool, &worker);
            }
        }
    });
}

/// Replaces a worker whose processes use too much memory.
async fn weigh(pool: &Arc<Pool>, worker: &Arc<Worker>) {
    let pid = worker.pid.load(Ordering::Relaxed);
    let Some(max) = pool.settings.memory_max.filter(|_| pid != 0) else { return };
    // It reads a file for each process of the machine.
    let glance = tokio::task::spawn_blocking(move || Tree::glance(pid));
    let used = glance.await.ok().flatten().map_or(0, |usage| usage.rss_bytes);
    if used > max.bytes() {
        let full = format!("a worker used {used} bytes of memory, and {max} is the most");
        pool.troubled(Trouble { short: "it used too much memory".into(), full });
        pool.replace(worker);
    }
}

fn look_at(pool: &Arc<Pool>, worker: &Arc<Worker>) {
    if worker.state() == State::Quarantined && worker.probing.swap(1, Ordering::AcqRel) == 0 {
        let (pool, worker) = (Arc::clone(pool), Arc::clone(worker));
        tokio::spawn(async move {
            probe(&pool, &worker).await;
            worker.probing.store(0, Ordering::Release);
        });
    }
}

/// Asks a quarantined worker whether it still answers.
async fn probe(pool: &Arc<Pool>, worker: &Arc<Worker>) {
    for _ in 0..PROBES_MAX {
        sleep(PROBE.0).await;
        if worker.state() != State::Quarantined {
            return;
        }
        let modern = worker.peer.load().as_ref().is_some_and(|peer| peer.era() == Era::Modern);
        let method = if modern { Method::Discover } else { Method::Ping };
        let asked = pool.ask(worker, method, b"{}".to_vec(), PROBE.1);
        let deadline = tokio::time::Instant::now() + PROBE.1 * 2;
        if let Ok(Ok(_)) = timeout_at(deadline, asked).await {
            worker.timeouts.store(0, Ordering::Relaxed);
            worker.set_state(State::Degraded);
            if let Some(lane) = worker.lane.get() {
                pool.advance(lane);
            }
            return;
        }
    }
    pool.replace(worker);
}
