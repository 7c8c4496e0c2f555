//! One upstream: its workers, and what it offers.
//!
//! * this file — what it offers, and when that is asked for again.
//! * `listening` — being told of changes by an upstream of 2026-07-28.
//! * `lists` — one reading of all that it lists.
//! * `pool` — its workers; `pick` — which of them gets a call; `keyed` — those of one client;
//!   `greeting` — whom a worker speaks for; `sides` — workers of each era; `lane` — where calls wait
//!   for one; `queue`, `places` — what threads decide there; `turn`, `turns` — where they wait for
//!   their tool; `blame` — which end it.
//! * `asking` — which calls may ask, and have a worker each.
//! * `supervise` — what keeps workers alive; `start` — how a connection is opened.
//! * `worker` — one of them; `drive` — the loop of its connection; `calls` — what it does with
//!   calls; `owner` — whose it is what an upstream says and that names no call; `voices` — who may
//!   still say something.
//! * `call`, `life` — one request on its way; `place` — what it has of a worker; `address` — what
//!   clients hear of where an upstream is.

pub(crate) mod address;
mod asking;
mod blame;
pub(crate) mod call;
mod calls;
mod drive;
pub(crate) mod greeting;
pub(crate) mod keyed;
mod lane;
pub(crate) mod life;
mod listening;
pub(crate) mod lists;
mod owner;
mod pick;
mod place;
mod places;
pub(crate) mod pool;
mod queue;
mod sides;
pub(crate) mod start;
pub(crate) mod supervise;
#[cfg(test)]
mod tests;
mod turn;
mod turns;
mod voices;
pub(crate) mod watch;
pub(crate) mod worker;

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use mcplane::proto::error::shorten;
use mcplane::proto::method::Method;
use mcplane::server::relay::Seal;
use tokio::sync::{Semaphore, mpsc, watch as channel};
use tokio::time::{Instant as Moment, sleep, sleep_until, timeout};

use crate::catalog::{Changes, Health, Kind, Loaded, Offer, Store};
use crate::clock;
use crate::config::{Gateway as Settings, Server};
use keyed::Key;
use listening::Listens;
use lists::{ListState, Reading, Step};
use pool::{Heard, Pool, Times, Trouble};
use start::Connect;
use watch::Watched;
use worker::{State, Worker};

/// How long changes of a list are gathered before it is asked for again.
const GATHER: Duration = Duration::from_millis(50);

/// The pause before lists that could not be read are asked for again, doubled each time.
const AGAIN: Duration = Duration::from_secs(5);

/// The longest of those pauses.
const AGAIN_MAX: Duration = Duration::from_secs(300);

/// The longest time for which changes are gathered of a server that announces some and has none.
const GATHER_MAX: Duration = Duration::from_secs(30);

/// A time that does not come.
const NEVER: u64 = u64::MAX;

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

/// What all upstreams of a gateway have in common.
pub(crate) struct Means {
    /// How many processes are started at the same time.
    pub(crate) starts: Arc<Semaphore>,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) news: mpsc::Sender<News>,
    pub(crate) seal: Seal,
}

/// What an upstream tells the gateway.
pub(crate) enum News {
    /// Its offer may be another one, and this is what it said has changed.
    Offer(Arc<str>, Changes),
    /// A resource of it has changed: in the keyed modes, for the clients of this worker.
    Updated(Arc<str>, String, Option<Key>),
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
    lists: Mutex<[(Kind, ListState); 4]>,
    /// Held while what is known is written to the disk.
    keeping: Mutex<()>,
    /// When its lists are too old for a client that asks, in milliseconds since `born`.
    stale_at: AtomicU64,
    born: Instant,
    /// Whether the offer is from this run, and not from the disk.
    fresh: channel::Sender<bool>,
}

impl Upstream {
    /// Starts the workers. Until they have told what they offer, the last good lists stand in.
    pub(crate) fn start(
        name: &str,
        server: &Server,
        settings: &Settings,
        means: &Means,
        watched: Arc<Watched>,
    ) -> Arc<Self> {
        let name: Arc<str> = name.into();
        let (heard_in, heard) = mpsc::channel(WORDS_MAX);
        let times = Times::of(settings);
        let pool = Pool::new(Arc::clone(&name), server.clone(), times, means, heard_in);
        let kept = means.store.as_ref().map(|store| store.load(&name, &identity(server)));
        let kept = match kept {
            Some(Loaded::Offer(offer)) => Some(*offer),
            _ => None,
        };
        if let Some(offer) = &kept {
            pool.shared.habits.remember(&offer.asking);
        }
        let upstream = Arc::new(Self {
            name,
            pool: Arc::clone(&pool),
            offer: ArcSwapOption::from_pointee(kept),
            watched,
            misnamed: ArcSwapOption::empty(),
            lists: Mutex::new(Kind::ALL.map(|kind| (kind, ListState::default()))),
            keeping: Mutex::default(),
            fresh: channel::Sender::new(false),
            stale_at: AtomicU64::new(NEVER),
            born: clock::now(),
        });
        let ear = Ear {
            upstream: Arc::clone(&upstream),
            store: means.store.clone(),
            news: means.news.clone(),
            announced: Changes::default(),
            unfounded: 0,
            due: None,
            reading: None,
            listens: Listens::default(),
            failures: 0,
            told: None,
        };
        tokio::spawn(ear.run(heard));
        pool.start();
        upstream
    }

