//! A client: one handle for servers of every revision.
//!
//! ```no_run
//! use mcplane::client::Client;
//! use mcplane::transport::process::Command;
//!
//! # async fn example() -> mcplane::error::Result<()> {
//! let client = Client::builder("example", "1.0.0").spawn(Command::new("my-server")).await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let sum = client.call_tool("add", &serde_json::json!({"a": 1, "b": 2})).await?;
//! println!("{:?}", sum.content);
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! The server's era shows in [`Client::peer`] and hardly anywhere else: the server's questions
//! reach the same handlers, and results that may be reused are reused.
//!
//! # Layout, in reading order
//!
//! * `builder` — a client's options and handlers, and how it connects.
//! * `peer`, `process` — who the server is.
//! * `mod` — the handle: one function for each request (this file).
//! * `list`, `call`, `listen` — pages, calls in flight, subscriptions.
//! * `handler`, `cache` — answers to the server's questions; results that may be reused.
//! * `fleet` — clients of several servers as one.
//! * `drive`, `state` — the connection's task and what it shares with the handles.

mod builder;
mod cache;
mod call;
mod drive;
mod fleet;
mod handler;
mod list;
mod listen;
mod peer;
mod process;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcplane_proto::limits::{IN_FLIGHT_MAX, LISTENS_MAX};
use mcplane_proto::method::{self, Method};
use mcplane_proto::types::{
    CallToolResult, CompleteParams, Completion, DiscoverParams, DiscoverResult, GetPromptParams,
    GetPromptResult, Implementation, LogLevel, PingParams, ReadResourceParams, ReadResourceResult,
    Request, Root, SetLevelParams, WireResult,
};
use mcplane_proto::version::Era;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};

pub use builder::{ClientBuilder, NOTIFICATIONS_MAX};
pub use cache::{CACHE_BYTES_MAX, CACHE_ENTRIES_MAX};
pub use call::{CallBuilder, InFlight, PROGRESS_MAX, QUESTIONS_MAX};
pub use drive::ASKED_MAX;
pub use fleet::{Fleet, FromServer, Partial, SEPARATOR};
pub use handler::{HANDLER_TIME_MAX, Notification};
pub use list::PAGES_MAX;
pub use listen::{CHANGES_MAX, Change, Listen};
pub use mcplane_proto::session::{EraChoice, ListenFilter};
pub use mcplane_proto::types::ProgressParams as Progress;
pub use peer::Peer;
pub use process::ServerProcess;
pub use state::Strays;

use call::{Guard, Spec, object, typed};
use drive::Command;
use listen::Subscriptions;
use state::State;

use crate::error::{Error, Result};

/// Commands that wait for the connection's task. It takes them at once, so this fills up only while
/// the task does not get to run.
const COMMANDS_MAX: usize = 256;

/// A connection to a server. Clones share it; it ends with [`Client::close`] or with the last clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    commands: mpsc::Sender<Command>,
    state: Arc<State>,
    peer: Peer,
    timeout: Duration,
    cache: bool,
    process: Option<ServerProcess>,
    slots: Arc<Semaphore>,
    last_key: AtomicU64,
    log_level: Mutex<Option<LogLevel>>,
    subscriptions: tokio::sync::Mutex<Subscriptions>,
}

