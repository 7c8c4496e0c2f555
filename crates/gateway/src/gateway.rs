//! The gateway as a whole: its upstreams, its frontends, and how both change while it runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcplane::Service;
use mcplane::budget::Budget;
use mcplane::proto::error::shorten;
use mcplane::proto::text::line;
use mcplane::server::relay::Seal;
use mcplane::transport::http::server::Endpoint;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::catalog::{Changes, Naming, Prefix, Rules, ServerNaming, Shadowed, Snapshot, Store};
use crate::clock;
use crate::config::{Config, Names, Server, key_path};
use crate::desired::Desired;
use crate::frontend::{Frontend, View};
use crate::listen::site::Site;
use crate::upstream::keys::Key;
use crate::upstream::model::Times;
use crate::upstream::start::{Connect, Programs};
use crate::upstream::{Common, EVENTS_MAX, Upstream, UpstreamEvent, all_ready};

/// How long changes of offers are gathered after the first one, so that a start with many servers
/// rebuilds the catalogs only a few times.
const GATHER: Duration = Duration::from_millis(20);

/// The part of the settings' `ready` that servers whose lists are known wait for the others.
const READY_SHARE: u32 = 10;

/// Most names and URIs of one server, shadowed by other servers, that are reported one by one.
const SHADOWED_TOLD_MAX: usize = 10;
/// What begins each line that is quoted of a server's stderr.
const QUOTE: &str = "\n  | ";

/// Lines that wait for a slow subscriber before it misses some.
const TROUBLES_MAX: usize = 256;

/// A subscription to what goes wrong with servers.
#[derive(Debug)]
pub struct Troubles(broadcast::Receiver<String>);

impl Troubles {
    /// The next line; `None` when the gateway is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            match self.0.recv().await {
                Ok(trouble) => return Some(trouble),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// A running gateway. Cloning is cheap; every clone is the same one.
#[derive(Clone)]
pub struct Gateway(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    pub(crate) all: Arc<Frontend>,
    pub(crate) site: Site,
    common: Common,
    troubles: broadcast::Sender<String>,
    /// For requests and answers that wait, wherever they came in.
    pub(crate) memory: Budget,
    pub(crate) began: Instant,
    /// How often the settings were read again with success.
    pub(crate) reloads: AtomicU64,
}

struct State {
    config: Config,
    /// In the order of the settings, without those that are left out.
    upstreams: Vec<Arc<Upstream>>,
    frontends: HashMap<Arc<str>, (Arc<Frontend>, Endpoint)>,
}

impl Gateway {
    /// Starts the servers of `config`. They get ready in the background; see [`Gateway::ready`].
    ///
    /// # Errors
    /// The operating system has no randomness to give.
    pub fn start(config: Config) -> mcplane::Result<Self> {
        Self::start_with(config, Arc::new(Programs::default()))
    }

    /// As [`Gateway::start`], with another way to connect to servers.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub fn start_with(config: Config, connect: Arc<dyn Connect>) -> mcplane::Result<Self> {
        let (events_in, events) = mpsc::channel(EVENTS_MAX);
        let store = config.gateway.state_folder();
        let store = store.map(|folder| Arc::new(Store::new(folder.join("lists"))));
        let desired = Arc::<Desired>::default();
        let view = View::of(None, Vec::new(), &Naming::default());
        let all = Arc::new(Frontend::new(view, None, Arc::clone(&desired), Arc::default()));
        let memory = config.gateway.memory.map_or_else(Budget::default, |memory| {
            Budget::new(usize::try_from(memory.bytes()).unwrap_or(usize::MAX))
        });
        let service = all.serve(&memory)?;
        let common = Common {
            starts: Arc::new(Semaphore::new(config.gateway.start_parallel.max(1) as usize)),
            connect,
            store,
            events: events_in,
            seal: match &config.gateway.state_key {
                Some(key) => Seal::of_secret(key.expose().as_bytes()),
                None => Seal::random()?,
            },
            desired,
        };
        let inner = Arc::new_cyclic(|gateway| Inner {
            changing: tokio::sync::Mutex::default(),
            site: Site::new(service, gateway.clone(), &config.gateway),
            state: Mutex::new(State {
                config: Config { servers: Default::default(), ..config.clone() },
                upstreams: Vec::new(),
                frontends: HashMap::new(),
            }),
            all,
            common,
            troubles: broadcast::channel(TROUBLES_MAX).0,
            memory,
            began: clock::now(),
            reloads: AtomicU64::new(0),
        });
        let gateway = Self(inner);
        gateway.take_over(config)?;
        tokio::spawn(gateway.clone().listen_to(events));
        Ok(gateway)
    }

