//! WebSocket: RFC 6455 case by case over raw bytes, and both ends through real servers and clients.

#![cfg(feature = "websocket")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::result_large_err,
    reason = "a test may panic"
)]

#[path = "websocket/frames.rs"]
mod frames;
#[path = "websocket/life.rs"]
mod life;
#[cfg(feature = "msgpack")]
#[path = "websocket/msgpack.rs"]
mod msgpack;
#[path = "websocket/opening.rs"]
mod opening;

use std::future::Future;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue};
use mcplane::proto::session::EraChoice;
use mcplane::proto::version::Revision;
use mcplane::transport::http::Work;
use mcplane::transport::http::server::{
    Authenticate, Builder, ConnectionLimits, Denied, Endpoint, serve,
};
use mcplane::transport::listen::{Limits, Listener};
use mcplane::transport::websocket::{self, Config, Protocol, WebSocket};
use mcplane::{Client, NoArguments, Server, Service, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest wait for anything that must happen.
const LIMIT: Duration = Duration::from_secs(20);

/// The longest message that the test's server takes.
const BYTES_MAX: usize = 200_000;

// Opcodes (§5.2), with and without FIN.
const FIN: u8 = 0x80;
const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

fn limits() -> Limits {
    Limits::default().accepts_per_s(0)
}

/// Held calls: each comes with what fails once its handler is dropped.
type Held = mpsc::Receiver<oneshot::Receiver<()>>;

fn service() -> (Service, Held) {
    let (hold, held) = mpsc::channel(8);
    let echo = |_: &_, text: EchoArguments| text.text.unwrap_or_default();
    let server = Server::new("websocket", "1")
        .tool(Tool::inline("echo", echo))
        .tool(Tool::waiting("slow", |_, _: NoArguments| async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            "at last"
        }))
        .tool(Tool::waiting("hold", move |_, _: NoArguments| {
            let hold = hold.clone();
            async move {
                let (_alive, dropped) = oneshot::channel();
                hold.send(dropped).await.unwrap();
                std::future::pending::<()>().await;
                "never"
            }
        }));
    (server.start().unwrap(), held)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArguments {
    text: Option<String>,
}

async fn echo(client: &Client, text: &str) -> String {
    let result = wait(client.call_tool("echo", &json!({"text": text}))).await.unwrap();
    result.content.first().unwrap().as_text().unwrap().to_owned()
}

struct Running {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start() -> Self {
        let config = Config::default().message_bytes_max(BYTES_MAX);
        Self::with(service().0, limits(), config).await
    }

    async fn with(service: Service, limits: Limits, config: Config) -> Self {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits).await.unwrap();
        Self::on(listener, Endpoint::builder(service).websocket(config))
    }

    fn on(listener: Listener, endpoint: Builder) -> Self {
        let address = listener.local_address().to_string();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { stopped.await.unwrap() };
        let connection =
            ConnectionLimits { header: Duration::from_millis(300), ..ConnectionLimits::default() };
        let serve = serve(listener, endpoint.build(), connection, shutdown);
        Self { address, stop, task: tokio::spawn(serve) }
    }

    async fn connect(&self, config: &Config) -> mcplane::Result<WebSocket> {
        websocket::connect_with(&format!("ws://{}/mcp", self.address), &HeaderMap::new(), config)
            .await
    }

    async fn client(&self, era: EraChoice, config: &Config) -> Client {
        let socket = self.connect(config).await.unwrap();
        assert_eq!(socket.protocol(), Protocol::Json);
        Client::builder("t", "1").revision(era).connect(socket).await.unwrap()
    }

    /// A request for a WebSocket without subprotocols.
    fn request(&self) -> String {
        format!(
            "GET /mcp HTTP/1.1\r\nhost: {}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\n{KEY}\r\n\r\n",
            self.address
        )
    }

    /// The head of the answer to a request, and the connection.
    async fn ask(&self, request: &str) -> (String, Raw) {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(wait(stream.read_u8()).await.unwrap());
        }
        (String::from_utf8(head).unwrap(), Raw(stream))
    }

    async fn raw(&self) -> Raw {
        let (head, raw) = self.ask(&self.request()).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        raw
    }

    /// Whoever sends this is closed with this code, and nobody else is.
    async fn fails(&self, case: &str, wire: &[u8], code: u16) {
        let mut raw = self.raw().await;
        raw.0.write_all(wire).await.unwrap();
        assert_eq!(raw.closed().await, Some(code), "{case}: {wire:02x?}");
        self.serves().await;
    }

    /// A well-behaved client is served; a place may have to become free first.
    async fn serves(&self) {
        wait(async {
            loop {
                let (head, mut raw) = self.ask(&self.request()).await;
                if head.starts_with("HTTP/1.1 101") {
                    raw.send(FIN | TEXT, call(9, "echo").as_bytes()).await;
                    assert_eq!(raw.message().await["id"], 9);
                    return raw.leave().await;
                }
            }
        })
        .await;
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        wait(self.task).await.unwrap();
    }
}

