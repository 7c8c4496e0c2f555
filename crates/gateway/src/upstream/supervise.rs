//! The life of a worker: it is started, used, and started again with a pause and a budget.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcplane::proto::error::Code;
use mcplane::proto::session::HandshakeError;
use mcplane::transport::process::Running;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, sleep_until};

use super::cause::{Broken, Cause, Notice};
use super::drive::{Drive, End, UNREAD_BYTES_MAX};
use super::model::{Command, Pool, Worker, WorkerEvent};
use super::start::Connected;
use super::state::State;
use super::worker::unavailable;
use crate::clock;

/// How long a process may take to end after it has closed its stdout, to tell how it ended.
const EXIT_WAIT: Duration = Duration::from_millis(500);

/// A pause that is worth waiting for. During a longer one calls fail at once.
const SHORT_PAUSE: Duration = Duration::from_secs(2);

/// Starts a worker, and keeps starting it until the pool closes or the worker is let go. To take
/// another one's place is to be started again: that may need a pause first.
pub(super) fn spawn(
    pool: &Arc<Pool>,
    worker: Arc<Worker>,
    commands: mpsc::UnboundedReceiver<Command>,
    alive: mpsc::Sender<()>,
    replaces: bool,
) {
    let pool = Arc::clone(pool);
    tokio::spawn(async move {
        let mut supervisor = Supervisor { commands, place: None };
        supervisor.run(&pool, &worker, replaces).await;
        worker.set_state(State::Down);
        pool.forget(&worker);
        // Who sends something from now on learns that nobody takes it.
        supervisor.commands.close();
        supervisor.give_back(&pool);
        drop(alive);
    });
}

/// How one life of a worker went.
struct Life {
    end: Ended,
    was_ready: bool,
    /// It was ended by a call, as far as can be told.
    is_blamed: bool,
}

/// How it ended.
enum Ended {
    /// It is not needed any more.
    Left,
    /// It is started again at once: as a legacy one, or for another client.
    Respawn,
    Fresh,
    Failed(Cause),
}

impl From<Ended> for Life {
    /// One that did not come to it.
    fn from(end: Ended) -> Self {
        Self { end, was_ready: false, is_blamed: false }
    }
}

struct Supervisor {
    commands: mpsc::UnboundedReceiver<Command>,
    /// Among the workers that there may be.
    place: Option<Arc<OwnedSemaphorePermit>>,
}

