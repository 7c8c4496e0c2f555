//! A server at its own endpoint, beside the same server asked directly.

use std::net::SocketAddr;

use mcplane_tests::child::Listening;
use serde_json::{Value, json};

use crate::{
    client::{Client, initialize},
    gateway::{Gateway, good},
};

/// What is asked of both, and what a client may tell the gateway by.
fn questions() -> Vec<(&'static str, Value)> {
    let prompt = |name: &str| {
        json!({"ref": {"type": "ref/prompt", "name": name},
                                     "argument": {"name": "arg1", "value": "p"}})
    };
    vec![
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("tools/list", json!({"cursor": "of nobody"})),
        ("tools/call", json!({"name": "echo", "arguments": {"message": "hello"}})),
        (
            "tools/call",
            json!({"name": "echo", "arguments": {"message": "hello"}, "_meta": {"x": 1}}),
        ),
        ("tools/call", json!({"name": "echo", "arguments": {}})),
        ("tools/call", json!({"name": "add", "arguments": {"a": "1", "b": 2}})),
        ("tools/call", json!({"name": "no_such_tool", "arguments": {}})),
        ("tools/call", json!({"arguments": {}})),
        ("prompts/get", json!({"name": "test_simple_prompt"})),
        ("prompts/get", json!({"name": "no_such_prompt"})),
        ("resources/read", json!({"uri": "test://static-text"})),
        ("resources/read", json!({"uri": "test://no-such-resource"})),
        ("completion/complete", prompt("test_prompt_with_arguments")),
        ("completion/complete", prompt("no_such_prompt")),
        ("no/such/method", json!({})),
        ("tasks/get", json!({"taskId": "1"})),
    ]
}

fn answers(address: SocketAddr, path: &str, modern: bool) -> Vec<(u16, Value)> {
    let first = match modern {
        true => {
            let mut client = Client::modern(address, path);
            let message = client.message("server/discover", json!({}));
            client.post(&message)
        }
        false => Client::modern(address, path).post(&initialize(1)),
    };
    let mut client = match modern {
        true => Client::modern(address, path),
        false => Client::legacy(address, path),
    };
    let mut all = vec![(first.status, first.json())];
    for (method, params) in questions() {
        let message = client.message(method, params);
        let answer = client.post(&message);
        let mut response = answer.messages().pop().unwrap_or_default();
        response.as_object_mut().map(|response| response.remove("id"));
        all.push((answer.status, response));
    }
    all
}

/// The differences that `docs/gateway/transparency.md` names: how long lists are fresh and for whom, and
/// the words for an unknown cursor.
fn without_what_is_listed(mut response: Value) -> Value {
    if let Some(result) = response["result"].as_object_mut() {
        result.remove("ttlMs");
        result.remove("cacheScope");
    }
    if let Some(message) = response.pointer_mut("/error/message")
        && message.as_str().is_some_and(|message| message.starts_with("unknown cursor"))
    {
        *message = json!("unknown cursor");
    }
    response
}

#[test]
fn a_server_at_its_own_face_is_like_the_server() {
    let gateway = Gateway::serve(&good());
    gateway.offers("good", "echo");
    let alone = Listening::start(&["--transport", "http"]);
    let direct = alone.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut listed = 0;
    for modern in [false, true] {
        let direct = answers(direct.parse().unwrap(), "/mcp", modern);
        let through = answers(gateway.address(), "/good/mcp", modern);
        let first = ("the handshake", Value::Null);
        let names = std::iter::once(first).chain(questions());
        for (((name, params), direct), through) in names.zip(direct).zip(through) {
            listed += u32::from(direct != through);
            let [direct, through] =
                [direct, through].map(|(status, json)| (status, without_what_is_listed(json)));
            assert_eq!(through, direct, "modern: {modern}, {name} {params}");
        }
    }
    // Of 2026-07-28 the handshake and four lists, and the cursor in both eras: what is listed is so.
    assert_eq!(listed, 7);
}