    /// Waits until every server has listed what it offers, or for the `ready` of the settings. A server
    /// that takes longer is added to the lists when it is done.
    ///
    /// Cancel safe.
    pub async fn ready(&self) {
        let most = self.state().config.gateway.ready.duration();
        all_ready(&self.upstreams(), most).await;
        self.rebuild(&[]);
    }

    /// Waits until there is something to list: not at all if the lists of every server are known from
    /// the last run, else until each server has listed what it offers or has failed. A slow server
    /// delays the others by at most a tenth of the settings' `ready`, and all of them together by at
    /// most `ready`.
    ///
    /// Cancel safe.
    pub async fn listed(&self) {
        let (began, most) = (clock::now(), self.state().config.gateway.ready.duration());
        let mut settling = JoinSet::new();
        for upstream in self.upstreams() {
            settling.spawn(async move {
                upstream.settled().await;
                upstream.offer.load().is_some()
            });
        }
        let mut patience = most;
        loop {
            tokio::select! {
                settled = settling.join_next() => match settled {
                    Some(Ok(true)) => patience = most / READY_SHARE,
                    Some(_) => {}
                    None => break,
                },
                () = sleep_until((began + patience).into()) => break,
            }
        }
        self.rebuild(&[]);
    }

    /// Replaces the settings. Servers whose settings are the same keep their workers; calls in flight on
    /// the others may finish.
    ///
    /// # Errors
    /// The operating system has no randomness to give; then everything stays as it is.
    pub async fn reload(&self, config: Config) -> mcplane::Result<()> {
        let _one = self.0.changing.lock().await;
        let settings = config.gateway.clone();
        let gone = self.take_over(config)?;
        self.0.site.welcome(&settings);
        self.0.reloads.fetch_add(1, Ordering::Relaxed);
        let drain = self.state().config.gateway.drain.duration();
        let running = self.upstreams();
        for upstream in gone {
            let successor = running.iter().any(|other| other.name == upstream.name);
            tokio::spawn(upstream.retire(clock::now() + drain, successor));
        }
        Ok(())
    }

    /// The service for all servers, to be served over transports of your own.
    #[must_use]
    pub fn service(&self) -> Service {
        self.0.site.service()
    }

    /// Stops every server: calls in flight may finish within the settings' `drain`.
    pub async fn close(&self) {
        let drain = self.state().config.gateway.drain.duration();
        let deadline = clock::now() + drain;
        let closing: Vec<_> = self
            .upstreams()
            .into_iter()
            .map(|upstream| {
                let why = "the gateway is shutting down";
                tokio::spawn(async move { upstream.pool.close(deadline, why).await })
            })
            .collect();
        for one in closing {
            // A panic in there is its own.
            let _ = one.await;
        }
    }

    /// Subscribes to what goes wrong with servers, one line each, for the operator's log. A line may quote
    /// what a server prints, with control characters escaped.
    #[must_use]
    pub fn troubles(&self) -> Troubles {
        Troubles(self.0.troubles.subscribe())
    }

    /// The settings as they are now.
    #[must_use]
    pub fn config(&self) -> Config {
        self.state().config.clone()
    }