impl Supervisor {
    async fn run(&mut self, pool: &Arc<Pool>, worker: &Arc<Worker>, replaces: bool) {
        if replaces && !self.pause(pool, worker, true).await {
            return;
        }
        self.place = tokio::select! {
            place = Arc::clone(&pool.places).acquire_owned() => place.ok().map(Arc::new),
            () = pool.closes() => return,
        };
        self.wait_for_first(pool, worker).await;
        loop {
            if pool.is_closing() || worker.state() == State::Leaving {
                return;
            }
            let began = clock::now();
            let Life { end, was_ready, is_blamed } = self.live(pool, worker).await;
            let cause = match end {
                Ended::Left => return,
                Ended::Respawn => {
                    pool.learned.is_legacy();
                    continue;
                }
                Ended::Fresh => {
                    worker.restarts.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Ended::Failed(cause) => cause,
            };
            if !was_ready && let Some(spared) = pool.is_done_without(is_verdict(&cause)) {
                if let Some(spared) = spared {
                    pool.hear(WorkerEvent::Notice(Notice::Without(spared, Arc::new(cause))));
                }
                return;
            }
            let is_late = matches!(&cause, Cause::Handshake(HandshakeError::TimedOut { .. }, _));
            pool.failed(cause);
            self.give_back(pool);
            if is_late {
                pool.give_up(worker);
            }
            // Whose call it was pays for it.
            if is_blamed && pool.settings.restart.budget > 0 {
                worker.restarts.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let lived = was_ready && clock::now().duration_since(began) > Duration::from_secs(1);
            if !self.pause(pool, worker, lived).await {
                return;
            }
        }
    }

    /// The first worker goes ahead: should a person have to approve the server, once is enough, and
    /// what it speaks has to be found out only once.
    async fn wait_for_first(&self, pool: &Pool, worker: &Worker) {
        let may_go = pool.status.until(|status| {
            // The first may have been let go: then the next one goes ahead.
            status.is_first(worker.number)
                || pool.learned.is_known()
                || status.cause().is_some()
                || worker.state() == State::Leaving
        });
        tokio::select! {
            () = may_go => {}
            () = pool.closes() => {}
        }
    }

    /// One life of the worker.
    async fn live(&mut self, pool: &Arc<Pool>, worker: &Arc<Worker>) -> Life {
        let (waits, has_process) = (pool.waits_for_client(worker), pool.settings.command.is_some());
        // A connection that nobody uses yet might be closed.
        if waits && !has_process && self.wait_for_client(pool, worker, &mut None).await.is_some() {
            return Ended::Left.into();
        }
        let permit = tokio::select! {
            permit = Arc::clone(&pool.shared.starts).acquire_owned() => permit.ok(),
            () = pool.closes() => return Ended::Left.into(),
        };
        worker.enter(State::Starting);
        let connected = tokio::select! {
            connected = pool.shared.connect.connect(&pool.shared.name, &pool.settings) => connected,
            () = pool.closes() => return Ended::Left.into(),
        };
        let connected = match connected {
            Ok(connected) => connected,
            Err(error) if has_process => return Ended::Failed(Cause::NotStarted(error)).into(),
            Err(error) => return Ended::Failed(Cause::NotReached(error)).into(),
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
        let end = match waited {
            Some(end) => end,
            None => {
                let config = pool.client_config(worker.greeting.settle());
                worker.enter(State::Handshaking);
                let drive = drive.insert(Drive::new(worker, pool, config, is_attributed, starting));
                tokio::select! {
                    end = drive.run(&mut wire, &mut self.commands) => end,
                    () = ended(&mut running) => End::Broken(Broken::Exited),
                }
            }
        };
        let (was_ready, leaves) = (!worker.state().is_starting(), worker.state() == State::Leaving);
        // Calls that come now may wait for the next start.
        worker.enter(State::Starting);
        worker.pid.store(0, Ordering::Relaxed);
        drop(wire);
        let had_process = running.is_some();
        let is_broken = matches!(end, End::Broken(_));
        let end = self.end(pool, end, running).await;
        let mut is_blamed = false;
        if let Some(drive) = &mut drive {
            is_blamed = had_process && was_ready && !leaves && is_broken && drive.blame();
            drive.abandon(&match &end {
                Ended::Failed(cause) if is_broken => cause.for_clients(),
                _ => "it was stopped".into(),
            });
        }
        // However it ended, another one has its place already.
        Life { end: if leaves { Ended::Left } else { end }, was_ready, is_blamed }
    }

    /// How it came that a connection ended, as far as its process can tell; that is stopped.
    async fn end(&self, pool: &Pool, end: End, running: Option<Running>) -> Ended {
        let mut report = None;
        if let Some(mut running) = running {
            if matches!(end, End::Broken(_) | End::Refused(HandshakeError::Closed { .. })) {
                running.ended_within(EXIT_WAIT).await;
            }
            report = Some(running.report());
            stop(pool, running, self.place.clone());
        }
        match end {
            End::Left => Ended::Left,
            End::Respawn => Ended::Respawn,
            End::Fresh => Ended::Fresh,
            End::Refused(error) => Ended::Failed(Cause::Handshake(error, report)),
            End::Lost(method, error) => Ended::Failed(Cause::Lost(method, error)),
            End::Broken(how) => Ended::Failed(Cause::Ended(how, report)),
        }
    }

    /// Waits for the client that the worker is to speak for. `Some` if the worker or its process ends
    /// first.
    async fn wait_for_client(
        &mut self,
        pool: &Arc<Pool>,
        worker: &Arc<Worker>,
        running: &mut Option<Running>,
    ) -> Option<End> {
        worker.enter(State::Spare);
        loop {
            tokio::select! {
                () = worker.greeting.decided() => {
                    worker.enter(State::Starting);
                    return None;
                }
                () = ended(running) => return Some(End::Broken(Broken::Exited)),
                command = self.commands.recv() => match command {
                    Some(Command::Leave(_)) | None => return Some(End::Left),
                    Some(command) => turn_away(pool, command),
                },
            }
        }
    }

    /// Waits until the worker may be started again. `false` if it is to end instead.
    async fn pause(&mut self, pool: &Arc<Pool>, worker: &Arc<Worker>, lived: bool) -> bool {
        // It was told to leave while it ended, and nobody else hears of that.
        if worker.state() == State::Leaving {
            return false;
        }
        let now = clock::now();
        let pause = worker.starts().next(now, &pool.settings.restart, lived);
        let until = pause.map(|pause| now + pause);
        if pause.is_none_or(|pause| pause > SHORT_PAUSE) {
            worker.enter(State::Down);
            pool.status.rests(worker.number, until);
            pool.give_up(worker);
        }
        if until != Some(now) && !self.rest(pool, until).await {
            return false;
        }
        worker.restarts.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Waits for this time, or for nothing. What is asked of the worker meanwhile goes elsewhere.
    /// `false` if it is to end instead.
    async fn rest(&mut self, pool: &Arc<Pool>, until: Option<Instant>) -> bool {
        loop {
            let awaited = async {
                match until {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = awaited => return true,
                () = pool.closes() => return false,
                command = self.commands.recv() => match command {
                    Some(Command::Leave(_)) | None => return false,
                    Some(command) => turn_away(pool, command),
                },
            }
        }
    }

    /// What was asked of the worker and not begun goes elsewhere.
    fn give_back(&mut self, pool: &Arc<Pool>) {
        while let Ok(command) = self.commands.try_recv() {
            turn_away(pool, command);
        }
    }
}

/// Whether the two sides will not meet another time either. What was lost on its way says nothing of
/// the server, and one that is not available nothing of itself.
fn is_verdict(cause: &Cause) -> bool {
    use HandshakeError::{NoCommonRevision, Refused};
    match cause {
        Cause::Handshake(NoCommonRevision { .. }, _) => true,
        Cause::Handshake(Refused { error, .. }, _) => error.code != Code::UNAVAILABLE,
        _ => false,
    }
}

fn turn_away(pool: &Arc<Pool>, command: Command) {
    match command {
        Command::Call(call, place) => pool.again(place, call),
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