impl Client {
    /// A client with this name and version, which servers see.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(Implementation::new(name, version))
    }

    /// Who the server is, and what both sides speak.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// The server's process, if this client started it.
    #[must_use]
    pub fn process(&self) -> Option<&ServerProcess> {
        self.0.process.as_ref()
    }

    /// What the server sent that was not a message.
    #[must_use]
    pub fn strays(&self) -> Strays {
        self.0.state.strays()
    }

    /// Calls a tool (`tools/call`). `arguments` serialises as an object, or as `null` for none.
    ///
    /// Cancel safe in that nothing stays behind: dropping the future cancels the call on the wire.
    ///
    /// # Errors
    /// As [`InFlight::result`]. A tool that failed is not an error: see [`CallToolResult::is_error`].
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: &impl Serialize,
    ) -> Result<CallToolResult> {
        self.call(name, arguments).await
    }

    /// A call of a tool with more to say: a timeout, progress, `_meta`, cancellation.
    pub fn call(&self, name: &str, arguments: &impl Serialize) -> CallBuilder {
        #[derive(Serialize)]
        struct Params<'a, A> {
            name: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            arguments: Option<A>,
        }
        let spec = object(arguments, "the arguments of a tool")
            .and_then(|arguments| self.spec(Method::ToolsCall, &Params { name, arguments }));
        CallBuilder::new(self.clone(), spec)
    }

    /// Reads a resource (`resources/read`).
    ///
    /// Cancel safe: the request is cancelled.
    ///
    /// # Errors
    /// As [`Client::request_raw`].
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult> {
        self.fetch(&ReadResourceParams::new(uri)).await
    }

    /// Fills in a prompt (`prompts/get`).
    ///
    /// Cancel safe: the request is cancelled.
    ///
    /// # Errors
    /// As [`Client::request_raw`].
    pub async fn get_prompt<K: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> Result<GetPromptResult> {
        let params = arguments
            .into_iter()
            .fold(GetPromptParams::new(name), |params, (key, value)| params.argument(key, value));
        self.fetch(&params).await
    }

    /// Completes an argument of a prompt or of a resource template (`completion/complete`).
    ///
    /// Cancel safe: the request is cancelled.
    ///
    /// # Errors
    /// As [`Client::request_raw`].
    pub async fn complete(&self, params: &CompleteParams) -> Result<Completion> {
        Ok(self.fetch(params).await?.completion)
    }

    /// What the server says of itself now (`server/discover`, 2026-07-28).
    ///
    /// Cancel safe: the request is cancelled.
    ///
    /// # Errors
    /// As [`Client::request_raw`].
    pub async fn discover(&self) -> Result<DiscoverResult> {
        self.fetch(&DiscoverParams::default()).await
    }

    /// Comes back when the server has answered: to `ping`, or in 2026-07-28 to `server/discover`.
    ///
    /// Cancel safe: the request is cancelled.
    ///
    /// # Errors
    /// As [`Client::request_raw`].
    pub async fn ping(&self) -> Result<()> {
        match self.peer().era() {
            Era::Legacy => self.fetch(&PingParams::default()).await.map(drop),
            // Past the cache: the point is to hear from the server.
            Era::Modern => {
                let spec = self.spec(Method::Discover, &DiscoverParams::default())?;
                self.request(spec).await.map(drop)
            }
        }
    }

    /// The least severe log messages wanted from now on. Before 2026-07-28 the server is asked
    /// (`logging/setLevel`); since then each request says so.
    ///
    /// Not cancel safe: the server may or may not have taken it in.
    ///
    /// # Errors
    /// As [`Client::request_raw`].
    pub async fn set_log_level(&self, level: LogLevel) -> Result<()> {
        match self.peer().era() {
            Era::Legacy => self.fetch(&SetLevelParams::new(level)).await.map(drop),
            Era::Modern => {
                *self.0.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
                Ok(())
            }
        }
    }

    /// Replaces the roots and tells the server. Only a client whose builder was given
    /// [`roots`](ClientBuilder::roots) has declared that it has any.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn set_roots(&self, roots: Vec<Root>) -> Result<()> {
        self.0.state.handlers.set_roots(roots);
        self.notify_roots_changed().await
    }

    /// Tells the server that the roots are not what they were. In 2026-07-28 there is nothing to
    /// tell: servers ask when they need them.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn notify_roots_changed(&self) -> Result<()> {
        match self.peer().era() {
            Era::Legacy => self.command(Command::Notify(Method::RootsListChanged)).await,
            Era::Modern => Ok(()),
        }
    }

    /// Any request: its result as JSON text. The envelope of 2026-07-28 is added, and rounds of
    /// input are answered.
    ///
    /// Cancel safe: the request is cancelled.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for a method that the agreed revision does not have or parameters that
    /// are not an object; [`Error::is_rpc`] if the server answers with an error; else it did not
    /// answer in time, broke the protocol, or the connection has ended.
    pub async fn request_raw(&self, method: Method, params: &impl Serialize) -> Result<Bytes> {
        if matches!(method, Method::Initialize | Method::Listen) {
            return Err(Error::misuse(format!("`{method}` has a function of its own")));
        }
        let spec = match object(params, "parameters")? {
            Some(params) => self.spec(method, &params)?,
            None => self.spec(method, &serde_json::Map::new())?,
        };
        Ok(self.request(spec).await?.0)
    }

    /// Ends the connection in good order: what waits is written, requests in flight fail, and a
    /// process of ours gets its stdin closed, then SIGTERM, then SIGKILL. Takes a second for a
    /// server that does not read and up to about ten for a process that does not want to end.
    ///
    /// Cancel safe: the closing goes on.
    pub async fn close(&self) {
        // An error means that it has ended already.
        let _ = self.0.commands.send(Command::Close).await;
        self.0.commands.closed().await;
    }

    fn new(
        commands: mpsc::Sender<Command>,
        state: Arc<State>,
        peer: Peer,
        timeout: Duration,
        cache: bool,
        process: Option<ServerProcess>,
    ) -> Self {
        let cache = cache && peer.era() == Era::Modern;
        Self(Arc::new(Inner {
            commands,
            state,
            peer,
            timeout,
            cache,
            process,
            // Subscriptions have slots of their own: they are held for long.
            slots: Arc::new(Semaphore::new(IN_FLIGHT_MAX - LISTENS_MAX)),
            last_key: AtomicU64::new(0),
            log_level: Mutex::default(),
            subscriptions: tokio::sync::Mutex::default(),
        }))
    }

    /// A typed request, from the cache if it is there.
    async fn fetch<P: Request>(&self, params: &P) -> Result<P::Result> {
        let method = P::METHOD;
        let spec = self.spec(method, &*params.at(self.peer().revision))?;
        let cache = (self.0.cache && method.is_cacheable()).then_some(&self.0.state.cache);
        if let Some(kept) = cache.and_then(|cache| cache.find(method, &spec.params)) {
            return typed(&kept);
        }
        let (params, changes) = (spec.params.clone(), cache.map(cache::Cache::changes));
        let (json, retried) = self.request(spec).await?;
        let result: P::Result = typed(&json)?;
        if let (Some(cache), Some(changes), false) = (cache, changes, retried) {
            let ttl_ms = result.cache().map_or(0, |hints| hints.ttl_ms);
            cache.keep(method, &params, &json, ttl_ms, changes);
        }
        Ok(result)
    }

    /// What to ask, if the agreed revision has words for it.
    fn spec(&self, method: Method, params: &impl Serialize) -> Result<Spec> {
        let revision = self.peer().revision;
        let asks = method.kind() == method::Kind::Request
            && method.direction() != method::Direction::ToClient;
        if !asks || !method.exists_in(revision) {
            let why = format!("`{method}` is not a request to a server of revision {revision}");
            return Err(Error::misuse(why));
        }
        let params = serde_json::to_vec(params)
            .map_err(|error| Error::misuse(format!("parameters cannot be JSON: {error}")))?;
        let mut spec = Spec::new(method, params.into(), self.timeout());
        spec.log_level = self.0.log_level.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(spec)
    }

    async fn command(&self, command: Command) -> Result<()> {
        if let Some(end) = self.0.state.end() {
            return Err(end);
        }
        self.0.commands.send(command).await.map_err(|_| self.closed())
    }

    fn closed(&self) -> Error {
        self.0.state.end().unwrap_or_else(|| Error::closed("its task has ended"))
    }

    fn guard(&self) -> Guard {
        Guard::new(Arc::clone(&self.0.state), self.next_key(), Arc::default())
    }

    fn next_key(&self) -> u64 {
        self.0.last_key.fetch_add(1, Ordering::Relaxed)
    }

    fn slots(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.slots)
    }

    fn state(&self) -> &Arc<State> {
        &self.0.state
    }

    fn timeout(&self) -> Duration {
        self.0.timeout
    }

    fn subscriptions(&self) -> &tokio::sync::Mutex<Subscriptions> {
        &self.0.subscriptions
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("peer", &self.0.peer)
            .field("process", &self.0.process)
            .finish_non_exhaustive()
    }
}
