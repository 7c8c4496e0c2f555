//! What a server says, as a client hears it.

use mcplane::proto::version::Revision;
use mcplane::transport::Transport;
use mcplane::transport::memory::pair;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::time::timeout;

use super::LIMIT;
use super::fake::{Fake, gateway};
use crate::gateway::Gateway;

/// A client that says what a test says.
struct Raw<R, W> {
    lines: Lines<BufReader<R>>,
    writer: W,
}

fn raw(gateway: &Gateway) -> Raw<impl AsyncRead + Unpin, impl AsyncWrite + Unpin> {
    let (ours, theirs) = pair();
    let service = gateway.service();
    tokio::spawn(async move { service.serve(theirs).await });
    let (reader, writer) = ours.open().unwrap();
    Raw { lines: BufReader::new(reader).lines(), writer }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Raw<R, W> {
    async fn say(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The next message but for changes of lists.
    async fn hear(&mut self) -> Value {
        loop {
            let line = timeout(LIMIT, self.lines.next_line()).await.unwrap().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if !message["method"].as_str().unwrap_or_default().ends_with("/list_changed") {
                return message;
            }
        }
    }

    async fn initialize(&mut self, capabilities: Value) {
        let info = json!({"name": "raw", "version": "7"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        self.request(0, "initialize", params).await;
        self.hear().await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }

    async fn request(&mut self, id: u32, method: &str, params: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn call(&mut self, id: u32) {
        self.request(id, "tools/call", json!({"name": "echo", "arguments": {}})).await;
    }

    async fn modern_call(&mut self, id: u32, capabilities: Value) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let params = json!({"name": "echo", "arguments": {}, "_meta": meta});
        self.request(id, "tools/call", params).await;
    }
}

fn ask(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[tokio::test]
async fn a_result_of_an_extension_reaches_who_declares_it() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST).await;
    let mut client = raw(&gateway);
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let other = json!({"extensions": {"example.org/other": {}}});
    let cases = [
        ("task", &tasks, true),
        ("task", &other, false),
        ("task", &json!({}), false),
        ("example.org/later", &other, true),
        ("example.org/later", &json!({"extensions": {}}), false),
    ];
    for (n, (kind, capabilities, passes)) in cases.into_iter().enumerate() {
        client.modern_call(1, capabilities.clone()).await;
        let call = fake.sent("tools/call", n).await;
        let result = json!({"resultType": kind, "taskId": "t1", "status": "working"});
        fake.say(json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
        let answer = client.hear().await;
        match passes {
            true => assert_eq!(answer["result"], result),
            false => assert_eq!(answer["error"]["code"], -32603, "{answer}"),
        }
    }
    gateway.close().await;
}

#[tokio::test]
async fn a_question_that_is_taken_back_is_taken_back_at_once_and_says_why() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST_LEGACY).await;
    let mut client = raw(&gateway);
    client.initialize(json!({"elicitation": {}})).await;
    client.call(1).await;
    let call = fake.sent("tools/call", 0).await;
    for (id, reason, told) in [
        (7, json!({"reason": "somebody else has answered"}), "somebody else has answered"),
        (8, json!({}), "the server took the question back"),
    ] {
        let params =
            json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
        fake.say(ask(id, "elicitation/create", params));
        let asked = client.hear().await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let mut note = reason;
        note["requestId"] = json!(id);
        fake.notify("notifications/cancelled", note);
        // The call goes on meanwhile.
        let cancelled = client.hear().await;
        assert_eq!(cancelled["method"], "notifications/cancelled", "{cancelled}");
        let params = &cancelled["params"];
        assert_eq!((&params["requestId"], &params["reason"]), (&asked["id"], &json!(told)));
    }
    let result = json!({"content": []});
    fake.say(json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
    assert_eq!(client.hear().await["result"], result);
    gateway.close().await;
}

#[tokio::test]
async fn a_message_of_several_blocks_needs_no_tools() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST_LEGACY).await;
    let mut client = raw(&gateway);
    client.initialize(json!({"sampling": {}})).await;
    client.call(1).await;
    fake.sent("tools/call", 0).await;
    let text = |text| json!({"type": "text", "text": text});
    let messages = json!([{"role": "user", "content": [text("a"), text("b")]}]);
    fake.say(ask(7, "sampling/createMessage", json!({"messages": messages, "maxTokens": 9})));
    let asked = client.hear().await;
    assert_eq!(asked["params"]["messages"], messages, "{asked}");
    gateway.close().await;
}

#[tokio::test]
async fn what_a_modern_client_lacks_is_told_with_its_code() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST_LEGACY).await;
    let mut client = raw(&gateway);
    client.modern_call(1, json!({})).await;
    let call = fake.sent("tools/call", 0).await;
    let params =
        json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
    fake.say(ask(7, "elicitation/create", params));
    let error = json!({"code": -32603, "message": "the client cannot"});
    fake.say(json!({"jsonrpc": "2.0", "id": call["id"], "error": error}));
    let answer = client.hear().await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    let required = &answer["error"]["data"]["requiredCapabilities"];
    assert!(required["elicitation"].is_object(), "{answer}");
    gateway.close().await;
}
