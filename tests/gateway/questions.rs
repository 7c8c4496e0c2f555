//! What a server of an older revision asks in a call, while other clients call it.

use mcplane_tests::child::Listening;
use serde_json::{Value, json};

use crate::{
    client::{Client, text},
    gateway::{Gateway, good},
};

/// Clients that nothing tells from each other: requests of 2026-07-28 without a token.
const CLIENTS: usize = 6;

fn call(who: usize) -> Value {
    json!({"name": "test_elicitation", "arguments": {"message": format!("Are you {who}?")}})
}

/// Each is asked in its own call while the others' wait, and each answer gets to its own.
fn each_is_asked(gateway: &Gateway) {
    let client = || gateway.modern("good");
    let asked: Vec<(String, Value)> = (0..CLIENTS)
        .map(|who| {
            let parked = client().request("tools/call", call(who))["result"].take();
            let (key, question) = parked["inputRequests"]
                .as_object()
                .and_then(|questions| questions.iter().next())
                .unwrap_or_else(|| panic!("{who}: {parked}"));
            assert_eq!(question["params"]["message"], format!("Are you {who}?"));
            (key.clone(), parked["requestState"].clone())
        })
        .collect();
    for (who, (key, state)) in asked.into_iter().enumerate().rev() {
        let answer = json!({"action": "accept", "content": {"username": format!("user {who}"), "email": "a@b.c"}});
        let mut retry = call(who);
        retry["inputResponses"] = json!({key: answer});
        retry["requestState"] = state;
        let response = client().request("tools/call", retry);
        assert!(text(&response).contains(&format!("user {who}")), "{response}");
    }
}

fn workers(gateway: &Gateway) -> usize {
    gateway.server("good", |_| true)["workers"].as_array().unwrap().len()
}

#[test]
fn nothing_on_stdio_tells_whose_it_is_so_each_has_a_worker() {
    let gateway = Gateway::serve(&format!("{}revision = \"legacy\"\n", good()));
    each_is_asked(&gateway);
    assert_eq!(workers(&gateway), CLIENTS);
    // What does not ask shares one: two calls show it.
    let mut client = Client::modern(gateway.address(), "/good/mcp");
    for _ in 0..4 {
        assert_eq!(text(&client.call("echo", json!({"message": "hello"}))), "hello");
    }
    assert_eq!(workers(&gateway), CLIENTS);
}

#[test]
fn over_http_the_stream_tells_whose_it_is() {
    let fixture = Listening::start(&["--transport", "http"]);
    let settings = format!("[servers.good]\nurl = {:?}\nrevision = \"legacy\"\n", fixture.url);
    let gateway = Gateway::serve(&settings);
    each_is_asked(&gateway);
    assert_eq!(workers(&gateway), 1);
}
