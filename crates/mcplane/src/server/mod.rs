//! MCP servers: what they offer, and how a connection is served.
//!
//! * [`Server`] — a server being put together; [`Service`] — one that runs (this file).
//! * `tool`, `resource`, `prompt` — what is offered; `outcome` — what handlers return,
//!   `failure` — how they fail.
//! * `state` — what handlers share.
//! * `context` — how a handler talks to the client; `form` — forms from types.
//! * `connection` — the one loop: bytes in, handlers, bytes out; `dispatch` — who answers what.
//! * `pool` — where handlers run that block or wait; `rounds` — questions without a session.
//! * [`relay`] — requests that are passed on instead.

mod batches;
mod catalog;
mod connection;
mod context;
mod dispatch;
mod failure;
mod form;
mod handler;
mod lines;
mod outcome;
mod outlet;
mod pool;
mod prompt;
pub mod relay;
mod resource;
#[doc(hidden)]
pub mod returned;
mod room;
mod rounds;
mod seal;
mod state;
mod tool;
#[cfg(any(test, not(feature = "schema")))]
#[cfg_attr(feature = "schema", allow(dead_code, reason = "only its tests are run"))]
mod typed;

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

#[cfg(feature = "http")]
use mcplane_proto::headers::ParamHeader;
use mcplane_proto::session::ServerConfig;
use mcplane_proto::session::listen::Offered;
use mcplane_proto::session::server::Features;
use mcplane_proto::types::{
    Cache, CacheScope, CompleteParams, CompleteResult, Icon, Implementation, ServerCapabilities,
};
use mcplane_proto::version::Revision;
use tokio::sync::broadcast;

#[cfg(feature = "http")]
pub(crate) use connection::{Connection, Cut, Then};
pub use context::Context;
pub use failure::Failure;
pub use form::Elicited;
pub use handler::Boxed;
pub use outcome::{IntoPromptResult, IntoResourceResult, IntoToolResult, Json};
pub use outlet::{NOTES_BYTES_MAX, NOTES_MAX};
pub use prompt::{IntoPrompt, Prompt, PromptArguments};
pub use resource::{
    IntoResource, IntoResourceTemplate, Resource, ResourceRequest, ResourceTemplate,
};
pub use state::State;
pub use tool::{Arguments, IntoTool, NoArguments, Tool};

use catalog::Catalog;
use handler::Handler;
use lines::Noise;
use pool::{Pool, PoolConfig};
use relay::Relay;
use resource::Pattern;
use rounds::SealKey;
use state::{Need, States};

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::transport::Transport;

/// Entries of one page of a list. Small enough for every client's line buffer, large enough that
/// most servers have one page.
const PAGE_SIZE: usize = 250;

/// Changes that a slow connection may fall behind before it is only told to list everything again.
const CHANGES_MAX: usize = 256;

/// A server being put together.
///
/// ```
/// use mcplane::{NoArguments, Server, Tool};
///
/// let server = Server::new("demo", "1.0.0")
///     .instructions("Say hello.")
///     .tool(Tool::inline("hello", |_, _: NoArguments| "hello").description("Says hello."));
/// ```
#[derive(Debug)]
pub struct Server {
    info: Implementation,
    instructions: Option<String>,
    revisions: Vec<Revision>,
    catalog: Catalog,
    logging: bool,
    pool: PoolConfig,
    page_size: usize,
    cache: Cache,
    key: Option<SealKey>,
    budget: Budget,
    states: States,
    /// The state that is needed, and by whom.
    needs: Vec<(String, Vec<Need>)>,
    problem: Option<Error>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tools: Vec<_> = self.tools.iter().map(|tool| &tool.definition.name).collect();
        f.debug_struct("Catalog").field("tools", &tools).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey(secret)")
    }
}

