//! What one small call costs the gateway in allocations, once it runs: from a client's line to the
//! upstream's and back. A test target of its own, because the allocator is that of the whole
//! program; client and upstream share it, and are built to allocate nothing.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may panic, and may say what it found"
)]

use std::io::Write as _;

use mcplane::transport::Transport;
use mcplane::transport::memory::{Memory, pair};
use mcplane_gateway::config::{Config, Server};
use mcplane_gateway::{Connect, Connected, Connecting, Gateway};
use mcplane_testkit::{CountingAllocator, Counts, count};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CALLS: u64 = 1024;
const PER_CALL_MAX: u64 = 4;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
"#;
const LEGACY: &str = r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}
"#;
const MODERN: &str = r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
"#;

#[test]
fn a_small_call_keeps_to_its_budget_in_every_cell() {
    for (from, request) in [("legacy", LEGACY), ("modern", MODERN)] {
        for upstream in ["2025-11-25", "2026-07-28"] {
            for in_flight in [1, 32] {
                let counts = measure(request, upstream, in_flight);
                #[allow(clippy::cast_precision_loss, reason = "small numbers")]
                let per_call = counts.allocations as f64 / CALLS as f64;
                let cell = format!("{from} client, upstream {upstream}, {in_flight} in flight");
                println!("{cell}: {per_call} allocations, {} bytes", counts.bytes / CALLS);
                assert!(
                    counts.allocations <= PER_CALL_MAX * CALLS,
                    "{cell}: {per_call} allocations a call; {PER_CALL_MAX} are the budget"
                );
            }
        }
    }
}

/// What the gateway allocates for [`CALLS`] calls.
fn measure(request: &str, upstream: &str, in_flight: u64) -> Counts {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let (gateway, mut client) = runtime.block_on(async {
        let mut config = Config::default();
        // Nothing is kept on the disk.
        config.gateway.state_dir = Some("/dev/null/nowhere".into());
        let revision = serde_json::from_value(json!(upstream)).unwrap();
        let server = Server { command: Some("none".into()), revision, ..Server::default() };
        config.servers.insert("it", server);
        let gateway = Gateway::start_with(config, std::sync::Arc::new(Null)).unwrap();
        gateway.ready().await;
        let (ours, theirs) = pair();
        let service = gateway.service();
        tokio::spawn(async move { service.serve(theirs).await });
        let (reader, writer) = ours.open().unwrap();
        let mut client = Client { reader, writer, answers: vec![0; 64 * 1024] };
        client.exchange(INITIALIZE, 1).await;
        (gateway, client)
    });
    let requests: String =
        (0..in_flight).map(|id| request.replace("ID", &(1000 + id).to_string())).collect();
    let mut calls = || {
        runtime.block_on(async {
            for _ in 0..CALLS / in_flight {
                client.exchange(&requests, in_flight).await;
            }
        });
    };
    calls();
    let counts = count(calls).1;
    drop(gateway);
    counts
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
            assert!(read > 0, "the gateway closed its side");
            let new = &self.answers[filled..filled + read];
            lines += new.iter().filter(|byte| **byte == b'\n').count() as u64;
            filled += read;
        }
        let answers = std::str::from_utf8(&self.answers[..filled]).unwrap();
        assert_eq!(lines, count);
        assert!(answers.lines().all(|line| line.contains("\"result\":{")), "{answers}");
    }
}

/// Upstreams in this process that answer each call with the same bytes around its id.
struct Null;

impl Connect for Null {
    fn connect<'a>(&'a self, _: &'a str, server: &'a Server) -> Connecting<'a> {
        let (ours, theirs) = pair();
        let is_modern = json!(server.revision) == json!("2026-07-28");
        tokio::spawn(answer(theirs, is_modern));
        Box::pin(async move { Connected::to(ours) })
    }
}

async fn answer(pipe: Memory, is_modern: bool) {
    let (mut reader, mut writer) = pipe.open().unwrap();
    let (mut input, mut filled, mut out) = (vec![0; 256 * 1024], 0, Vec::with_capacity(256 * 1024));
    while let Ok(read @ 1..) = reader.read(&mut input[filled..]).await {
        filled += read;
        let mut start = 0;
        while let Some(len) = input[start..filled].iter().position(|byte| *byte == b'\n') {
            reply(std::str::from_utf8(&input[start..start + len]).unwrap(), is_modern, &mut out);
            start += len + 1;
        }
        input.copy_within(start..filled, 0);
        filled -= start;
        if writer.write_all(&out).await.is_err() {
            return;
        }
        out.clear();
    }
}

fn reply(line: &str, is_modern: bool, out: &mut Vec<u8>) {
    let kind = if is_modern { "\"resultType\":\"complete\"," } else { "" };
    if line.contains("\"tools/call\"") {
        let id = line.split("\"id\":").nth(1).unwrap().split(',').next().unwrap();
        let content = r#""content":[{"type":"text","text":"hello"}]"#;
        let envelope = r#"{"jsonrpc":"2.0","id":"#;
        writeln!(out, "{envelope}{id},\"result\":{{{kind}{content}}}}}").unwrap();
        return;
    }
    let line: Value = serde_json::from_str(line).unwrap();
    let result = match line["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": line["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "null", "version": "1"},
        }),
        Some("server/discover") => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
        }),
        Some("tools/list") => json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
        }),
        _ => return,
    };
    let line = json!({"jsonrpc": "2.0", "id": line["id"], "result": result});
    writeln!(out, "{line}").unwrap();
}
