//! What clients see of one upstream, or of all of them: a catalog, capabilities, a name.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use mcplane::budget::Budget;
use mcplane::proto::session::ServerConfig;
use mcplane::proto::session::listen::Offered;
use mcplane::proto::session::server::Features;
use mcplane::proto::types::{Cache, Implementation};
use mcplane::proto::version::Revision;
use mcplane::server::Service;

use crate::catalog::{Changes, Naming, Server, Snapshot};
use crate::upstream::Upstream;

/// One endpoint's worth of servers.
pub(crate) struct Face {
    view: ArcSwap<View>,
    service: OnceLock<Service>,
}

/// What a face shows at one moment. Requests in flight finish on the one that they began with.
pub(crate) struct View {
    pub(crate) snapshot: Snapshot,
    /// In the order of the snapshot's servers.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) config: Arc<ServerConfig>,
    /// `config.info` as JSON.
    pub(crate) info: Vec<u8>,
}

impl Face {
    pub(crate) fn new(view: View) -> Self {
        Self { view: ArcSwap::from_pointee(view), service: OnceLock::new() }
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

    /// Shows something else from now on, and tells clients which lists are not what they were, or
    /// were `announced` to be others.
    pub(crate) fn show(&self, view: View, announced: Changes) -> Changes {
        let old = self.view.swap(Arc::new(view));
        let view = self.view();
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

    /// A resource of this upstream has changed.
    pub(crate) fn updated(&self, upstream: &str, uri: &str) {
        let shown = self.view().upstreams.iter().any(|shown| *shown.name == *upstream);
        if let (Some(service), true) = (self.service.get(), shown) {
            service.resource_updated(uri);
        }
    }
}

impl View {
    /// What these upstreams offer at the moment, in this order. `name` is that of the only one.
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
        Self { snapshot, upstreams, config: Arc::new(config), info }
    }
}
