//! What a server says late, and for whom. In virtual time.

use std::time::Duration;

use mcplane_gateway::config::{Mode, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::time::{sleep, timeout};

use crate::plan::{Ending, Plan, Step};
use crate::pool::{Bed, ms};
use crate::virtual_time::wire;

/// A client of 2025-11-25 that asks for every log message and answers every question.
pub(crate) struct Client {
    name: String,
    sent: usize,
    lines: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Client {
    pub(crate) async fn of(bed: &Bed, name: &str) -> Self {
        let wire = wire(&bed.gateway.service());
        let lines = BufReader::new(wire.reader).lines();
        let mut client = Self { name: name.into(), sent: 0, lines, writer: wire.writer };
        client
            .write(&json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}}},
                "clientInfo": {"name": "client", "version": "1"},
            }}))
            .await;
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
            .write(&json!({"jsonrpc": "2.0", "id": "level", "method": "logging/setLevel",
                           "params": {"level": "debug"}}))
            .await;
        client.hears(10).await;
        client
    }

    pub(crate) async fn write(&mut self, line: &Value) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn call(&mut self, steps: &[Step], ending: Ending, late: Option<(u64, Step)>) {
        self.sent += 1;
        let tag = format!("{}/0/{}", self.name, self.sent);
        let plan = Plan { tag, steps: steps.to_vec(), ending, is_stubborn: true, late };
        let params = json!({"name": "work", "arguments": plan.to_json()});
        let id = self.sent;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
            .await;
    }

    pub(crate) async fn cancel(&mut self) {
        let params = json!({"requestId": self.sent});
        self.write(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        )
        .await;
    }

    /// All that comes within so many milliseconds; questions are answered.
    pub(crate) async fn hears(&mut self, within_ms: u64) -> Vec<String> {
        let (mut heard, end) =
            (Vec::new(), tokio::time::Instant::now() + Duration::from_millis(within_ms));
        while let Ok(line) = tokio::time::timeout_at(end, self.lines.next_line()).await {
            let line: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
            match line["method"].as_str() {
                Some("elicitation/create") => {
                    let text = line["params"]["message"].clone();
                    heard.push(format!("question {}", text.as_str().unwrap()));
                    let answer = json!({"action": "accept", "content": {"answer": text}});
                    self.write(&json!({"jsonrpc": "2.0", "id": line["id"], "result": answer}))
                        .await;
                }
                Some("notifications/message") => {
                    heard.push(format!("log {}", line["params"]["data"].as_str().unwrap()));
                }
                Some(_) => {}
                None => {
                    let text = &line["result"]["content"][0]["text"];
                    heard.extend(text.as_str().map(str::to_owned));
                }
            }
        }
        heard
    }
}

const MODES: [Mode; 2] = [Mode::Shared, Mode::Exclusive];

async fn two(mode: Mode) -> (Bed, Client, Client) {
    let bed = Bed::of(Server { mode, ..Server::default() }).await;
    let (alice, bob) = (Client::of(&bed, "alice").await, Client::of(&bed, "bob").await);
    (bed, alice, bob)
}

fn unowned(bed: &Bed) -> u64 {
    bed.gateway.status().servers[0].unowned_logs
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_call_still_says_reaches_nobody_else() {
    for mode in MODES {
        for step in [Step::Log, Step::Elicit] {
            let (bed, mut alice, mut bob) = two(mode).await;
            // It goes on for longer than anybody remembers an answer.
            alice.call(&[Step::Wait(60_000), step], Ending::Never, None).await;
            alice.hears(10).await;
            alice.cancel().await;
            ms(50_000).await;
            bob.call(&[Step::Wait(20_000)], Ending::Answer, None).await;
            assert_eq!(bob.hears(30_000).await, ["bob/0/1|0"], "{mode:?} {step:?}");
            assert_eq!(unowned(&bed), 1, "{mode:?} {step:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_after_the_answer_reaches_nobody_else() {
    for mode in MODES {
        for late in [(2_000, Step::Log), (2_000, Step::Elicit)] {
            let (bed, mut alice, mut bob) = two(mode).await;
            // It is caught at it once, when nobody else is there who could hear of it.
            alice.call(&[], Ending::Answer, Some(late)).await;
            assert_eq!(alice.hears(12_000).await, ["alice/0/1|0"], "{mode:?} {late:?}");
            assert_eq!(unowned(&bed), 1, "{mode:?} {late:?}");
            alice.call(&[], Ending::Answer, Some(late)).await;
            bob.call(&[Step::Wait(4_000)], Ending::Answer, None).await;
            assert_eq!(bob.hears(5_000).await, ["bob/0/1|0"], "{mode:?} {late:?}");
            // In `exclusive` a server that asks is another process by then.
            assert!(unowned(&bed) >= 1, "{mode:?} {late:?}");
            assert_eq!(alice.hears(10).await, ["alice/0/2|0"], "{mode:?} {late:?}");
        }
    }
}

/// A client hears what its own calls say late, and after a while others are heard again.
#[tokio::test(start_paused = true)]
async fn what_can_only_be_its_own_reaches_a_client() {
    for mode in MODES {
        let (bed, mut alice, mut bob) = two(mode).await;
        alice.call(&[], Ending::Answer, Some((1_000, Step::Log))).await;
        alice.call(&[Step::Wait(2_000), Step::Elicit], Ending::Answer, None).await;
        let heard = ["alice/0/1|0", "log alice/0/1#1000", "question alice/0/2#1", "alice/0/2|0"];
        assert_eq!(alice.hears(5_000).await, heard, "{mode:?}");
        ms(10_000).await;
        bob.call(&[Step::Log, Step::Elicit], Ending::Answer, None).await;
        let heard = ["log bob/0/1#0", "question bob/0/1#1", "bob/0/1|0"];
        assert_eq!(bob.hears(5_000).await, heard, "{mode:?}");
        // What has asked has a worker to itself, where others share one.
        let opened = if mode == Mode::Shared { 2 } else { 1 };
        assert_eq!((unowned(&bed), bed.world.opened()), (0, opened), "{mode:?}");
    }
}

/// A server that asks while somebody's cancelled call may still ask is another process for the next
/// client.
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_starts_again_for_another_client() {
    let (bed, mut alice, mut bob) = two(Mode::Exclusive).await;
    alice.call(&[Step::Elicit], Ending::Answer, None).await;
    assert_eq!(alice.hears(100).await.len(), 2);
    alice.call(&[Step::Wait(60_000), Step::Elicit], Ending::Never, None).await;
    alice.hears(10).await;
    alice.cancel().await;
    ms(1_000).await;
    let before = bed.world.opened();
    bob.call(&[Step::Elicit], Ending::Answer, None).await;
    assert_eq!(bob.hears(100).await, ["question bob/0/1#0", "bob/0/1|0"]);
    assert_eq!(bed.world.opened(), before + 1);
    let opened = bed.world.opened();
    for _ in 0..3 {
        bob.call(&[Step::Elicit], Ending::Answer, None).await;
        assert_eq!(bob.hears(100).await.len(), 2);
    }
    assert_eq!(bed.world.opened(), opened, "one client alone keeps its worker");
    timeout(Duration::from_secs(60), bed.gateway.close()).await.unwrap();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(bed.world.lives(), 0);
}
