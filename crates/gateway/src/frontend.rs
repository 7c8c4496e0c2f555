//! What clients see of one upstream, or of all of them: a catalog, capabilities, a name.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use mcplane::budget::Budget;
use mcplane::proto::session::ServerConfig;
use mcplane::proto::session::listen::Offered;
use mcplane::proto::session::server::Features;
use mcplane::proto::types::{Cache, Implementation, LogLevel};
use mcplane::proto::version::{Era, Revision};
use mcplane::server::Service;
use mcplane::server::relay::Caller;
use tokio::sync::watch;

use crate::catalog::{Changes, Kind, Naming, Route, Server, Snapshot};
use crate::config::Mode;
use crate::desired::{Client, Desired};
use crate::failure::NO_SESSION;
use crate::settle::Tally;
use crate::upstream::Upstream;
use crate::upstream::keys::Key;

/// What is behind one endpoint.
pub(crate) struct Frontend {
    view: ArcSwap<View>,
    /// The server that it is for; the frontend of all servers has none.
    server: Option<Arc<str>>,
    desired: Arc<Desired>,
    /// How the requests ended that were answered without an upstream, at any frontend.
    pub(crate) tally: Arc<Tally>,
    service: OnceLock<Service>,
}

/// What a frontend shows at one moment. A request finishes on the view that it began with.
pub(crate) struct View {
    pub(crate) snapshot: Snapshot,
    /// In the order of the snapshot's servers.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) config: Arc<ServerConfig>,
    /// Tells each upstream that it is shown.
    _shown: Vec<watch::Receiver<()>>,
    /// It shows one server as that server is.
    is_own: bool,
    /// For clients with neither a session nor a principal, where a server has a worker for each session.
    for_nobody: Option<Arc<ServerConfig>>,
    /// `config.info` as JSON.
    pub(crate) info: Vec<u8>,
}

impl Frontend {
    pub(crate) fn new(
        view: View,
        server: Option<Arc<str>>,
        desired: Arc<Desired>,
        tally: Arc<Tally>,
    ) -> Self {
        Self { view: ArcSwap::from_pointee(view), server, desired, tally, service: OnceLock::new() }
    }

    pub(crate) fn view(&self) -> arc_swap::Guard<Arc<View>> {
        self.view.load()
    }

    /// The service that clients are connected to.
    pub(crate) fn serve(self: &Arc<Self>, memory: &Budget) -> mcplane::Result<Service> {
        let relay = Arc::clone(self) as Arc<dyn mcplane::server::relay::Relay>;
        let service = Service::relay_within(relay, memory.clone())?;
        let _ = self.service.set(service.clone());
        Ok(service)
    }

    /// Replaces the view, and tells clients which lists have changed, or are `announced` to have.
    pub(crate) fn show(&self, view: View, announced: Changes) -> Changes {
        let old = self.view.swap(Arc::new(view));
        let view = self.view();
        self.follow(&view);
        let (mut changes, has) = (announced, &view.config.features);
        changes.tools &= has.tools;
        changes.prompts &= has.prompts;
        changes.resources &= has.resources;
        let changes = changes.or(view.snapshot.changes(&old.snapshot));
        if let Some(service) = self.service.get() {
            service.lists_changed(changes.tools, changes.prompts, changes.resources);
        }
        changes
    }

    /// A resource of this upstream has changed: for clients with this key, if the worker that says so
    /// has one.
    pub(crate) fn updated(&self, upstream: &str, uri: &str, key: Option<&Key>) {
        let shown = self.view().upstreams.iter().find(|shown| *shown.name == *upstream).cloned();
        let (Some(service), Some(upstream)) = (self.service.get(), shown) else { return };
        let mode = upstream.pool.settings.mode;
        match key.cloned() {
            None => service.resource_updated(uri),
            Some(key) => service.resource_updated_for(uri, move |caller| {
                Key::of(mode, caller).as_ref() == Some(&key)
            }),
        }
    }
}

/// What clients subscribe to. It is noted first, and the upstreams are looked up after that: an upstream
/// that is shown later is reconciled then.
impl Frontend {
    pub(crate) fn subscribe(&self, caller: &Caller, uri: &str) {
        let owner = || Some(Arc::clone(&self.view().owner(uri)?.name));
        let server = self.desired.subscribe(&self.client(caller), uri, owner);
        self.reconcile(server.as_deref(), caller, uri);
    }

    pub(crate) fn unsubscribe(&self, caller: &Caller, uri: &str) {
        let server = self.desired.unsubscribe(&self.client(caller), uri);
        self.reconcile(server.as_deref(), caller, uri);
    }

    /// The log level that a session wants.
    pub(crate) fn set_level(&self, caller: &Caller, level: &LogLevel) {
        if self.desired.set_level(&self.client(caller), level) {
            self.view().upstreams.iter().for_each(|upstream| upstream.reconcile_level(caller));
        }
    }