struct Raw(TcpStream);

impl Raw {
    async fn send(&mut self, opcode: u8, payload: &[u8]) {
        // The server may have hung up on us meanwhile: what it said tells.
        let _ = self.0.write_all(&frame(opcode, payload)).await;
    }

    /// The next frame, which must not be masked (§5.1).
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        wait(async {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).await.expect("a frame");
            let len = match head[1] {
                126 => self.0.read_u16().await.unwrap().into(),
                127 => usize::try_from(self.0.read_u64().await.unwrap()).unwrap(),
                short => usize::from(short),
            };
            let mut payload = vec![0; len];
            self.0.read_exact(&mut payload).await.unwrap();
            (head[0], payload)
        })
        .await
    }

    async fn message(&mut self) -> Value {
        let (opcode, payload) = self.frame().await;
        assert_eq!(opcode, FIN | TEXT, "{:?}", String::from_utf8_lossy(&payload));
        serde_json::from_slice(&payload).unwrap()
    }

    /// The code that the server closes with, after which it hangs up. Pongs may come before.
    async fn closed(&mut self) -> Option<u16> {
        let payload = loop {
            match self.frame().await {
                (CLOSED, payload) => break payload,
                (opcode, _) => assert_eq!(opcode, FIN | PONG),
            }
        };
        let rest = wait(self.0.read(&mut [0; 8])).await;
        assert_eq!(rest.unwrap_or(0), 0, "nothing follows a close");
        std::str::from_utf8(payload.get(2..).unwrap_or_default()).expect("a reason is text");
        payload.first_chunk().map(|code| u16::from_be_bytes(*code))
    }

    async fn leave(mut self) {
        self.send(FIN | CLOSE, &close(1000, b"")).await;
        assert_eq!(self.closed().await, Some(1000));
    }
}

const CLOSED: u8 = FIN | CLOSE;

/// The challenge of §1.3.
const KEY: &str = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";

fn offering(protocols: &str, request: &str) -> String {
    request.replace("\r\n\r\n", &format!("\r\nsec-websocket-protocol: {protocols}\r\n\r\n"))
}

/// A masked frame.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut frame = vec![opcode];
    match payload.len() {
        len @ 0..=125 => frame.push(0x80 | u8::try_from(len).unwrap()),
        len @ 126..=65_535 => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes(), reason].concat()
}

/// The arguments of [`call`].
const EMPTY: &str = "\"arguments\":{}";

/// A call in the era of 2026-07-28.
fn call(id: u32, tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"_meta": meta, "name": tool, "arguments": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// A server for one client: answers the handshake with `answer`, in which `{accept}` stands for
/// the right header, sends `wire`, and hands over what the client says then.
async fn fake(answer: String, wire: Vec<u8>) -> (String, oneshot::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let (say, said) = oneshot::channel();
    tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains("sec-websocket-version: 13"), "{head}");
        let accept = format!("sec-websocket-accept: {}\r\n", answered(&head).await);
        let answer = answer.replace("{accept}", &accept) + "\r\n";
        stream.write_all(&[answer.as_bytes(), &wire].concat()).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        let _ = say.send(rest);
    });
    (url, said)
}

/// The answer to the challenge in a request's head: a real server knows it.
async fn answered(head: &str) -> String {
    let key = head.lines().find(|line| line.starts_with("sec-websocket-key")).expect("a key");
    let server = Running::start().await;
    let answer = server.ask(&server.request().replace(KEY, key)).await.0;
    let accept = answer.lines().find_map(|line| line.strip_prefix("sec-websocket-accept: "));
    accept.expect("an answer").to_owned()
}

async fn wait<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("it took too long")
}
