//! What the server asks: as requests, and in rounds of `input_required`.

use std::time::Duration;

use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::limits::INPUT_ROUNDS_MAX;
use mcplane_proto::types::{Content, CreateMessageResult, ElicitParams, ElicitResult, Root};
use tokio::time::Instant;

use super::*;

fn form() -> Value {
    json!({"method": "elicitation/create", "params": {"message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}})
}

fn sampling() -> Value {
    json!({"method": "sampling/createMessage", "params": {"maxTokens": 5,
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}})
}

/// Everything is answered.
fn willing() -> ClientBuilder {
    builder()
        .roots(vec![Root::new("file:///work")])
        .on_elicit(async |params| match params {
            ElicitParams::Form(form) => ElicitResult::accept().with("name", form.message),
            _ => ElicitResult::decline(),
        })
        .on_sample(async |_| Ok(CreateMessageResult::new("model-1", Content::text("hello"))))
}

#[tokio::test]
async fn legacy_requests_reach_the_handlers() {
    let (client, mut fake) = legacy(willing()).await;
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "go",
        "url": "https://example.org", "elicitationId": "e1"}});
    let expected = [
        (form(), json!({"action": "accept", "content": {"name": "Your name?"}})),
        (url, json!({"action": "decline"})),
        (json!({"method": "roots/list"}), json!({"roots": [{"uri": "file:///work"}]})),
        (json!({"method": "ping"}), json!({})),
    ];
    for (at, (mut question, answer)) in expected.into_iter().enumerate() {
        question["id"] = json!(format!("q{at}"));
        fake.send(question).await;
        let got = fake.next().await.unwrap();
        assert_eq!((&got["id"], &got["result"]), (&json!(format!("q{at}")), &answer));
    }
    let mut question = sampling();
    question["id"] = 7.into();
    fake.send(question).await;
    let got = fake.next().await.unwrap();
    assert_eq!(got["result"]["model"], "model-1");
    assert_eq!(got["result"]["content"]["text"], "hello");
    client.set_roots(vec![]).await.unwrap();
    fake.expect("notifications/roots/list_changed").await;
}

#[tokio::test]
async fn capabilities_follow_from_the_handlers() {
    let (transport, mut fake) = Fake::pair();
    let serve = async {
        let probe = fake.expect("server/discover").await;
        fake.refuse(&probe, -32000).await;
        fake.greet_legacy("2025-11-25").await["params"]["capabilities"].clone()
    };
    let (client, capabilities) = tokio::join!(willing().sampling_tools().connect(transport), serve);
    drop(client.unwrap());
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}},
        "roots": {"listChanged": true}});
    assert_eq!(capabilities, all);
}

#[tokio::test]
async fn what_is_not_handled_is_refused() {
    let (_client, mut fake) = legacy(builder()).await;
    for (id, mut question) in [form(), sampling(), json!({"method": "roots/list"})]
        .into_iter()
        .chain([json!({"method": "tools/call"}), json!({"method": "no/such"})])
        .enumerate()
    {
        question["id"] = id.into();
        fake.send(question).await;
        let got = fake.next().await.unwrap();
        assert_eq!((&got["id"], &got["error"]["code"]), (&json!(id), &json!(-32601)), "{got}");
    }
}

#[tokio::test]
async fn a_slow_or_broken_handler_holds_up_nobody() {
    let handler = builder().on_sample(async |params| {
        assert!(params.max_tokens < 100, "a panic in a handler");
        std::future::pending().await
    });
    let (client, mut fake) = legacy(handler).await;
    let mut question = sampling();
    question["id"] = 1.into();
    fake.send(question.clone()).await;
    let (pong, _) = tokio::join!(client.ping(), fake.serve("ping", json!({})));
    pong.unwrap();
    question["id"] = 2.into();
    question["params"]["maxTokens"] = 100.into();
    fake.send(question.clone()).await;
    let got = fake.next().await.unwrap();
    assert_eq!((&got["id"], &got["error"]["code"]), (&json!(2), &json!(-32603)));
    // The server takes its question back: the handler is dropped, and nothing is answered.
    fake.notify("notifications/cancelled", json!({"requestId": 1})).await;
    let (pong, _) = tokio::join!(client.ping(), fake.serve("ping", json!({})));
    pong.unwrap();
    question["params"]["maxTokens"] = 1.into();
    for id in 0..=crate::client::ASKED_MAX {
        question["id"] = (100 + id).into();
        fake.send(question.clone()).await;
    }
    let got = fake.next().await.unwrap();
    assert_eq!(got["id"], json!(100 + crate::client::ASKED_MAX));
    assert_eq!(got["error"]["code"], json!(Code::OVERLOADED.0));
}