    /// The log level that a request to this upstream wants.
    pub(crate) fn raise_level(&self, upstream: &Upstream, caller: &Caller, level: &LogLevel) {
        if self.desired.raise_level(&self.client(caller), &upstream.name, level) {
            upstream.reconcile_level(caller);
        }
    }

    /// A client has disconnected.
    pub(crate) fn forget(&self, caller: &Caller) {
        if self.desired.ended(&self.client(caller)) {
            self.view().upstreams.iter().for_each(|upstream| upstream.reconcile_level(caller));
        }
    }

    /// Moves subscriptions to the upstreams that now have their resources.
    fn follow(&self, view: &View) {
        let owner = |uri: &str| Some(Arc::clone(&view.owner(uri)?.name));
        for moved in self.desired.follow(self.server.as_ref(), owner) {
            self.reconcile(moved.from.as_deref(), &moved.caller, &moved.uri);
            self.reconcile(Some(&moved.to), &moved.caller, &moved.uri);
        }
    }

    fn reconcile(&self, server: Option<&str>, caller: &Caller, uri: &str) {
        let view = self.view();
        let upstream = server.and_then(|server| view.upstreams.iter().find(|u| *u.name == *server));
        if let Some(upstream) = upstream {
            upstream.reconcile_subscription(caller, uri);
        }
    }

    fn client(&self, caller: &Caller) -> Client {
        Client { frontend: self.server.clone(), caller: caller.clone() }
    }
}

impl View {
    /// Where a tool or prompt goes that is in no list: to the server itself, at its own frontend.
    pub(crate) fn unlisted(&self, kind: Kind) -> Option<&Route> {
        let is_free = |one: &Arc<Upstream>| one.pool.settings.tools.concurrency.is_empty();
        let is_open = self.is_own && self.upstreams.iter().all(is_free);
        self.snapshot.unlisted(kind).filter(|_| is_open)
    }

    /// The server that has a resource.
    pub(crate) fn owner(&self, uri: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.get(self.snapshot.resource(uri)?.server)
    }

    /// What a client is told about the server.
    pub(crate) fn config_for(&self, caller: &Caller) -> &Arc<ServerConfig> {
        let is_nobody = caller.connection.is_none() && caller.principal.is_none();
        self.for_nobody.as_ref().filter(|_| is_nobody).unwrap_or(&self.config)
    }

    /// What these upstreams offer at the moment, in this order. `name` is set for a single upstream.
    pub(crate) fn of(name: Option<&str>, upstreams: Vec<Arc<Upstream>>, naming: &Naming) -> Self {
        let server = |upstream: &Arc<Upstream>| Server {
            name: Arc::clone(&upstream.name),
            offer: upstream.offer.load_full(),
        };
        let snapshot = Snapshot::build(upstreams.iter().map(server).collect(), naming);
        let has = snapshot.features();
        let offers = snapshot.servers().first().and_then(|server| server.offer.as_ref());
        let own = name.and_then(|_| offers?.info.clone());
        let version = env!("CARGO_PKG_VERSION");
        let info = own.unwrap_or_else(|| Implementation::new(name.unwrap_or("mcplane"), version));
        let config = ServerConfig {
            capabilities: snapshot.capabilities(),
            instructions: snapshot.instructions(),
            revisions: Revision::ALL.to_vec(),
            unsupported: None,
            features: Features {
                tools: has.tools,
                resources: has.resources,
                prompts: has.prompts,
                completions: has.completions,
                logging: has.logging,
            },
            offered: Offered {
                tools_list_changed: has.tools,
                prompts_list_changed: has.prompts,
                resources_list_changed: has.resources,
                resource_subscriptions: has.subscribe,
            },
            cache: Cache::default(),
            info,
        };
        let info = serde_json::to_vec(&config.info).unwrap_or_else(|_| b"{}".to_vec());
        // At the frontend of all servers, the other servers can be called without a session.
        let needs_a_session = |one: &Arc<Upstream>| one.pool.settings.mode == Mode::PerSession;
        let for_nobody = (name.is_some() && upstreams.iter().all(needs_a_session)).then(|| {
            let is_legacy = |revision: &Revision| revision.era() == Era::Legacy;
            Arc::new(ServerConfig {
                revisions: Revision::ALL.into_iter().filter(is_legacy).collect(),
                unsupported: Some(NO_SESSION.into()),
                ..config.clone()
            })
        });
        let _shown = upstreams.iter().map(|upstream| upstream.shown.subscribe()).collect();
        let is_own = name.is_some();
        Self { snapshot, upstreams, config: Arc::new(config), _shown, is_own, for_nobody, info }
    }
}
