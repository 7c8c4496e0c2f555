//! A server in this process that does what a test says.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mcplane::proto::version::Revision;
use mcplane::transport::Transport;
use mcplane::transport::memory::{Memory, pair};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{LIMIT, with};
use crate::config::{Config, Period, Server, Size, Speaks};
use crate::gateway::Gateway;
use crate::upstream::start::{Connect, Connected, Connecting};

/// The server, and the way to it.
#[derive(Clone)]
pub(super) struct Fake(Arc<Mutex<State>>);

pub(super) struct State {
    pub(super) tools: Vec<Value>,
    pub(super) capabilities: Value,
    /// Of lists, as 2026-07-28 says it.
    pub(super) ttl_ms: Option<u64>,
    /// Whether it agrees to tell of changes.
    pub(super) acknowledges: bool,
    pub(super) initialize: Initialize,
    /// How long a connection takes to be open.
    pub(super) opens_after: Duration,
    /// What it was sent, and on which of its connections.
    seen: Vec<(usize, Value)>,
    says: Vec<mpsc::Sender<String>>,
}

/// What it does when a connection begins with `initialize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Initialize {
    Takes,
    Refuses,
    /// It closes the connection.
    Breaks,
}

impl Fake {
    pub(super) fn new(tools: &[&str]) -> Self {
        let fake = Self(Arc::new(Mutex::new(State {
            tools: Vec::new(),
            capabilities: json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}),
            ttl_ms: Some(3_600_000),
            acknowledges: true,
            initialize: Initialize::Takes,
            opens_after: Duration::ZERO,
            seen: Vec::new(),
            says: Vec::new(),
        })));
        fake.offer(tools);
        fake
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn offer(&self, tools: &[&str]) {
        let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
        self.state().tools = tools.iter().map(tool).collect();
    }

    /// Says something on its newest connection.
    pub(super) fn say(&self, message: Value) {
        let last = self.state().says.len().checked_sub(1).expect("it is connected");
        self.say_on(last, &message);
    }

    /// The same, perhaps a part of a line.
    pub(super) fn say_raw(&self, text: String) {
        let say = self.state().says.last().cloned().expect("it is connected");
        say.try_send(text).expect("it is read");
    }

    fn say_on(&self, connection: usize, message: &Value) {
        let say = self.state().says.get(connection).cloned().expect("it is connected");
        say.try_send(format!("{message}\n")).expect("it is read");
    }

    /// Says something on the connection on which it was sent this.
    pub(super) fn say_to(&self, request: &Value, message: &Value) {
        self.say_on(self.connection_of(request), message);
    }

    /// On which of its connections it was sent this.
    pub(super) fn connection_of(&self, request: &Value) -> usize {
        let state = self.state();
        let found = state.seen.iter().find(|(_, seen)| seen["id"] == request["id"]);
        found.expect("it was sent that").0
    }

    /// How a question of it was answered.
    pub(super) async fn answered(&self, id: u32) -> Value {
        self.find("answer", 0, |message| message["id"] == id && message["method"].is_null()).await
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        self.say(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(super) fn acknowledge(&self, listen: &Value) {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
        let params = json!({"_meta": meta, "notifications": listen["params"]["notifications"]});
        self.notify("notifications/subscriptions/acknowledged", params);
    }

    /// How often it was asked this.
    pub(super) fn count(&self, method: &str) -> usize {
        self.state().seen.iter().filter(|(_, message)| message["method"] == method).count()
    }

    /// How often it was asked this on one of its connections.
    pub(super) fn count_on(&self, connection: usize, method: &str) -> usize {
        let state = self.state();
        let seen = state.seen.iter().filter(|(on, _)| *on == connection);
        seen.filter(|(_, message)| message["method"] == method).count()
    }

    /// What it was told on one of its connections that clients want to hear of: the resources that are
    /// subscribed to, and the last log level.
    pub(super) fn told(&self, connection: usize) -> (BTreeSet<String>, Option<String>) {
        let (mut uris, mut level) = (BTreeSet::new(), None);
        for (_, message) in self.state().seen.iter().filter(|(on, _)| *on == connection) {
            let of = |key: &str| message["params"][key].as_str().unwrap_or_default().to_owned();
            match message["method"].as_str() {
                Some("resources/subscribe") => drop(uris.insert(of("uri"))),
                Some("resources/unsubscribe") => drop(uris.remove(&of("uri"))),
                Some("logging/setLevel") => level = Some(of("level")),
                _ => {}
            }
        }
        (uris, level)
    }

    /// The `n`-th message of a method, from 0, as soon as it was sent.
    pub(super) async fn sent(&self, method: &str, n: usize) -> Value {
        let what = format!("{n}. {method}");
        self.find(&what, n, |message| message["method"] == method).await
    }

    /// Waits until a question of it was answered with this.
    pub(super) async fn sent_back(&self, id: u32, result: &Value) {
        let is_it = |message: &Value| message["id"] == id && message["result"] == *result;
        self.find("such answer", 0, is_it).await;
    }

    async fn find(&self, what: &str, n: usize, is_it: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let found = {
                let state = self.state();
                let seen = state.seen.iter().map(|(_, message)| message);
                seen.filter(|message| is_it(message)).nth(n).cloned()
            };
            if let Some(found) = found {
                return found;
            }
            assert!(began.elapsed() < LIMIT, "no {what}: {:#?}", self.state().seen);
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn reply(&self, connection: usize, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let (result, acknowledges) = {
            let mut state = self.state();
            state.seen.push((connection, message.clone()));
            let list = |name: &str, entries: &[Value]| {
                let mut list = json!({"resultType": "complete", "cacheScope": "private"});
                list[name] = json!(entries);
                if let Some(ttl) = state.ttl_ms {
                    list["ttlMs"] = json!(ttl);
                }
                list
            };
            let result = match &*method {
                "initialize" if state.initialize == Initialize::Refuses => Value::Null,
                "initialize" => json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": state.capabilities,
                    "serverInfo": {"name": "fake", "version": "1"},
                }),
                "server/discover" => json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": state.capabilities, "ttlMs": 0, "cacheScope": "private",
                }),
                "tools/list" => list("tools", &state.tools),
                "resources/list" => list("resources", &[]),
                "resources/templates/list" => list("resourceTemplates", &[]),
                "prompts/list" => list("prompts", &[]),
                "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                    json!({})
                }
                _ => Value::Null,
            };
            (result, state.acknowledges)
        };
        if !result.is_null() {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            self.say_on(connection, &answer);
        } else if method == "initialize" {
            let error =
                json!({"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}});
            self.say_on(
                connection,
                &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
            );
        } else if method == "subscriptions/listen" && acknowledges {
            self.acknowledge(message);
        }
    }

    async fn serve(self, pipe: Memory) {
        let (reader, mut writer) = pipe.open().unwrap();
        let (say, mut said) = mpsc::channel::<String>(256);
        let connection = {
            let mut state = self.state();
            state.says.push(say);
            state.says.len() - 1
        };
        let mut lines = BufReader::new(reader).lines();
        loop {
            tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => {
                        let message: Value = serde_json::from_str(&line).unwrap();
                        self.reply(connection, &message);
                        let breaks = self.state().initialize == Initialize::Breaks;
                        if breaks && message["method"] == "initialize" {
                            return;
                        }
                    }
                    _ => return,
                },
                Some(line) = said.recv() => {
                    if writer.write_all(line.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// A gateway with the server `one`, which is this.
pub(super) async fn gateway(fake: &Fake, revision: Revision) -> Gateway {
    gateway_within(fake, revision, None).await
}

/// The same with so much memory.
pub(super) async fn gateway_within(
    fake: &Fake,
    revision: Revision,
    memory: Option<Size>,
) -> Gateway {
    let mut config = config(server(Speaks::Revision(revision)));
    config.gateway.memory = memory;
    let gateway = Gateway::start_with(config, Arc::new(fake.clone())).unwrap();
    gateway.ready().await;
    gateway
}

pub(super) fn server(revision: Speaks) -> Server {
    Server { command: Some("none".into()), revision, ..Server::default() }
}

/// A gateway that has just been started.
pub(super) fn started(fake: &Fake, server: Server) -> Gateway {
    Gateway::start_with(config(server), Arc::new(fake.clone())).unwrap()
}

/// Settings with the server `one`.
pub(super) fn config(server: Server) -> Config {
    let mut config = with(server);
    config.gateway.list_max_age = Period::of_s(60);
    config
}

impl Connect for Fake {
    fn connect<'a>(&'a self, _: &'a str, _: &'a Server) -> Connecting<'a> {
        let (ours, theirs) = pair();
        tokio::spawn(self.clone().serve(theirs));
        let after = self.state().opens_after;
        Box::pin(async move {
            sleep(after).await;
            Connected::to(ours)
        })
    }
}
