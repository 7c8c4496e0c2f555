//! Who hears what of a request that was lost on its way over HTTP.

use mcplane::proto::version::Revision;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::far::{Instead, far};
use super::raw::raw;
use super::{LIMIT, one, says, with};
use crate::config::Speaks;
use crate::gateway::Gateway;

const SPEAKS: Speaks = Speaks::Revision(Revision::LATEST);

/// What comes instead of an answer, what clients hear of that, and whether it may help to try again.
const LOSSES: [(&str, Instead, &str, bool); 6] = [
    (
        "answered 401 Unauthorized: the token sk-12 has expired",
        Instead::Http("401 Unauthorized", "a: b", "the token sk-12 has expired"),
        "it did not answer as it should",
        false,
    ),
    (
        "redirects to /sk-12?… which is one redirect too many",
        Instead::Http("307 Temporary Redirect", "location: /sk-12?key=hunter2", ""),
        "it did not answer as it should",
        false,
    ),
    (
        "answered 500 Internal Server Error: panic in /srv/sk-12",
        Instead::Http("500 Internal Server Error", "a: b", "panic in /srv/sk-12"),
        "it did not answer as it should",
        false,
    ),
    (
        "answered 404 Not Found: nothing at sk-12",
        Instead::Http("404 Not Found", "a: b", "nothing at sk-12"),
        "it did not answer as it should",
        false,
    ),
    (
        "answered 503 Service Unavailable: sk-12 has no quota",
        Instead::Http("503 Service Unavailable", "retry-after: 0", "sk-12 has no quota"),
        "it is overloaded",
        true,
    ),
    ("", Instead::Nothing, "it closed the connection before it answered", true),
];

#[tokio::test]
async fn a_client_hears_what_has_happened_and_not_the_words_of_the_server() {
    for (all, loss, told, may_help) in LOSSES {
        let server = far(SPEAKS, move |method| (method == "tools/call").then_some(loss)).await;
        let gateway = Gateway::start(with(server)).unwrap();
        gateway.ready().await;
        let mut troubles = gateway.troubles();
        let mut client = raw(&gateway);
        for id in 1..3 {
            client.modern_call(id, json!({})).await;
            let answer = client.hear().await;
            let message = format!("server `one`: {told}");
            let error = json!({"code": -31_997, "message": message, "data": {"retry": may_help}});
            assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        let said = timeout(LIMIT, troubles.next()).await.unwrap().unwrap();
        assert!(said.starts_with("one: a `tools/call` was lost on its way: "), "{said}");
        assert!(said.contains(all) && !said.contains("hunter2"), "{said}");
        gateway.close().await;
    }
}

#[tokio::test]
async fn of_a_handshake_that_was_lost_too() {
    // A server that does not know `server/discover` is spoken to without it.
    for (all, loss, told, _) in LOSSES.into_iter().filter(|(all, ..)| !all.contains("404")) {
        let server = far(SPEAKS, move |method| (method == "server/discover").then_some(loss)).await;
        let gateway = Gateway::start(with(server)).unwrap();
        let status = one(&gateway, |status| says(status, "`server/discover` was lost")).await;
        let shown = serde_json::to_string(&status).unwrap();
        assert!(shown.contains(all) && !shown.contains("hunter2"), "{shown}");
        assert_eq!(status.cause.map(kind), Some("handshake".into()));
        let mut client = raw(&gateway);
        client.modern_call(1, json!({})).await;
        let answer = client.hear().await["error"]["message"].to_string();
        assert!(answer.contains(told) && !answer.contains("sk-12"), "{answer}");
        gateway.close().await;
    }
}

fn kind(cause: impl serde::Serialize) -> Value {
    serde_json::to_value(cause).unwrap()["kind"].clone()
}

/// A server may refuse the handshake itself, and say why.
#[tokio::test]
async fn nor_of_a_handshake_that_is_refused() {
    let gateway = Gateway::start(with(far(Speaks::Legacy, |_| None).await)).unwrap();
    one(&gateway, |status| says(status, "the server refused `initialize`: no such method")).await;
    let mut client = raw(&gateway);
    client.modern_call(1, json!({})).await;
    let answer = client.hear().await["error"]["message"].to_string();
    assert!(answer.contains("the server refused `initialize`"), "{answer}");
    assert!(!answer.contains("no such method"), "{answer}");
    gateway.close().await;
}
