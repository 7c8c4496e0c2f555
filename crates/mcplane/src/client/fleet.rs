//! Several servers as one: what each offers under its name, all asked at the same time.

use std::sync::Arc;
use std::time::Duration;

use mcplane_proto::types::{
    CallToolResult, GetPromptResult, Prompt, ReadResourceResult, Resource, Tool,
};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Client;
use crate::error::{Error, Kind, Result};

/// What stands between a server's name and the name of a tool or a prompt.
pub const SEPARATOR: &str = "__";

/// How long each server may take for an answer, unless [`Fleet::timeout`] says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Several clients, each of a server with a name.
///
/// Lists are asked of all servers at the same time: one that is slow or gone costs what it offers, and
/// nothing of the others. A tool is called as `server__tool`, where its server's name stands before the
/// first `__`.
///
/// ```no_run
/// # use mcplane::client::{Client, Fleet};
/// # async fn example(files: Client, web: Client) -> mcplane::error::Result<()> {
/// let fleet = Fleet::new().with("files", files)?.with("web", web)?;
/// let tools = fleet.list_tools().await;
/// for (server, error) in &tools.failed {
///     eprintln!("{server}: {error}");
/// }
/// let page = fleet.call_tool("web__fetch", &serde_json::json!({"url": "https://example.com"})).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fleet {
    clients: Vec<(Arc<str>, Client)>,
    timeout: Duration,
}

/// What the servers that answered gave, and why the others did not.
#[derive(Debug)]
#[non_exhaustive]
pub struct Partial<T> {
    /// In the order in which the servers were added, and of each in its own.
    pub items: Vec<FromServer<T>>,
    /// The servers that did not answer.
    pub failed: Vec<(Arc<str>, Error)>,
}

/// Something of one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FromServer<T> {
    /// The server's name.
    pub server: Arc<str>,
    /// What it gave: tools and prompts have the name by which the fleet knows them.
    pub item: T,
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new()
    }
}

impl Fleet {
    /// Without a server.
    #[must_use]
    pub const fn new() -> Self {
        Self { clients: Vec::new(), timeout: TIMEOUT }
    }

