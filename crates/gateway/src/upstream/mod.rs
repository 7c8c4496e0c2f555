//! One upstream: its workers, and what it offers.
//!
//! * this file — what it offers, and when that is asked for again.
//! * `pool` — which worker gets a call; `lane` — where calls wait for one.
//! * `supervise` — what keeps workers alive; `start` — how a connection is opened.
//! * `worker` — one of them; `drive` — the loop of its connection; `owner` — whose it is what an
//!   upstream says and that names no call; `voices` — who may still say something.
//! * `call` — one request on its way.

pub(crate) mod call;
mod drive;
mod lane;
mod owner;
pub(crate) mod pool;
pub(crate) mod start;
pub(crate) mod supervise;
#[cfg(test)]
mod tests;
mod voices;
pub(crate) mod watch;
pub(crate) mod worker;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use mcplane::proto::error::ErrorObject;
use mcplane::proto::message::write;
use mcplane::proto::session::Peer;
use mcplane::proto::types::ServerCapabilities;
use tokio::sync::{Semaphore, mpsc, watch as channel};
use tokio::time::{Instant as Moment, sleep, sleep_until, timeout};

use crate::catalog::{Health, Kind, Loaded, Offer, Store};
use crate::clock;
use crate::config::{Gateway as Settings, Server};
use pool::{Heard, Pool, Trouble};
use start::Connect;
use watch::Watched;
use worker::{State, Worker};

/// Most pages of one list.
const PAGES_MAX: usize = 100;

/// How long changes of a list are gathered before it is asked for again.
const GATHER: Duration = Duration::from_millis(50);

/// The pause before lists that could not be read are asked for again.
const AGAIN: Duration = Duration::from_secs(5);

/// How often somebody who waits looks whether there is trouble.
const LOOK: Duration = Duration::from_millis(20);

/// Words of workers, or of upstreams, that wait to be heard.
pub(crate) const WORDS_MAX: usize = 1024;

/// How many of them are kept for what must not be lost: there are few of those.
const WORDS_KEPT: usize = 512;

/// Says something, unless so much waits to be heard already that only what is vital may be said:
/// somebody floods.
pub(crate) fn tell<T>(ear: &mpsc::Sender<T>, word: T, is_vital: bool) {
    if is_vital || ear.capacity() > WORDS_KEPT {
        // Nobody listens when the gateway ends.
        let _ = ear.try_send(word);
    }
}

/// What an upstream tells the gateway.
pub(crate) enum News {
    /// Its offer is another one.
    Offer,
    /// A resource of it has changed.
    Updated(Arc<str>, String),
    /// Something is wrong with it.
    Trouble(Arc<str>, String),
}

/// One server behind the gateway.
pub(crate) struct Upstream {
    pub(crate) name: Arc<str>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) offer: ArcSwapOption<Offer>,
    pub(crate) watched: Arc<Watched>,
    /// What is wrong with the names that the settings give its tools.
    pub(crate) misnamed: ArcSwapOption<String>,
    /// Whether the offer is from this run, and not from the disk.
    fresh: channel::Sender<bool>,
}

impl Upstream {
    /// Starts the workers. Until they have told what they offer, the last good lists stand in.
    pub(crate) fn start(
        name: &str,
        server: &Server,
        settings: &Settings,
        starts: Arc<Semaphore>,
        connect: Arc<dyn Connect>,
        store: Option<Arc<Store>>,
        news: mpsc::Sender<News>,
        watched: Arc<Watched>,
    ) -> Arc<Self> {
        let name: Arc<str> = name.into();
        let (heard_in, heard) = mpsc::channel(WORDS_MAX);
        let timeout = settings.call_timeout.limit();
        let pool = Pool::new(Arc::clone(&name), server.clone(), timeout, starts, connect, heard_in);
        let kept = store.as_ref().map(|store| store.load(&name, &identity(server)));
        let kept = match kept {
            Some(Loaded::Offer(offer)) => Some(*offer),
            _ => None,
        };
        let upstream = Arc::new(Self {
            name,
            pool: Arc::clone(&pool),
            offer: ArcSwapOption::from_pointee(kept),
            watched,
            misnamed: ArcSwapOption::empty(),
            fresh: channel::Sender::new(false),
        });
        let ear = Ear {
            upstream: Arc::clone(&upstream),
            store,
            news,
            patience: settings.list_deadline.duration(),
            due: None,
        };
        tokio::spawn(ear.run(heard));
        pool.start();
        upstream
    }

    /// Waits until the upstream has told what it offers in this run, or something went wrong with it.
    pub(crate) async fn ready(&self) {
        let mut fresh = self.fresh.subscribe();
        while self.pool.trouble.load().is_none() {
            // The sender lives as long as `self`.
            if let Ok(Ok(_)) = timeout(LOOK, fresh.wait_for(|fresh| *fresh)).await {
                return;
            }
        }
    }

    pub(crate) fn is_fresh(&self) -> bool {
        *self.fresh.borrow()
    }

