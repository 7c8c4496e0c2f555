//! What keeps workers alive: starting, restarting with a pause and a budget, probing, and stopping
//! those that are idle or too big.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcplane::proto::error::Code;
use mcplane::proto::method::Method;
use mcplane::proto::session::{ClientConfig, HandshakeError, Ids};
use mcplane::proto::types::{ClientCapabilities, Implementation};
use mcplane::proto::version::Era;
use mcplane::transport::process::{Running, Tree, mask_urls};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{interval, sleep, sleep_until, timeout_at};

use super::address;
use super::drive::{Drive, End, UNREAD_BYTES_MAX};
use super::greeting::Client;
use super::pool::{Heard, LEAVE_TIME, Pool, Trouble};
use super::sides::Side;
use super::start::Connected;
use super::worker::{Command, State, Worker, unavailable};
use crate::clock;

/// How long a process may take to end after it has closed its stdout, to tell how it ended.
const EXIT_WAIT: Duration = Duration::from_millis(500);

/// How long a call may wait for a worker that is ready.
pub(super) const QUEUE_TIME_MAX: Duration = Duration::from_secs(60);

/// How long the handshake may take, unless a person must approve the server first.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(30);

/// How long it may take where the upstream has been met in the other era.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(10);

/// The pause before a start that is not to be.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A pause that is worth waiting for. During a longer one calls fail at once.
const SHORT_PAUSE: Duration = Duration::from_secs(2);

/// A handshake that takes longer waits for somebody, most likely a person: where the settings expect
/// one, and where they do not.
pub(crate) const APPROVAL_AFTER: (Duration, Duration) =
    (Duration::from_secs(3), Duration::from_secs(15));

/// The pause before a quarantined worker is probed of which nobody knows whether it answers probes.
const PROBE_PAUSE: Duration = Duration::from_secs(15);

