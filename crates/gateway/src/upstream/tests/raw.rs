//! A client that says what a test says.

use mcplane::transport::Transport;
use mcplane::transport::memory::{Memory, pair};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::time::timeout;

use super::LIMIT;
use crate::gateway::Gateway;

pub(super) struct Raw {
    lines: Lines<BufReader<<Memory as Transport>::Reader>>,
    writer: <Memory as Transport>::Writer,
}

pub(super) fn raw(gateway: &Gateway) -> Raw {
    let (ours, theirs) = pair();
    let service = gateway.service();
    tokio::spawn(async move { service.serve(theirs).await });
    let (reader, writer) = ours.open().unwrap();
    Raw { lines: BufReader::new(reader).lines(), writer }
}

impl Raw {
    pub(super) async fn say(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next message but for changes of lists.
    pub(super) async fn hear(&mut self) -> Value {
        loop {
            let line = timeout(LIMIT, self.lines.next_line()).await.unwrap().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if !message["method"].as_str().unwrap_or_default().ends_with("/list_changed") {
                return message;
            }
        }
    }

    pub(super) async fn initialize(&mut self, capabilities: Value) {
        let info = json!({"name": "raw", "version": "7"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        self.request(0, "initialize", params).await;
        self.hear().await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }

    pub(super) async fn request(&mut self, id: u32, method: &str, params: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    pub(super) async fn call(&mut self, id: u32) {
        self.request(id, "tools/call", json!({"name": "echo", "arguments": {}})).await;
    }

    pub(super) async fn modern_call(&mut self, id: u32, capabilities: Value) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let params = json!({"name": "echo", "arguments": {}, "_meta": meta});
        self.request(id, "tools/call", params).await;
    }
}

pub(super) fn ask(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}
