//! HTTP/1.1 by hand: what goes over the wire is what a test wrote.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for anything that must happen.
pub const LIMIT: Duration = Duration::from_secs(20);

pub const MODERN: &str = "2026-07-28";
pub const LATEST_LEGACY: &str = "2025-11-25";

pub async fn wait<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("it took too long")
}

/// A request, header for header.
#[derive(Clone, Debug)]
pub struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            line: format!("{method} {path} HTTP/1.1"),
            headers: vec![("Host".into(), "localhost".into())],
            body: None,
        }
    }

    /// A POST of JSON text to `/mcp`.
    pub fn post(body: impl Into<Vec<u8>>) -> Self {
        Self::post_to("/mcp", body)
    }

    pub fn post_to(path: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut request = Self::new("POST", path)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        request.body = Some(body.into());
        request
    }

    /// A request of 2026-07-28 with its envelope and the headers that mirror it.
    pub fn modern(id: impl Into<Value>, method: &str, params: Value) -> Self {
        let body = modern_body(id, method, params);
        let name = body["params"]["name"].as_str().or_else(|| body["params"]["uri"].as_str());
        let request = Self::post(body.to_string())
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", method);
        match name {
            Some(name) => request.header("Mcp-Name", name),
            None => request,
        }
    }

    /// A call of a tool in 2026-07-28.
    pub fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Self {
        Self::modern(id, "tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// A message of a session of 2025-03-26 … 2025-11-25.
    pub fn legacy(session: &str, message: &Value) -> Self {
        Self::post(message.to_string()).header("Mcp-Session-Id", session)
    }

    /// Text, message or not, in a session.
    pub fn legacy_text(session: &str, text: String) -> Self {
        Self::post(text).header("Mcp-Session-Id", session)
    }

    /// A call of a tool in a session.
    pub fn legacy_call(session: &str, id: impl Into<Value>, tool: &str, arguments: Value) -> Self {
        Self::legacy(session, &call(id, tool, arguments))
    }

    /// The GET stream of a session.
    pub fn listen(session: &str) -> Self {
        Self::new("GET", "/mcp")
            .header("Accept", "text/event-stream")
            .header("Mcp-Session-Id", session)
    }

    /// Adds a header, also beside one of the same name.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self
    }

    /// Replaces a header.
    pub fn with(self, name: &str, value: impl Into<String>) -> Self {
        self.without(name).header(name, value)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            out += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            out += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut out = (out + "\r\n").into_bytes();
        out.extend_from_slice(self.body.as_deref().unwrap_or_default());
        out
    }
}

/// A message of 2026-07-28, with its envelope.
pub fn modern_body(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/logLevel": "info",
    });
    if params.get("_meta").is_none() {
        params["_meta"] = meta;
    }
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params})
}

pub fn initialize(revision: &str) -> Value {
    let params = json!({
        "protocolVersion": revision,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "wire", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params})
}

pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// One connection.
pub struct Wire {
    io: Box<dyn Io>,
    input: Vec<u8>,
}

impl Wire {
    pub async fn connect(address: &str) -> Self {
        let stream = wait(TcpStream::connect(address)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    pub fn over(io: impl Io + 'static) -> Self {
        Self { io: Box::new(io), input: Vec::new() }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        wait(self.io.write_all(bytes)).await.unwrap();
    }

    /// Writes what the server may not want; whether it took everything.
    pub async fn io_write(&mut self, bytes: &[u8]) -> bool {
        wait(self.io.write_all(bytes)).await.is_ok()
    }

    pub async fn io_read(&mut self, piece: &mut [u8]) -> usize {
        wait(self.io.read(piece)).await.unwrap_or(0)
    }

    /// Says that nothing more comes.
    pub async fn finish(&mut self) {
        let _ = wait(self.io.shutdown()).await;
    }

    /// A request and its whole response.
    pub async fn send(&mut self, request: &Request) -> Response {
        self.write(&request.bytes()).await;
        self.response().await
    }

    /// A request and the events of its response.
    pub async fn stream(mut self, request: &Request) -> Events {
        self.write(&request.bytes()).await;
        let head = self.head().await;
        Events::from_parts(self, head)
    }

    /// More input; `false` at its end.
    async fn fill(&mut self) -> bool {
        wait(self.io.read_buf(&mut self.input)).await.is_ok_and(|count| count > 0)
    }

    /// Input up to and including `end`.
    async fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.input.windows(end.len()).position(|window| window == end) {
                let rest = self.input.split_off(at + end.len());
                return Some(std::mem::replace(&mut self.input, rest));
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    pub async fn exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.input.len() < count {
            if !self.fill().await {
                return None;
            }
        }
        let rest = self.input.split_off(count);
        Some(std::mem::replace(&mut self.input, rest))
    }

    /// The head of a response; `None` if the connection ended.
    pub async fn try_head(&mut self) -> Option<Head> {
        let head = String::from_utf8(self.until(b"\r\n\r\n").await?).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Some(Head { status, headers: headers.collect() })
    }

    pub async fn head(&mut self) -> Head {
        self.try_head().await.expect("the connection ended before the response")
    }

    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = String::from_utf8(self.until(b"\r\n").await?).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = self.exactly(size + 2).await?;
        chunk.truncate(size);
        Some(chunk)
    }

    pub async fn response(&mut self) -> Response {
        self.try_response().await.expect("the connection ended before the response")
    }

    pub async fn try_response(&mut self) -> Option<Response> {
        let head = self.try_head().await?;
        let mut body = Vec::new();
        if head.is_chunked() {
            loop {
                match self.chunk().await {
                    Some(chunk) if chunk.is_empty() => break,
                    Some(chunk) => body.extend_from_slice(&chunk),
                    None => return None,
                }
            }
        } else {
            let length = head.get("content-length").map_or(0, |length| length.parse().unwrap());
            body = self.exactly(length).await?;
        }
        Some(Response { head, body })
    }

    /// Waits until the server has closed the connection; what came before that.
    pub async fn closed(&mut self) -> Vec<u8> {
        while self.fill().await {}
        std::mem::take(&mut self.input)
    }
}

#[derive(Clone, Debug)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(other, _)| other == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is repeated");
        value
    }

    fn is_chunked(&self) -> bool {
        self.get("transfer-encoding") == Some("chunked")
    }

    pub fn is_stream(&self) -> bool {
        self.get("content-type") == Some("text/event-stream")
    }
}

