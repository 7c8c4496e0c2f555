//! Servers on the network whose faults are programmed: one thread for each connection, bytes
//! written by hand.

#![allow(dead_code, reason = "each test uses a part")]

use std::future::poll_fn;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_core::Stream as _;
use futures_sink::Sink as _;
use mcplane_lab::{Address, Remote, Target};
use mcplane_proto::headers::{self, Body};
use serde_json::{Value, json};
use tokio_websockets::{CloseCode, Config, Message as Frame, ServerBuilder};

/// What a server does with a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    Answer,
    /// As events, after a notification, a comment and an event of another kind.
    Events,
    /// With a body in chunks of so many bytes, each in a write of its own.
    Chunks(usize),
    /// Events in chunks of so many bytes.
    EventChunks(usize),
    AnswerWith(&'static str),
    WrongId,
    /// 202 and nothing.
    Nothing,
    /// A status and headers, then an empty body.
    Status(&'static str),
    /// A JSON-RPC error without an id and with a status.
    Refuse(&'static str),
    /// Ends the connection in the middle of the body, or without a byte.
    CutBody,
    Hang,
    /// Answers and closes, having said so.
    LastWords,
    Die,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Streamable HTTP of 2026-07-28, and nothing else.
    Modern,
    /// Streamable HTTP with a session, and nothing else.
    Legacy,
    /// HTTP+SSE, and nothing else.
    Sse,
    /// Lines over TCP.
    Lines,
    /// WebSocket.
    WebSocket,
}

/// A server that does `script(n)` with its n-th call, counted from 0 over all connections.
pub(crate) struct Server {
    pub(crate) url: String,
    /// Requests of any kind, by what they were.
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(kind: Kind, script: fn(u64) -> Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let state = Arc::new(State {
            kind,
            script,
            calls: AtomicU64::new(0),
            seen: Arc::clone(&seen),
            events: Mutex::new(None),
        });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                stream.set_nodelay(true).unwrap();
                thread::spawn(move || {
                    let served = match state.kind {
                        Kind::Lines => state.lines(stream.try_clone().unwrap(), stream),
                        Kind::WebSocket => state.web_socket(stream),
                        _ => state.http(stream),
                    };
                    // Most of these servers break off on purpose.
                    let _ = served;
                });
            }
        });
        let url = match kind {
            Kind::Lines => format!("tcp://{at}"),
            Kind::WebSocket => format!("ws://{at}/mcp"),
            _ => format!("http://{at}/mcp"),
        };
        Self { url, seen }
    }

    /// The same over a Unix socket at this path.
    #[cfg(unix)]
    pub(crate) fn start_unix(path: &std::path::Path) -> Self {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        let tcp = Self::start(Kind::Lines, |_| Act::Answer);
        let at = tcp.url.strip_prefix("tcp://").unwrap().to_owned();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(&at).unwrap();
                far.set_nodelay(true).unwrap();
                let (mut input, mut output) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || io::copy(&mut input, &mut output));
                let (mut input, mut output) = (far, near);
                thread::spawn(move || io::copy(&mut input, &mut output));
            }
        });
        Self { url: format!("unix:{}", path.display()), seen: tcp.seen }
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::new(Address::parse(&self.url, false).unwrap())
    }

    pub(crate) fn target(&self) -> Target {
        Target::Remote(Box::new(self.remote()))
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| seen.as_str() == what).count()
    }
}

struct State {
    kind: Kind,
    script: fn(u64) -> Act,
    calls: AtomicU64,
    seen: Arc<Mutex<Vec<String>>>,
    events: Mutex<Option<TcpStream>>,
}

struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl State {
    fn http(&self, stream: TcpStream) -> io::Result<()> {
        let mut input = BufReader::new(stream.try_clone()?);
        while let Some(request) = read(&mut input)? {
            self.seen.lock().unwrap().push(request.line.clone());
            let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let header = |name: &str| {
                request.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
            };
            match (self.kind, request.line.split(' ').next().unwrap()) {
                (Kind::Sse, "GET") => {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
                    let mut stream = stream.try_clone()?;
                    write!(stream, "{head}event: endpoint\ndata: /message?s=1\n\n")?;
                    *self.events.lock().unwrap() = Some(stream);
                    continue;
                }
                (Kind::Sse, _) if !request.line.contains("/message?s=1") => {
                    status(&stream, "405 Method Not Allowed", "")?;
                    continue;
                }
                (Kind::Legacy, "DELETE") => {
                    status(&stream, "204 No Content", "")?;
                    continue;
                }
                (Kind::Modern, _) => {
                    if let Some(wrong) = wrong_headers(&request, &message) {
                        let error = json!({"code": -32020, "message": wrong});
                        let body = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                        json_with(&stream, "400 Bad Request", &body.to_string())?;
                        continue;
                    }
                }
                (Kind::Legacy, _) if message["method"] != "initialize" => {
                    if message["method"] == "server/discover" {
                        status(&stream, "400 Bad Request", "")?;
                        continue;
                    }
                    if header("mcp-session-id") != Some("the-session")
                        || header("mcp-protocol-version") != Some("2025-11-25")
                    {
                        status(&stream, "404 Not Found", "")?;
                        continue;
                    }
                }
                _ => {}
            }
            self.message(&stream, &message)?;
        }
        Ok(())
    }

    fn message(&self, mut stream: &TcpStream, message: &Value) -> io::Result<()> {
        let Some(id) = message.get("id") else { return status(stream, "202 Accepted", "") };
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let reply = answer(result(message, self.kind));
        if message["method"] != "tools/call" {
            if self.kind == Kind::Sse {
                return self.event(stream, &reply);
            }
            let session = if self.kind == Kind::Legacy && message["method"] == "initialize" {
                "Mcp-Session-Id: the-session\r\n"
            } else {
                ""
            };
            let body = reply.to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
            let length = body.len();
            return write!(stream, "{head}{session}Content-Length: {length}\r\n\r\n{body}");
        }
        let body = reply.to_string();
        let act = (self.script)(self.calls.fetch_add(1, Ordering::Relaxed));
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        let events = format!(
            ": hi\n\nid: 1\ndata:\n\nevent: other\ndata: x\n\ndata: {note}\n\n\
            event: message\r\ndata: {body}\r\n\r\n"
        );
        let json = "application/json";
        match act {
            Act::Answer if self.kind == Kind::Sse => self.event(stream, &reply),
            Act::Answer => json_with(stream, "200 OK", &body),
            Act::Events => chunked(stream, "text/event-stream", &events, usize::MAX),
            Act::Chunks(size) => chunked(stream, json, &body, size),
            Act::EventChunks(size) => chunked(stream, "text/event-stream", &events, size),
            Act::AnswerWith(text) => {
                json_with(stream, "200 OK", &answer(json!({"text": text})).to_string())
            }
            Act::WrongId => {
                let body = json!({"jsonrpc": "2.0", "id": 987_654_321, "result": {}});
                json_with(stream, "200 OK", &body.to_string())
            }
            Act::Nothing => status(stream, "202 Accepted", ""),
            Act::Status(text) => {
                let (line, headers) = text.split_once('|').unwrap_or((text, ""));
                status(stream, line, headers)
            }
            Act::Refuse(line) => {
                let error = json!({"code": -32602, "message": "no such argument"});
                let body = json!({"jsonrpc": "2.0", "error": error});
                json_with(stream, line, &body.to_string())
            }
            Act::CutBody => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
                write!(stream, "{head}Content-Length: {}\r\n\r\n{{", body.len())?;
                Err(io::ErrorKind::Other.into())
            }
            Act::Hang => {
                thread::sleep(Duration::from_secs(2));
                Err(io::ErrorKind::Other.into())
            }
            Act::LastWords => {
                let length = body.len();
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json";
                write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{body}")?;
                Err(io::ErrorKind::Other.into())
            }
            Act::Die => Err(io::ErrorKind::Other.into()),
        }
    }

    /// Answers on the event stream, and accepts the POST after that.
    fn event(&self, stream: &TcpStream, reply: &Value) -> io::Result<()> {
        let events = self.events.lock().unwrap();
        write!(events.as_ref().unwrap(), "event: message\ndata: {reply}\n\n")?;
        status(stream, "202 Accepted", "")
    }

    fn lines(&self, input: impl Read, mut output: impl Write) -> io::Result<()> {
        for line in BufReader::new(input).lines() {
            let message: Value = serde_json::from_str(&line?)?;
            let Some(id) = message.get("id") else { continue };
            let result = result(&message, Kind::Modern);
            writeln!(output, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        }
        Ok(())
    }
}

