//! What a server says is charged until somebody has it.

use std::time::{Duration, Instant};

use mcplane::budget::Charge;
use mcplane::proto::version::Revision;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::LIMIT;
use super::fake::{Fake, gateway_within};
use super::raw::{ask, raw};
use crate::config::Size;
use crate::gateway::Gateway;

const MIB: usize = 1024 * 1024;

async fn small(fake: &Fake) -> Gateway {
    let memory = Size::of_bytes(32 * MIB as u64);
    gateway_within(fake, Revision::LATEST_LEGACY, Some(memory)).await
}

/// Waits until so many bytes are charged.
async fn until_used(gateway: &Gateway, wanted: impl Fn(usize) -> bool) {
    let began = Instant::now();
    while !wanted(gateway.0.memory.used()) {
        assert!(began.elapsed() < LIMIT, "{} bytes are used", gateway.0.memory.used());
        sleep(Duration::from_millis(5)).await;
    }
}

/// The beginning of an answer with a long text.
fn begin(id: &Value) -> String {
    let text = "x".repeat(2 * MIB);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"#)
}

const REST: &str = "\"}]}}\n";

#[tokio::test]
async fn an_answer_is_charged_while_it_comes_and_fails_alone_where_there_is_no_room() {
    let fake = Fake::new(&["echo"]);
    let gateway = small(&fake).await;
    let mut client = raw(&gateway);
    client.initialize(json!({})).await;
    client.call(1).await;
    let call = fake.sent("tools/call", 0).await;
    fake.say_raw(begin(&call["id"]));
    until_used(&gateway, |used| used >= 2 * MIB).await;
    fake.say_raw(REST.into());
    let answer = client.hear().await;
    assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(2 * MIB));
    until_used(&gateway, |used| used == 0).await;

    let mut others = Charge::default();
    assert!(others.cover(&gateway.0.memory, 31 * MIB));
    client.call(2).await;
    client.call(3).await;
    let (call, other) = (fake.sent("tools/call", 1).await, fake.sent("tools/call", 2).await);
    fake.say_raw(begin(&call["id"]));
    let error = client.hear().await;
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(2), &json!(-31_999)), "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("no room"), "{error}");
    fake.say_raw(REST.into());
    fake.say(json!({"jsonrpc": "2.0", "id": other["id"], "result": {"content": []}}));
    assert_eq!(client.hear().await["id"], 3, "the connection goes on");
    assert_eq!(gateway.0.memory.used(), 31 * MIB);
    gateway.close().await;
}

#[tokio::test]
async fn a_parked_call_is_charged_with_its_question_and_its_end() {
    let fake = Fake::new(&["echo"]);
    let gateway = small(&fake).await;
    let mut client = raw(&gateway);
    client.modern_call(1, json!({"elicitation": {}})).await;
    let call = fake.sent("tools/call", 0).await;
    let schema = json!({"type": "object", "properties": {}});
    let question = json!({"message": "x".repeat(MIB), "requestedSchema": schema});
    fake.say(ask(7, "elicitation/create", question));
    let asked = client.hear().await;
    let state = &asked["result"]["requestState"];
    assert!(state.is_string());
    let is_kept = |used: usize| (2 * MIB..3 * MIB).contains(&used);
    until_used(&gateway, is_kept).await;
    // Nobody is there to hear how it ends.
    fake.say_raw(begin(&call["id"]));
    fake.say_raw(REST.into());
    until_used(&gateway, |used| (4 * MIB..5 * MIB).contains(&used)).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let params = json!({"name": "echo", "arguments": {}, "_meta": meta, "requestState": state,
        "inputResponses": {"q1": {"action": "accept", "content": {}}}});
    client.request(2, "tools/call", params).await;
    let answer = client.hear().await;
    assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(2 * MIB));
    until_used(&gateway, |used| used == 0).await;
    gateway.close().await;
}
