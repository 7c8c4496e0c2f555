//! Many large calls in flight for a while, over every transport and through the gateway: none fails,
//! and the memory does not grow with what was sent so far. A program without a harness, since the
//! server on its standard output is this executable, started again.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::result_large_err,
    reason = "a test may panic, and may say what it found"
)]

use std::sync::Arc;

use http::HeaderMap;
use mcplane::transport::http::client::Http;
use mcplane::transport::http::server::{ConnectionLimits, Endpoint, serve};
use mcplane::transport::listen::{self, Limits, Listener};
use mcplane::transport::memory::{Memory, pair};
use mcplane::transport::process::{Command, Process};
use mcplane::transport::{tcp, unix, websocket};
use mcplane::{Client, Server as Mcp, Service, Tool};
use mcplane_gateway::config::{Config, Server};
use mcplane_gateway::{Connect, Connected, Connecting, Gateway};
use mcplane_testkit::{CountingAllocator, peak};
use serde_json::json;
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What the executable is started with to be a server.
const SERVE: &str = "serve";

/// How many calls are in flight, the bytes of each, and how many there are in all.
const LOADS: [(usize, usize, usize); 2] = [(100, 64 * 1024, 600), (4, 1024 * 1024, 45)];

/// The part of the calls that shows what the load needs, one of so many.
const FIRST: usize = 3;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if std::env::args().nth(1).as_deref() == Some(SERVE) {
        let service = echo();
        return runtime.block_on(async { service.serve(mcplane::stdio()).await.unwrap() });
    }
    runtime.block_on(async {
        over_streams().await;
        over_http().await;
        through_the_gateway().await;
    });
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

fn echo() -> Service {
    Mcp::new("echo", "1").tool(Tool::inline("echo", |_, echo: Echo| echo.message)).start().unwrap()
}

fn builder() -> mcplane::client::ClientBuilder {
    Client::builder("pipelined", "1")
}

async fn over_streams() {
    holds("memory", &builder().connect(served_by(echo())).await.unwrap()).await;

    let this = std::env::current_exe().unwrap();
    let process = Process::new(Command::new(this).args([SERVE]));
    holds("stdio", &builder().spawn(process).await.unwrap()).await;

    let address = listen("127.0.0.1:0").await;
    holds("TCP", &builder().connect(tcp::connect(&address).await.unwrap()).await.unwrap()).await;

    let path = std::env::temp_dir().join(format!("mcplane-pipelined-{}", std::process::id()));
    listen(&format!("unix:{}", path.display())).await;
    holds("Unix", &builder().connect(unix::connect(&path).await.unwrap()).await.unwrap()).await;
    let _ = std::fs::remove_file(path);
}

async fn over_http() {
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(&address, Limits::default()).await.unwrap();
    let address = listener.local_address().to_string();
    let limits = ConnectionLimits::default();
    let endpoint = Endpoint::builder(echo()).websocket(websocket::Config::default()).build();
    tokio::spawn(serve(listener, endpoint, limits, std::future::pending()));

    let http = Http::new(&format!("http://{address}/mcp")).unwrap();
    holds("HTTP", &builder().connect(http).await.unwrap()).await;

    let url = format!("ws://{address}/mcp");
    let socket = websocket::connect(&url, &HeaderMap::new()).await.unwrap();
    holds("WebSocket", &builder().connect(socket).await.unwrap()).await;
}

async fn through_the_gateway() {
    let mut config = Config::default();
    // Nothing is kept on the disk.
    config.gateway.state_dir = Some("/dev/null/nowhere".into());
    let server = Server { command: Some("none".into()), ..Server::default() };
    config.servers.insert("it", server);
    let gateway = Gateway::start_with(config, Arc::new(Echoes)).unwrap();
    gateway.ready().await;
    holds("the gateway", &builder().connect(served_by(gateway.service())).await.unwrap()).await;
    gateway.close().await;
}

/// Upstreams in this process.
struct Echoes;

impl Connect for Echoes {
    fn connect<'a>(&'a self, _: &'a str, _: &'a Server) -> Connecting<'a> {
        Box::pin(async { Connected::to(served_by(echo())) })
    }
}

fn served_by(service: Service) -> Memory {
    let (ours, theirs) = pair();
    tokio::spawn(async move { service.serve(theirs).await });
    ours
}

/// Serves lines at an address; gives back where that is.
async fn listen(address: &str) -> String {
    let listener = Listener::bind(&address.parse().unwrap(), Limits::default()).await.unwrap();
    let address = listener.local_address().to_string();
    tokio::spawn(listen::serve(listener, echo(), std::future::pending()));
    address
}

/// What large buffers that are kept for the next message add in these loads, in bytes.
const KEPT_BYTES: usize = 8 * 1024 * 1024;

/// Calls are answered, and the first of them take as much memory as all of them: what else is held
/// at a time differs by a few times what is in flight and by what is kept, and what was sent is far more.
async fn holds(name: &str, client: &Client) {
    for (in_flight, bytes, count) in LOADS {
        let ((), first) = peak(calls(client, in_flight, bytes, count / FIRST)).await;
        let ((), all) = peak(calls(client, in_flight, bytes, count)).await;
        println!("{name}: {in_flight} x {bytes} bytes: {first} bytes held, and then {all}");
        assert!(
            all <= first + 3 * in_flight * bytes + KEPT_BYTES,
            "{name}: the memory grew from {first} to {all} bytes"
        );
    }
    client.close().await;
}

async fn calls(client: &Client, in_flight: usize, bytes: usize, count: usize) {
    let message: Arc<str> = "x".repeat(bytes).into();
    let mut running = JoinSet::new();
    for begun in 0..count + in_flight {
        if begun >= in_flight {
            running.join_next().await.unwrap().unwrap();
        }
        if begun < count {
            let (client, message) = (client.clone(), Arc::clone(&message));
            running.spawn(async move {
                let answer = client.call_tool("echo", &json!({"message": &*message})).await;
                let answer = answer.unwrap();
                let text = answer.content.first().and_then(|content| content.as_text());
                assert!(text == Some(&message), "not the echo of what was said");
            });
        }
    }
}
