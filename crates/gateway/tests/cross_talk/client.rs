//! Clients that write raw lines, all with the same ids and progress tokens, and look at every line
//! that comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcplane::proto::version::Era;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::plan::{Dice, Ending, LATE, Plan, Step, heard, owner};
use crate::world::World;

/// How long a connection waits for its last answer before that counts as lost.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long it then stays, to hear what must not come.
const LINGER: Duration = Duration::from_millis(30);

/// Both ways of a connection, and what to abort to cut it.
pub(crate) struct Wire {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) cut: Option<AbortHandle>,
}

/// What a client does on one connection.
pub(crate) struct Script {
    pub(crate) era: Era,
    /// `client/connection`
    pub(crate) name: String,
    pub(crate) calls: Vec<Planned>,
    /// When it vanishes, in milliseconds.
    pub(crate) leaves: Option<u64>,
    /// Milliseconds that a person takes for an answer.
    pub(crate) thinks: u64,
    pub(crate) expect: Expect,
}

/// What is certain in the mode at hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expect {
    /// Every log message reaches its client, and every question is put.
    pub(crate) all: bool,
    /// Every call that is not cancelled is answered as its plan says.
    pub(crate) calm: bool,
    /// A cancellation is with the upstream at the moment at which it is sent.
    pub(crate) instant: bool,
    /// A call may be sent again.
    pub(crate) retry: bool,
    /// Clients whose numbers have one remainder have one token. Those without a connection cannot be
    /// told apart then.
    pub(crate) principals: Option<u64>,
}

/// A call of a script.
pub(crate) struct Planned {
    pub(crate) at: u64,
    pub(crate) plan: Plan,
    pub(crate) cancel: Option<u64>,
    /// Its tool says `readOnlyHint`.
    pub(crate) reads: bool,
    /// It does not come back with the answer to a question.
    pub(crate) walks_away: bool,
}

impl Planned {
    pub(crate) fn random(dice: &mut Dice, tag: String, odd: bool) -> Self {
        let plan = Plan::random(dice, tag, odd);
        Self {
            at: dice.below(40),
            cancel: dice.percent(20).then(|| dice.below(30)),
            plan,
            reads: dice.percent(30),
            walks_away: odd && dice.percent(5),
        }
    }
}

/// Plays a script on a connection.
pub(crate) async fn play(world: &Arc<World>, script: Script, wire: Wire) {
    let mut client = Client {
        world: Arc::clone(world),
        lines: BufReader::new(wire.reader).lines(),
        writer: wire.writer,
        calls: Vec::new(),
        todo: BTreeMap::new(),
        last_todo: 0,
        questions: BTreeMap::new(),
        script,
    };
    let has_met = client.meet().await;
    if has_met {
        client.talk().await;
    }
    if let Some(cut) = wire.cut {
        cut.abort();
    }
    // What was said last has to get there.
    sleep(Duration::from_millis(1)).await;
    if has_met {
        client.check();
    }
}

enum Todo {
    Call(usize),
    Cancel(usize),
    Say(Value),
    Leave,
}

struct Client {
    world: Arc<World>,
    script: Script,
    lines: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    calls: Vec<Open>,
    todo: BTreeMap<(Instant, u64), Todo>,
    last_todo: u64,
    /// Those that were put to it.
    /// How often each question was put.
    questions: BTreeMap<String, usize>,
}

/// A call that has begun.
struct Open {
    planned: Planned,
    /// The ids of its rounds: the last is the one that waits.
    ids: Vec<Value>,
    progress: Vec<u64>,
    logs: Vec<u64>,
    cancelled: Option<Instant>,
    end: Option<End>,
}

#[derive(Clone, Debug, PartialEq)]
enum End {
    Answered,
    Failed(i64, String),
    WalkedAway,
}

impl Client {
    fn wrong(&self, what: &str) {
        self.world.wrong(format!("{} ({:?}): {what}", self.script.name, self.script.era));
    }

    async fn send(&mut self, line: &Value) -> bool {
        let mut line = serde_json::to_vec(line).unwrap();
        line.push(b'\n');
        self.writer.write_all(&line).await.is_ok() && self.writer.flush().await.is_ok()
    }

