//! A server whose handlers do what a test tells them to.

use std::sync::Arc;
use std::time::Duration;

use mcplane::budget::Budget;
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::types::{ElicitForm, LogLevel};
use mcplane::transport::http::server::{Builder, ConnectionLimits, Endpoint, serve};
use mcplane::transport::listen::{Limits, Listener};
use mcplane::{Context, Failure, NoArguments, Prompt, Resource, Server, Service, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::wire::{Events, Request, Response, Wire, initialize, wait};

/// What a call of the tool `staged` does next.
pub enum Step {
    Log(String),
    CloseStream,
    Answer(String),
}

/// What tests hold of a [`Service`]'s handlers.
pub struct Stage {
    pub steps: mpsc::Sender<Step>,
    /// Calls of the tool `hold`, each with what ends once its handler is dropped.
    pub held: mpsc::Receiver<oneshot::Receiver<()>>,
    /// Calls of the tool `later` that have come to their end.
    pub finished: mpsc::Receiver<()>,
}

impl Stage {
    pub async fn log(&self, text: &str) {
        self.steps.send(Step::Log(text.into())).await.unwrap();
    }

    pub async fn close_stream(&self) {
        self.steps.send(Step::CloseStream).await.unwrap();
    }

    pub async fn answer(&self, text: &str) {
        self.steps.send(Step::Answer(text.into())).await.unwrap();
    }

    /// The next call of `hold`, once its handler runs.
    pub async fn hold(&mut self) -> oneshot::Receiver<()> {
        wait(self.held.recv()).await.unwrap()
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(default)]
struct Numbers {
    ms: u64,
    bytes: usize,
    code: i64,
    text: String,
}

/// Arguments that clients mirror in headers, but for `count`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Mirrored {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
    count: Option<u32>,
    #[schemars(with = "i64", extend("x-mcp-header" = "Limit"))]
    limit: f64, // 42.0 is an integer, too
    deep: Deep,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
struct Deep {
    #[schemars(extend("x-mcp-header" = "Flag"))]
    flag: bool,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { ms: 50, bytes: 16, code: -32603, text: String::new() }
    }
}

pub fn service() -> (Service, Stage) {
    service_within(Budget::default())
}

fn service_within(budget: Budget) -> (Service, Stage) {
    let (steps, script) = mpsc::channel(256);
    let (hold, held) = mpsc::channel(256);
    let (finish, finished) = mpsc::channel(256);
    let script = Arc::new(Mutex::new(script));
    let server = Server::new("world", "1")
        .memory(budget)
        .workers(256.try_into().unwrap())
        .tool(Tool::inline("echo", |_, arguments: Numbers| arguments.text))
        .tool(Tool::blocking("big", |_, arguments: Numbers| "x".repeat(arguments.bytes)))
        .tool(Tool::inline("fail", fail))
        .tool(Tool::inline("panic", |_, _: NoArguments| -> String { panic!("on purpose") }))
        .tool(Tool::inline("mirrored", |_, _: Mirrored| "mirrored"))
        .tool(Tool::inline("note", |context: &Context, _: NoArguments| {
            context.log(LogLevel::Warning, "noted");
            "done"
        }))
        .tool(Tool::waiting("late_fail", |_, arguments: Numbers| async move {
            tokio::time::sleep(Duration::from_millis(arguments.ms)).await;
            Err::<String, _>(Failure::rpc(ErrorObject::new(Code(arguments.code), "as asked")))
        }))
        .tool(Tool::waiting("later", move |_, arguments: Numbers| {
            let finish = finish.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(arguments.ms)).await;
                let _ = finish.try_send(());
                arguments.text
            }
        }))
        .tool(Tool::waiting("hold", move |_, _: NoArguments| {
            let hold = hold.clone();
            async move {
                let (_alive, dropped) = oneshot::channel();
                hold.send(dropped).await.unwrap();
                std::future::pending::<String>().await
            }
        }))
        .tool(Tool::waiting("staged", move |context: Context, _: NoArguments| {
            staged(context, Arc::clone(&script))
        }))
        .tool(Tool::waiting("flood", |context: Context, arguments: Numbers| async move {
            let text = "x".repeat(arguments.bytes);
            loop {
                context.log(LogLevel::Warning, &text);
                tokio::task::yield_now().await;
            }
            #[allow(unreachable_code, reason = "names the type")]
            String::new()
        }))
        .tool(Tool::waiting("whoami", |context: Context, _: NoArguments| async move {
            context.principal().unwrap_or("nobody").to_owned()
        }))
        .tool(Tool::waiting("ask", |context: Context, _: NoArguments| async move {
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            let form = ElicitForm::new("Who?", to_raw_value(&schema).unwrap());
            let result = context.elicit(form).await?;
            Ok::<_, Failure>(format!("{:?}", result.action))
        }))
        .prompt(Prompt::inline("greet", |_, _| "Hello"))
        .resource(Resource::inline("mem:a", "a", |_, _| "content"));
    (server.start().unwrap(), Stage { steps, held, finished })
}

