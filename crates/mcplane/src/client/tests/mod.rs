//! The client against a server that is written by hand, line by line.

mod calls;
mod fleet;
mod handshake;
mod notices;
mod process;
mod questions;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::{Client, ClientBuilder};
use crate::transport::Transport;
use crate::transport::memory::{self, Memory};

/// The server's end: JSON values in, JSON values out.
pub(super) struct Fake {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Fake {
    pub(super) fn pair() -> (Memory, Self) {
        let (ours, theirs) = memory::pair();
        let (reader, writer) = theirs.open().unwrap();
        (ours, Self { lines: BufReader::new(reader).lines(), writer })
    }

    /// The next message; `None` when the client has closed the connection.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next message, which must be one of this method.
    pub(super) async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await.expect("the client went away");
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub(super) async fn raw(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(super) async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.raw(&message.to_string()).await;
    }

    pub(super) async fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({"id": request["id"], "result": result})).await;
    }

    pub(super) async fn refuse(&mut self, request: &Value, code: i64) {
        self.send(json!({"id": request["id"], "error": {"code": code, "message": "no"}})).await;
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"method": method, "params": params})).await;
    }

    /// Answers a whole exchange: the next message must be `method`.
    pub(super) async fn serve(&mut self, method: &str, result: Value) -> Value {
        let request = self.expect(method).await;
        self.reply(&request, result).await;
        request
    }

    async fn greet_modern(&mut self) {
        let capabilities = json!({"tools": {}, "resources": {"subscribe": true}});
        let versions = ["2026-07-28"];
        let found = json!({"supportedVersions": versions, "capabilities": capabilities,
            "instructions": "be kind", "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}}});
        self.serve("server/discover", found).await;
    }

    pub(super) async fn greet_legacy(&mut self, revision: &str) -> Value {
        let found = json!({"protocolVersion": revision, "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "2", "title": "Old"}});
        let asked = self.serve("initialize", found).await;
        self.expect("notifications/initialized").await;
        asked
    }
}

pub(super) fn builder() -> ClientBuilder {
    Client::builder("test", "0.1")
}

/// A client and its server, which speak 2026-07-28.
pub(super) async fn modern(builder: ClientBuilder) -> (Client, Fake) {
    let (transport, mut fake) = Fake::pair();
    let (client, ()) = tokio::join!(builder.connect(transport), fake.greet_modern());
    (client.unwrap(), fake)
}

/// A client and its server, which speak 2025-11-25.
pub(super) async fn legacy(builder: ClientBuilder) -> (Client, Fake) {
    let (transport, mut fake) = Fake::pair();
    let serve = async {
        let probe = fake.expect("server/discover").await;
        fake.refuse(&probe, -32601).await;
        fake.greet_legacy("2025-11-25").await;
    };
    let (client, ()) = tokio::join!(builder.connect(transport), serve);
    (client.unwrap(), fake)
}

pub(super) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "resultType": "complete"})
}