impl Server {
    /// A server of this name and version that offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            info: Implementation::new(name, version),
            instructions: None,
            revisions: Revision::ALL.to_vec(),
            catalog: Catalog::default(),
            logging: true,
            pool: pool::DEFAULT,
            page_size: PAGE_SIZE,
            cache: Cache::default(),
            key: None,
            budget: Budget::default(),
            states: States::default(),
            needs: Vec::new(),
            problem: None,
        }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// One more icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.icons.push(icon);
        self
    }

    /// What the model should know about this server.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// The revisions to serve; all of them if this is not called.
    #[must_use]
    pub fn revisions(mut self, revisions: impl IntoIterator<Item = Revision>) -> Self {
        self.revisions = revisions.into_iter().collect();
        self
    }

    /// Adds a tool. Two of one name are an error when the server starts.
    #[must_use]
    pub fn tool(mut self, tool: impl IntoTool) -> Self {
        let mut tool = tool.into_tool();
        self.need(format!("tool `{}`", tool.name()), std::mem::take(&mut tool.needs));
        match tool.compile() {
            Ok(tool) => {
                let name = tool.definition.name.clone();
                let taken = self.catalog.tools.insert(&name, tool).is_some();
                self.refuse_twin("tool", &name, taken);
            }
            Err(error) => self.note(error),
        }
        self
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, resource: impl IntoResource) -> Self {
        let resource = resource.into_resource();
        let uri = resource.definition.uri.clone();
        self.need(format!("resource `{uri}`"), resource.needs.clone());
        let taken = self.catalog.resources.insert(&uri, Arc::new(resource)).is_some();
        self.refuse_twin("resource", &uri, taken);
        self
    }

    /// Adds a resource template. A URI is read by the first template that matches it.
    #[must_use]
    pub fn resource_template(mut self, template: impl IntoResourceTemplate) -> Self {
        let template = template.into_resource_template();
        let uri = template.definition.uri_template.clone();
        self.need(format!("resource template `{uri}`"), template.needs.clone());
        match Pattern::parse(&uri) {
            Ok(pattern) => {
                let row = Arc::new((template, pattern));
                let taken = self.catalog.templates.insert(&uri, row).is_some();
                self.refuse_twin("resource template", &uri, taken);
            }
            Err(error) => self.note(error),
        }
        self
    }

    /// Adds a prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: impl IntoPrompt) -> Self {
        let prompt = prompt.into_prompt();
        let name = prompt.definition.name.clone();
        self.need(format!("prompt `{name}`"), prompt.needs.clone());
        let taken = self.catalog.prompts.insert(&name, Arc::new(prompt)).is_some();
        self.refuse_twin("prompt", &name, taken);
        self
    }

    /// Answers `completion/complete`.
    #[must_use]
    pub fn completion<F, Fut, E>(mut self, handler: F) -> Self
    where
        F: Fn(Context, CompleteParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CompleteResult, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let handler = Arc::new(handler);
        self.catalog.completion = Some(Handler::waiting(move |context, params| {
            let handler = Arc::clone(&handler);
            async move { handler(context, params).await.map_err(Into::into) }
        }));
        self
    }

    /// Does not offer `logging`; [`Context::log`] then says nothing.
    #[must_use]
    pub const fn without_logging(mut self) -> Self {
        self.logging = false;
        self
    }

    /// How many handlers that block or wait run at the same time, over all connections; 4 if this
    /// is not called.
    #[must_use]
    pub const fn workers(mut self, workers: NonZeroUsize) -> Self {
        self.pool.workers = workers.get();
        self
    }

    /// How many such handlers wait for a worker; 256 if this is not called. Beyond that the caller
    /// is told at once that the server is overloaded.
    #[must_use]
    pub const fn queue(mut self, queue: usize) -> Self {
        self.pool.queue = queue;
        self
    }

    /// How long such a handler may run; 120 s if this is not called, `None` for ever.
    #[must_use]
    pub const fn handler_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.pool.timeout = timeout;
        self
    }

    /// How many bytes of requests and answers may wait in memory; what the process may have
    /// ([`Budget::default`]) if this is not called. Beyond it callers are told that the server is
    /// overloaded.
    #[must_use]
    pub fn memory(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Entries of one page of a list; 250 if this is not called.
    #[must_use]
    pub const fn page_size(mut self, entries: NonZeroUsize) -> Self {
        self.page_size = entries.get();
        self
    }

    /// How long clients of 2026-07-28 may reuse lists and resources, and who may share them; not
    /// at all if this is not called.
    #[must_use]
    pub fn cache(mut self, ttl: Duration, scope: CacheScope) -> Self {
        self.cache = Cache { ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), scope };
        self
    }

    /// The key that seals `requestState`, so that several processes can serve the rounds of one
    /// call. Random if this is not called.
    #[must_use]
    pub const fn state_key(mut self, key: [u8; 32]) -> Self {
        self.key = Some(SealKey::new(key));
        self
    }

    /// Starts the server: from here on it can serve any number of connections.
    ///
    /// # Errors
    /// The first thing that was wrong with what was registered: a schema that does not compile, a
    /// name that is taken, a handler whose state is not there.
    pub fn start(self) -> Result<Service> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        self.needs.iter().try_for_each(|(who, needs)| self.states.check(who, needs))?;
        let key = match self.key {
            Some(key) => key,
            None => SealKey::random()?,
        };
        let (features, capabilities) = offered(&self.catalog, self.logging);
        let offered = Offered {
            tools_list_changed: features.tools,
            prompts_list_changed: features.prompts,
            resources_list_changed: features.resources,
            resource_subscriptions: features.resources,
        };
        let config = ServerConfig {
            info: self.info,
            capabilities,
            instructions: self.instructions,
            revisions: self.revisions,
            features,
            offered,
            cache: self.cache.clone(),
        };
        let shared = Shared {
            catalog: RwLock::new(Arc::new(self.catalog)),
            pool: Pool::new(self.pool),
            page_size: self.page_size,
            cache: self.cache,
            budget: self.budget,
            states: self.states,
            ..Shared::new(Arc::new(config), key)?
        };
        Ok(Service(Arc::new(shared), None))
    }

    /// Serves one connection until the peer closes it. Shorthand for [`Server::start`] and
    /// [`Service::serve`].
    ///
    /// # Errors
    /// As both of them.
    pub async fn serve(self, transport: impl Transport) -> Result<()> {
        self.start()?.serve(transport).await
    }

    fn refuse_twin(&mut self, what: &str, name: &str, taken: bool) {
        if taken {
            self.note(Error::misuse(format!("two {what}s are called `{name}`")));
        }
    }

    fn note(&mut self, problem: Error) {
        self.problem.get_or_insert(problem);
    }
}

