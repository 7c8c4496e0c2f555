//! Upstreams that do not read, or never stop talking.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use mcplane::transport::Transport;
use mcplane::transport::memory::{Memory, pair};
use mcplane_gateway::config::{Config, Server};
use mcplane_gateway::{Connect, Connected, Connecting, Gateway};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long something may take that has to come.
const LIMIT: Duration = Duration::from_secs(120);

/// Upstreams of this process: their ends of the connections come out of a channel.
struct Ends(mpsc::UnboundedSender<Memory>);

impl Connect for Ends {
    fn connect<'a>(&'a self, _: &'a str, _: &'a Server) -> Connecting<'a> {
        let (ours, theirs) = pair();
        let sent = self.0.send(theirs);
        Box::pin(async move {
            sent.unwrap();
            Connected::to(ours)
        })
    }
}

fn settings(names: &[&str]) -> Config {
    let mut config = Config::default();
    // Nothing is kept on the disk.
    config.gateway.state_dir = Some("/dev/null/nowhere".into());
    for name in names {
        let revision = serde_json::from_value(json!("2025-11-25")).unwrap();
        let server = Server { command: Some("none".into()), revision, ..Server::default() };
        config.servers.insert(*name, server);
    }
    config
}

/// An upstream's end, line by line.
struct End {
    lines: Lines<BufReader<<Memory as Transport>::Reader>>,
    writer: <Memory as Transport>::Writer,
}

impl End {
    /// Answers until the gateway has asked for the tools.
    async fn greeted(memory: Memory) -> Self {
        let (reader, writer) = memory.open().unwrap();
        let mut end = Self { lines: BufReader::new(reader).lines(), writer };
        loop {
            let line: Value =
                serde_json::from_str(&end.lines.next_line().await.unwrap().unwrap()).unwrap();
            let result = match line["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "deaf", "version": "1"},
                }),
                Some("tools/list") => {
                    json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
                }
                _ => continue,
            };
            let answer = json!({"jsonrpc": "2.0", "id": line["id"], "result": result});
            end.writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            if line["method"] == "tools/list" {
                return end;
            }
        }
    }
}

/// What waits to be sent to it is bounded, and it is given up when it takes nothing of that.
#[tokio::test(start_paused = true)]
async fn an_upstream_that_asks_and_never_reads_is_not_read_for_ever() {
    const PINGS_MAX: usize = 200;
    let (ends, mut opened) = mpsc::unbounded_channel();
    let gateway = Gateway::start_with(settings(&["deaf"]), Arc::new(Ends(ends))).unwrap();
    let mut end = End::greeted(opened.recv().await.unwrap()).await;
    let id = "x".repeat(1024 * 1024);
    let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"ping\"}}\n");
    let mut taken = 0;
    while end.writer.write_all(ping.as_bytes()).await.is_ok() {
        taken += 1;
        assert!(taken < PINGS_MAX, "{taken} MiB of answers wait to be read");
    }
    // Another one takes its place, and the trouble is told.
    let again = timeout(LIMIT, opened.recv()).await.unwrap();
    assert!(again.is_some());
    let status = gateway.status().servers.remove(0);
    let trouble = status.trouble.unwrap_or_default();
    assert!(trouble.contains("does not read what it is sent"), "{trouble}");
    gateway.close().await;
}
