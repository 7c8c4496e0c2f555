//! The task of an upstream: it handles the events of its workers, and keeps what the upstream offers
//! up to date.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mcplane::proto::method::Method;
use tokio::sync::mpsc;
use tokio::time::{Instant as Moment, sleep_until};

use super::cause::{Cause, FailedList, Notice};
use super::listens::Listens;
use super::lists::{self, Reading, Step};
use super::model::{Pool, Times, Worker, WorkerEvent};
use super::{Common, EVENTS_MAX, Upstream, UpstreamEvent, identity, subscriptions, tell};
use crate::catalog::{Changes, Kind, Loaded, Offer, Store};
use crate::clock;
use crate::config::{Gateway as Settings, Server};

/// How long changes of a list are gathered before it is asked for again.
const GATHER: Duration = Duration::from_millis(50);

/// The pause before lists that could not be read are asked for again, doubled each time.
const AGAIN: Duration = Duration::from_secs(5);

/// The longest of those pauses.
const AGAIN_MAX: Duration = Duration::from_secs(300);

/// The longest time for which changes are gathered of a server that announces some and has none.
const GATHER_MAX: Duration = Duration::from_secs(30);

/// What the task knows.
pub(super) struct Monitor {
    upstream: Arc<Upstream>,
    store: Option<Arc<Store>>,
    events: mpsc::Sender<UpstreamEvent>,
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
    told: Vec<FailedList>,
}

impl Upstream {
    /// Starts the workers. Until they have told what they offer, the last good lists stand in, or
    /// those of the upstream `before` whose place it takes.
    pub(crate) fn start(
        (name, server): (&str, &Server),
        settings: &Settings,
        common: &Common,
        before: Option<&Self>,
    ) -> Arc<Self> {
        let name: Arc<str> = name.into();
        let (heard_in, heard) = mpsc::channel(EVENTS_MAX);
        let times = Times::of(settings, server);
        let pool_before = before.map(|before| &*before.pool);
        let own = (Arc::clone(&name), server.clone());
        let pool = Pool::new(own, times, common, pool_before, heard_in);
        let kept = common.store.as_ref().map(|store| store.load(&name, &identity(server)));
        let kept = match kept {
            Some(Loaded::Offer(offer)) => Some(*offer),
            _ => None,
        };
        if let Some(offer) = &kept {
            pool.shared.asker.remember(&offer.asking);
        }
        let offer = match kept {
            Some(offer) => Some(Arc::new(offer)),
            None => before.and_then(|before| before.offer.load_full()),
        };
        let upstream = Arc::new(Self::new(name, Arc::clone(&pool), offer, common));
        tokio::spawn(Monitor::new(Arc::clone(&upstream), common).run(heard));
        pool.start();
        before.inspect(|before| before.pool.make_way(&pool));
        upstream
    }
}

impl Monitor {
    pub(super) fn new(upstream: Arc<Upstream>, common: &Common) -> Self {
        Self {
            upstream,
            store: common.store.clone(),
            events: common.events.clone(),
            announced: Changes::default(),
            unfounded: 0,
            due: None,
            reading: None,
            listens: Listens::default(),
            failures: 0,
            told: Vec::new(),
        }
    }

    pub(super) async fn run(mut self, mut events: mpsc::Receiver<WorkerEvent>) {
        loop {
            let at = self.due.as_ref().map_or_else(Moment::now, |(at, _)| *at);
            tokio::select! {
                event = events.recv() => match event {
                    None => return,
                    Some(event) => self.handle(event),
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

    fn handle(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Ready(worker) => {
                self.upstream.tell_all(&worker);
                // Every worker runs the same program: one list will do.
                if !self.upstream.is_fresh() || self.failures > 0 {
                    self.want(Duration::ZERO, worker);
                }
            }
            WorkerEvent::Taken(worker) => self.upstream.tell_all(&worker),
            WorkerEvent::ListsChanged(worker, method) => {
                self.announced.tools |= method == Method::ToolsListChanged;
                self.announced.prompts |= method == Method::PromptsListChanged;
                self.announced.resources |= method == Method::ResourcesListChanged;
                // Some servers announce a change whenever they are asked for their lists.
                let pause = GATHER.saturating_mul(1 << self.unfounded.min(16));
                self.want(pause.min(GATHER_MAX), worker);
            }
            WorkerEvent::Stale => match self.upstream.pool.reader() {
                Some(worker) => self.want(Duration::ZERO, worker),
                None => self.upstream.fresh_for(Some(lists::FRESH_MIN)),
            },
            WorkerEvent::Listening(worker) => {
                // What changed while nobody listened is in the lists only.
                if self.listens.began(&worker) {
                    self.want(Duration::ZERO, worker);
                }
            }
            WorkerEvent::ListenEnded(worker, is_refused) => {
                if let Some(notice) = self.listens.ended(&self.upstream, &worker, is_refused) {
                    self.notice(notice);
                }
            }
            WorkerEvent::Notice(notice) => self.notice(notice),
            WorkerEvent::Asks => {
                if self.reading.is_none() && self.failures == 0 && self.upstream.is_fresh() {
                    self.keep();
                }
            }
            WorkerEvent::Updated(worker, uri) => {
                let key = subscriptions::key_of(&worker);
                tell(
                    &self.events,
                    UpstreamEvent::Updated(Arc::clone(&self.upstream.name), uri, key),
                    false,
                );
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
        tell(&self.events, UpstreamEvent::Offer(Arc::clone(&self.upstream.name), announced), true);
    }

    /// Shows what has been read so far.
    fn show(&mut self) {
        let Some(reading) = &mut self.reading else { return };
        let Some(offer) = reading.show() else { return };
        let is_all = reading.is_all();
        let offer = Arc::new(offer);
        let before = self.upstream.offer.swap(Some(Arc::clone(&offer)));
        reading.is_other |= before.is_none_or(|before| !before.lists_the_same(&offer));
        self.upstream.pool.status.listed();
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
            offer.asking = upstream.pool.shared.asker.learned();
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
        let pool = &self.upstream.pool;
        if told.is_empty() {
            pool.status.recovered(|cause| matches!(cause, Cause::ListsFailed(_)));
        } else if nothing && self.upstream.offer.load().is_none() {
            pool.failed(Cause::ListsFailed(told));
        } else {
            self.notice(Notice::ListsMissing(told));
        }
    }

    fn notice(&self, notice: Notice) {
        tell(&self.events, UpstreamEvent::Notice(Arc::clone(&self.upstream.name), notice), false);
    }
}

/// A time of this length, or up to a quarter longer.
fn later(time: Duration) -> Duration {
    time + part(time / 4)
}

/// A pause of about this length: what failed together is not to be tried again together.
pub(super) fn jittered(pause: Duration) -> Duration {
    pause * 3 / 4 + part(pause / 2)
}

/// A random part of it.
fn part(most: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) % 1024;
    most / 1024 * u32::try_from(random).unwrap_or_default()
}
