//! MCP servers: what they offer, and how a connection is served.
//!
//! * [`Server`] — a server being put together (this file); [`Service`] — one that runs.
//! * `tool`, `resource`, `prompt` — what is offered; `outcome` — what handlers return, `failure` —
//!   how they fail, `misfit` — what is wrong with arguments that do not fit their type.
//! * `state` — what handlers share.
//! * `context` — how a handler talks to the client; `form` — forms from types.
//! * `lines` — a stream of lines in and out; `connection` — what is remembered of it; `dispatch` — who
//!   answers what.
//! * `pool` — where handlers run that block or wait; `refusals` — the answers to calls beyond their
//!   limits; `rounds` — questions without a session.
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
mod load;
#[doc(hidden)]
pub mod misfit;
mod outcome;
mod outlet;
mod pool;
mod prompt;
mod refusals;
pub mod relay;
mod resource;
#[doc(hidden)]
pub mod returned;
mod room;
mod rounds;
mod seal;
mod service;
mod state;
mod tool;
#[cfg(any(test, not(feature = "schema")))]
#[cfg_attr(feature = "schema", allow(dead_code, reason = "only its tests are run"))]
mod typed;

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mcplane_proto::session::ServerConfig;
use mcplane_proto::session::listen::Offered;
use mcplane_proto::session::server::Features;
use mcplane_proto::types::{
    Cache, CacheScope, CompleteParams, CompleteResult, Icon, Implementation, ServerCapabilities,
};
use mcplane_proto::uri_template::UriTemplate;
use mcplane_proto::version::Revision;

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
pub use service::Service;
pub(crate) use service::{Change, Shared};
pub use state::State;
pub use tool::{Arguments, IntoTool, NoArguments, Tool};

use catalog::Catalog;
use handler::Handler;
use pool::{PoolConfig, Pools};
use rounds::SealKey;
use state::{Need, States};

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::transport::Transport;

/// Entries of one page of a list. Small enough for every client's line buffer, large enough that
/// most servers have one page.
const PAGE_SIZE: usize = 250;

/// A server under construction.
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

    /// Adds an icon.
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

    /// Adds a tool. Two tools of one name are an error when the server starts.
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

    /// Adds a resource template. A URI belongs to the first template that matches it.
    #[must_use]
    pub fn resource_template(mut self, template: impl IntoResourceTemplate) -> Self {
        let template = template.into_resource_template();
        let uri = template.definition.uri_template.clone();
        self.need(format!("resource template `{uri}`"), template.needs.clone());
        let pattern = UriTemplate::parse(&uri);
        if let Err(why) = pattern.check() {
            self.note(Error::misuse(format!("URI template `{uri}`: {why}")));
            return self;
        }
        let row = Arc::new((template, pattern));
        let taken = self.catalog.templates.insert(&uri, row).is_some();
        self.refuse_twin("resource template", &uri, taken);
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

    /// Does not offer `logging`; [`Context::log`] then does nothing.
    #[must_use]
    pub const fn without_logging(mut self) -> Self {
        self.logging = false;
        self
    }

    /// How many handlers that block run at the same time, over all connections, each on a thread; 4 if
    /// this is not called.
    #[must_use]
    pub const fn workers(mut self, workers: NonZeroUsize) -> Self {
        self.pool.workers = workers.get();
        self
    }

    /// How many `async` handlers run at the same time, over all connections; 1,024 if this is not called.
    /// One that waits for its client's answer is not counted.
    #[must_use]
    pub const fn tasks(mut self, tasks: NonZeroUsize) -> Self {
        self.pool.tasks = tasks.get();
        self
    }

    /// How many handlers of each of the two kinds may wait for their turn; 256 if this is not
    /// called. Beyond that, the caller is told at once that the server is overloaded.
    #[must_use]
    pub const fn queue(mut self, queue: usize) -> Self {
        self.pool.queue = queue;
        self
    }

    /// How long such a handler may run; 120 s if this is not called, `None` for no limit. The time
    /// during which it waits for its client's answer to a question ([`Context::elicit`] and the
    /// like) does not count; the answer may take ten minutes.
    #[must_use]
    pub const fn handler_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.pool.timeout = timeout;
        self
    }

    /// How many bytes of requests and answers may wait in memory; the budget of the process
    /// ([`Budget::default`]) if this is not called. Beyond it, callers are told that the server is
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
    /// The first thing that is wrong with what was registered: a schema that does not compile, a
    /// name that is taken, a handler whose state is missing.
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
            unsupported: None,
            features,
            offered,
            cache: self.cache.clone(),
        };
        let shared = Shared {
            catalog: RwLock::new(Arc::new(self.catalog)),
            pools: Pools::new(self.pool),
            page_size: self.page_size,
            cache: self.cache,
            budget: self.budget,
            states: self.states,
            ..Shared::new(Arc::new(config), key)?
        };
        Ok(Service::of_shared(shared))
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
