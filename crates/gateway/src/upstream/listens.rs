//! How the streams last on which an upstream of 2026-07-28 tells of changes: one that ends is opened
//! again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Upstream;
use super::cause::Notice;
use super::model::Worker;
use super::monitor::jittered;
use crate::clock;

/// The pause before a stream that has ended is opened again, doubled each time.
const AGAIN: Duration = Duration::from_millis(250);

/// The longest of those pauses.
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// A stream that lasted this long ended as streams do, for a proxy or a restart.
const STEADY: Duration = Duration::from_secs(30);

/// Streams in a row that did not last, after which it is told.
const TOLD_AFTER: u32 = 4;

/// How the streams of an upstream's workers have lasted, by their number.
#[derive(Default)]
pub(super) struct Listens(HashMap<usize, Listen>);

#[derive(Default)]
struct Listen {
    since: Option<Instant>,
    /// Streams in a row that did not last.
    failures: u32,
    /// There was a time when nobody listened.
    was_lost: bool,
}

impl Listens {
    /// Whether changes may have been missed before.
    pub(super) fn began(&mut self, worker: &Worker) -> bool {
        let listen = self.0.entry(worker.number).or_default();
        listen.since = Some(clock::now());
        std::mem::take(&mut listen.was_lost)
    }

    /// Opens it again after a pause. What comes back is to be told.
    pub(super) fn ended(
        &mut self,
        upstream: &Arc<Upstream>,
        worker: &Arc<Worker>,
        is_refused: bool,
    ) -> Option<Notice> {
        if is_refused {
            return None;
        }
        let workers = upstream.pool.workers();
        self.0.retain(|number, _| workers.iter().any(|worker| worker.number == *number));
        let listen = self.0.entry(worker.number).or_default();
        let lasted = listen.since.take().map(|since| clock::now().duration_since(since));
        if lasted.is_some_and(|lasted| lasted >= STEADY) {
            listen.failures = 0;
        }
        let pause = AGAIN.saturating_mul(1 << listen.failures.min(16)).min(AGAIN_MAX);
        listen.failures += 1;
        listen.was_lost = true;
        let (life, upstream, worker) =
            (worker.life(), Arc::downgrade(upstream), Arc::downgrade(worker));
        tokio::spawn(async move {
            sleep(jittered(pause)).await;
            let (Some(upstream), Some(worker)) = (upstream.upgrade(), worker.upgrade()) else {
                return;
            };
            // A new connection has a stream of its own.
            if worker.life() == life {
                upstream.tell_all(&worker);
            }
        });
        (listen.failures == TOLD_AFTER).then_some(Notice::StreamsEnd)
    }
}