#[derive(Clone, Debug)]
pub struct Response {
    pub head: Head,
    pub body: Vec<u8>,
}

impl Response {
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The body as JSON; null if there is none.
    pub fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        assert_eq!(self.head.get("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The code of the error that the body is; 0 for none.
    pub fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or(0)
    }

    /// The answer, also where it came as the last event of a stream: on a busy machine a short
    /// call may take long.
    pub fn answer(&self) -> Value {
        if !self.head.is_stream() {
            return self.json();
        }
        let events = std::str::from_utf8(&self.body).unwrap();
        Event::parse(events.trim_end().rsplit("\n\n").next().unwrap()).json()
    }

    /// The first text of a tool's result.
    pub fn text(&self) -> String {
        text(&self.answer())
    }

    /// Asserts the status, the code of the error and the id that it answers.
    #[track_caller]
    pub fn refuses(&self, status: u16, code: i64, id: Value) {
        let body = self.json();
        assert_eq!((self.status(), self.code()), (status, code), "{body}");
        assert_eq!(body["id"], id, "{body}");
        assert_eq!(body["jsonrpc"], "2.0");
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
    }

    /// Asserts a refusal that concerns HTTP: a status, and an error without an id.
    #[track_caller]
    pub fn refuses_http(&self, status: u16) {
        self.refuses(status, -32600, Value::Null);
    }
}

#[track_caller]
pub fn text(answer: &Value) -> String {
    let text = &answer["result"]["content"][0]["text"];
    text.as_str().unwrap_or_else(|| panic!("no text in {answer}")).to_owned()
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub event: Option<String>,
    pub retry: Option<u64>,
    pub data: Option<String>,
    /// Nothing but a comment.
    pub is_comment: bool,
}

impl Event {
    #[track_caller]
    pub fn json(&self) -> Value {
        let data = self.data.as_deref().unwrap_or_else(|| panic!("no data in {self:?}"));
        serde_json::from_str(data).unwrap_or_else(|_| panic!("no JSON in {self:?}"))
    }

    pub fn parse(block: &str) -> Self {
        let mut event = Self::default();
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "" => event.is_comment = true,
                "id" => event.id = Some(value),
                "event" => event.event = Some(value),
                "retry" => event.retry = Some(value.parse().unwrap()),
                "data" => match &mut event.data {
                    Some(data) => *data += &format!("\n{value}"),
                    None => event.data = Some(value),
                },
                other => panic!("unknown field {other:?}"),
            }
        }
        event
    }
}

/// The events of one response.
pub struct Events {
    wire: Wire,
    text: Vec<u8>,
    events: VecDeque<Event>,
    /// The length of a stream that was complete when it began.
    whole: Option<usize>,
    ended: bool,
}

impl Events {
    /// The events that follow a head on its connection.
    #[track_caller]
    pub fn from_parts(wire: Wire, head: Head) -> Self {
        assert!(head.is_stream(), "no stream: {head:?}");
        assert_eq!(head.get("x-accel-buffering"), Some("no"));
        let whole = head.get("content-length").map(|length| length.parse().unwrap());
        Self { wire, text: Vec::new(), events: VecDeque::new(), whole, ended: false }
    }

    /// The next event; `None` at the proper end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            let chunk = match self.whole {
                Some(length) => self.wire.exactly(length).await,
                None => self.wire.chunk().await,
            };
            let chunk = chunk.expect("the stream broke off");
            self.ended = chunk.is_empty() || self.whole.is_some();
            self.text.extend_from_slice(&chunk);
            while let Some(at) = self.text.windows(2).position(|window| window == b"\n\n") {
                let rest = self.text.split_off(at + 2);
                let block = String::from_utf8(std::mem::replace(&mut self.text, rest)).unwrap();
                self.events.push_back(Event::parse(&block));
            }
        }
    }

    /// The next event that carries a message.
    pub async fn message(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("the stream ended");
            if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                return event;
            }
        }
    }

    pub async fn json(&mut self) -> Value {
        self.message().await.json()
    }

    /// Every message up to the end of the stream.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                all.push(event.json());
            }
        }
        all
    }

    /// The connection, after the stream's end.
    pub fn into_wire(self) -> Wire {
        assert!(self.ended);
        self.wire
    }
}