    /// Adds a server by a name: ASCII letters, digits, `-` and single `_`.
    ///
    /// # Errors
    /// [`Error::is_misuse`]: a name that is something else, or is taken.
    pub fn with(mut self, name: &str, client: Client) -> Result<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_plain = name.chars().all(fits) && !name.contains(SEPARATOR);
        let is_inside = !name.is_empty() && !name.starts_with('_') && !name.ends_with('_');
        if !is_plain || !is_inside {
            let takes = "ASCII letters, digits, `-` and single `_` within";
            return Err(Error::misuse(format!(
                "a server cannot be named {name:?}: it takes {takes}"
            )));
        }
        if self.client(name).is_some() {
            return Err(Error::misuse(format!("two servers are named {name:?}")));
        }
        self.clients.push((name.into(), client));
        Ok(self)
    }

    /// How long each server may take for a list and for any other answer. 10 s if this is not said.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The client of a server.
    #[must_use]
    pub fn client(&self, name: &str) -> Option<&Client> {
        self.clients.iter().find(|(known, _)| **known == *name).map(|(_, client)| client)
    }

    /// The names of the servers, in the order in which they were added.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.clients.iter().map(|(name, _)| &**name)
    }

    /// The tools of all servers, each named `server__tool`.
    ///
    /// Cancel safe: what is in flight is cancelled.
    pub async fn list_tools(&self) -> Partial<Tool> {
        let tools = self.gather(|client| async move { client.list_tools().await }).await;
        tools.named(|tool| &mut tool.name)
    }

    /// The prompts of all servers, each named `server__prompt`.
    ///
    /// Cancel safe: what is in flight is cancelled.
    pub async fn list_prompts(&self) -> Partial<Prompt> {
        let prompts = self.gather(|client| async move { client.list_prompts().await }).await;
        prompts.named(|prompt| &mut prompt.name)
    }

    /// The resources of all servers. Their URIs are as each server has them: two servers may have the
    /// same, so one is read by the name of its server.
    ///
    /// Cancel safe: what is in flight is cancelled.
    pub async fn list_resources(&self) -> Partial<Resource> {
        self.gather(|client| async move { client.list_resources().await }).await
    }

    /// Calls a tool, `server__tool`.
    ///
    /// Cancel safe: the call is cancelled.
    ///
    /// # Errors
    /// As [`Client::call_tool`]; [`Error::is_misuse`] if no server has that name,
    /// [`Error::is_timeout`] after the fleet's time.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: &impl Serialize,
    ) -> Result<CallToolResult> {
        let (client, tool) = self.route(name)?;
        client.call(tool, arguments).timeout(self.timeout).start().await?.result().await
    }

    /// Gets a prompt, `server__prompt`, with its arguments.
    ///
    /// Cancel safe: the request is cancelled.
    ///
    /// # Errors
    /// As [`Client::get_prompt`]; [`Error::is_misuse`] if no server has that name.
    pub async fn get_prompt<K: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> Result<GetPromptResult> {
        let (client, prompt) = self.route(name)?;
        self.within(client.get_prompt(prompt, arguments)).await
    }

    /// Reads a resource of a server.
    ///
    /// Cancel safe: the request is cancelled.
    ///
    /// # Errors
    /// As [`Client::read_resource`]; [`Error::is_misuse`] if no server has that name.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<ReadResourceResult> {
        self.within(self.known(server)?.read_resource(uri)).await
    }

    /// Closes all connections, at the same time.
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        for (_, client) in &self.clients {
            let client = client.clone();
            closing.spawn(async move { client.close().await });
        }
        closing.join_all().await;
    }

    /// What a server answers within the fleet's time.
    async fn within<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.timeout;
        let late = |_| Error::new(Kind::TimedOut(format!("its server took longer than {limit:?}")));
        timeout(limit, answer).await.map_err(late).flatten()
    }

    /// The client and the server's own name of a tool or a prompt.
    fn route<'n>(&self, name: &'n str) -> Result<(&Client, &'n str)> {
        let none = || Error::misuse(format!("{name:?} names no server: it takes server__name"));
        let (server, own) = name.split_once(SEPARATOR).ok_or_else(none)?;
        Ok((self.known(server)?, own))
    }

    fn known(&self, server: &str) -> Result<&Client> {
        let none = || {
            let known = self.servers().collect::<Vec<_>>().join(", ");
            Error::misuse(format!("no server is named {server:?}; there are {known}"))
        };
        self.client(server).ok_or_else(none)
    }

    /// Asks all servers at the same time, each for as long as it may take.
    async fn gather<T, F>(&self, ask: impl Fn(Client) -> F) -> Partial<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<Vec<T>>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        for (at, (_, client)) in self.clients.iter().enumerate() {
            let (answer, limit) = (ask(client.clone()), self.timeout);
            asked.spawn(async move {
                let late = |_| {
                    Error::new(Kind::TimedOut(format!("its list did not come within {limit:?}")))
                };
                (at, timeout(limit, answer).await.map_err(late).flatten())
            });
        }
        // A panic of the client's is not hidden.
        let mut answers = asked.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        let mut partial = Partial { items: Vec::new(), failed: Vec::new() };
        for ((_, answer), (server, _)) in answers.into_iter().zip(&self.clients) {
            let of = |item| FromServer { server: Arc::clone(server), item };
            match answer {
                Ok(items) => partial.items.extend(items.into_iter().map(of)),
                Err(error) => partial.failed.push((Arc::clone(server), error)),
            }
        }
        partial
    }
}

impl<T> Partial<T> {
    /// The same with the names by which the fleet knows what has one.
    fn named(mut self, name: impl Fn(&mut T) -> &mut String) -> Self {
        for FromServer { server, item } in &mut self.items {
            let name = name(item);
            *name = format!("{server}{SEPARATOR}{name}");
        }
        self
    }

    /// Whether every server answered.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.failed.is_empty()
    }
}
