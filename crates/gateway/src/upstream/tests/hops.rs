//! What a server says, as a client hears it.

use mcplane::proto::version::Revision;
use serde_json::{Value, json};

use super::fake::{Fake, gateway, server, started};
use super::raw::{ask, raw};
use crate::config::{Mode, Speaks};

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
    let failed = json!({"content": [{"type": "text", "text": "refused"}], "isError": true});
    let done = json!({"content": []});
    let ends = [
        ("error", json!({"code": -32603, "message": "the client cannot"}), true),
        // What SDKs make of it.
        ("result", failed, true),
        // It can do without.
        ("result", done, false),
    ];
    for (n, (kind, end, is_told)) in ends.into_iter().enumerate() {
        client.modern_call(1, json!({})).await;
        let call = fake.sent("tools/call", n).await;
        let params =
            json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
        fake.say(ask(7, "elicitation/create", params));
        fake.say(json!({"jsonrpc": "2.0", "id": call["id"], kind: end}));
        let answer = client.hear().await;
        let code = if is_told { json!(-32021) } else { Value::Null };
        assert_eq!(answer["error"]["code"], code, "{answer}");
        let required = &answer["error"]["data"]["requiredCapabilities"];
        assert_eq!(required["elicitation"].is_object(), is_told, "{answer}");
    }
    gateway.close().await;
}

/// What nobody has asked for is the server's to decide; what somebody has, is for those who have.
#[tokio::test]
async fn what_no_client_filters_is_not_filtered() {
    let fake = Fake::new(&["echo"]);
    let capabilities = json!({"tools": {}, "logging": {}});
    fake.state().capabilities = capabilities;
    let gateway = gateway(&fake, Revision::LATEST_LEGACY).await;
    let (mut client, mut other) = (raw(&gateway), raw(&gateway));
    client.initialize(json!({})).await;
    other.initialize(json!({})).await;
    let log =
        |level: &str| fake.notify("notifications/message", json!({"level": level, "data": 1}));
    for (n, heard) in [(0, &["debug", "error"][..]), (1, &["error"])] {
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        log("debug");
        log("error");
        for level in heard {
            let note = client.hear().await;
            assert_eq!(
                (&note["method"], &note["params"]["level"]),
                (&json!("notifications/message"), &json!(level))
            );
        }
        fake.say(json!({"jsonrpc": "2.0", "id": call["id"], "result": {"content": []}}));
        assert!(client.hear().await["result"].is_object());
        other.request(2, "logging/setLevel", json!({"level": "debug"})).await;
        assert!(other.hear().await["result"].is_object());
        fake.sent("logging/setLevel", 0).await;
    }
    gateway.close().await;
}

#[tokio::test]
async fn whoever_was_sent_to_a_url_hears_that_it_is_done() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST_LEGACY).await;
    let (mut client, mut other) = (raw(&gateway), raw(&gateway));
    client.initialize(json!({"elicitation": {"url": {}}})).await;
    other.initialize(json!({"elicitation": {"url": {}}})).await;
    let url = |id: &str| json!({"mode": "url", "elicitationId": id, "url": "https://example.org/", "message": "pay"});
    // As a question of a call, and as the reason for which one fails.
    // A name that is longer than any is not remembered.
    let long = "x".repeat(2000);
    client.call(1).await;
    let call = fake.sent("tools/call", 0).await;
    fake.say(ask(7, "elicitation/create", url("first")));
    let asked = client.hear().await;
    assert_eq!(asked["params"]["elicitationId"], "first", "{asked}");
    let error = json!({"code": -32042, "message": "pay first", "data": {"elicitations": [url(&long), url("second")]}});
    fake.say(json!({"jsonrpc": "2.0", "id": call["id"], "error": error}));
    let withdrawn = client.hear().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
    let answer = client.hear().await;
    assert_eq!(answer["error"]["code"], -32042, "{answer}");
    for id in ["nobodys", &long, "second", "first"] {
        fake.notify(
            "notifications/elicitation/complete",
            json!({"elicitationId": id, "_meta": {}}),
        );
    }
    for id in ["second", "first"] {
        let note = client.hear().await;
        assert_eq!(note["method"], "notifications/elicitation/complete", "{note}");
        assert_eq!(note["params"], json!({"elicitationId": id, "_meta": {}}));
    }
    // Nobody else does.
    other.call(2).await;
    let call = fake.sent("tools/call", 1).await;
    fake.say(json!({"jsonrpc": "2.0", "id": call["id"], "result": {"content": []}}));
    assert_eq!(other.hear().await["id"], 2);
    gateway.close().await;
}

#[tokio::test]
async fn what_a_worker_says_of_a_resource_is_for_its_own_clients() {
    let fake = Fake::new(&["echo"]);
    let mut server = server(Speaks::Revision(Revision::LATEST_LEGACY));
    server.mode = Mode::PerSession;
    let gateway = started(&fake, server);
    gateway.ready().await;
    let (mut alice, mut bob) = (raw(&gateway), raw(&gateway));
    let mut watches = Vec::new();
    for (n, client) in [&mut alice, &mut bob].into_iter().enumerate() {
        client.initialize(json!({})).await;
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        fake.say_to(&call, &json!({"jsonrpc": "2.0", "id": call["id"], "result": {"content": []}}));
        assert_eq!(client.hear().await["id"], 1);
        client.request(2, "resources/subscribe", json!({"uri": "x:1"})).await;
        assert_eq!(client.hear().await["id"], 2);
        watches.push(fake.sent("resources/subscribe", n).await);
    }
    let updated = ask(0, "notifications/resources/updated", json!({"uri": "x:1"}));
    for (watch, client) in watches.iter().zip([&mut alice, &mut bob]) {
        let mut updated = updated.clone();
        updated.as_object_mut().unwrap().remove("id");
        fake.say_to(watch, &updated);
        let note = client.hear().await;
        assert_eq!(note["method"], "notifications/resources/updated", "{note}");
        client.request(3, "ping", json!({})).await;
        assert_eq!(client.hear().await["id"], 3, "nothing of the other one's");
    }
    gateway.close().await;
}

#[tokio::test]
async fn what_a_server_adds_to_an_answer_stays() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST_LEGACY).await;
    let mut client = raw(&gateway);
    client.initialize(json!({})).await;
    let answers = [
        (
            "result",
            json!({"content": [{"type": "text", "text": "", "_meta": {}, "x": null}], "_meta": {}, "y": [1, {}]}),
        ),
        ("result", json!({"content": [], "structuredContent": {"b": 1, "a": {"_meta": {}}}})),
        ("error", json!({"code": 4711, "message": "\u{e9}", "data": {"_meta": {}, "z": [null]}})),
    ];
    for (n, (kind, answer)) in answers.into_iter().enumerate() {
        client.call(1).await;
        let call = fake.sent("tools/call", n).await;
        fake.say(json!({"jsonrpc": "2.0", "id": call["id"], kind: answer}));
        assert_eq!(client.hear().await, json!({"jsonrpc": "2.0", "id": 1, kind: answer}));
    }
    gateway.close().await;
}