    async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The handshake of an older client.
    async fn meet(&mut self) -> bool {
        if self.script.era == Era::Modern {
            return true;
        }
        let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}}, "sampling": {}},
            "clientInfo": {"name": "client", "version": "1"},
        }});
        let level = json!({"jsonrpc": "2.0", "id": "level", "method": "logging/setLevel",
                           "params": {"level": "debug"}});
        let met = async {
            self.send(&hello).await;
            let welcome = self.next().await;
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
            self.send(&level).await;
            let levelled = loop {
                let line = self.next().await;
                if line.as_ref().is_none_or(|line| line["id"] == "level") {
                    break line;
                }
            };
            welcome.is_some_and(|line| line["result"].is_object()) && levelled.is_some()
        };
        let met = timeout(PATIENCE, met).await.unwrap_or(false);
        if !met {
            self.wrong("the handshake failed");
        }
        met
    }

    fn later(&mut self, at: Instant, todo: Todo) {
        self.last_todo += 1;
        self.todo.insert((at, self.last_todo), todo);
    }

    async fn talk(&mut self) {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        for planned in std::mem::take(&mut self.script.calls) {
            let index = self.calls.len();
            self.later(at(planned.at), Todo::Call(index));
            if let Some(after) = planned.cancel {
                self.later(at(planned.at + after), Todo::Cancel(index));
            }
            self.calls.push(Open {
                planned,
                ids: Vec::new(),
                progress: Vec::new(),
                logs: Vec::new(),
                cancelled: None,
                end: None,
            });
        }
        if let Some(ms) = self.script.leaves {
            self.later(at(ms), Todo::Leave);
        }
        let (deadline, mut lingers) = (began + PATIENCE, None);
        loop {
            if lingers.is_none() && self.todo.is_empty() && self.calls.iter().all(Open::is_over) {
                lingers = Some(Instant::now() + LINGER);
            }
            let due = self.todo.keys().next().map(|(at, _)| *at);
            let wake = due.or(lingers).unwrap_or(deadline).min(deadline);
            tokio::select! {
                biased;
                line = self.next() => match line {
                    Some(line) => self.hear(line),
                    None => return self.wrong("the gateway closed the connection"),
                },
                () = sleep_until(wake) => match self.todo.pop_first() {
                    Some((_, Todo::Leave)) => return self.world.count("left"),
                    Some((_, todo)) => self.act(todo).await,
                    None if lingers.is_some() => return,
                    None => return self.wrong("no answer for too long"),
                },
            }
        }
    }

    async fn act(&mut self, todo: Todo) {
        let line = match todo {
            Todo::Call(index) => self.request(index, None),
            Todo::Say(line) => line,
            Todo::Cancel(index) => {
                let call = &mut self.calls[index];
                if call.is_over() {
                    return;
                }
                call.cancelled = Some(Instant::now());
                let id = call.ids.last().unwrap();
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                       "params": {"requestId": id}})
            }
            Todo::Leave => return,
        };
        if !self.send(&line).await {
            self.wrong("writing failed");
        }
    }

    /// A round of a call. Every client counts from the same number.
    fn request(&mut self, index: usize, retry: Option<(Value, Value)>) -> Value {
        let call = &mut self.calls[index];
        let number = index + 1 + 1000 * call.ids.len();
        // Ids and tokens of both kinds.
        let id = if index.is_multiple_of(2) { json!(number) } else { json!(number.to_string()) };
        call.ids.push(id.clone());
        let mut meta = json!({"progressToken": id});
        if self.script.era == Era::Modern {
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] =
                json!({"elicitation": {"form": {}}, "sampling": {}});
            meta["io.modelcontextprotocol/logLevel"] = json!("debug");
        }
        let tool = if call.planned.reads { "read" } else { "work" };
        let arguments = call.planned.plan.to_json();
        let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        if let Some((answers, state)) = retry {
            params["inputResponses"] = answers;
            params["requestState"] = state;
        }
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    }

    fn hear(&mut self, line: Value) {
        let params = &line["params"];
        match line["method"].as_str() {
            None => self.answered(&line),
            Some("notifications/progress") => self.progress(params),
            Some("notifications/message") => self.log(params),
            Some("elicitation/create") => self.asked(&line, &params["message"]),
            Some("sampling/createMessage") => {
                self.asked(&line, &params["messages"][0]["content"]["text"]);
            }
            Some("notifications/cancelled") => {}
            Some(method) if method.ends_with("/list_changed") => {}
            Some(_) => self.wrong(&format!("unexpected: {line}")),
        }
    }

    fn progress(&mut self, params: &Value) {
        let token = &params["progressToken"];
        let said = heard(&params["message"]);
        let call = self.calls.iter_mut().find(|call| call.ids.contains(token));
        match (call, said) {
            (Some(call), Some((tag, place)))
                if call.planned.plan.tag == tag && !call.is_answered() =>
            {
                call.progress.push(place);
            }
            _ => self.wrong(&format!("progress of somebody else, or after the end: {params}")),
        }
    }

    fn log(&mut self, params: &Value) {
        let call = heard(&params["data"]).and_then(|(tag, place)| {
            let call = self.calls.iter_mut().find(|call| call.planned.plan.tag == tag);
            call.map(|call| call.logs.extend(Some(place).filter(|place| *place != LATE)))
        });
        if call.is_none() && !heard(&params["data"]).is_some_and(|(tag, _)| self.is_kin(tag)) {
            self.wrong(&format!("a log message of somebody else: {params}"));
        }
    }

    fn asked(&mut self, line: &Value, text: &Value) {
        match self.answer_to(text) {
            Some(answer) if self.script.era == Era::Legacy => {
                let id = &line["id"];
                let reply = json!({"jsonrpc": "2.0", "id": id, "result": answer});
                let at = Instant::now() + Duration::from_millis(self.script.thinks);
                self.later(at, Todo::Say(reply));
            }
            _ => self.wrong(&format!("a question that is not for it: {line}")),
        }
    }

    /// Whether a tag is of a client that is like this one to everybody.
    fn is_kin(&self, tag: &str) -> bool {
        let number = |name: &str| {
            let (client, _) = name.strip_prefix("client ")?.split_once('/')?;
            Some(client.parse::<u64>().unwrap() % self.script.expect.principals?)
        };
        self.script.era == Era::Modern
            && number(tag).is_some_and(|of| number(&self.script.name) == Some(of))
    }

    /// What to answer to a question, if it is of a call of this connection.
    fn answer_to(&mut self, text: &Value) -> Option<Value> {
        let (tag, place) = heard(text)?;
        let call = self.calls.iter().find(|call| call.planned.plan.tag == tag);
        let Some(call) = call else {
            let accept = json!({"action": "accept", "content": {"answer": text}});
            return self.is_kin(tag).then_some(accept);
        };
        let steps = &call.planned.plan.steps;
        let step = match place {
            LATE => &Step::Elicit,
            _ => steps.get(usize::try_from(place).ok()?)?,
        };
        let text = text.as_str()?;
        // A question names no call. One that was put for a call that ended meanwhile, here or at
        // the server, and was another's, is put again.
        let has_ended = |call: &&Open| {
            call.is_over() || !self.world.trace(&call.planned.plan.tag).ended.is_empty()
        };
        let ended = self.calls.iter().filter(has_ended).count();
        let times = self.questions.entry(text.to_owned()).or_default();
        *times += 1;
        if *times > ended + 1 && self.world.trace(tag).began.len() < 2 {
            self.wrong(&format!("the question {text} was put once too often"));
        }
        Some(match step {
            Step::Elicit => json!({"action": "accept", "content": {"answer": text}}),
            _ => json!({"role": "assistant", "model": "m",
                        "content": {"type": "text", "text": text}}),
        })
    }

    fn answered(&mut self, line: &Value) {
        let index = self.calls.iter().position(|call| call.ids.last() == Some(&line["id"]));
        let Some(index) = index.filter(|index| self.calls[*index].end.is_none()) else {
            return self.wrong(&format!("an answer that nobody waits for: {line}"));
        };
        if line["result"]["resultType"] == "input_required" {
            return self.round(index, &line["result"]);
        }
        let (tag, ending) = {
            let plan = &self.calls[index].planned.plan;
            (plan.tag.clone(), plan.ending)
        };
        let text = &line["result"]["content"][0]["text"];
        let end = match (text.as_str(), line["error"]["code"].as_i64()) {
            (Some(text), _) if is_own(text, &tag) => {
                if self.script.expect.all && !text.ends_with("|0") {
                    self.wrong(&format!("questions of {text} were refused"));
                }
                End::Answered
            }
            (None, Some(-32050)) if ending == Ending::Error => {
                let text = line["error"]["message"].as_str().unwrap_or_default();
                if !is_own(text, &tag) {
                    self.wrong(&format!("{tag} got the error of another call: {line}"));
                }
                End::Answered
            }
            (None, Some(code)) if code != -32050 => End::Failed(code, line["error"].to_string()),
            _ => return self.wrong(&format!("{tag} got the answer of another call: {line}")),
        };
        self.world.count(if end == End::Answered { "answered" } else { "failed" });
        self.calls[index].end = Some(end);
    }

    /// A newer client answers questions with another round.
    fn round(&mut self, index: usize, result: &Value) {
        let Some(questions) = result["inputRequests"].as_object() else {
            return self.wrong(&format!("a round without a question: {result}"));
        };
        let mut answers = json!({});
        for (key, question) in questions {
            let params = &question["params"];
            let text = match question["method"].as_str() {
                Some("elicitation/create") => &params["message"],
                _ => &params["messages"][0]["content"]["text"],
            };
            match self.answer_to(text) {
                Some(answer) => answers[key] = answer,
                None => self.wrong(&format!("a question that is not for it: {result}")),
            }
        }
        let call = &mut self.calls[index];
        if call.cancelled.is_some() || call.planned.walks_away {
            call.end = Some(End::WalkedAway);
            return self.world.count("walked away");
        }
        let line = self.request(index, Some((answers, result["requestState"].clone())));
        let at = Instant::now() + Duration::from_millis(self.script.thinks);
        self.later(at, Todo::Say(line));
    }

    /// What must be true once the connection has ended.
    fn check(&self) {
        for call in &self.calls {
            call.check(self);
        }
    }
}

