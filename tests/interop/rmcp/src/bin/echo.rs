//! A server on rmcp: `echo`, over stdio, or `echo http PORT`, or `echo http-json PORT` to be raced.

use std::{
    env,
    error::Error,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use rmcp::{
    RoleServer, ServiceExt, elicit_safe,
    handler::server::wrapper::Parameters,
    model::ProgressNotificationParam,
    service::RequestContext,
    tool, tool_router,
    transport::{
        stdio,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::{net::TcpListener, time::sleep};

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

struct Features;

#[tool_router(server_handler)]
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
    async fn ask(&self, context: RequestContext<RoleServer>) -> String {
        match context.peer.elicit::<Who>("Who are you?").await {
            Ok(Some(who)) => format!("accept {}", who.name),
            Ok(None) => "nobody".into(),
            Err(error) => error.to_string(),
        }
    }
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
    let sessions = LocalSessionManager::default().into();
    let service = StreamableHttpService::new(|| Ok(Features), sessions, config);
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
