//! A server on rmcp: `echo`, over stdio, or `echo http PORT`, or `echo http-json PORT` to be raced.

use std::{
    env,
    error::Error,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt, elicit_safe,
    handler::server::{tool::InputResponses, wrapper::Parameters},
    model::{
        CallToolResponse, CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams,
        ElicitationSchema, InputRequest, InputRequiredResult, JsonObject, ListToolsResult,
        PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
        ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
    tool, tool_handler, tool_router,
    transport::{
        stdio,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::{net::TcpListener, sync::broadcast, time::sleep};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    count: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Millis {
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Who {
    name: String,
}

elicit_safe!(Who);

struct Server;

#[tool_router(server_handler)]
impl Server {
    #[tool(description = "Says the message back.")]
    fn echo(&self, Parameters(Echo { message }): Parameters<Echo>) -> String {
        message
    }

    #[tool(description = "Adds two numbers.")]
    fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> String {
        (a + b).to_string()
    }
}

static CANCELLED: AtomicUsize = AtomicUsize::new(0);
static CHANGED: AtomicBool = AtomicBool::new(false);
static SUBSCRIBED: AtomicBool = AtomicBool::new(false);
static CHANGES: LazyLock<broadcast::Sender<Change>> = LazyLock::new(|| broadcast::channel(16).0);

const NOTE: &str = "memo://note";

/// How long a client that was sent away stays away.
const AWAY: Duration = Duration::from_millis(50);

#[derive(Clone)]
enum Change {
    Tools,
    Note,
}

struct Features {
    sessions: Arc<LocalSessionManager>,
    /// What a subscription hears, from before it is acknowledged.
    changes: Mutex<Option<broadcast::Receiver<Change>>>,
}

#[tool_router]
impl Features {
    #[tool(description = "Says the message back.")]
    fn echo(&self, Parameters(Echo { message }): Parameters<Echo>) -> String {
        message
    }

    #[tool(description = "Adds two numbers.")]
    fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> String {
        (a + b).to_string()
    }

    #[tool(description = "Reports its progress.")]
    async fn steps(
        &self,
        Parameters(Count { count }): Parameters<Count>,
        context: RequestContext<RoleServer>,
    ) -> String {
        let Some(token) = context.meta.get_progress_token() else { return "no token".into() };
        for step in 1..=count {
            let params = ProgressNotificationParam::new(token.clone(), step.into());
            if let Err(error) = context.peer.notify_progress(params).await {
                return error.to_string();
            }
        }
        "done".into()
    }

    #[tool(description = "Sleeps.")]
    async fn sleep(
        &self,
        Parameters(Millis { ms }): Parameters<Millis>,
        context: RequestContext<RoleServer>,
    ) -> String {
        tokio::select! {
            () = sleep(Duration::from_millis(ms)) => {}
            () = context.ct.cancelled() => {
                CANCELLED.fetch_add(1, Ordering::Relaxed);
            }
        }
        "slept".into()
    }

    #[tool(description = "How many calls of `sleep` were cancelled.")]
    fn cancelled(&self) -> String {
        CANCELLED.load(Ordering::Relaxed).to_string()
    }

    #[tool(description = "Asks who the user is.")]
    async fn ask(
        &self,
        InputResponses(answers): InputResponses,
        context: RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let message = "Who are you?".to_owned();
        if !is_modern(&context) {
            return match context.peer.elicit::<Who>(message).await {
                Ok(Some(who)) => text(format!("accept {}", who.name)),
                Ok(None) => text("nobody"),
                Err(error) => text(error.to_string()),
            };
        }
        if let Some(answer) = answers.as_ref().and_then(|answers| answers.get("who")) {
            let said = |at| answer.pointer(at).and_then(Value::as_str).unwrap_or("nothing");
            return text(format!("{} {}", said("/action"), said("/content/name")));
        }
        let requested_schema = match ElicitationSchema::from_type::<Who>() {
            Ok(schema) => schema,
            Err(error) => return text(error.to_string()),
        };
        let form =
            ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
        let who = InputRequest::Elicitation(ElicitRequest::new(form));
        InputRequiredResult::from_input_requests([("who".to_owned(), who)].into()).into()
    }

    #[tool(description = "Adds the tool `extra`.")]
    async fn change(&self, context: RequestContext<RoleServer>) -> String {
        CHANGED.store(true, Ordering::Relaxed);
        if is_modern(&context) {
            let _ = CHANGES.send(Change::Tools);
        } else if let Err(error) = context.peer.notify_tool_list_changed().await {
            return error.to_string();
        }
        "changed".into()
    }

    #[tool(description = "Changes the note.")]
    async fn touch(&self, context: RequestContext<RoleServer>) -> String {
        if is_modern(&context) {
            let _ = CHANGES.send(Change::Note);
        } else if SUBSCRIBED.load(Ordering::Relaxed) {
            let updated = ResourceUpdatedNotificationParam::new(NOTE);
            if let Err(error) = context.peer.notify_resource_updated(updated).await {
                return error.to_string();
            }
        }
        "touched".into()
    }

    #[tool(description = "Sends the client away for a while.")]
    async fn leave(&self) -> String {
        // A call is not told the number of its stream, so all that are open end; each is resumed.
        for session in self.sessions.sessions.read().await.values() {
            for stream in 0..256 {
                let _ = session.close_sse_stream(stream, Some(AWAY)).await;
            }
        }
        sleep(2 * AWAY).await;
        "came back".into()
    }
}

#[tool_handler]
impl ServerHandler for Features {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder().enable_tools().enable_tool_list_changed();
        ServerConfig::new(can.enable_resources().enable_resources_subscribe().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = Self::tool_router().list_all();
        if CHANGED.load(Ordering::Relaxed) {
            let schema = JsonObject::from_iter([("type".into(), "object".into())]);
            tools.push(Tool::new("extra", "Nothing.", schema));
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        *self.changes.lock().ok()? = Some(CHANGES.subscribe());
        Some(wanted.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let changes = self.changes.lock().ok().and_then(|mut changes| changes.take());
        let Some(mut changes) = changes else { return Ok(()) };
        loop {
            let change = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // What was not asked for is refused, and so it should be.
            let _ = match change {
                Ok(Change::Tools) => subscription.sink().notify_tool_list_changed().await,
                Ok(Change::Note) => subscription.sink().notify_resource_updated(NOTE).await,
                Err(_) => return Ok(()),
            };
        }
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        SUBSCRIBED.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        SUBSCRIBED.store(false, Ordering::Relaxed);
        Ok(())
    }
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["http", port] => http(port.parse()?, Default::default()).await,
        // As fast as it goes.
        ["http-json", port] => {
            let config = StreamableHttpServerConfig::default()
                .with_legacy_session_mode(false)
                .with_json_response(true)
                .with_sse_keep_alive(None);
            http(port.parse()?, config).await
        }
        _ => {
            Server.serve(stdio()).await?.waiting().await?;
            Ok(())
        }
    }
}

async fn http(port: u16, config: StreamableHttpServerConfig) -> Result<(), Box<dyn Error>> {
    let sessions = Arc::new(LocalSessionManager::default());
    let features = {
        let sessions = Arc::clone(&sessions);
        move || Ok(Features { sessions: Arc::clone(&sessions), changes: Mutex::default() })
    };
    let service = StreamableHttpService::new(features, sessions, config);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let server = Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}
