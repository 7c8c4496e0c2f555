//! What one inline call costs the server in allocations, once it runs: at most two, which are the
//! handler's own argument and its result. A test target of its own, because the allocator is that of
//! the whole program.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may panic, and may say what it found"
)]

use mcplane::transport::{Transport, memory};
use mcplane::{Server, Tool};
use mcplane_testkit::{CountingAllocator, Counts, count};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

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
            let counts = measure(request, in_flight);
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

/// What the server allocates for [`CALLS`] calls. Client and server share the thread, so the client
/// is built to allocate nothing: prepared requests, and one buffer for the answers.
fn measure(request: &str, in_flight: u64) -> Counts {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ours, theirs) = memory::pair();
    let service = Server::new("echo", "1")
        .tool(Tool::inline("echo", |_, echo: Echo| echo.message))
        .start()
        .unwrap();
    runtime.spawn(async move { service.serve(theirs).await });
    let _entered = runtime.enter();
    let (reader, writer) = ours.open().unwrap();
    let mut client = Client { reader, writer, answers: vec![0; 64 * 1024] };
    let requests = request.repeat(usize::try_from(in_flight).unwrap());
    runtime.block_on(client.exchange(INITIALIZE, 1));
    let mut calls = || {
        runtime.block_on(async {
            for _ in 0..CALLS / in_flight {
                client.exchange(&requests, in_flight).await;
            }
        });
    };
    calls();
    count(calls).1
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