    pub(crate) fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.state().upstreams.clone()
    }

    /// Swaps the settings. Returns the upstreams that are no longer in them.
    fn take_over(&self, config: Config) -> mcplane::Result<Vec<Arc<Upstream>>> {
        let mut state = self.state();
        let old = state.upstreams.clone();
        let was = |name: &str| old.iter().find(|upstream| *upstream.name == *name);
        let mut upstreams = Vec::new();
        for (name, server) in config.servers.iter().filter(|(_, server)| !server.disabled) {
            let same = was(name).filter(|upstream| is_same(&upstream.pool.settings, server));
            let upstream = match same {
                Some(upstream) => {
                    upstream.pool.shared.times.store(Arc::new(Times::of(&config.gateway, server)));
                    Arc::clone(upstream)
                }
                None => {
                    let before = was(name).map(|before| &**before);
                    Upstream::start((name, server), &config.gateway, &self.0.common, before)
                }
            };
            upstream.pool.shared.questions.charge_to(&self.0.memory);
            upstreams.push(upstream);
        }
        let stays =
            |upstream: &Arc<Upstream>| upstreams.iter().any(|new| Arc::ptr_eq(new, upstream));
        let gone = old.iter().filter(|upstream| !stays(upstream)).cloned().collect();
        let is_new = |upstream: &&Arc<Upstream>| !old.iter().any(|old| Arc::ptr_eq(old, upstream));
        let new: Vec<_> = upstreams.iter().filter(is_new).cloned().collect();
        let mut frontends = HashMap::new();
        for upstream in &upstreams {
            let name = Arc::clone(&upstream.name);
            // Its sessions go on, whatever runs behind it.
            let frontend = match state.frontends.get(&name) {
                Some(known) => known.clone(),
                None => {
                    let view = View::of(Some(&name), vec![Arc::clone(upstream)], &naming(&config));
                    let desired = Arc::clone(&self.0.common.desired);
                    let (server, tally) = (Some(Arc::clone(&name)), Arc::clone(&self.0.all.tally));
                    let frontend = Arc::new(Frontend::new(view, server, desired, tally));
                    let endpoint = self.0.site.endpoint_of(&name, &frontend.serve(&self.0.memory)?);
                    (frontend, endpoint)
                }
            };
            frontends.insert(name, frontend);
        }
        let places =
            frontends.iter().map(|(name, (_, endpoint))| (Arc::clone(name), endpoint.clone()));
        self.0.site.set(places.collect());
        *state = State { config, upstreams, frontends };
        drop(state);
        self.rebuild(&[]);
        // What clients asked for before these upstreams were shown went to others.
        new.iter().for_each(|upstream| upstream.reconcile());
        Ok(gone)
    }

    /// Rebuilds the catalogs, and passes on what servers have announced.
    fn rebuild(&self, announced: &[Announced]) {
        let state = self.state();
        let naming = naming(&state.config);
        // A server that does not run keeps its prefix: nobody is to be taken for it.
        let absent = state.config.servers.iter().map(|(name, _)| name.into()).collect();
        let common = Naming { absent, ..naming.clone() };
        let view = View::of(None, state.upstreams.clone(), &common);
        for (index, upstream) in state.upstreams.iter().enumerate() {
            self.tell_names(upstream, index, &view.snapshot);
            if let Some((frontend, _)) = state.frontends.get(&upstream.name) {
                let view = View::of(Some(&upstream.name), vec![Arc::clone(upstream)], &naming);
                frontend.show(view, changes_of(announced, |name| *name == upstream.name));
            }
        }
        self.0.all.show(view, changes_of(announced, |_| true));
    }

    /// Reports which tools of an upstream could not be renamed, and which of its names and URIs belong to
    /// another server: once for each new list of them.
    fn tell_names(&self, upstream: &Upstream, index: usize, snapshot: &Snapshot) {
        let clashes = snapshot.clashes().iter().filter(|clash| clash.server == index);
        let clashes = clashes.map(|clash| {
            let key = key_path(&["servers", &*upstream.name, "tools", "rename", &*clash.tool]);
            format!("{key}: another tool is called `{}`; expected another name", clash.wanted)
        });
        let shadowed = snapshot.shadowed().iter().filter(|one| one.server == index);
        let more = shadowed.clone().count().saturating_sub(SHADOWED_TOLD_MAX);
        let shadowed = shadowed.take(SHADOWED_TOLD_MAX).map(told);
        let more = (more > 0).then(|| format!("and {more} more that are another server's"));
        let told = clashes.chain(shadowed).chain(more).collect::<Vec<_>>().join("\n");
        let told = (!told.is_empty()).then(|| Arc::new(told));
        let before = upstream.misnamed.swap(told.clone());
        if let Some(told) = told.filter(|told| before.as_ref() != Some(told)) {
            told.lines().for_each(|clash| self.trouble(&upstream.name, clash));
        }
    }

    /// Handles the events of upstreams, as long as the gateway lives.
    async fn listen_to(self, mut events: mpsc::Receiver<UpstreamEvent>) {
        let weak = Arc::downgrade(&self.0);
        drop(self);
        while let Some(event) = events.recv().await {
            let Some(gateway) = weak.upgrade().map(Gateway) else { return };
            match event {
                UpstreamEvent::Offer(name, changes) => {
                    sleep(GATHER).await;
                    let (mut announced, mut others) = (vec![(name, changes)], Vec::new());
                    while let Ok(event) = events.try_recv() {
                        match event {
                            UpstreamEvent::Offer(name, changes) => announced.push((name, changes)),
                            other => others.push(other),
                        }
                    }
                    gateway.rebuild(&announced);
                    others.into_iter().for_each(|event| gateway.pass_on(event));
                }
                event => gateway.pass_on(event),
            }
        }
    }

    fn pass_on(&self, event: UpstreamEvent) {
        match event {
            UpstreamEvent::Offer(name, changes) => self.rebuild(&[(name, changes)]),
            UpstreamEvent::Updated(upstream, uri, key) => {
                self.updated(&upstream, &uri, key.as_ref())
            }
            UpstreamEvent::Notice(upstream, notice) => self.trouble(&upstream, &notice.to_string()),
        }
    }

    /// Reports what is wrong with a server, on one line whatever the server has said.
    fn trouble(&self, upstream: &str, what: &str) {
        self.0.tell(&format!("{upstream}: {}", what.replace(QUOTE, " | ")));
    }

    fn updated(&self, upstream: &str, uri: &str, key: Option<&Key>) {
        self.0.all.updated(upstream, uri, key);
        let frontend = self.state().frontends.get(upstream).cloned();
        if let Some((frontend, _)) = frontend {
            frontend.updated(upstream, uri, key);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Reports something to the operator's log, on one line.
    pub(crate) fn tell(&self, what: &str) {
        // There may be no subscriber.
        let _ = self.troubles.send(line(what).into_owned());
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.upstreams().iter().map(|u| Arc::clone(&u.name)).collect();
        f.debug_struct("Gateway").field("servers", &names).finish_non_exhaustive()
    }
}

/// Whether a server may keep its workers: settings that only change the catalog do not concern them.
fn is_same(running: &Server, wanted: &Server) -> bool {
    let tools = |Server { tools, .. }: &Server| {
        (tools.concurrency.clone(), tools.timeouts.clone(), tools.asks.clone())
    };
    let rest = |server: &Server| Server { tools: Default::default(), ..server.clone() };
    tools(running) == tools(wanted) && rest(running) == rest(wanted)
}

/// What servers say has changed, whether it has or not.
type Announced = (Arc<str>, Changes);

fn changes_of(announced: &[Announced], of: impl Fn(&Arc<str>) -> bool) -> Changes {
    let of = announced.iter().filter(|(name, _)| of(name));
    of.fold(Changes::default(), |all, (_, changes)| all.or(*changes))
}

fn told(shadowed: &Shadowed) -> String {
    let Shadowed { kind, name, by, exposed, .. } = shadowed;
    let (kind, name) = (kind.noun(), shorten(name));
    match exposed {
        Some(exposed) => format!(
            "its {kind} {name:?} has the name of server `{by}` in front; clients see {exposed:?}"
        ),
        None => format!(
            "its {kind} {name:?} is server `{by}`'s, which comes first; clients find this one at \
             the server's own endpoint only"
        ),
    }
}

fn naming(config: &Config) -> Naming {
    let prefix = match config.gateway.names {
        Names::Collision => Prefix::Collision,
        Names::Always => Prefix::Always,
    };
    let rules = |server: &Server| ServerNaming {
        tools: Rules::from(&server.tools),
        ..ServerNaming::default()
    };
    let servers = config.servers.iter().map(|(name, server)| (name.into(), rules(server)));
    Naming { prefix, servers: servers.collect(), absent: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_trouble_is_one_line_that_commands_nothing() {
        let gateway = Gateway::start(Config::default()).unwrap();
        let mut troubles = gateway.troubles();
        gateway.trouble(
            "a",
            "it said \u{1b}]0;x\u{7}\nmcplane: forged; last lines:\n  | one\n  | two",
        );
        let told = "a: it said \\u{1b}]0;x\\u{7}\\nmcplane: forged; last lines: | one | two";
        assert_eq!(troubles.next().await.unwrap(), told);
    }
}
