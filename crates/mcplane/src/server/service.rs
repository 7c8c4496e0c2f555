//! A server that runs: what its connections share, and how it changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

#[cfg(feature = "http")]
use mcplane_proto::headers::ParamHeader;
use mcplane_proto::session::ServerConfig;
use mcplane_proto::types::Cache;
use tokio::sync::broadcast;

use super::catalog::Catalog;
use super::lines::{self, Noise};
use super::pool::{self, Pools};
use super::refusals::Refusals;
use super::relay::{Caller, Relay};
use super::rounds::SealKey;
use super::state::States;
use super::{IntoPrompt, IntoResource, IntoTool, PAGE_SIZE};
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::transport::Transport;

/// Changes that a slow connection may fall behind before it is only told to list everything again.
const CHANGES_MAX: usize = 256;

/// A running server. Cloning is cheap; every clone is the same server.
#[derive(Clone)]
pub struct Service {
    pub(super) shared: Arc<Shared>,
    /// Who the client is, where the transport knows.
    pub(super) principal: Option<Arc<str>>,
}

/// What the connections of a server share.
pub(crate) struct Shared {
    pub(super) config: Arc<ServerConfig>,
    pub(super) info_json: Vec<u8>,
    pub(super) catalog: RwLock<Arc<Catalog>>,
    /// Counts the changes of the catalog, so that a connection sees one without a lock.
    pub(super) generation: AtomicU64,
    pub(super) changes: broadcast::Sender<Change>,
    pub(super) pools: Pools,
    pub(super) page_size: usize,
    pub(super) cache: Cache,
    pub(super) key: SealKey,
    /// For what waits in memory.
    pub(super) budget: Budget,
    pub(crate) states: States,
    pub(super) refusals: Arc<Refusals>,
    /// Who answers instead of the catalog.
    pub(super) relay: Option<Arc<dyn Relay>>,
}

impl Shared {
    /// A server with nothing in its catalog.
    pub(super) fn new(config: Arc<ServerConfig>, key: SealKey) -> Result<Self> {
        let info_json = serde_json::to_vec(&config.info)
            .map_err(|error| Error::misuse(format!("the server's name: {error}")))?;
        Ok(Self {
            config,
            info_json,
            catalog: RwLock::default(),
            generation: AtomicU64::new(0),
            changes: broadcast::channel(CHANGES_MAX).0,
            pools: Pools::new(pool::DEFAULT),
            page_size: PAGE_SIZE,
            cache: Cache::default(),
            key,
            budget: Budget::default(),
            states: States::default(),
            refusals: Arc::default(),
            relay: None,
        })
    }
}

/// What connections tell their clients of.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    /// To all who watch it, or to those of them for whom this holds.
    Resource(String, Option<Audience>),
}

/// Who is to hear of something.
#[derive(Clone)]
pub(crate) struct Audience(Arc<dyn Fn(&Caller) -> bool + Send + Sync>);

impl Audience {
    pub(super) fn has(&self, caller: &Caller) -> bool {
        self.0(caller)
    }
}

impl std::fmt::Debug for Audience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audience").finish_non_exhaustive()
    }
}

impl Service {
    /// A server that passes requests on.
    ///
    /// # Errors
    /// The operating system provides no randomness, or the name is not JSON.
    pub fn relay(relay: Arc<dyn Relay>) -> Result<Self> {
        Self::relay_within(relay, Budget::default())
    }

    /// As [`Service::relay`], with a budget for messages that wait.
    ///
    /// # Errors
    /// As [`Service::relay`].
    pub fn relay_within(relay: Arc<dyn Relay>, budget: Budget) -> Result<Self> {
        let nobody = Caller { connection: None, principal: None };
        let shared = Shared::new(relay.config(&nobody), SealKey::random()?)?;
        Ok(Self::of_shared(Shared { relay: Some(relay), budget, ..shared }))
    }

    /// What is charged with everything that waits.
    #[cfg(feature = "http")]
    pub(crate) fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    pub(super) fn of_shared(shared: Shared) -> Self {
        Self { shared: Arc::new(shared), principal: None }
    }

    /// Tells every client which lists have changed.
    pub fn lists_changed(&self, tools: bool, prompts: bool, resources: bool) {
        for (changed, change) in
            [(tools, Change::Tools), (prompts, Change::Prompts), (resources, Change::Resources)]
        {
            if changed {
                // Nobody connected is nobody to tell.
                let _ = self.shared.changes.send(change);
            }
        }
    }

    /// Serves one connection until the peer closes it. Requests in flight then get a moment to
    /// finish.
    ///
    /// Cancel safe in that nothing is left behind: dropping the future ends the connection.
    ///
    /// # Errors
    /// If the transport cannot be opened, or breaks other than by ending.
    pub async fn serve(&self, transport: impl Transport) -> Result<()> {
        let (reader, writer) = transport.open()?;
        lines::serve(self, reader, writer, Noise::IsRefused).await
    }