fn fail(_: &Context, arguments: Numbers) -> Result<String, Failure> {
    Err(Failure::rpc(ErrorObject::new(Code(arguments.code), "as asked")))
}

async fn staged(context: Context, script: Arc<Mutex<mpsc::Receiver<Step>>>) -> String {
    loop {
        match script.lock().await.recv().await {
            Some(Step::Log(text)) => context.log(LogLevel::Warning, &text),
            Some(Step::CloseStream) => context.close_stream(),
            Some(Step::Answer(text)) => return text,
            None => return "the test is over".into(),
        }
    }
}

/// An endpoint that is being served.
pub struct World {
    pub address: String,
    pub endpoint: Endpoint,
    pub service: Service,
    pub stage: Stage,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl World {
    pub async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    pub async fn with(configure: impl FnOnce(Builder) -> Builder) -> Self {
        Self::within(configure, limits(), ConnectionLimits::default()).await
    }

    pub async fn within(
        configure: impl FnOnce(Builder) -> Builder,
        limits: Limits,
        connection: ConnectionLimits,
    ) -> Self {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits).await.unwrap();
        Self::behind(listener, configure, connection)
    }

    pub fn behind(
        listener: Listener,
        configure: impl FnOnce(Builder) -> Builder,
        connection: ConnectionLimits,
    ) -> Self {
        Self::of(service(), listener, configure, connection)
    }

    /// One with so much memory for what waits.
    pub async fn remembering(budget: Budget) -> Self {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits()).await.unwrap();
        let service = service_within(budget);
        Self::of(service, listener, |builder| builder, ConnectionLimits::default())
    }

    fn of(
        (service, stage): (Service, Stage),
        listener: Listener,
        configure: impl FnOnce(Builder) -> Builder,
        connection: ConnectionLimits,
    ) -> Self {
        let address = listener.local_address().to_string();
        let endpoint = configure(Endpoint::builder(service.clone())).build();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(serve(listener, endpoint.clone(), connection, shutdown));
        Self { address, endpoint, service, stage, stop: Some(stop), task }
    }

    pub async fn wire(&self) -> Wire {
        Wire::connect(&self.address).await
    }

    /// A request on a connection of its own.
    pub async fn send(&self, request: &Request) -> Response {
        self.wire().await.send(request).await
    }

    /// A request on a connection of its own whose answer is a stream.
    pub async fn stream(&self, request: &Request) -> Events {
        self.wire().await.stream(request).await
    }

    /// A session of `revision`.
    pub async fn session(&self, revision: &str) -> String {
        self.session_of(revision, |request| request).await
    }

    pub async fn session_of(&self, revision: &str, dress: impl Fn(Request) -> Request) -> String {
        let mut wire = self.wire().await;
        let request = dress(Request::post(initialize(revision).to_string()));
        let answer = wire.send(&request).await;
        assert_eq!(answer.status(), 200, "{:?}", answer.json());
        assert_eq!(answer.json()["result"]["protocolVersion"], revision);
        let session = answer.head.get("mcp-session-id").expect("a session").to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = wire.send(&dress(Request::legacy(&session, &ready))).await;
        assert_eq!((answer.status(), answer.body.len()), (202, 0));
        session
    }

    /// Tells the server to end, and does not wait for it.
    pub fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).unwrap();
        }
    }

    pub async fn stop(mut self) {
        self.end();
        wait(self.task).await.unwrap();
    }
}

/// No limit on how many connections come in a second.
pub fn limits() -> Limits {
    Limits::default().accepts_per_s(0)
}

/// Waits until something is so.
pub async fn until(what: impl Fn() -> bool) {
    wait(async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
