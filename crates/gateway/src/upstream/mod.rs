//! One upstream: its workers, and what it offers.
//!
//! * this file — the upstream as others see it.
//! * `model` — what its core is made of, with `call`: the data that all of the rest works on.
//! * `monitor` — its task: what it offers, and when that is asked for again; `listens` — how long the
//!   streams of an upstream of 2026-07-28 last that tell of changes; `subscriptions` — telling
//!   workers what clients want to hear of.
//! * `lists` — one reading of all that it lists.
//! * `pool` — its workers; `pick`, `policy` — which of them gets a call; `keyed` — those of one
//!   client, and `keys` — who has any; `client`, `greeting` — whom a worker speaks for; `sides` —
//!   workers of each era, and `learned` — which it speaks; `lane` — where calls wait for one;
//!   `queue`, `places` — what threads decide there; `turn`, `turns` — where they wait for their tool;
//!   `culprit` — which call ended a worker, and `blame` — which kinds do.
//! * `asking` — calls that may ask, and have a worker each; `asker`, `habits` — which do; `clients` —
//!   how many of these one client has.
//! * `status` — what it is at the moment, one watch, with the `state` of each worker; `cause` — why,
//!   and the texts of that.
//! * `supervise` — the life of a worker; `restart` — how long it waits before it is started again;
//!   `maintenance` — the regular look at all of them; `start` — how a connection is opened; `drain` —
//!   the end.
//! * `worker` — one of them; `drive` — the loop of its connection; `calls` — what it does with calls;
//!   `owner` — whose it is what an upstream says and that names no call; `voices` — who may
//!   still say something; `listening` — being told of changes.
//! * `seams` — what decides, for the suite.
//! * `call`, `life` — one request on its way; `place` — what it has of a worker; `loss` — what is said
//!   of one that was lost over HTTP.

mod asker;
mod asking;
mod blame;
pub(crate) mod call;
mod calls;
pub(crate) mod cause;
pub(crate) mod client;
mod clients;
mod culprit;
mod drain;
mod drive;
pub(crate) mod greeting;
mod habits;
mod keyed;
pub(crate) mod keys;
mod lane;
mod learned;
pub(crate) mod life;
mod listening;
mod listens;
pub(crate) mod lists;
mod loss;
mod maintenance;
pub(crate) mod model;
mod monitor;
mod owner;
mod pick;
mod place;
mod places;
mod policy;
pub(crate) mod pool;
mod queue;
mod restart;
pub mod seams;
mod sides;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod subscriptions;
mod supervise;
#[cfg(test)]
mod tests;
mod turn;
mod turns;
mod voices;
pub(crate) mod worker;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use mcplane::server::relay::Seal;
use tokio::sync::{Semaphore, mpsc, watch as channel};
use tokio::time::{sleep, sleep_until};

use crate::catalog::{Changes, Health, Kind, Offer, Store};
use crate::clock;
use crate::config::Server;
use crate::desired::Desired;
use cause::{FailedList, Notice};
use keys::Key;
use lists::ListState;
use model::{Pool, WorkerEvent};
use start::Connect;
use status::Phase;

/// A time that does not come.
const NEVER: u64 = u64::MAX;

/// Most events of workers, or of upstreams, that wait to be handled.
pub(crate) const EVENTS_MAX: usize = 1024;

/// How many of those places are kept for events that must not be lost; there are few of them.
const EVENTS_KEPT: usize = 512;

/// Sends an event, unless so many wait already that only vital ones are accepted: somebody floods.
pub(crate) fn tell<T>(events: &mpsc::Sender<T>, event: T, is_vital: bool) {
    if is_vital || events.capacity() > EVENTS_KEPT {
        // When the gateway ends, there is no receiver.
        let _ = events.try_send(event);
    }
}

/// What all upstreams of a gateway have in common.
pub(crate) struct Common {
    /// How many processes are started at the same time.
    pub(crate) starts: Arc<Semaphore>,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) events: mpsc::Sender<UpstreamEvent>,
    pub(crate) seal: Seal,
    pub(crate) desired: Arc<Desired>,
}

/// What an upstream tells the gateway.
pub(crate) enum UpstreamEvent {
    /// Its offer may be another one, and this is what it said has changed.
    Offer(Arc<str>, Changes),
    /// A resource of it has changed: in the keyed modes, for the clients of this worker.
    Updated(Arc<str>, String, Option<Key>),
    /// Something that whoever runs the gateway should know of it.
    Notice(Arc<str>, Notice),
}

/// One server behind the gateway.
pub(crate) struct Upstream {
    pub(crate) name: Arc<str>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) offer: ArcSwapOption<Offer>,
    desired: Arc<Desired>,
    /// What is wrong with the names that the settings give its tools.
    pub(crate) misnamed: ArcSwapOption<String>,
    lists: Mutex<[(Kind, ListState); 4]>,
    /// Held while what is known is written to the disk.
    keeping: Mutex<()>,
    /// When its lists are too old for a client that asks, in milliseconds since `born`.
    stale_at: AtomicU64,
    born: Instant,
    /// Every view that shows it has a receiver of this.
    pub(crate) shown: channel::Sender<()>,
}