    /// The same for a socket, which anybody may connect to: it is closed at the first line that is
    /// no JSON.
    pub(crate) async fn serve_socket(&self, socket: impl Transport) -> Result<()> {
        let (reader, writer) = socket.open()?;
        lines::serve(self, reader, writer, Noise::Ends).await
    }

    /// Adds a tool, or replaces the one of this name, and tells every client.
    ///
    /// # Errors
    /// If its schema does not compile, its state is missing, or the server started without tools:
    /// the capability cannot be declared afterwards.
    pub fn add_tool(&self, tool: impl IntoTool) -> Result<()> {
        self.must_offer("tools", self.shared.config.features.tools)?;
        let tool = tool.into_tool();
        self.shared.states.check(&format!("tool `{}`", tool.name()), &tool.needs)?;
        let tool = tool.compile()?;
        let name = tool.definition.name.clone();
        self.change(Change::Tools, |catalog| catalog.tools.insert(&name, tool));
        Ok(())
    }

    /// Removes a tool and tells every client. `false` if there was none.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.change(Change::Tools, |catalog| catalog.tools.remove(name)).is_some()
    }

    /// Adds a prompt, or replaces the one of this name, and tells every client.
    ///
    /// # Errors
    /// If the server started without prompts, or lacks the state that it needs.
    pub fn add_prompt(&self, prompt: impl IntoPrompt) -> Result<()> {
        self.must_offer("prompts", self.shared.config.features.prompts)?;
        let prompt = Arc::new(prompt.into_prompt());
        let name = prompt.definition.name.clone();
        self.shared.states.check(&format!("prompt `{name}`"), &prompt.needs)?;
        self.change(Change::Prompts, |catalog| catalog.prompts.insert(&name, prompt));
        Ok(())
    }

    /// Removes a prompt and tells every client. `false` if there was none.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change(Change::Prompts, |catalog| catalog.prompts.remove(name)).is_some()
    }

    /// Adds a resource, or replaces the one of this URI, and tells every client.
    ///
    /// # Errors
    /// If the server started without resources, or lacks the state that it needs.
    pub fn add_resource(&self, resource: impl IntoResource) -> Result<()> {
        self.must_offer("resources", self.shared.config.features.resources)?;
        let resource = Arc::new(resource.into_resource());
        let uri = resource.definition.uri.clone();
        self.shared.states.check(&format!("resource `{uri}`"), &resource.needs)?;
        self.change(Change::Resources, |catalog| catalog.resources.insert(&uri, resource));
        Ok(())
    }

    /// Removes a resource and tells every client. `false` if there was none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change(Change::Resources, |catalog| catalog.resources.remove(uri)).is_some()
    }

    /// Tells the subscribers of a resource that it has changed.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        // Nobody connected is nobody to tell.
        let _ = self.shared.changes.send(Change::Resource(uri.into(), None));
    }

    /// As [`Service::resource_updated`], for a server that passes requests on: tells only the
    /// subscribers for which `is_meant` holds. It is called in each connection's task, and may not
    /// wait.
    pub fn resource_updated_for(
        &self,
        uri: impl Into<String>,
        is_meant: impl Fn(&Caller) -> bool + Send + Sync + 'static,
    ) {
        let audience = Some(Audience(Arc::new(is_meant)));
        let _ = self.shared.changes.send(Change::Resource(uri.into(), audience));
    }

    fn must_offer(&self, what: &str, offered: bool) -> Result<()> {
        if offered {
            return Ok(());
        }
        Err(Error::misuse(format!("the server began without {what}, so it cannot add any")))
    }

    fn change<T>(&self, change: Change, edit: impl FnOnce(&mut Catalog) -> T) -> T {
        let edited = {
            let mut catalog = self.shared.catalog.write().unwrap_or_else(PoisonError::into_inner);
            edit(Arc::make_mut(&mut catalog))
        };
        self.shared.generation.fetch_add(1, Ordering::Release);
        let _ = self.shared.changes.send(change);
        edited
    }

    /// The same server, for a client that the transport has recognised.
    #[cfg(feature = "http")]
    pub(crate) fn of(&self, principal: Option<Arc<str>>) -> Self {
        Self { shared: Arc::clone(&self.shared), principal }
    }

    /// Who the client is, as seals name it; empty where the transport knows no principals.
    pub(super) fn principal(&self) -> &str {
        self.principal.as_deref().unwrap_or_default()
    }

    /// The arguments of a tool that clients mirror in headers.
    #[cfg(feature = "http")]
    pub(crate) fn mirrored(&self, tool: &str) -> Option<Arc<[ParamHeader]>> {
        match &self.shared.relay {
            Some(relay) => relay.mirrored(tool),
            None => self.catalog().tools.get(tool).map(|tool| Arc::clone(&tool.mirrored)),
        }
    }

    /// What the server tells of from here on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.shared.changes.subscribe()
    }

    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.shared.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("info", &self.shared.config.info).finish_non_exhaustive()
    }
}
