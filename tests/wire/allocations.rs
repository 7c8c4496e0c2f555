//! What one inline call costs the server in allocations, once it runs. Over lines at most two, which
//! are the handler's own argument and its result; over HTTP the library for HTTP takes its share. A
//! test target of its own, because the allocator is that of the whole program.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may panic, and may say what it found"
)]

use mcplane::transport::http::server::{ConnectionLimits, Endpoint, serve};
use mcplane::transport::listen::{Limits, Listener};
use mcplane::transport::{Transport, memory};
use mcplane::{Server, Tool};
use mcplane_proto::translate::{self, Back, Onward};
use mcplane_proto::{Message, Method, Revision};
use mcplane_testkit::{CountingAllocator, Counts, count, so_far};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// One call over HTTP/1.1 with keep-alive, JSON answered: [`PER_CALL_MAX`], the request's and the
/// response's head, body and futures.
const PER_HTTP_CALL_MAX: u64 = 20;

const CALLS: u64 = 1024;
const PER_CALL_MAX: u64 = 2;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
"#;
const LEGACY: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}
"#;
const MODERN: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
"#;

#[test]
fn an_inline_call_keeps_to_its_budget() {
    for (era, request) in [("legacy", LEGACY), ("modern", MODERN)] {
        for in_flight in [1, 32] {
            let counts = measure(request, in_flight, CALLS);
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            let per_call = counts.allocations as f64 / CALLS as f64;
            println!(
                "{era}, {in_flight} in flight: {per_call} allocations and {} bytes a call",
                counts.bytes / CALLS
            );
            assert!(
                counts.allocations <= PER_CALL_MAX * CALLS,
                "{per_call} allocations a call in the {era} era with {in_flight} in flight; \
                 {PER_CALL_MAX} are the budget"
            );
        }
    }
}

#[test]
fn an_inline_call_over_http_keeps_to_its_budget() {
    let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
    for (era, headers, request) in [("legacy", "", LEGACY), ("modern", modern, MODERN)] {
        let counts = measure_http(headers, request, CALLS);
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let per_call = counts.allocations as f64 / CALLS as f64;
        println!(
            "{era} over HTTP: {per_call} allocations and {} bytes a call",
            counts.bytes / CALLS
        );
        assert!(
            counts.allocations <= PER_HTTP_CALL_MAX * CALLS,
            "{per_call} allocations a call in the {era} era over HTTP; {PER_HTTP_CALL_MAX} are the \
             budget"
        );
    }
}

/// A large call takes one large block, its argument, which the handler has for itself. What it is read
/// into and what its answer is written into is used again.
#[test]
fn the_buffers_of_large_calls_are_used_again() {
    const CALLS: u64 = 4;
    let text = "abcdefgh".repeat(1024 * 1024 / 8);
    let headers =
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
    for (era, headers, request) in [("legacy", "", LEGACY), ("modern", headers, MODERN)] {
        let request = request.replace("hello", &text);
        let over_lines = measure(&request, 1, CALLS).large;
        let over_http = measure_http(headers, &request, CALLS).large;
        println!("{era}: {over_lines} blocks over lines, {over_http} over HTTP, for {CALLS} calls");
        assert_eq!((over_lines, over_http), (CALLS, CALLS), "{era}");
    }
}

#[test]
fn a_small_call_crosses_from_revision_to_revision_for_nothing() {
    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"hi"}],"_meta":{"a":1}}}"#;
    let answer = Message::scan(ANSWER).unwrap();
    let mut out = Vec::with_capacity(64 * 1024);
    for (from, to) in Revision::ALL.iter().flat_map(|a| Revision::ALL.map(|b| (*a, b))) {
        let text = if from == Revision::LATEST { MODERN } else { LEGACY };
        let request = Message::scan(text.trim_end()).unwrap();
        let onward = Onward { name: Some("add"), capabilities: Some(b"{}"), ..Onward::new(to, 9) };
        let back = Back { server_info: Some(b"{}"), ..Back::new(from, b"7") };
        let ((), counts) = count(|| {
            translate::request(&request, from, &onward, &mut out);
            translate::response(Method::ToolsCall, &answer, to, &back, &mut out);
        });
        assert_eq!(counts.allocations, 0, "{from} to {to} and back");
    }
}