impl Open {
    const fn is_over(&self) -> bool {
        self.end.is_some() || self.cancelled.is_some()
    }

    const fn is_answered(&self) -> bool {
        self.end.is_some()
    }

    fn check(&self, client: &Client) {
        let (world, expect) = (&client.world, client.script.expect);
        let (plan, trace) = (&self.planned.plan, world.trace(&self.planned.plan.tag));
        let wrong = |what: &str| client.wrong(&format!("{}: {what}", plan.tag));
        let may_repeat = expect.retry && self.planned.reads;
        if trace.began.len() > 1 + usize::from(may_repeat) || trace.is_repeated && !may_repeat {
            wrong(&format!("it was sent {} times", trace.began.len()));
        }
        let is_repeated = trace.began.len() > 1 || trace.is_repeated;
        if let Some(at) = self.cancelled {
            world.count("cancelled");
            self.check_cancelled(at, client);
        }
        let all = plan.places(Step::Progress);
        let is_whole = self.end == Some(End::Answered) && !is_repeated;
        if is_whole {
            // What a newer client is told while it is away with a question is lost.
            let may_miss = self.ids.len() > 1;
            if !(self.progress == all || may_miss && is_part(&self.progress, &all)) {
                wrong(&format!("progress {:?} instead of {all:?}", self.progress));
            }
            let logs = plan.places(Step::Log);
            let may_miss = may_miss || !expect.all;
            let mut heard = self.logs.clone();
            if expect.principals.is_some() {
                // Over HTTP each may come on the stream of another call.
                heard.sort_unstable();
            }
            if !(heard == logs || may_miss && is_part(&heard, &logs)) {
                wrong(&format!("log messages {:?} instead of {logs:?}", self.logs));
            }
        } else if !is_repeated && !is_part(&self.progress, &all) {
            wrong(&format!("progress {:?}, which is no part of {all:?}", self.progress));
        }
        let left = client.script.leaves.is_some();
        if expect.calm && !left && self.cancelled.is_none() && self.end != Some(End::Answered) {
            wrong(&format!("it ended with {:?}", self.end));
        }
    }