    /// Ends it once nobody needs it any more, or at the deadline. Until then it takes calls: some wait
    /// in its queues, and others found it in a catalog that was there a moment ago. `successor` says
    /// that there is another one for its name, so that nobody finds it any more.
    pub(crate) async fn retire(self: Arc<Self>, deadline: Instant, successor: bool) {
        // Its ear has it, and this.
        let is_found = || successor && Arc::strong_count(&self) > 2;
        while clock::now() < deadline && (is_found() || !self.pool.is_idle()) {
            sleep(LOOK).await;
        }
        let why = match successor {
            true => "its settings have changed, and the call did not end in time",
            false => "it is not in the settings any more",
        };
        self.pool.close(deadline, why).await;
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

    /// How each of its lists is.
    pub(crate) fn lists(&self) -> MutexGuard<'_, [(Kind, ListState); 4]> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which lists could not be read when they were asked for last, and why.
    pub(crate) fn failed_lists(&self) -> Option<String> {
        let lists = self.lists();
        let failed = lists.iter().filter_map(|(kind, state)| {
            let why = shorten(state.error.as_deref()?);
            Some(format!("{}: {}", kind.method(), why.escape_debug()))
        });
        let failed = failed.collect::<Vec<_>>().join("; ");
        (!failed.is_empty()).then_some(failed)
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
            self.pool.hear(Heard::Stale);
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
        let in_flight: usize =
            workers.iter().map(|worker| worker.in_flight.load(Ordering::Relaxed)).sum();
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
    /// What was said to have changed since a reading began.
    announced: Changes,
    /// Readings in a row for changes that were none.
    unfounded: u32,
    /// When to ask which worker for the lists.
    due: Option<(Moment, Arc<Worker>)>,
    /// The lists that are being read.
    reading: Option<Reading>,
    listens: Listens,
    /// How often in a row some could not be.
    failures: u32,
    /// What was told of them.
    told: Option<String>,
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
                () = sleep_until(at), if self.due.is_some() && self.reading.is_none() => {
                    self.begin();
                }
                step = lists::next(&mut self.reading), if self.reading.is_some() => {
                    self.step(step);
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
                if !self.upstream.is_fresh() || self.failures > 0 {
                    self.want(Duration::ZERO, worker);
                }
            }
            Heard::Taken(worker) => self.upstream.watched.tell(&self.upstream.pool, &worker),
            Heard::ListsChanged(worker, method) => {
                self.announced.tools |= method == Method::ToolsListChanged;
                self.announced.prompts |= method == Method::PromptsListChanged;
                self.announced.resources |= method == Method::ResourcesListChanged;
                // Some servers announce a change whenever they are asked for their lists.
                let pause = GATHER.saturating_mul(1 << self.unfounded.min(16));
                self.want(pause.min(GATHER_MAX), worker);
            }
            Heard::Stale => match self.upstream.pool.reader() {
                Some(worker) => self.want(Duration::ZERO, worker),
                None => self.upstream.fresh_for(Some(lists::FRESH_MIN)),
            },
            Heard::Listening(worker) => {
                // What changed while nobody listened is in the lists only.
                if self.listens.began(&worker) {
                    self.want(Duration::ZERO, worker);
                }
            }
            Heard::ListenEnded(worker, is_refused) => {
                let trouble = self.listens.ended(&self.upstream, &worker, is_refused);
                if let Some(trouble) = trouble {
                    tell(
                        &self.news,
                        News::Trouble(Arc::clone(&self.upstream.name), trouble),
                        false,
                    );
                }
            }
            Heard::Trouble(trouble) => {
                tell(&self.news, News::Trouble(Arc::clone(&self.upstream.name), trouble), false);
            }
            Heard::Asks => {
                if self.reading.is_none() && self.failures == 0 && self.upstream.is_fresh() {
                    self.keep();
                }
            }
            Heard::Updated(worker, uri) => {
                let key = watch::key_of(&worker);
                tell(&self.news, News::Updated(Arc::clone(&self.upstream.name), uri, key), false);
            }
        }
    }

    /// Has the lists read after a pause, unless they are sooner.
    fn want(&mut self, pause: Duration, worker: Arc<Worker>) {
        let at = Moment::now() + pause;
        if self.due.as_ref().is_none_or(|(due, _)| at < *due) {
            self.due = Some((at, worker));
        }
    }