/// What the server allocates for so many calls over one connection of HTTP/1.1.
fn measure_http(headers: &str, request: &str, calls: u64) -> Counts {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let service = Server::new("echo", "1")
            .tool(Tool::inline("echo", |_, echo: Echo| echo.message))
            .start()
            .unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&address, Limits::default()).await.unwrap();
        let address = listener.local_address().to_string();
        let limits = ConnectionLimits::default();
        tokio::spawn(serve(listener, Endpoint::new(service), limits, std::future::pending()));
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let mut answer = vec![0; 64 * 1024 + 2 * request.len()];
        let post = |headers: &str, body: &str| {
            format!(
                "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\n{headers}\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let head = exchange_http(&mut stream, &post("", INITIALIZE), &mut answer).await;
        let session = head.lines().find(|line| line.starts_with("mcp-session-id")).unwrap();
        let request = post(&format!("{headers}{session}\r\n"), request);
        for _ in 0..calls {
            exchange_http(&mut stream, &request, &mut answer).await;
        }
        let before = so_far();
        for _ in 0..calls {
            exchange_http(&mut stream, &request, &mut answer).await;
        }
        let after = so_far();
        let mut counts = after;
        counts.allocations -= before.allocations;
        counts.bytes -= before.bytes;
        counts.large -= before.large;
        counts
    })
}

/// Sends a request and reads its answer, which must be a result, without allocating.
async fn exchange_http<'a>(stream: &mut TcpStream, request: &str, answer: &'a mut [u8]) -> &'a str {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut filled = 0;
    loop {
        let read = stream.read(&mut answer[filled..]).await.unwrap();
        assert!(read > 0, "the server closed its side");
        filled += read;
        // Every answer here is one JSON object, and what ends like one within it is followed by more.
        if answer[..filled].ends_with(b"]}}") || filled < 4096 && answer[..filled].ends_with(b"}") {
            break;
        }
    }
    let text = std::str::from_utf8(&answer[..filled]).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"result\":{"), "{text}");
    text
}

/// What the server allocates for so many calls. Client and server share the thread, so the client
/// is built to allocate nothing: prepared requests, and one buffer for the answers.
fn measure(request: &str, in_flight: u64, calls: u64) -> Counts {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ours, theirs) = memory::pair();
    let service = Server::new("echo", "1")
        .tool(Tool::inline("echo", |_, echo: Echo| echo.message))
        .start()
        .unwrap();
    runtime.spawn(async move { service.serve(theirs).await });
    let _entered = runtime.enter();
    let (reader, writer) = ours.open().unwrap();
    let mut client = Client { reader, writer, answers: vec![0; 64 * 1024 + 2 * request.len()] };
    let requests = request.repeat(usize::try_from(in_flight).unwrap());
    runtime.block_on(client.exchange(INITIALIZE, 1));
    let mut exchange = || {
        runtime.block_on(async {
            for _ in 0..calls / in_flight {
                client.exchange(&requests, in_flight).await;
            }
        });
    };
    exchange();
    count(exchange).1
}

struct Client<R, W> {
    reader: R,
    writer: W,
    answers: Vec<u8>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<R, W> {
    /// Sends requests and reads as many answers, each of which must be a result.
    async fn exchange(&mut self, requests: &str, count: u64) {
        self.writer.write_all(requests.as_bytes()).await.unwrap();
        let (mut filled, mut lines) = (0, 0);
        while lines < count {
            let read = self.reader.read(&mut self.answers[filled..]).await.unwrap();
            assert!(read > 0, "the server closed its side");
            let new = &self.answers[filled..filled + read];
            lines += new.iter().filter(|byte| **byte == b'\n').count() as u64;
            filled += read;
        }
        let answers = std::str::from_utf8(&self.answers[..filled]).unwrap();
        assert_eq!(lines, count);
        assert!(answers.lines().all(|line| line.contains("\"result\":{")), "{answers}");
    }
}
