//! Servers that do what each call asks them to.

use std::collections::{HashMap, HashSet};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use mcplane::proto::version::Era;
use mcplane::transport::Transport;
use mcplane::transport::memory::{Memory, pair};
use mcplane_gateway::config::Server;
use mcplane_gateway::{Connect, Connected, Connecting};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

use crate::plan::{Dice, Ending, LATE, Plan, Step, heard, said};
use crate::world::{Life, World};

/// Lines that wait to be written, at most.
const LINES_MAX: usize = 4096;

/// The upstreams of one schedule. All of them number their questions from 1.
pub(crate) struct Upstreams {
    pub(crate) world: Arc<World>,
    pub(crate) era: Era,
    /// A modern one that takes connections which begin with `initialize`, too.
    pub(crate) both: bool,
    pub(crate) seed: u64,
    /// Most milliseconds until a line that has come is read.
    pub(crate) lag: u64,
}

impl Connect for Upstreams {
    fn connect<'a>(&'a self, _: &'a str, _: &'a Server) -> Connecting<'a> {
        let (ours, theirs) = pair();
        let life = self.world.open();
        let speaks = (self.era, self.both);
        let talk = live(life.number, Arc::clone(&self.world), speaks, theirs, self.seed, self.lag);
        self.world.runs(life.number, tokio::spawn(talk).abort_handle());
        Box::pin(async move { Connected::to(Held { pipe: ours, life }) })
    }
}

/// The gateway's end of a pipe.
struct Held {
    pipe: Memory,
    life: Life,
}

/// What it reads from.
struct Reading {
    reader: <Memory as Transport>::Reader,
    _life: Life,
}

impl Transport for Held {
    type Reader = Reading;
    type Writer = <Memory as Transport>::Writer;

    fn open(self) -> mcplane::Result<(Self::Reader, Self::Writer)> {
        let (reader, writer) = self.pipe.open()?;
        Ok((Reading { reader, _life: self.life }, writer))
    }
}

impl AsyncRead for Reading {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, into)
    }
}