    /// Begins to read every list.
    fn begin(&mut self) {
        let Some((_, worker)) = self.due.take() else { return };
        let Some(peer) = worker.peer.load_full() else { return };
        let kept = self.upstream.offer.load_full();
        let pool = Arc::clone(&self.upstream.pool);
        let times = **pool.shared.times.load();
        let mut reading = Reading::begin(pool, &worker, &peer, kept.as_deref(), times.list);
        reading.announced = std::mem::take(&mut self.announced);
        self.reading = Some(reading);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Read(kind, list) => {
                self.note(kind, list.as_ref().err().map(|error| error.message.to_string()));
                let Some(reading) = &mut self.reading else { return };
                reading.take(kind, list, self.upstream.pool.shared.times.load().list_age);
                if reading.is_shown {
                    self.show();
                }
            }
            Step::Late => self.show(),
            Step::Done => self.finish(),
        }
    }

    fn finish(&mut self) {
        self.show();
        let Some(reading) = self.reading.take() else { return };
        let is_none = reading.good == 0 && reading.bad > 0;
        if is_none {
            self.announced = self.announced.or(reading.announced);
        } else {
            // Lists that are read again and found the same were announced all the same: whoever
            // relies on it gets to know.
            let is_unfounded = reading.announced.any() && !reading.is_other;
            self.unfounded = if is_unfounded { self.unfounded.saturating_add(1) } else { 0 };
            if reading.announced.any() {
                self.tell_offer(reading.announced);
            }
        }
        self.tell_lists(is_none);
        self.upstream.fresh_for(reading.fresh_for.map(later));
        if reading.is_all() {
            self.failures = 0;
            return;
        }
        let pause = AGAIN.saturating_mul(1 << self.failures.min(16)).min(AGAIN_MAX);
        self.failures += 1;
        if let Some(worker) = self.upstream.pool.reader() {
            self.want(jittered(pause), worker);
        }
    }

    fn tell_offer(&self, announced: Changes) {
        tell(&self.news, News::Offer(Arc::clone(&self.upstream.name), announced), true);
    }

    /// Shows what has been read so far.
    fn show(&mut self) {
        let Some(reading) = &mut self.reading else { return };
        let Some(offer) = reading.show() else { return };
        let is_all = reading.is_all();
        let offer = Arc::new(offer);
        let before = self.upstream.offer.swap(Some(Arc::clone(&offer)));
        reading.is_other |= before.is_none_or(|before| !before.lists_the_same(&offer));
        self.upstream.fresh.send_replace(true);
        if is_all {
            self.keep();
        }
        self.tell_offer(Changes::default());
    }

    /// Keeps what is known for the next run. What cannot be kept is found out again.
    fn keep(&self) {
        let Some(store) = self.store.clone() else { return };
        let upstream = Arc::clone(&self.upstream);
        tokio::task::spawn_blocking(move || {
            // The last one to write must have seen all of it.
            let _turn = upstream.keeping.lock().unwrap_or_else(PoisonError::into_inner);
            let mut offer = Offer::clone(&*upstream.offer.load_full()?);
            offer.asking = upstream.pool.shared.habits.learned();
            store.save(&upstream.name, &identity(&upstream.pool.settings), &offer).ok()
        });
    }

    fn note(&self, kind: Kind, error: Option<String>) {
        let mut lists = self.upstream.lists();
        let Some((_, state)) = lists.iter_mut().find(|(of, _)| *of == kind) else { return };
        if error.is_none() {
            state.read = Some(clock::now());
        }
        state.error = error;
    }

    /// Tells which lists could not be read, if those are others than before. Nobody can be told more
    /// than the trouble if not even one could.
    fn tell_lists(&mut self, nothing: bool) {
        let told = self.upstream.failed_lists();
        if told == self.told {
            return;
        }
        self.told.clone_from(&told);
        match told {
            Some(why) if nothing && self.upstream.offer.load().is_none() => {
                let short = format!("its lists could not be read: {why}");
                self.upstream.pool.troubled(Trouble { full: short.clone(), short });
            }
            Some(why) => {
                let why = format!("what it lists is served without what failed: {why}");
                tell(&self.news, News::Trouble(Arc::clone(&self.upstream.name), why), false);
            }
            None => self.upstream.pool.recovered("its lists could not be read"),
        }
    }
}

/// A time of this length, or up to a quarter longer.
fn later(time: Duration) -> Duration {
    time + part(time / 4)
}

/// A pause of about this length: what failed together is not to be tried again together.
fn jittered(pause: Duration) -> Duration {
    pause * 3 / 4 + part(pause / 2)
}

/// A random part of it.
fn part(most: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) % 1024;
    most / 1024 * u32::try_from(random).unwrap_or_default()
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