impl State {
    /// Text frames; a ping, an answer in fragments or the end in between.
    fn web_socket(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream)?;
            // Short frames, so that most answers come in pieces.
            let builder = ServerBuilder::new().config(Config::default().frame_size(16));
            let wrong = |error| io::Error::other(format!("{error}"));
            let (_, mut socket) = builder.accept(stream).await.map_err(wrong)?;
            while let Some(message) = poll_fn(|cx| Pin::new(&mut socket).poll_next(cx)).await {
                let message = message.map_err(wrong)?;
                let Some(text) = message.as_text() else { continue };
                let message: Value = serde_json::from_str(text)?;
                let Some(id) = message.get("id") else { continue };
                let answer =
                    json!({"jsonrpc": "2.0", "id": id, "result": result(&message, Kind::Modern)});
                let mut out = vec![Frame::ping("are you there"), Frame::text(answer.to_string())];
                if message["method"] == "tools/call" {
                    match (self.script)(self.calls.fetch_add(1, Ordering::Relaxed)) {
                        Act::Nothing => out.truncate(1),
                        Act::WrongId => out.push(Frame::binary("what")),
                        Act::Die => {
                            let end = Frame::close(Some(CloseCode::GOING_AWAY), "enough");
                            Pin::new(&mut socket).start_send(end).map_err(wrong)?;
                            // Reads on until the client has left: calls that nobody read would
                            // make this a reset, which overtakes the answers.
                            let left = poll_fn(|cx| Pin::new(&mut socket).poll_close(cx)).await;
                            return left.map_err(wrong);
                        }
                        _ => {}
                    }
                }
                for frame in out {
                    poll_fn(|cx| Pin::new(&mut socket).poll_ready(cx)).await.map_err(wrong)?;
                    Pin::new(&mut socket).start_send(frame).map_err(wrong)?;
                }
                poll_fn(|cx| Pin::new(&mut socket).poll_flush(cx)).await.map_err(wrong)?;
            }
            Ok(())
        })
    }
}

fn result(message: &Value, kind: Kind) -> Value {
    let info = json!({"name": "fake", "version": "1"});
    match message["method"].as_str() {
        Some("server/discover") if kind == Kind::Modern => json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "_meta": {"io.modelcontextprotocol/serverInfo": info},
        }),
        Some("initialize") => {
            let version = &message["params"]["protocolVersion"];
            json!({"protocolVersion": version, "serverInfo": info})
        }
        Some("tools/list") => json!({"tools": [{"name": "echo"}]}),
        _ => json!({"content": [{"type": "text", "text": "hello"}]}),
    }
}

/// What is wrong with the headers of a modern request.
fn wrong_headers(request: &Request, message: &Value) -> Option<String> {
    let params = &message["params"];
    let body = Body {
        version: params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str()?,
        method: message["method"].as_str()?,
        name: params["name"].as_str(),
        arguments: None,
    };
    let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    headers::validate(headers, &body, &[]).err().map(|error| error.to_string())
}

fn read(input: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    input.read_exact(&mut body)?;
    Ok(Some(Request { line: lines[0].clone(), headers, body }))
}

fn status(mut stream: &TcpStream, line: &str, headers: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {line}\r\n{headers}Content-Length: 0\r\n\r\n")
}

fn json_with(mut stream: &TcpStream, line: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {line}\r\nContent-Type: application/json\r\n");
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes())
}

fn chunked(mut stream: &TcpStream, kind: &str, body: &str, size: usize) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n");
    write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n")?;
    for chunk in body.as_bytes().chunks(size) {
        write!(stream, "{:x}\r\n", chunk.len())?;
        stream.write_all(chunk)?;
        stream.write_all(b"\r\n")?;
    }
    stream.write_all(b"0\r\n\r\n")
}
