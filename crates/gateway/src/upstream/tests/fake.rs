//! A server in this process that does what a test says.

use std::collections::VecDeque;
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
use crate::config::{Period, Server, Speaks};
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
    /// What it was sent.
    seen: VecDeque<Value>,
    say: Option<mpsc::Sender<String>>,
}

impl Fake {
    pub(super) fn new(tools: &[&str]) -> Self {
        let fake = Self(Arc::new(Mutex::new(State {
            tools: Vec::new(),
            capabilities: json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}),
            ttl_ms: Some(3_600_000),
            acknowledges: true,
            seen: VecDeque::new(),
            say: None,
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

    /// Says something on its connection.
    pub(super) fn say(&self, message: Value) {
        let say = self.state().say.clone().expect("it is connected");
        say.try_send(format!("{message}\n")).expect("it is read");
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
        self.state().seen.iter().filter(|message| message["method"] == method).count()
    }

    /// The `n`-th message of a method, from 0, as soon as it was sent.
    pub(super) async fn sent(&self, method: &str, n: usize) -> Value {
        let began = Instant::now();
        loop {
            let found = {
                let state = self.state();
                state.seen.iter().filter(|message| message["method"] == method).nth(n).cloned()
            };
            if let Some(found) = found {
                return found;
            }
            assert!(began.elapsed() < LIMIT, "no {n}. {method}: {:#?}", self.state().seen);
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn reply(&self, message: Value) {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let (result, acknowledges) = {
            let mut state = self.state();
            state.seen.push_back(message.clone());
            let list = |name: &str, entries: &[Value]| {
                let mut list = json!({"resultType": "complete", "cacheScope": "private"});
                list[name] = json!(entries);
                if let Some(ttl) = state.ttl_ms {
                    list["ttlMs"] = json!(ttl);
                }
                list
            };
            let result = match &*method {
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
                _ => Value::Null,
            };
            (result, state.acknowledges)
        };
        if !result.is_null() {
            self.say(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        } else if method == "subscriptions/listen" && acknowledges {
            self.acknowledge(&message);
        }
    }

    async fn serve(self, pipe: Memory) {
        let (reader, mut writer) = pipe.open().unwrap();
        let (say, mut said) = mpsc::channel::<String>(256);
        self.state().say = Some(say);
        let mut lines = BufReader::new(reader).lines();
        loop {
            tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => self.reply(serde_json::from_str(&line).unwrap()),
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
    let revision = Speaks::Revision(revision);
    let server = Server { command: Some("none".into()), revision, ..Server::default() };
    let mut config = with(server);
    config.gateway.list_max_age = Period::of_s(60);
    let gateway = Gateway::start_with(config, Arc::new(fake.clone())).unwrap();
    gateway.ready().await;
    gateway
}

impl Connect for Fake {
    fn connect<'a>(&'a self, _: &'a str, _: &'a Server) -> Connecting<'a> {
        let (ours, theirs) = pair();
        tokio::spawn(self.clone().serve(theirs));
        Box::pin(async move { Connected::to(ours) })
    }
}
