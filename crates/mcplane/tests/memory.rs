//! Memory of a connection that carries lines: what its client does not read is bounded in bytes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::time::Duration;

use mcplane::budget::Budget;
use mcplane::transport::{Transport, memory};
use mcplane::{Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::task::JoinHandle;

const KIB: usize = 1024;
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Deserialize, JsonSchema)]
#[serde(default)]
struct Size {
    bytes: usize,
    text: String,
}

impl Default for Size {
    fn default() -> Self {
        Self { bytes: 1, text: String::new() }
    }
}

type Half<T> = tokio::io::WriteHalf<T>;

struct Peer<T> {
    lines: Lines<BufReader<tokio::io::ReadHalf<T>>>,
    writer: Half<T>,
    server: JoinHandle<mcplane::Result<()>>,
}

/// A client of a server with this budget; its session is of 2025-11-25.
macro_rules! peer {
    ($budget:expr) => {{
        let server = Server::new("memory", "1")
            .memory($budget.clone())
            .tool(Tool::inline("inline", |_, size: Size| "x".repeat(size.bytes)))
            .tool(Tool::blocking("blocking", |_, size: Size| "x".repeat(size.bytes)))
            .tool(Tool::waiting("hold", |_, _: Size| std::future::pending::<String>()));
        let (ours, theirs) = memory::pair();
        let server = tokio::spawn(server.serve(theirs));
        let (reader, mut writer) = ours.open().unwrap();
        let mut lines = BufReader::new(reader).lines();
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        writer.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        lines.next_line().await.unwrap().unwrap();
        Peer { lines, writer, server }
    }};
}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite> Peer<T> {
    async fn call(&mut self, id: usize, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.writer.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(LIMIT, self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }
}

async fn until(what: impl Fn() -> bool) {
    let look = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LIMIT, look).await.unwrap();
}

#[tokio::test]
async fn answers_that_nobody_reads_become_errors() {
    const ANSWER: usize = 64 * KIB;
    let budget = Budget::new(1024 * KIB);
    let mut peer = peer!(budget);
    for id in 1..=40 {
        peer.call(id, "blocking", json!({"bytes": ANSWER})).await;
    }
    peer.call(41, "inline", json!({"bytes": ANSWER})).await;
    until(|| budget.used() > 128 * KIB).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(budget.used() <= 256 * KIB, "{budget:?}");

    let (mut ids, mut refused) = (Vec::new(), 0);
    for _ in 1..=41 {
        let answer = peer.next().await;
        ids.push(answer["id"].as_u64().unwrap());
        if let Some(error) = answer["error"].as_object() {
            assert_eq!((&error["code"], &error["data"]["retry"]), (&(-31999).into(), &true.into()));
            let why = error["message"].as_str().unwrap();
            assert!(why.contains("was carried out") && why.contains("read"), "{why}");
            refused += 1;
        }
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(1..=41), "each is answered once");
    assert!(refused >= 30, "{refused} of 41 were refused");
    until(|| budget.used() == 0).await;
    peer.call(50, "blocking", json!({"bytes": ANSWER})).await;
    assert!(peer.next().await["result"].is_object(), "there is room again");
    drop(peer.lines);
    peer.server.abort();
}

#[tokio::test]
async fn the_beginning_of_a_line_is_charged_and_given_up_where_there_is_no_room() {
    let budget = Budget::new(256 * KIB);
    let (mut first, mut second) = (peer!(budget), peer!(budget));
    first.writer.write_all(&vec![b' '; 200 * KIB]).await.unwrap();
    until(|| budget.used() >= 200 * KIB).await;
    second.writer.write_all(&vec![b' '; 100 * KIB]).await.unwrap();
    let refused = second.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &(-31999).into()));
    second.writer.write_all(b"\n").await.unwrap();
    second.call(1, "inline", json!({"bytes": 3})).await;
    assert_eq!(second.next().await["result"]["content"][0]["text"], "xxx", "the next line is well");
    first.call(1, "inline", json!({"bytes": 3})).await;
    assert_eq!(first.next().await["result"]["content"][0]["text"], "xxx");
    until(|| budget.used() == 0).await;
    for peer in [first, second] {
        drop((peer.lines, peer.writer));
        peer.server.abort();
    }
}

#[tokio::test]
async fn long_requests_are_charged_while_they_are_worked_on() {
    let budget = Budget::new(1024 * KIB);
    let mut peer = peer!(budget);
    let text = "x".repeat(100 * KIB);
    for id in 1..=3 {
        peer.call(id, "hold", json!({"text": text})).await;
    }
    let refused = peer.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&3.into(), &(-31999).into()));
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("was not carried out"), "{why}");
    peer.call(4, "inline", json!({"bytes": 3})).await;
    assert_eq!(peer.next().await["result"]["content"][0]["text"], "xxx", "what is short is free");

    let params = json!({"requestId": 1});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        .to_string();
    peer.writer.write_all(format!("{cancel}\n").as_bytes()).await.unwrap();
    until(|| budget.used() < 150 * KIB).await;
    drop((peer.lines, peer.writer));
    peer.server.abort();
    until(|| budget.used() == 0).await;
}