    /// How it is, and how busy: 0 is idle, 1 is full.
    pub(crate) fn health(&self) -> (Health, f64) {
        let workers = self.pool.workers();
        let any = |state| workers.iter().any(|worker| worker.state() == state);
        let health = match () {
            () if any(State::Healthy) => Health::Healthy,
            () if any(State::Degraded) => Health::Degraded,
            () if any(State::Quarantined) => Health::Quarantined,
            () => Health::Down,
        };
        let in_flight: usize = workers
            .iter()
            .map(|worker| worker.in_flight.load(std::sync::atomic::Ordering::Relaxed))
            .sum();
        let places = workers.len().max(1) * self.pool.settings.calls_limit() as usize;
        #[allow(clippy::cast_precision_loss, reason = "a share, to rank by")]
        let load = (in_flight + self.pool.queued()) as f64 / places as f64;
        (health, load.min(1.0))
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

/// The task that hears what workers have to say about the whole upstream.
struct Ear {
    upstream: Arc<Upstream>,
    store: Option<Arc<Store>>,
    news: mpsc::Sender<News>,
    patience: Duration,
    /// When to ask which worker for the lists.
    due: Option<(Moment, Arc<Worker>)>,
}

impl Ear {
    async fn run(mut self, mut heard: mpsc::Receiver<Heard>) {
        loop {
            let at = self.due.as_ref().map_or_else(Moment::now, |(at, _)| *at);
            tokio::select! {
                word = heard.recv() => match word {
                    None => return,
                    Some(word) => self.hear(word),
                },
                () = sleep_until(at), if self.due.is_some() => {
                    let Some((_, worker)) = self.due.take() else { continue };
                    if !self.refresh(&worker).await && !self.upstream.pool.is_closing() {
                        let workers = self.upstream.pool.workers();
                        let healthy = workers.into_iter().find(|w| w.state() == State::Healthy);
                        self.due = healthy.map(|worker| (Moment::now() + AGAIN, worker));
                    }
                }
            }
            if self.upstream.pool.is_closing() {
                return;
            }
        }
    }

    fn hear(&mut self, word: Heard) {
        match word {
            Heard::Ready(worker) => {
                self.upstream.watched.tell(&self.upstream.pool, &worker);
                // Every worker runs the same program: one list will do.
                if !self.upstream.is_fresh() {
                    self.due = Some((Moment::now(), worker));
                }
            }
            Heard::Taken(worker) => self.upstream.watched.tell(&self.upstream.pool, &worker),
            Heard::ListsChanged(worker) => {
                self.due.get_or_insert_with(|| (Moment::now() + GATHER, worker));
            }
            Heard::Trouble(trouble) => {
                tell(&self.news, News::Trouble(Arc::clone(&self.upstream.name), trouble), false);
            }
            Heard::Updated(uri) => {
                tell(&self.news, News::Updated(Arc::clone(&self.upstream.name), uri), false);
            }
        }
    }

    /// Asks for every list. `false` if it has to be tried again.
    async fn refresh(&self, worker: &Arc<Worker>) -> bool {
        let Some(peer) = worker.peer.load_full() else { return false };
        let offer = match self.lists(worker, &peer).await {
            Ok(offer) => offer,
            Err(error) => {
                let short = format!("its lists could not be read: {}", error.message);
                self.upstream.pool.troubled(Trouble { full: short.clone(), short });
                return false;
            }
        };
        let offer = Arc::new(offer);
        self.upstream.offer.store(Some(Arc::clone(&offer)));
        self.upstream.fresh.send_replace(true);
        if let Some(store) = self.store.clone() {
            let (name, identity) =
                (Arc::clone(&self.upstream.name), identity(&self.upstream.pool.settings));
            // A list that cannot be kept is asked for again after a restart.
            tokio::task::spawn_blocking(move || store.save(&name, &identity, &offer).ok());
        }
        tell(&self.news, News::Offer, true);
        true
    }

    async fn lists(&self, worker: &Arc<Worker>, peer: &Peer) -> Result<Offer, ErrorObject> {
        let capabilities: ServerCapabilities = peer
            .capabilities
            .as_deref()
            .and_then(|json| serde_json::from_str(json.get()).ok())
            .unwrap_or_default();
        let known = peer.capabilities.is_some();
        let offers = |kind| match kind {
            _ if !known => true,
            Kind::Tools => capabilities.tools(),
            Kind::Prompts => capabilities.prompts(),
            Kind::Resources | Kind::Templates => capabilities.resources(),
        };
        let mut offer = Offer::new(Some(peer.revision), capabilities.clone());
        let info = peer.info.as_deref().and_then(|json| serde_json::from_str(json.get()).ok());
        offer.info = info;
        offer.instructions = peer.instructions.clone();
        let deadline = clock::now() + self.patience.max(Duration::from_secs(1)) * 4;
        for kind in Kind::ALL.into_iter().filter(|kind| offers(*kind)) {
            let method = kind.method();
            let mut cursor: Option<String> = None;
            for _ in 0..PAGES_MAX {
                let mut params = b"{".to_vec();
                if let Some(cursor) = &cursor {
                    params.extend_from_slice(b"\"cursor\":");
                    write::string(&mut params, cursor);
                }
                params.push(b'}');
                let patience = deadline.saturating_duration_since(clock::now());
                let page = match self.upstream.pool.ask(worker, method, params, patience).await {
                    Ok(page) => page,
                    // What is declared need not be there: templates, for one.
                    Err(error) if is_unknown(&error) => break,
                    Err(error) => return Err(error),
                };
                let next = offer.add_page(method, &page).map_err(|error| {
                    ErrorObject::new(mcplane::proto::error::Code::INTERNAL_ERROR, error.to_string())
                })?;
                match next {
                    Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                    _ => break,
                }
            }
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        offer.seen_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Ok(offer)
    }
}

fn is_unknown(error: &ErrorObject) -> bool {
    error.code == mcplane::proto::error::Code::METHOD_NOT_FOUND
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