    /// The owner of a cancelled call hears of it at once; one that waited is never sent.
    fn check_cancelled(&self, at: Instant, client: &Client) {
        let trace = client.world.trace(&self.planned.plan.tag);
        // Whoever leaves may come back to a call that was asked something, for itself or another one.
        let may_be_away = match client.script.leaves {
            Some(_) => client.calls.iter().any(|call| call.planned.plan.asks()),
            None => self.planned.plan.asks(),
        };
        if !client.script.expect.instant || may_be_away || trace.began.len() > 1 {
            return;
        }
        let Some(began) = trace.began.first() else { return };
        if *began > at {
            client.wrong(&format!("{} was sent after its end", self.planned.plan.tag));
        }
        let works = trace.ended.iter().all(|ended| *ended > at);
        let is_open = works && self.end.is_none() && !client.world.has_ended(trace.life);
        // One that is made again elsewhere was cancelled before.
        let is_late = trace.cancelled.first().is_none_or(|when| *when > at);
        if *began < at && is_open && is_late {
            let when = trace.cancelled.first().map(|when| when.duration_since(at));
            client.wrong(&format!(
                "the upstream of {} was told of its cancellation after {when:?}",
                self.planned.plan.tag
            ));
        }
    }
}

fn is_own(text: &str, tag: &str) -> bool {
    text.split_once('|').is_some_and(|(of, _)| of == tag) && !owner(tag).is_empty()
}

/// Whether `some` are among `all`, in order and once.
fn is_part(some: &[u64], all: &[u64]) -> bool {
    some.is_sorted_by(|a, b| a < b) && some.iter().all(|one| all.contains(one))
}