/// One connection, from its first line to its end.
async fn live(
    life: u64,
    world: Arc<World>,
    (era, both): (Era, bool),
    pipe: Memory,
    seed: u64,
    lag: u64,
) {
    let (reader, writer) = pipe.open().unwrap();
    let (out, outbox) = mpsc::channel(LINES_MAX);
    let (inbox, mut lines) = mpsc::channel(LINES_MAX);
    let mut beside = JoinSet::new();
    beside.spawn(write(writer, outbox, (Arc::clone(&world), life)));
    let mut dice = Dice::new(seed ^ life);
    let mut talk = Talk {
        world: Arc::clone(&world),
        era,
        both,
        out,
        life,
        running: HashMap::new(),
        asked: Arc::default(),
        calls: JoinSet::new(),
        others: HashSet::new(),
    };
    let arrivals = world;
    beside.spawn(async move {
        let mut lines = BufReader::new(reader).lines();
        let mut tags = HashMap::new();
        loop {
            arrivals.thaw(life).await;
            let Ok(Some(line)) = lines.next_line().await else { return };
            let line: Value = serde_json::from_str(&line).unwrap();
            arrive(&arrivals, life, &mut tags, &line);
            if inbox.send(line).await.is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        if lag > 0 && dice.percent(50) {
            sleep(Duration::from_millis(dice.below(lag + 1))).await;
        }
        talk.take(&line).await;
        while talk.calls.try_join_next().is_some() {}
    }
}

/// Notes what a line means at the moment it comes, however late it is read.
fn arrive(world: &World, life: u64, tags: &mut HashMap<String, String>, line: &Value) {
    match line["method"].as_str() {
        Some("tools/call") => {
            let tag = line["params"]["arguments"]["tag"].as_str().unwrap().to_owned();
            match line["params"].get("requestState") {
                None => world.began(&tag, life),
                Some(state) => world.note(&tag, |trace| {
                    trace.is_repeated |= !trace.states.insert(state.to_string());
                }),
            }
            tags.insert(line["id"].to_string(), tag);
        }
        Some("notifications/cancelled") => {
            if let Some(tag) = tags.get(&line["params"]["requestId"].to_string()) {
                world.note(tag, |trace| trace.cancelled.push(Instant::now()));
            }
        }
        _ => {}
    }
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut outbox: mpsc::Receiver<Value>,
    (world, life): (Arc<World>, u64),
) {
    while let Some(line) = outbox.recv().await {
        world.thaw(life).await;
        let mut line = serde_json::to_vec(&line).unwrap();
        line.push(b'\n');
        if let Some(pause) = world.pause() {
            let rest = line.split_off(line.len() / 2);
            let _ = writer.write_all(&line).await;
            sleep(pause).await;
            line = rest;
        }
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// What one connection remembers.
struct Talk {
    world: Arc<World>,
    era: Era,
    both: bool,
    out: mpsc::Sender<Value>,
    life: u64,
    running: HashMap<String, (AbortHandle, Arc<AtomicBool>, bool)>,
    asked: Arc<Mutex<Asked>>,
    calls: JoinSet<()>,
    /// The ids of requests that are no calls: a listen, which it does not know, and pings that it was
    /// too slow for are cancelled, too.
    others: HashSet<String>,
}

/// The questions of one connection.
#[derive(Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, (String, Option<oneshot::Sender<bool>>)>,
}

impl Talk {
    async fn take(&mut self, line: &Value) {
        if self.world.is_held(self.life) {
            return;
        }
        let (id, params) = (&line["id"], &line["params"]);
        if line["method"] != "tools/call" && !id.is_null() {
            self.others.insert(id.to_string());
        }
        if self.both && line["method"] == "initialize" {
            self.era = Era::Legacy;
        }
        let result = match line["method"].as_str() {
            None => return self.answered(line),
            Some("notifications/cancelled") => return self.cancelled(params),
            Some("tools/call") => return self.call(line),
            Some("initialize") if self.era == Era::Modern && !self.both => {
                let error = json!({"code": -32022, "message": "no initialize"});
                return self.say(json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
            Some("initialize") => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": true}},
                "serverInfo": {"name": "upstream", "version": "1"},
            }),
            Some("server/discover") if self.era == Era::Modern => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "logging": {}}, "ttlMs": 0, "cacheScope": "private",
            }),
            Some("tools/list") => json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "tools": [
                    {"name": "work", "inputSchema": {"type": "object"}},
                    {"name": "read", "inputSchema": {"type": "object"},
                     "annotations": {"readOnlyHint": true}},
                ],
            }),
            Some("resources/list") => json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "resources": [{"uri": "x:1", "name": "1"}, {"uri": "x:2", "name": "2"}],
            }),
            Some("logging/setLevel" | "resources/subscribe" | "resources/unsubscribe")
                if self.era == Era::Legacy =>
            {
                self.world.told(self.life, params);
                json!({})
            }
            Some("ping") if self.era == Era::Legacy => json!({}),
            Some(_) if id.is_null() => return,
            Some(other) => {
                let error = json!({"code": -32601, "message": format!("no {other}")});
                return self.say(json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
        };
        self.say(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    async fn say(&self, line: Value) {
        // The other side may be gone.
        let _ = self.out.send(line).await;
    }

    fn call(&mut self, line: &Value) {
        let id = line["id"].clone();
        let plan = Plan::of_json(&line["params"]["arguments"]);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let stubborn = plan.is_stubborn;
        let work = Work {
            world: Arc::clone(&self.world),
            era: self.era,
            out: self.out.clone(),
            asked: Arc::clone(&self.asked),
            is_cancelled: Arc::clone(&is_cancelled),
            life: self.life,
            id: id.clone(),
            params: line["params"].clone(),
            plan,
        };
        let task = self.calls.spawn(work.run());
        if self.running.insert(id.to_string(), (task, is_cancelled, stubborn)).is_some() {
            self.world.wrong(format!("life {}: the id {id} was used twice", self.life));
        }
    }

    fn cancelled(&mut self, params: &Value) {
        let id = params["requestId"].to_string();
        match self.running.get(&id) {
            Some((_, is_cancelled, true)) => is_cancelled.store(true, Ordering::Relaxed),
            Some((task, ..)) => task.abort(),
            None if self.others.contains(&id) => {}
            None => {
                self.world.wrong(format!(
                    "life {}: a call {id} that never came was cancelled",
                    self.life
                ));
            }
        }
    }

    /// The answer to a question of ours.
    fn answered(&self, line: &Value) {
        let asked = line["id"].as_u64();
        let asked = asked.and_then(|id| self.asked.lock().unwrap().waiting.remove(&id));
        let Some((question, waiting)) = asked else {
            return self.world.wrong(format!("life {}: never asked: {line}", self.life));
        };
        let is_answer = line.get("result").is_some();
        if is_answer {
            self.world.count("questions answered");
            check_answer(&self.world, &question, &line["result"]);
        } else {
            self.world.count("questions refused");
        }
        if let Some(waiting) = waiting {
            // The call may be cancelled.
            let _ = waiting.send(is_answer);
        }
    }
}

fn check_answer(world: &World, question: &str, result: &Value) {
    let text = match result.get("model") {
        Some(_) => &result["content"]["text"],
        None => &result["content"]["answer"],
    };
    if text != question {
        world.wrong(format!("the question {question} was answered with {result}"));
    }
}

/// One call.
struct Work {
    world: Arc<World>,
    era: Era,
    out: mpsc::Sender<Value>,
    asked: Arc<Mutex<Asked>>,
    is_cancelled: Arc<AtomicBool>,
    life: u64,
    id: Value,
    params: Value,
    plan: Plan,
}

impl Work {
    async fn run(self) {
        let meta = &self.params["_meta"];
        let token = &meta["progressToken"];
        let wants_log =
            self.era == Era::Legacy || meta.get("io.modelcontextprotocol/logLevel").is_some();
        let (begin, mut refused) = (self.resumes(), 0);
        for (place, step) in self.plan.steps.iter().enumerate().skip(begin) {
            let text = said(&self.plan.tag, place as u64);
            let is_cancelled = self.is_cancelled.load(Ordering::Relaxed);
            match step {
                Step::Wait(ms) => sleep(Duration::from_millis(*ms)).await,
                Step::Progress if !token.is_null() => {
                    let params =
                        json!({"progressToken": token, "progress": place + 1, "message": text});
                    self.note("notifications/progress", params).await;
                }
                Step::Log if wants_log => {
                    self.note("notifications/message", json!({"level": "info", "data": text}))
                        .await;
                }
                // A legacy question names no call, and comes however its call fares.
                Step::Elicit | Step::Sample if !(is_cancelled && self.era == Era::Modern) => {
                    let (method, params) = question(*step, &text);
                    if self.era == Era::Modern {
                        return self.ask_in_a_round(method, params, place + 1).await;
                    }
                    if !self.ask(method, params, text).await {
                        refused += 1;
                    }
                }
                _ => {}
            }
        }
        self.end(refused).await;
        self.speak_late(wants_log).await;
    }

    /// The tool has left something behind that speaks.
    async fn speak_late(&self, wants_log: bool) {
        let Some((ms, step)) = self.plan.late else { return };
        sleep(Duration::from_millis(ms)).await;
        let text = said(&self.plan.tag, LATE);
        match (step, self.era) {
            (Step::Log, _) if wants_log => {
                self.world.count("late logs");
                self.note("notifications/message", json!({"level": "info", "data": text})).await;
            }
            (Step::Elicit, Era::Legacy) => {
                self.world.count("late questions");
                let (method, params) = question(step, &text);
                self.ask(method, params, text).await;
            }
            _ => {}
        }
    }

    /// The step to go on with: the first, or the one after the question that was answered.
    fn resumes(&self) -> usize {
        let Some(state) = self.params.get("requestState") else { return 0 };
        let Some((tag, place)) = heard(state) else {
            self.world.wrong(format!("the state {state} is none of ours"));
            return 0;
        };
        if tag != self.plan.tag {
            self.world.wrong(format!("the state of {tag} came with {}", self.plan.tag));
        }
        self.world.count("questions answered");
        let answer = &self.params["inputResponses"]["key"];
        check_answer(&self.world, &said(tag, place - 1), answer);
        usize::try_from(place).unwrap()
    }

    async fn note(&self, method: &str, params: Value) {
        let _ = self.out.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    async fn ask(&self, method: &str, params: Value, question: String) -> bool {
        let (waiting, answer) = oneshot::channel();
        let id = {
            let mut asked = self.asked.lock().unwrap();
            asked.last += 1;
            let id = asked.last;
            asked.waiting.insert(id, (question, Some(waiting)));
            id
        };
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let _ = self.out.send(line).await;
        answer.await.unwrap_or(false)
    }

    async fn ask_in_a_round(&self, method: &str, params: Value, next: usize) {
        let result = json!({
            "resultType": "input_required",
            "inputRequests": {"key": {"method": method, "params": params}},
            "requestState": said(&self.plan.tag, next as u64),
        });
        self.answer(&self.id, result).await;
    }

    async fn end(&self, refused: u32) {
        self.world.note(&self.plan.tag, |trace| trace.ended.push(Instant::now()));
        let text = format!("{}|{refused}", self.plan.tag);
        let result = json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
        match self.plan.ending {
            Ending::Never => return std::future::pending().await,
            Ending::Dies => {
                self.world.count("poison");
                self.world.kill(self.life);
                return std::future::pending().await;
            }
            Ending::Error => {
                let error = json!({"code": -32050, "message": text});
                let line = json!({"jsonrpc": "2.0", "id": self.id, "error": error});
                let _ = self.out.send(line).await;
                return;
            }
            Ending::Stray => self.answer(&json!(1_000_000), result.clone()).await,
            Ending::Twice => self.answer(&self.id, result.clone()).await,
            Ending::Answer => {}
        }
        self.answer(&self.id, result).await;
    }

    async fn answer(&self, id: &Value, result: Value) {
        let _ = self.out.send(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }
}

fn question(step: Step, text: &str) -> (&'static str, Value) {
    let schema = json!({"type": "object", "properties": {"answer": {"type": "string"}}});
    match step {
        Step::Elicit => ("elicitation/create", json!({"message": text, "requestedSchema": schema})),
        _ => {
            let message = json!({"role": "user", "content": {"type": "text", "text": text}});
            ("sampling/createMessage", json!({"messages": [message], "maxTokens": 9}))
        }
    }
}
