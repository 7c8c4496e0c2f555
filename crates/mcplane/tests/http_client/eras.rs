//! Which era a server is of: every row of the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcplane::client::EraChoice;
use mcplane::proto::version::{Era, Revision};
use mcplane::transport::http::client::Pool;
use serde_json::{Value, json};

use crate::server::*;

/// What the probe is answered with, and whether the client then says `initialize`.
async fn verdict(
    answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
) -> (Server, mcplane::Result<Era>) {
    let server = Server::start(move |seen| {
        let reply = match seen.method() {
            "server/discover" => answer(&seen),
            _ => orderly(&seen).unwrap_or_else(|| Reply::status(500)),
        };
        async move { reply }
    })
    .await;
    let client = server.client().await;
    let era = client.map(|client| client.peer().era());
    (server, era)
}

#[tokio::test]
async fn a_modern_server_is_asked_once() {
    let (server, era) = verdict(discovered).await;
    assert_eq!(era.unwrap(), Era::Modern);
    assert_eq!(server.lines(), ["POST server/discover"]);
    let probe = &server.seen()[0];
    assert_eq!(probe.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(probe.header("mcp-method"), Some("server/discover"));
    assert_eq!(probe.header("content-type"), Some("application/json"));
    assert_eq!(probe.header("accept"), Some("application/json, text/event-stream"));
}

#[tokio::test]
async fn refusals_and_other_bodies_are_legacy() {
    let answers: [fn(&Seen) -> Reply; 9] = [
        |seen| Reply::error(400, seen, -32600, Value::Null),
        |seen| Reply::error(200, seen, -32601, Value::Null),
        |seen| Reply::error(404, seen, -32601, Value::Null),
        // The id is not repeated, or null.
        |_| {
            Reply::json(
                400,
                &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "Bad Request: Server not initialized"}}),
            )
        },
        |_| Reply::body(400, "Bad Request: no session"),
        |_| Reply::status(405),
        |_| Reply::body(404, "<html>nothing here</html>").header("content-type", "text/html"),
        |_| Reply::body(200, "hello").header("content-type", "text/plain"),
        |_| Reply::json(200, &json!({"hello": "you"})),
    ];
    for (row, answer) in answers.into_iter().enumerate() {
        let (server, era) = verdict(answer).await;
        assert_eq!(era.unwrap(), Era::Legacy, "row {row}");
        server.wait("POST notifications/initialized").await;
        let seen = server.seen();
        assert_eq!(seen[1].line(), "POST initialize", "row {row}");
        for name in ["mcp-protocol-version", "mcp-method", "mcp-session-id"] {
            assert_eq!(seen[1].header(name), None, "row {row}: {name} is carried over");
        }
    }
}

#[tokio::test]
async fn a_revision_is_corrected_and_a_disjoint_one_is_an_error() {
    let supported = |list: Value| {
        move |seen: &Seen| {
            Reply::error(400, seen, -32022, json!({"supported": list, "requested": "x"}))
        }
    };
    let (server, era) = verdict(supported(json!(["2027-01-01"]))).await;
    assert!(era.unwrap_err().is_handshake());
    assert_eq!(server.lines().len(), 1);
    let (server, era) = verdict(supported(json!(["2025-11-25"]))).await;
    assert_eq!(era.unwrap(), Era::Legacy);
    assert_eq!(server.lines()[1], "POST initialize");
    for code in [-32020, -32021] {
        let (server, era) = verdict(move |seen| Reply::error(400, seen, code, Value::Null)).await;
        assert!(era.unwrap_err().is_handshake());
        assert_eq!(server.lines().len(), 1);
    }
    let once = AtomicBool::new(true);
    let (server, era) = verdict(move |seen| {
        if once.swap(false, Ordering::SeqCst) {
            return Reply::error(400, seen, -32022, json!({"supported": ["2026-07-28"]}));
        }
        discovered(seen)
    })
    .await;
    assert_eq!(era.unwrap(), Era::Modern);
    assert_eq!(server.lines(), ["POST server/discover", "POST server/discover"]);
}