impl Upstream {
    /// One of which this is known before its workers have said anything.
    fn new(name: Arc<str>, pool: Arc<Pool>, offer: Option<Arc<Offer>>, common: &Common) -> Self {
        Self {
            name,
            pool,
            offer: ArcSwapOption::new(offer),
            desired: Arc::clone(&common.desired),
            misnamed: ArcSwapOption::empty(),
            lists: Mutex::new(Kind::ALL.map(|kind| (kind, ListState::default()))),
            keeping: Mutex::default(),
            shown: channel::Sender::new(()),
            stale_at: AtomicU64::new(NEVER),
            born: clock::now(),
        }
    }

    /// Waits until the upstream has told what it offers in this run, or something went wrong with it.
    pub(crate) async fn ready(&self) {
        self.pool.status.until(|status| status.is_listed() || status.cause().is_some()).await;
    }

    /// Waits until it is known what it offers, or why it does not tell: something went wrong, or somebody
    /// has to approve it. Cancel safe.
    pub(crate) async fn settled(&self) {
        let mut status = self.pool.status.subscribe();
        loop {
            let approval_awaited_at = {
                let status = status.borrow_and_update();
                if status.cause().is_some() || self.offer.load().is_some() {
                    return;
                }
                status.approval_awaited_at(self.pool.approval_after())
            };
            let awaited = async {
                match approval_awaited_at {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The sender lives as long as `self`.
                _ = status.changed() => {}
                () = awaited => return,
            }
        }
    }

    /// How each of its lists is.
    pub(crate) fn lists(&self) -> MutexGuard<'_, [(Kind, ListState); 4]> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which lists could not be read when they were asked for last, and why.
    pub(crate) fn failed_lists(&self) -> Vec<FailedList> {
        let lists = self.lists();
        lists.iter().filter_map(|(kind, state)| Some((*kind, state.error.clone()?))).collect()
    }

    /// A client asks what it offers. It is answered with what is known; lists that are too old are
    /// read again for whoever asks next.
    pub(crate) fn asked(&self) {
        let at = self.stale_at.load(Ordering::Relaxed);
        let is_stale = at != NEVER && self.age_ms() >= at;
        let swap =
            || self.stale_at.compare_exchange(at, NEVER, Ordering::Relaxed, Ordering::Relaxed);
        // Whoever comes first has it done for all.
        if is_stale && swap().is_ok() {
            self.pool.hear(WorkerEvent::Stale);
        }
    }

    fn age_ms(&self) -> u64 {
        let age = clock::now().duration_since(self.born);
        u64::try_from(age.as_millis()).unwrap_or(NEVER)
    }

    /// Its lists are too old after this time.
    fn fresh_for(&self, time: Option<Duration>) {
        let time = time.map_or(NEVER, |time| u64::try_from(time.as_millis()).unwrap_or(NEVER));
        self.stale_at.store(self.age_ms().saturating_add(time), Ordering::Relaxed);
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.pool.status.now().is_listed()
    }

    /// How it is, and how busy: 0 is idle, 1 is full.
    pub(crate) fn health(&self) -> (Health, f64) {
        let health = match self.pool.status.now().phase() {
            Phase::Ready => Health::Healthy,
            Phase::Degraded => Health::Degraded,
            Phase::Quarantined => Health::Quarantined,
            _ => Health::Down,
        };
        let workers = self.pool.workers();
        let in_flight: usize =
            workers.iter().map(|worker| worker.in_flight.load(Ordering::Relaxed)).sum();
        let places = workers.len().max(1) * self.pool.settings.calls_limit() as usize;
        #[allow(clippy::cast_precision_loss, reason = "a share, to rank by")]
        let load = (in_flight + self.pool.queued()) as f64 / places as f64;
        (health, load.min(1.0))
    }

    /// Ends it once nobody needs it any more, or at the deadline. Until then it takes calls: some wait
    /// in its queues, and others found it in a catalog that was there a moment ago. `successor` says
    /// that there is another one for its name, so that nobody finds it any more.
    pub(crate) async fn retire(self: Arc<Self>, deadline: Instant, successor: bool) {
        if successor {
            tokio::select! {
                () = self.shown.closed() => {}
                () = sleep_until(deadline.into()) => {}
            }
        }
        self.pool.shared.drain.until(deadline, || self.pool.is_idle()).await;
        let why = match successor {
            true => "its settings have changed, and the call did not end in time",
            false => "it is not in the settings any more",
        };
        self.pool.close(deadline, why).await;
    }
}

/// What makes the kept lists of a server its own: another command is another server.
pub(crate) fn identity(server: &Server) -> String {
    let cwd = server.cwd.as_ref().map(|folder| folder.display().to_string());
    let mut hash = DefaultHasher::new();
    (&server.command, &server.args, &server.url, cwd).hash(&mut hash);
    // Arguments may be secrets: only their trace is kept.
    format!("{:016x}", hash.finish())
}

/// Waits until every upstream is ready, or for as long as `most`.
pub(crate) async fn all_ready(upstreams: &[Arc<Upstream>], most: Duration) {
    let all = async {
        for upstream in upstreams {
            upstream.ready().await;
        }
    };
    tokio::select! {
        () = all => {}
        () = sleep(most) => {}
    }
}