/// A running server. Cloning is cheap; every clone is the same server.
#[derive(Clone)]
pub struct Service(Arc<Shared>, Option<Arc<str>>);

/// What the connections of a server share.
pub(crate) struct Shared {
    config: Arc<ServerConfig>,
    info_json: Vec<u8>,
    catalog: RwLock<Arc<Catalog>>,
    /// Counts the changes of the catalog, so that a connection sees one without a lock.
    generation: AtomicU64,
    changes: broadcast::Sender<Change>,
    pool: Pool,
    page_size: usize,
    cache: Cache,
    key: SealKey,
    /// For what waits in memory.
    budget: Budget,
    pub(crate) states: States,
    /// Who answers instead of the catalog.
    relay: Option<Arc<dyn Relay>>,
}

impl Shared {
    /// A server with nothing in its catalog.
    fn new(config: Arc<ServerConfig>, key: SealKey) -> Result<Self> {
        let info_json = serde_json::to_vec(&config.info)
            .map_err(|error| Error::misuse(format!("the server's name: {error}")))?;
        Ok(Self {
            config,
            info_json,
            catalog: RwLock::default(),
            generation: AtomicU64::new(0),
            changes: broadcast::channel(CHANGES_MAX).0,
            pool: Pool::new(pool::DEFAULT),
            page_size: PAGE_SIZE,
            cache: Cache::default(),
            key,
            budget: Budget::default(),
            states: States::default(),
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
    Resource(String),
}

impl Service {
    /// A server that passes on what it is asked.
    ///
    /// # Errors
    /// The operating system has no randomness to give, or the name is not JSON.
    pub fn relay(relay: Arc<dyn Relay>) -> Result<Self> {
        Self::relay_within(relay, Budget::default())
    }

    /// As [`Service::relay`], with so much memory for what waits.
    ///
    /// # Errors
    /// As [`Service::relay`].
    pub fn relay_within(relay: Arc<dyn Relay>, budget: Budget) -> Result<Self> {
        let shared = Shared::new(relay.config(), SealKey::random()?)?;
        Ok(Self(Arc::new(Shared { relay: Some(relay), budget, ..shared }), None))
    }

    /// What is charged with everything that waits.
    #[cfg(feature = "http")]
    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Tells every client which lists are not what they were.
    pub fn lists_changed(&self, tools: bool, prompts: bool, resources: bool) {
        for (changed, change) in
            [(tools, Change::Tools), (prompts, Change::Prompts), (resources, Change::Resources)]
        {
            if changed {
                // Nobody connected is nobody to tell.
                let _ = self.0.changes.send(change);
            }
        }
    }

    /// Serves one connection until the peer closes it. What is in flight then gets a moment to
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
    /// If its schema does not compile, its state is not there, or the server began without tools:
    /// the capability cannot be declared afterwards.
    pub fn add_tool(&self, tool: impl IntoTool) -> Result<()> {
        self.must_offer("tools", self.0.config.features.tools)?;
        let tool = tool.into_tool();
        self.0.states.check(&format!("tool `{}`", tool.name()), &tool.needs)?;
        let tool = tool.compile()?;
        let name = tool.definition.name.clone();
        self.change(Change::Tools, |catalog| catalog.tools.insert(&name, tool));
        Ok(())
    }

    /// Takes a tool away and tells every client. `false` if there was none.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.change(Change::Tools, |catalog| catalog.tools.remove(name)).is_some()
    }

    /// Adds a prompt, or replaces the one of this name, and tells every client.
    ///
    /// # Errors
    /// If the server began without prompts, or has not the state that it needs.
    pub fn add_prompt(&self, prompt: impl IntoPrompt) -> Result<()> {
        self.must_offer("prompts", self.0.config.features.prompts)?;
        let prompt = Arc::new(prompt.into_prompt());
        let name = prompt.definition.name.clone();
        self.0.states.check(&format!("prompt `{name}`"), &prompt.needs)?;
        self.change(Change::Prompts, |catalog| catalog.prompts.insert(&name, prompt));
        Ok(())
    }

    /// Takes a prompt away and tells every client. `false` if there was none.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.change(Change::Prompts, |catalog| catalog.prompts.remove(name)).is_some()
    }

    /// Adds a resource, or replaces the one of this URI, and tells every client.
    ///
    /// # Errors
    /// If the server began without resources, or has not the state that it needs.
    pub fn add_resource(&self, resource: impl IntoResource) -> Result<()> {
        self.must_offer("resources", self.0.config.features.resources)?;
        let resource = Arc::new(resource.into_resource());
        let uri = resource.definition.uri.clone();
        self.0.states.check(&format!("resource `{uri}`"), &resource.needs)?;
        self.change(Change::Resources, |catalog| catalog.resources.insert(&uri, resource));
        Ok(())
    }

    /// Takes a resource away and tells every client. `false` if there was none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.change(Change::Resources, |catalog| catalog.resources.remove(uri)).is_some()
    }

