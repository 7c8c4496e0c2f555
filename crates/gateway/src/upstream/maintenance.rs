//! The regular look at a pool: calls that waited too long, workers that are idle, too big, or do not
//! answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcplane::proto::error::Code;
use mcplane::proto::method::Method;
use mcplane::proto::version::Era;
use mcplane::transport::process::Tree;
use tokio::time::{interval, sleep, timeout_at};

use super::cause::Cause;
use super::model::{LEAVE_TIME, Pool, Worker};
use super::state::State;
use crate::clock;

/// The pause before a quarantined worker is probed of which nobody knows whether it answers probes.
const PROBE_PAUSE: Duration = Duration::from_secs(15);

/// Looks at a pool once a second, as long as it lives.
pub(super) fn start(pool: &Arc<Pool>) {
    let pool = Arc::downgrade(pool);
    tokio::spawn(async move {
        let mut ticks = interval(Duration::from_secs(1));
        let mut used = (0, clock::now());
        loop {
            ticks.tick().await;
            let Some(pool) = pool.upgrade().filter(|pool| !pool.is_closing()) else { return };
            pool.shared.tools.expire(pool.settings.queue_timeout.duration());
            pool.release_quiet();
            pool.expire_queues();
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
        pool.failed(Cause::Memory { used_bytes: used, max });
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
    let life = worker.life();
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
        // Its connection has ended meanwhile: the next one is not to blame.
        if worker.life() != life {
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
