//! Handlers that block, hang, panic or take too long: what else the connection carries goes on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcplane::proto::version::{Era, Revision};
use mcplane::transport::Transport;
use mcplane::transport::memory::{self, Memory};
use mcplane::{Context, NoArguments, Result, Server, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest wait for anything that must happen.
const LIMIT: Duration = Duration::from_secs(20);

const OVERLOADED: i64 = -31_999;
const HANDLER_TIMEOUT: i64 = -31_998;
const INTERNAL_ERROR: i64 = -32_603;

const CASES: [(Kind, Era); 4] = [
    (Kind::Blocking, Era::Legacy),
    (Kind::Blocking, Era::Modern),
    (Kind::Waiting, Era::Legacy),
    (Kind::Waiting, Era::Modern),
];

#[tokio::test]
async fn a_full_pool_stops_nothing_else() {
    for (kind, era) in CASES {
        full(kind, era).await;
    }
}

/// One call runs, one waits for the worker; then everything else is tried.
async fn full(kind: Kind, era: Era) {
    let mut gate = Gate::new(kind);
    let mut client = Client::connect(era, server().tool(gate.tool())).await;

    client.call(1, "hold").await;
    let running = gate.started().await;
    client.call(2, "hold").await;
    client.call(3, "hold").await;
    assert_eq!(client.error().await, (3, OVERLOADED), "there is room for two");
    client.alive(4).await;

    // The queued call: its place is free for another one, and for one only.
    client.cancel(2).await;
    client.alive(5).await;
    client.call(6, "hold").await;
    client.alive(7).await;
    client.call(8, "hold").await;
    assert_eq!(client.error().await, (8, OVERLOADED), "a cancelled call gives one place back");

    // The running call: it is told. One that waits is dropped, so that the next one starts; a
    // thread cannot be taken away, and keeps its worker until the function returns.
    client.cancel(1).await;
    client.alive(9).await;
    assert!(running.is_cancelled());
    if kind == Kind::Waiting {
        assert!(!gate.started().await.is_cancelled());
    }
    client.alive(10).await;
    assert_eq!(gate.finished(), 0, "all of this happened before a pooled call finished");

    gate.open();
    assert_eq!(client.text().await, (6, "held".into()));
    assert_eq!(gate.finished(), if kind == Kind::Waiting { 1 } else { 2 });
    client.alive(11).await; // and nothing came for 1 and 2

    // Every place and the worker are back.
    client.call(12, "hold").await;
    assert_eq!(client.text().await, (12, "held".into()));
    client.end().await;
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_answered_for() {
    // Each waits for its time limit, so they wait together.
    let late = CASES.map(|(kind, era)| tokio::spawn(too_late(kind, era)));
    for late in late {
        late.await.unwrap();
    }
}

async fn too_late(kind: Kind, era: Era) {
    let gate = Gate::new(kind);
    let server = server().handler_timeout(Some(Duration::from_secs(1)));
    let mut client = Client::connect(era, server.tool(gate.tool())).await;
    client.call(1, "hold").await;
    assert_eq!(client.error().await, (1, HANDLER_TIMEOUT));
    client.alive(2).await;
    gate.open();
    client.call(3, "hold").await;
    assert_eq!(client.text().await, (3, "held".into()), "the worker is back");
    client.alive(4).await; // and no second answer came for 1
    client.end().await;
}

#[tokio::test]
async fn a_panic_is_one_error_and_the_connection_lives_on() {
    let boom = |yes: bool| if yes { panic!("this panic is part of a test") } else { "no panic" };
    for era in [Era::Legacy, Era::Modern] {
        let server = server()
            .tool(Tool::inline("inline", move |_, _: NoArguments| boom(true)))
            .tool(Tool::blocking("blocking", move |_, _: NoArguments| boom(true)))
            .tool(Tool::waiting("at once", move |_, _: NoArguments| async move { boom(true) }))
            .tool(Tool::waiting("later", move |_, _: NoArguments| async move {
                tokio::task::yield_now().await;
                boom(true)
            }));
        let mut client = Client::connect(era, server).await;
        // More than once: one worker and one place, and neither may be lost.
        for id in (0..24).step_by(8) {
            for (id, tool) in (id..).zip(["inline", "blocking", "at once", "later"]) {
                client.call(2 * id, tool).await;
                assert_eq!(client.error().await, (2 * id, INTERNAL_ERROR), "{tool}");
                client.alive(2 * id + 1).await;
            }
        }
        client.end().await;
    }
}

#[tokio::test]
async fn calls_in_flight_are_answered_after_the_end_of_input() {
    for (kind, era) in CASES {
        let mut gate = Gate::new(kind);
        let mut client = Client::connect(era, server().tool(gate.tool())).await;
        client.call(1, "hold").await;
        gate.started().await;
        client.call(2, "hold").await;
        client.call(3, "echo").await;
        client.close_input().await;
        assert_eq!(client.text().await, (3, "alive".into()));
        assert_eq!(gate.finished(), 0);
        gate.open();
        // One thread gives its worker to the next before its own answer is out.
        let mut answers = [client.text().await, client.text().await];
        answers.sort();
        assert_eq!(answers, [(1, "held".into()), (2, "held".into())]);
        client.end().await;
    }
}

/// A person may take long to answer, or never do: others have the worker meanwhile.
#[tokio::test]
async fn who_waits_for_its_client_holds_no_worker() {
    let ask = Tool::waiting("ask", async |context: Context, _: NoArguments| {
        let (one, other) = tokio::join!(context.roots(), context.roots());
        Ok::<_, mcplane::Error>(format!("{} and {}", one?.len(), other?.len()))
    });
    let mut gate = Gate::new(Kind::Waiting);
    let mut client = Client::connect(Era::Legacy, server().tool(ask).tool(gate.tool())).await;
    client.call(1, "ask").await;
    let asked = [client.receive().await, client.receive().await];
    client.call(2, "hold").await;
    gate.started().await;
    for question in &asked {
        assert_eq!(question["method"], "roots/list", "{question}");
        client
            .send(json!({"id": question["id"], "result": {"roots": [{"uri": "file:///a"}]}}))
            .await;
    }
    // It goes on when there is a worker for it again.
    client.alive(3).await;
    gate.open();
    assert_eq!(client.text().await, (2, "held".into()));
    assert_eq!(client.text().await, (1, "1 and 1".into()));
    client.end().await;
}

/// What a person takes to answer is not the handler's time; what it takes itself before and after is.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_handler_stands_still_while_its_client_is_asked() {
    for (after, is_late) in [(400, false), (3000, true)] {
        let [before, after] = [400, after].map(Duration::from_millis);
        let ask = Tool::waiting("ask", move |context: Context, _: NoArguments| async move {
            tokio::time::sleep(before).await;
            let roots = context.roots().await?;
            tokio::time::sleep(after).await;
            Ok::<_, mcplane::Error>(format!("{}", roots.len()))
        });
        let server = server().handler_timeout(Some(Duration::from_secs(1)));
        let mut client = Client::connect(Era::Legacy, server.tool(ask)).await;
        client.call(1, "ask").await;
        let question = client.receive().await;
        // Together less than a question may take: the server has a clock of its own.
        tokio::time::sleep(Duration::from_millis(130_000)).await;
        client.send(json!({"id": question["id"], "result": {"roots": []}})).await;
        if is_late {
            assert_eq!(client.error().await, (1, HANDLER_TIMEOUT));
        } else {
            assert_eq!(client.text().await, (1, "0".into()));
        }
        client.alive(2).await;
        client.end().await;
    }
}

/// What blocks has threads, and what waits has none: many wait at once by default, and where all threads
/// are taken they still do.
#[tokio::test]
async fn what_waits_is_not_held_up_by_what_blocks() {
    const WAITING: i64 = 300;
    let (blocking, mut waiting) = (Gate::new(Kind::Blocking), Gate::new(Kind::Waiting));
    let server = Server::new("saturated", "1").tool(blocking.tool()).tool(waiting.tool_as("wait"));
    let mut client = Client::connect(Era::Legacy, server).await;
    for id in 0..8 {
        client.call(id, "hold").await;
    }
    for id in 0..WAITING {
        client.call(100 + id, "wait").await;
    }
    for _ in 0..WAITING {
        waiting.started().await;
    }
    assert_eq!(blocking.finished(), 0);
    blocking.open();
    waiting.open();
    for _ in 0..8 + WAITING {
        assert_eq!(client.text().await.1, "held");
    }
    client.end().await;
}

/// One worker, one place in its queue, and an inline tool.
fn server() -> Server {
    Server::new("saturated", "1")
        .workers(NonZeroUsize::MIN)
        .tasks(NonZeroUsize::MIN)
        .queue(1)
        .tool(Tool::inline("echo", |_, _: NoArguments| "alive"))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Blocking,
    Waiting,
}

/// What the handlers of `hold` stand before. A test that fails drops it, which opens it.
struct Gate {
    kind: Kind,
    door: watch::Sender<bool>,
    started: mpsc::Receiver<Context>,
    enter: mpsc::Sender<Context>,
    finished: Arc<AtomicUsize>,
}

impl Gate {
    fn new(kind: Kind) -> Self {
        let (enter, started) = mpsc::channel(512);
        Self { kind, door: watch::Sender::new(false), started, enter, finished: Arc::default() }
    }

    /// The tool `hold`, which ends when the gate is open.
    fn tool(&self) -> Tool {
        self.tool_as("hold")
    }

    fn tool_as(&self, name: &str) -> Tool {
        let (door, enter) = (self.door.subscribe(), self.enter.clone());
        let finished = Arc::clone(&self.finished);
        let pass = move |context: Context| {
            let (mut door, enter, finished) = (door.clone(), enter.clone(), Arc::clone(&finished));
            async move {
                enter.try_send(context).unwrap();
                let _ = door.wait_for(|open| *open).await;
                finished.fetch_add(1, Ordering::Relaxed);
                "held"
            }
        };
        match self.kind {
            Kind::Waiting => Tool::waiting(name, move |context, _: NoArguments| pass(context)),
            Kind::Blocking => Tool::blocking(name, move |context, _: NoArguments| {
                Handle::current().block_on(pass(context.clone()))
            }),
        }
    }

    /// The next call that a worker has taken up.
    async fn started(&mut self) -> Context {
        timeout(LIMIT, self.started.recv()).await.expect("a call starts").unwrap()
    }

    fn finished(&self) -> usize {
        self.finished.load(Ordering::Relaxed)
    }

    fn open(&self) {
        self.door.send_replace(true);
    }
}

/// A client that writes raw lines and reads them in the order in which they come.
struct Client {
    era: Era,
    lines: Lines<BufReader<<Memory as Transport>::Reader>>,
    writer: <Memory as Transport>::Writer,
    served: JoinHandle<Result<()>>,
}

impl Client {
    async fn connect(era: Era, server: Server) -> Self {
        let (ours, theirs) = memory::pair();
        let service = server.start().unwrap();
        let served = tokio::spawn(async move { service.serve(theirs).await });
        let (reader, writer) = ours.open().unwrap();
        let mut client = Self { era, lines: BufReader::new(reader).lines(), writer, served };
        if era == Era::Legacy {
            let params = json!({
                "protocolVersion": Revision::LATEST_LEGACY.as_str(),
                "capabilities": {"roots": {}},
                "clientInfo": {"name": "test", "version": "1"}
            });
            client.request(0, "initialize", params).await;
            assert_eq!(client.receive().await["id"], 0);
            client.send(json!({"method": "notifications/initialized"})).await;
        }
        client
    }

    async fn call(&mut self, id: i64, tool: &str) {
        self.request(id, "tools/call", json!({"name": tool, "arguments": {}})).await;
    }

    async fn cancel(&mut self, id: i64) {
        let params = json!({"requestId": id, "reason": "enough"});
        self.send(json!({"method": "notifications/cancelled", "params": params})).await;
    }

    /// The next two lines answer what needs no worker. Nothing else was sent before them.
    async fn alive(&mut self, id: i64) {
        let probe = if self.era == Era::Legacy { "ping" } else { "server/discover" };
        self.request(id, probe, json!({})).await;
        let answer = self.receive().await;
        assert!(answer["id"] == id && answer["result"].is_object(), "{answer}");
        self.call(id, "echo").await;
        assert_eq!(self.text().await, (id, "alive".into()));
    }

    /// The id and the text of the next line, a result.
    async fn text(&mut self) -> (i64, String) {
        let answer = self.receive().await;
        let text = answer["result"]["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("no text: {answer}"));
        (answer["id"].as_i64().unwrap(), text.to_owned())
    }

    /// The id and the code of the next line, an error.
    async fn error(&mut self) -> (i64, i64) {
        let answer = self.receive().await;
        let code = answer["error"]["code"].as_i64();
        let code = code.unwrap_or_else(|| panic!("no error: {answer}"));
        (answer["id"].as_i64().unwrap(), code)
    }

    async fn request(&mut self, id: i64, method: &str, mut params: Value) {
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": Revision::LATEST.as_str(),
                "io.modelcontextprotocol/clientCapabilities": {}
            });
        }
        self.send(json!({"id": id, "method": method, "params": params})).await;
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = timeout(LIMIT, self.lines.next_line()).await.expect("a line arrives").unwrap();
        serde_json::from_str(&line.expect("the connection is open")).unwrap()
    }

    async fn close_input(&mut self) {
        self.writer.shutdown().await.unwrap();
    }

    /// Ends the connection: no line is left, and the server is content.
    async fn end(mut self) {
        self.close_input().await;
        let line = timeout(LIMIT, self.lines.next_line()).await.expect("the output ends").unwrap();
        assert_eq!(line, None);
        timeout(LIMIT, self.served).await.expect("the server ends").unwrap().unwrap();
    }
}