/// Starts a worker, and keeps starting it until the pool closes or the worker is let go. To take
/// another one's place is to be started again: that may need a pause first.
pub(super) fn spawn(
    pool: &Arc<Pool>,
    worker: Arc<Worker>,
    commands: mpsc::UnboundedReceiver<Command>,
    replaces: bool,
) {
    let pool = Arc::clone(pool);
    let alive = pool.hold();
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

/// How one life of a worker went.
struct Life {
    end: End,
    /// What there is to say about the end on this machine.
    report: Option<String>,
    was_ready: bool,
    /// It was ended by a call, as far as can be told.
    is_blamed: bool,
}

impl Life {
    /// One that did not come to it.
    const fn of(end: End, report: Option<String>) -> Self {
        Self { end, report, was_ready: false, is_blamed: false }
    }
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
            let Life { end, report, was_ready, is_blamed } =
                self.live(pool, worker, &mut closing).await;
            let is_late = matches!(&end, End::Refused(HandshakeError::TimedOut { .. }));
            let is_refused = matches!(&end, End::Refused(error) if is_verdict(error));
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
            if !was_ready && let Some(told) = pool.is_done_without(is_refused) {
                if let Some(why) = told {
                    pool.hear(Heard::Trouble(mask_urls(&format!("{why}: {full}"))));
                }
                return;
            }
            pool.troubled(Trouble { short, full });
            self.give_back(pool, worker);
            if is_late {
                pool.give_up(worker);
            }
            // Whose call it was pays for it.
            if is_blamed && pool.settings.restart.budget > 0 {
                worker.restarts.fetch_add(1, Ordering::Relaxed);
                continue;
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
        while !is_first() && !pool.learned.is_known() {
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

    /// One life of the worker.
    async fn live(
        &mut self,
        pool: &Arc<Pool>,
        worker: &Arc<Worker>,
        closing: &mut watch::Receiver<Option<Instant>>,
    ) -> Life {
        let (waits, has_process) = (pool.waits_for_client(worker), pool.settings.command.is_some());
        // A connection that nobody uses yet might be closed.
        if waits
            && !has_process
            && let Some(end) = self.wait_for_client(pool, worker, &mut None).await
        {
            return Life::of(end, None);
        }
        let permit = tokio::select! {
            permit = Arc::clone(&pool.shared.starts).acquire_owned() => permit.ok(),
            _ = closing.changed() => return Life::of(End::Left, None),
        };
        if worker.state() != State::Leaving {
            worker.set_state(State::Starting);
        }
        let connected = tokio::select! {
            connected = pool.shared.connect.connect(&pool.shared.name, &pool.settings) => connected,
            _ = closing.changed() => return Life::of(End::Left, None),
        };
        let connected = match connected {
            Ok(connected) => connected,
            Err(error) => {
                let end = End::Broken("it cannot be started or reached".into());
                return Life::of(end, Some(error.to_string()));
            }
        };
        self.use_up(pool, worker, connected, (waits && has_process, permit)).await
    }

    /// The life of a worker on one connection. It `waits` for its client before anything is said.
    async fn use_up(
        &mut self,
        pool: &Arc<Pool>,
        worker: &Arc<Worker>,
        connected: Connected,
        (waits, mut starting): (bool, Option<OwnedSemaphorePermit>),
    ) -> Life {
        let Connected { wire, mut running, is_attributed } = connected;
        let mut wire = wire.unread_bytes_max(UNREAD_BYTES_MAX);
        worker.pid.store(running.as_ref().map_or(0, Running::pid), Ordering::Relaxed);
        let mut waited = None;
        if waits {
            starting = None;
            waited = self.wait_for_client(pool, worker, &mut running).await;
        }
        let mut drive = None;
        let mut end = match waited {
            Some(end) => end,
            None => {
                let config = client_config(pool, worker.greeting.settle());
                let drive = drive.insert(Drive::new(worker, pool, config, is_attributed, starting));
                tokio::select! {
                    end = drive.run(&mut wire, &mut self.commands) => end,
                    () = ended(&mut running) => End::Broken("it has ended".into()),
                }
            }
        };
        let (was_ready, leaves) =
            (worker.state() != State::Starting, worker.state() == State::Leaving);
        // Calls that come now may wait for the next start.
        worker.set_state(if leaves { State::Leaving } else { State::Starting });
        worker.pid.store(0, Ordering::Relaxed);
        drop(wire);
        let (mut report, had_process) = (None, running.is_some());
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
        let mut is_blamed = false;
        if let Some(drive) = &mut drive {
            let is_broken = matches!(end, End::Broken(_));
            is_blamed = had_process && was_ready && !leaves && is_broken && drive.blame();
            drive.abandon(&match &end {
                End::Broken(why) => address::hidden(why, pool),
                _ => "it was stopped".into(),
            });
        }
        // However it ended, another one has its place already.
        Life { end: if leaves { End::Left } else { end }, report, was_ready, is_blamed }
    }

    /// Waits for the client that the worker is to speak for. `Some` if the worker or its process ends
    /// first.
    async fn wait_for_client(
        &mut self,
        pool: &Arc<Pool>,
        worker: &Arc<Worker>,
        running: &mut Option<Running>,
    ) -> Option<End> {
        let enter = |state| {
            if worker.state() != State::Leaving {
                worker.set_state(state);
            }
        };
        enter(State::Spare);
        loop {
            tokio::select! {
                () = worker.greeting.decided() => {
                    enter(State::Starting);
                    return None;
                }
                () = ended(running) => return Some(End::Broken("it has ended".into())),
                command = self.commands.recv() => match command {
                    Some(Command::Leave(_)) | None => return Some(End::Left),
                    Some(command) => turn_away(pool, worker, command),
                },
            }
        }
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

/// Whether the two sides will not meet another time either.
const fn is_verdict(error: &HandshakeError) -> bool {
    matches!(error, HandshakeError::NoCommonRevision { .. } | HandshakeError::Refused { .. })
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
    let alive = pool.hold();
    tokio::spawn(async move {
        running.stop().await;
        drop((place, alive));
    });
}

/// What an upstream hears of whom it serves: the client that has the worker to itself, or the gateway.
/// That declares all that some client may be able to do; a question that the client at hand cannot
/// answer is refused.
fn client_config(pool: &Pool, client: Option<&Arc<Client>>) -> ClientConfig {
    let gateway = || {
        let capabilities = ClientCapabilities::new()
            .with_elicitation_form()
            .with_elicitation_url()
            .with_sampling()
            .with_sampling_tools()
            .with_roots(false);
        (Implementation::new("mcplane", env!("CARGO_PKG_VERSION")), capabilities)
    };
    let known = |client: &Arc<Client>| (client.info.clone(), client.capabilities.clone());
    let (info, mut capabilities) = client.map_or_else(gateway, known);
    if !pool.settings.roots.is_empty() && !capabilities.roots() {
        capabilities = capabilities.with_roots(false);
    }
    let approval = pool.settings.approval.duration();
    let usual = match pool.side {
        Side::Own => HANDSHAKE_TIME_MAX,
        // Clients wait for it that can be served otherwise.
        Side::Legacy(_) | Side::Alone(_) => TRIAL_TIME_MAX,
    };
    ClientConfig {
        info,
        capabilities,
        choice: pool.learned.choice(),
        timeout: if approval.is_zero() { usual } else { approval },
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
        let mut used = (0, clock::now());
        loop {
            ticks.tick().await;
            let Some(pool) = pool.upgrade().filter(|pool| !pool.is_closing()) else { return };
            let approval = pool.settings.approval.duration();
            pool.expire_queues(QUEUE_TIME_MAX.max(approval));
            pool.shared.questions.expire(pool.shared.times.load().question);
            if let Some(after) = pool.settings.idle_stop.limit() {
                if pool.settings.mode.is_keyed() {
                    pool.stop_idle(after);
                }
                pool.stop_unused(after, &mut used);
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
        pool.replace(worker, LEAVE_TIME);
    }
}

/// Asks a worker whether it still answers, if there is a reason to.
fn look_at(pool: &Arc<Pool>, worker: &Arc<Worker>) {
    let every = pool.settings.probe.every.limit();
    let is_due = match worker.state() {
        State::Quarantined => true,
        // What a URL leads to is somebody else's to start again.
        State::Healthy | State::Degraded if pool.settings.command.is_some() => {
            let is_late = worker.timeouts.load(Ordering::Relaxed) > 0;
            let is_idle = worker.in_flight.load(Ordering::Acquire) == 0;
            let was_long_ago = every.is_some_and(|every| worker.probed_before(every));
            is_late && pool.answers_probes.load(Ordering::Relaxed) || is_idle && was_long_ago
        }
        _ => false,
    };
    if is_due && worker.probing.swap(1, Ordering::AcqRel) == 0 {
        let (pool, worker) = (Arc::clone(pool), Arc::clone(worker));
        tokio::spawn(async move {
            if !answers(&pool, &worker).await {
                pool.replace(&worker, Duration::ZERO);
            }
            worker.was_probed();
            worker.probing.store(0, Ordering::Release);
        });
    }
}

/// Whether a worker answers, as far as it can be judged.
async fn answers(pool: &Arc<Pool>, worker: &Arc<Worker>) -> bool {
    let settings = &pool.settings.probe;
    let (state, calls) = (worker.state(), worker.calls.load(Ordering::Relaxed));
    let is_late = worker.timeouts.load(Ordering::Relaxed) > 0;
    let is_known = pool.answers_probes.load(Ordering::Relaxed);
    let attempts = if is_late && is_known { 1 } else { settings.misses };
    for _ in 0..attempts {
        if state == State::Quarantined && !is_known {
            sleep(PROBE_PAUSE).await;
            if worker.state() != State::Quarantined {
                return true;
            }
        }
        if is_answered(pool, worker, settings.timeout.duration()).await {
            pool.answers_probes.store(true, Ordering::Relaxed);
            worker.timeouts.store(0, Ordering::Relaxed);
            if worker.state() == State::Quarantined {
                worker.set_state(State::Degraded);
            }
            if let Some(lane) = worker.lane.get() {
                pool.advance(lane);
            }
            return true;
        }
        if state != State::Quarantined {
            let is_busy = !is_late && worker.calls.load(Ordering::Relaxed) != calls;
            // A server may answer nothing else while it works on a call.
            if !is_known || is_busy {
                return true;
            }
            if matches!(worker.state(), State::Healthy | State::Degraded) {
                worker.set_state(State::Quarantined);
            }
        }
    }
    false
}

async fn is_answered(pool: &Arc<Pool>, worker: &Worker, patience: Duration) -> bool {
    let modern = worker.peer.load().as_ref().is_some_and(|peer| peer.era() == Era::Modern);
    let method = if modern { Method::Discover } else { Method::Ping };
    let asked = pool.ask(worker, method, b"{}".to_vec(), patience);
    let deadline = tokio::time::Instant::now() + patience * 2;
    match timeout_at(deadline, asked).await {
        Ok(Ok(_)) => true,
        // An error of the server's own is an answer, too.
        Ok(Err(error)) => !matches!(error.code, Code::UNAVAILABLE | Code::HANDLER_TIMEOUT),
        Err(_) => false,
    }
}