#[tokio::test]
async fn a_round_answers_the_same_questions_and_keeps_the_state() {
    let (client, mut fake) = modern(willing()).await;
    let serve = async {
        let first = fake.expect("tools/call").await;
        let capabilities = &first["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(capabilities["roots"], json!({}));
        let id = first["id"].clone();
        fake.raw(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"s\u0041\/1","inputRequests":{{"who":{},"say":{},"where":{{"method":"roots/list"}}}}}}}}"#,
            form(), sampling()
        ))
        .await;
        let second = fake.lines.next_line().await.unwrap().unwrap();
        assert!(second.contains(r#""requestState":"s\u0041\/1""#), "{second}");
        let second: Value = serde_json::from_str(&second).unwrap();
        assert_ne!(second["id"], id);
        let params = &second["params"];
        assert_eq!((&params["name"], &params["arguments"]), (&json!("greet"), &json!({"a": 1})));
        let answers = &params["inputResponses"];
        assert_eq!(answers["who"], json!({"action": "accept", "content": {"name": "Your name?"}}));
        assert_eq!(answers["say"]["model"], "model-1");
        assert_eq!(answers["where"], json!({"roots": [{"uri": "file:///work"}]}));
        let more = json!({"resultType": "input_required", "inputRequests": {"who": form()}});
        fake.reply(&second, more).await;
        // The answers are those of one round, and a state is not invented.
        let third = fake.expect("tools/call").await;
        assert_eq!(third["params"]["inputResponses"].as_object().unwrap().len(), 1);
        assert!(third["params"].get("requestState").is_none());
        fake.reply(&third, text("done")).await;
    };
    let arguments = json!({"a": 1});
    let (result, ()) = tokio::join!(client.call_tool("greet", &arguments), serve);
    assert_eq!(result.unwrap().content[0].as_text(), Some("done"));
}

#[tokio::test(start_paused = true)]
async fn rounds_without_questions_back_off_and_end() {
    let (client, mut fake) = modern(builder()).await;
    let start = Instant::now();
    let serve = async {
        let asked = json!({"resultType": "input_required", "requestState": "wait"});
        for _ in 0..=INPUT_ROUNDS_MAX {
            fake.serve("resources/read", asked.clone()).await;
        }
    };
    let (read, ()) = tokio::join!(client.read_resource("x:y"), serve);
    let error = read.unwrap_err();
    assert!(error.is_malformed() && error.to_string().contains("after 10 rounds"), "{error}");
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(50 + 100 + 200 + 7 * 250), "{waited:?}");
    assert!(waited < Duration::from_secs(3), "{waited:?}");
}

#[tokio::test]
async fn what_cannot_be_answered_ends_the_call_here() {
    let refusing = builder()
        .on_sample(async |_| Err(ErrorObject::new(Code::USER_REJECTED, "the user said no")));
    let (client, mut fake) = modern(refusing).await;
    for (question, why) in [
        (form(), "does not handle forms"),
        (sampling(), "the user said no"),
        (json!({"method": "no/such"}), "not a question of the protocol"),
    ] {
        let asked = json!({"resultType": "input_required", "inputRequests": {"q": question}});
        let (result, _) = tokio::join!(client.call_tool("x", &()), fake.serve("tools/call", asked));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // No answer went out: the next message is the next call.
    let (pong, _) = tokio::join!(client.ping(), fake.serve("server/discover", json!({})));
    pong.unwrap();
}

#[tokio::test]
async fn a_result_that_took_rounds_is_not_kept() {
    let (client, mut fake) = modern(willing()).await;
    for _ in 0..2 {
        let serve = async {
            let asked = json!({"resultType": "input_required", "inputRequests": {"q": form()}});
            fake.serve("resources/read", asked).await;
            fake.serve("resources/read", json!({"contents": [], "ttlMs": 60_000})).await;
        };
        let (read, ()) = tokio::join!(client.read_resource("x:y"), serve);
        read.unwrap();
    }
}