#[tokio::test]
async fn what_is_no_evidence_is_an_error_and_nothing_else_is_tried() {
    let (server, era) = verdict(|_| Reply::status(500)).await;
    let error = era.unwrap_err();
    assert_eq!((error.status(), error.is_unauthorized()), (Some(500), false), "{error}");
    assert_eq!(server.lines().len(), 1);

    let (_, era) = verdict(|seen| Reply::error(502, seen, -32601, Value::Null)).await;
    assert_eq!(era.unwrap_err().status(), Some(502));

    let (server, era) = verdict(|_| Reply::status(503).header("retry-after", "7")).await;
    let error = era.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(server.lines().len(), 1);

    for status in [401, 403] {
        let (server, era) = verdict(move |_| Reply::status(status)).await;
        let error = era.unwrap_err();
        assert!(error.is_unauthorized() && error.status() == Some(status), "{error}");
        assert_eq!(server.lines().len(), 1);
    }

    let (server, era) =
        verdict(|_| Reply::status(307).header("location", "http://127.0.0.1:1/else")).await;
    let error = era.unwrap_err();
    assert!(error.to_string().contains("another server"), "{error}");
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_silent_server_is_late_and_not_legacy() {
    let server = Server::start(|_| std::future::pending::<Reply>()).await;
    let builder = builder().timeout(Duration::from_millis(300));
    let error = connect(builder, server.http()).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(server.lines(), ["POST server/discover"]);
}

#[tokio::test]
async fn a_redirect_within_the_server_is_followed() {
    let server = Server::start(|seen| async move {
        if seen.path == "/mcp" {
            return Reply::status(308).header("location", "/there");
        }
        discovered(&seen)
    })
    .await;
    server.client().await.unwrap();
    assert_eq!(server.lines(), ["POST server/discover"; 2]);
}

#[tokio::test]
async fn a_pinned_revision_survives_a_server_without_discovery() {
    let server = Server::start(|seen| async move {
        match seen.method() {
            "tools/call" => Reply::result(&seen, text("ok")),
            _ => Reply::error(404, &seen, -32601, Value::Null),
        }
    })
    .await;
    let pinned = builder().revision(EraChoice::Only(Revision::V2026_07_28));
    let client = connect(pinned, server.http()).await.unwrap();
    assert_eq!(client.call_tool("x", &()).await.unwrap().content[0].as_text(), Some("ok"));
}

fn sse_server(seen: Seen, tap: &std::sync::Mutex<Option<Tap>>) -> Reply {
    match (&*seen.verb, &*seen.path) {
        ("GET", _) => {
            let (stream, reply) = Reply::stream();
            *tap.lock().unwrap() = Some(stream.clone());
            tokio::spawn(
                async move { stream.send("event: endpoint\ndata: /messages?s=1\n\n").await },
            );
            reply
        }
        ("POST", "/messages?s=1") => {
            let stream = tap.lock().unwrap().clone().unwrap();
            tokio::spawn(async move {
                match seen.method() {
                    "initialize" => {
                        let found = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "sse", "version": "1"}});
                        stream.answer(&seen, found).await;
                    }
                    "tools/call" => stream.answer(&seen, text("from the stream")).await,
                    _ => {}
                }
            });
            Reply::body(202, "Accepted")
        }
        _ => Reply::status(405),
    }
}

#[tokio::test]
async fn http_with_sse_is_found_used_and_remembered() {
    let tap = Arc::new(std::sync::Mutex::new(None));
    let held = Arc::clone(&tap);
    let server = Server::start(move |seen| {
        let reply = sse_server(seen, &held);
        async move { reply }
    })
    .await;
    let pool = Pool::new();
    let client = connect(builder(), server.http().pool(pool.clone())).await.unwrap();
    assert_eq!(client.peer().revision, Revision::V2024_11_05);
    let result = client.call_tool("x", &()).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("from the stream"));
    assert_eq!(
        server.lines()[..4],
        ["POST server/discover", "POST initialize", "GET", "POST initialize"]
    );
    assert!(server.seen().iter().skip(3).all(|s| s.path == "/messages?s=1"));
    // Another client on the same pool need not look for it.
    let before = server.lines().len();
    let again = connect(builder(), server.http().pool(pool)).await.unwrap();
    assert_eq!(again.call_tool("x", &()).await.unwrap().content.len(), 1);
    assert_eq!(server.lines()[before..before + 2], ["GET", "POST initialize"]);
    // The stream is the connection.
    drop(tap.lock().unwrap().take());
    let call = tokio::time::timeout(PATIENCE, async { while again.ping().await.is_ok() {} });
    // The tap is cloned into the answers, so the stream ends when those are done.
    call.await.unwrap();
}

#[tokio::test]
async fn a_foreign_endpoint_is_not_followed() {
    let server = Server::start(|seen| async move {
        if seen.verb == "GET" {
            return Reply::events("event: endpoint\ndata: http://127.0.0.1:1/m\n\n");
        }
        Reply::status(405)
    })
    .await;
    let error = server.client().await.unwrap_err();
    assert_eq!(error.status(), Some(405), "{error}");
}

#[tokio::test]
async fn a_verdict_is_remembered_and_a_wrong_one_is_found_out() {
    let modern = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&modern);
    let server = Server::start(move |seen| {
        let is_modern = now.load(Ordering::SeqCst);
        let reply = match (is_modern, seen.method()) {
            (true, "server/discover") => discovered(&seen),
            (true, "initialize") => Reply::error(404, &seen, -32601, Value::Null),
            (true, _) => Reply::status(405),
            (false, _) => orderly(&seen).unwrap_or_else(|| Reply::status(500)),
        };
        async move { reply }
    })
    .await;
    let pool = Pool::new();
    let connect_again = || connect(builder(), server.http().pool(pool.clone()));
    connect_again().await.unwrap().close().await;
    let before = server.lines().len();
    let client = connect_again().await.unwrap();
    assert_eq!(server.lines()[before], "POST initialize");
    client.close().await;
    modern.store(true, Ordering::SeqCst);
    let before = server.lines().len();
    let client = connect_again().await.unwrap();
    assert_eq!(client.peer().era(), Era::Modern);
    assert_eq!(server.lines()[before], "POST initialize");
    assert_eq!(server.lines().last().unwrap(), "POST server/discover");
}