    /// Tells the subscribers of a resource that it has changed.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        // Nobody connected is nobody to tell.
        let _ = self.0.changes.send(Change::Resource(uri.into()));
    }

    fn must_offer(&self, what: &str, offered: bool) -> Result<()> {
        if offered {
            return Ok(());
        }
        Err(Error::misuse(format!("the server began without {what}, so it cannot add any")))
    }

    fn change<T>(&self, change: Change, edit: impl FnOnce(&mut Catalog) -> T) -> T {
        let edited = {
            let mut catalog = self.0.catalog.write().unwrap_or_else(PoisonError::into_inner);
            edit(Arc::make_mut(&mut catalog))
        };
        self.0.generation.fetch_add(1, Ordering::Release);
        let _ = self.0.changes.send(change);
        edited
    }

    /// The same server, for a client that the transport has recognised.
    #[cfg(feature = "http")]
    pub(crate) fn of(&self, principal: Option<Arc<str>>) -> Self {
        Self(Arc::clone(&self.0), principal)
    }

    /// Who the client is, as seals name it; empty where the transport knows no principals.
    fn principal(&self) -> &str {
        self.1.as_deref().unwrap_or_default()
    }

    /// The arguments of a tool that clients mirror in headers.
    #[cfg(feature = "http")]
    pub(crate) fn mirrored(&self, tool: &str) -> Option<Arc<[ParamHeader]>> {
        match &self.0.relay {
            Some(relay) => relay.mirrored(tool),
            None => self.catalog().tools.get(tool).map(|tool| Arc::clone(&tool.mirrored)),
        }
    }

    /// What the server tells of from here on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes.subscribe()
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("info", &self.0.config.info).finish_non_exhaustive()
    }
}

/// What the catalog makes the server able to do, for the session and for the client.
fn offered(catalog: &Catalog, logging: bool) -> (Features, ServerCapabilities) {
    let features = Features {
        tools: !catalog.tools.is_empty(),
        resources: !catalog.resources.is_empty() || !catalog.templates.is_empty(),
        prompts: !catalog.prompts.is_empty(),
        completions: catalog.completion.is_some(),
        logging,
    };
    let mut capabilities = ServerCapabilities::new();
    if features.tools {
        capabilities = capabilities.with_tools(true);
    }
    if features.resources {
        capabilities = capabilities.with_resources(true, true);
    }
    if features.prompts {
        capabilities = capabilities.with_prompts(true);
    }
    if features.completions {
        capabilities = capabilities.with_completions();
    }
    if features.logging {
        capabilities = capabilities.with_logging();
    }
    (features, capabilities)
}
