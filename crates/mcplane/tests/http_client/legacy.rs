//! Sessions of the legacy revisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcplane::types::LogLevel;
use serde_json::json;

use crate::server::*;

#[tokio::test]
async fn a_session_is_kept_used_and_ended() {
    let server = Server::start(|seen| async move {
        match seen.method() {
            "tools/call" => Reply::result(&seen, text("ok")),
            _ => orderly(&seen).unwrap(),
        }
    })
    .await;
    let client = server.client().await.unwrap();
    client.call_tool("x", &()).await.unwrap();
    server.wait("GET").await;
    client.close().await;
    let seen = server.seen();
    assert_eq!(seen.last().unwrap().verb, "DELETE", "{:?}", server.lines());
    for seen in &seen[2..] {
        assert_eq!(seen.header("mcp-session-id"), Some("s1"), "{}", seen.line());
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"), "{}", seen.line());
        assert_eq!(seen.header("mcp-method"), None);
    }
    let get = server.wait("GET").await;
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    assert_eq!(server.lines().iter().filter(|line| *line == "GET").count(), 1, "405 is final");
}

#[tokio::test]
async fn the_server_asks_on_its_stream_and_is_answered() {
    let (taps, mut tapped) = tokio::sync::mpsc::channel(64);
    let server = Server::start(move |seen| {
        let reply = if seen.verb == "GET" {
            let (tap, reply) = Reply::stream();
            taps.try_send(tap).unwrap();
            reply
        } else {
            orderly(&seen).unwrap_or_else(|| Reply::status(202))
        };
        async move { reply }
    })
    .await;
    let client = server.client().await.unwrap();
    let tap = tapped.recv().await.unwrap();
    tap.message(json!({"jsonrpc": "2.0", "id": "q", "method": "ping"})).await;
    let answer = server.wait("POST").await;
    assert_eq!(answer.body, json!({"jsonrpc": "2.0", "id": "q", "result": {}}));
    // The stream ends, and is opened again where it was.
    tap.send("id: 7\nretry: 20\ndata:\n\n").await;
    drop(tap);
    let tap = tapped.recv().await.unwrap();
    assert_eq!(server.wait_for("GET", 2).await.header("last-event-id"), Some("7"));
    drop(tap);
    drop(client);
}

#[tokio::test]
async fn a_broken_stream_is_resumed_after_the_pause_that_the_server_asks_for() {
    let server = Server::start(|seen| async move {
        match (&*seen.verb, seen.method(), seen.header("last-event-id")) {
            (_, "tools/call", _) => match seen.body["params"]["name"].as_str() {
                Some("ends") => Reply::events("id: e1\nretry: 200\ndata:\n\n"),
                Some("breaks") => {
                    let (tap, reply) = Reply::stream();
                    tokio::spawn(async move {
                        tap.send("id: b1\nretry: 20\ndata: {\"half\"\n\nda").await;
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        tap.cut().await;
                    });
                    reply
                }
                _ => Reply::events("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n"),
            },
            ("GET", _, Some("e1")) => Reply::events("id: e2\nretry: 20\ndata:\n\n"),
            // Ids of requests are counted from 1; the probe and `initialize` were the first two.
            ("GET", _, Some("e2")) => Reply::events(&format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": 3, "result": text("resumed")}))),
            ("GET", _, Some("b1")) => Reply::events(&format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": 4, "result": text("mended")}))),
            _ => orderly(&seen).unwrap(),
        }
    })
    .await;
    let client = server.client().await.unwrap();
    let result = client.call_tool("ends", &()).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("resumed"));
    let (call, resumed) = {
        let seen = server.seen();
        let at = |id: &str| seen.iter().find(|s| s.header("last-event-id") == Some(id)).unwrap().at;
        (seen.iter().find(|s| s.method() == "tools/call").unwrap().at, at("e1"))
    };
    let pause = resumed - call;
    assert!((200..450).contains(&pause.as_millis()), "{pause:?}");
    let result = client.call_tool("breaks", &()).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("mended"));
    let error = client.call_tool("lost", &()).await.unwrap_err();
    assert!(error.is_closed() && error.to_string().contains("cannot be resumed"), "{error}");
}

#[tokio::test]
async fn a_forgotten_session_is_replaced_unseen() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&sessions);
    let server = Server::start(move |seen| {
        let current = format!("s{}", now.load(Ordering::SeqCst));
        let reply = match seen.method() {
            "initialize" => {
                let number = now.fetch_add(1, Ordering::SeqCst) + 1;
                initialized(&seen, &format!("s{number}"))
            }
            "server/discover" => orderly(&seen).unwrap(),
            // "s2" dies as soon as it is used for a call.
            _ if seen.header("mcp-session-id") != Some(&current) => Reply::status(404),
            "tools/call" => Reply::result(&seen, text(&current)),
            "logging/setLevel" | "resources/subscribe" => Reply::result(&seen, json!({})),
            _ => orderly(&seen).unwrap_or_else(|| Reply::status(500)),
        };
        async move { reply }
    })
    .await;
    let client = server.client().await.unwrap();
    client.set_log_level(LogLevel::Warning).await.unwrap();
    client
        .request_raw(mcplane::proto::Method::ResourcesSubscribe, &json!({"uri": "x:y"}))
        .await
        .unwrap();
    client.call_tool("x", &()).await.unwrap();
    server.wait("GET").await;
    let before = server.lines().len();
    // The server starts again: it knows no session of before.
    sessions.store(10, Ordering::SeqCst);
    let calls = (client.call_tool("x", &()), client.call_tool("y", &()));
    let (first, second) = tokio::join!(calls.0, calls.1);
    assert_eq!(first.unwrap().content[0].as_text(), Some("s11"));
    assert_eq!(second.unwrap().content[0].as_text(), Some("s11"));
    server.wait_for("GET", 2).await;
    let mut after = server.lines().split_off(before);
    after.retain(|line| line != "POST tools/call");
    let replayed = [
        "POST initialize",
        "POST notifications/initialized",
        "POST logging/setLevel",
        "POST resources/subscribe",
    ];
    assert_eq!(after[..4], replayed);
    assert_eq!(after.len(), 5, "{after:?}");
    let renewed = server.wait_for("POST initialize", 2).await;
    assert_eq!(renewed.header("mcp-session-id"), None);
    assert_eq!(renewed.header("mcp-protocol-version"), None);
}

#[tokio::test]
async fn a_cancelled_call_is_told_and_its_stream_closed() {
    let (taps, mut tapped) = tokio::sync::mpsc::channel(64);
    let server = Server::start(move |seen| {
        let reply = if seen.method() == "tools/call" {
            let (tap, reply) = Reply::stream();
            taps.try_send(tap).unwrap();
            reply
        } else {
            orderly(&seen).unwrap()
        };
        async move { reply }
    })
    .await;
    let client = server.legacy_client().await.unwrap();
    let error = client.call("x", &()).timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let cancelled = server.wait("POST notifications/cancelled").await;
    let call = server.wait("POST tools/call").await;
    assert_eq!(cancelled.body["params"]["requestId"], call.body["id"]);
    tapped.recv().await.unwrap().closed().await;
}

/// Each has a connection of its own, and the server may read the second first: a call that is not
/// known yet cannot be cancelled, and would run on with nobody to hear of it.
#[tokio::test]
async fn a_cancellation_does_not_overtake_its_call() {
    for (begins_after, told_after) in [(200, 200), (60_000, 450)] {
        let server = Server::start(move |seen| async move {
            if seen.method() == "tools/call" {
                tokio::time::sleep(Duration::from_millis(begins_after)).await;
                return Reply::stream().1;
            }
            orderly(&seen).unwrap()
        })
        .await;
        let client = server.legacy_client().await.unwrap();
        let error = client.call("x", &()).timeout(Duration::from_millis(20)).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        let cancelled = server.wait("POST notifications/cancelled").await;
        let call = server.wait("POST tools/call").await;
        let after = cancelled.at.saturating_duration_since(call.at);
        assert!(after >= Duration::from_millis(told_after - 10), "{after:?}");
    }
}

#[tokio::test]
async fn the_end_of_the_handshake_comes_before_the_first_request() {
    let server = Server::start(|seen| async move {
        if seen.method() == "notifications/initialized" {
            tokio::time::sleep(Duration::from_millis(100)).await;
            return Reply::status(202);
        }
        orderly(&seen).unwrap_or_else(|| Reply::result(&seen, text("ok")))
    })
    .await;
    let client = server.legacy_client().await.unwrap();
    client.call_tool("x", &()).await.unwrap();
    let told = server.wait("POST notifications/initialized").await.at;
    assert!(server.wait("POST tools/call").await.at - told >= Duration::from_millis(95));
}

#[tokio::test]
async fn the_stream_of_what_the_server_asks_comes_before_the_first_request() {
    for _ in 0..20 {
        let server = Server::start(|seen| async move {
            orderly(&seen).unwrap_or_else(|| Reply::result(&seen, text("ok")))
        })
        .await;
        let client = server.legacy_client().await.unwrap();
        client.call_tool("x", &()).await.unwrap();
        assert_eq!(server.lines()[2..], ["GET", "POST tools/call"], "{:?}", server.lines());
    }
}

#[tokio::test]
async fn a_batch_is_taken_apart() {
    let server = Server::start(|seen| async move {
        match seen.method() {
            "initialize" => Reply::result(&seen, json!({"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "b", "version": "1"}})),
            "tools/call" => {
                let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "first"}});
                let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("second")});
                Reply::json(200, &json!([log, answer]))
            }
            _ => orderly(&seen).unwrap(),
        }
    })
    .await;
    let (logs, mut logged) = tokio::sync::mpsc::channel(64);
    let builder = builder().on_log(move |log| logs.try_send(log).unwrap());
    let client = connect(builder, server.http()).await.unwrap();
    assert_eq!(client.call_tool("x", &()).await.unwrap().content[0].as_text(), Some("second"));
    assert_eq!(logged.recv().await.unwrap().data.get(), "\"first\"");
    let call = server.wait("POST tools/call").await;
    // Neither a session nor a header that the revision does not know.
    assert_eq!((call.header("mcp-session-id"), call.header("mcp-protocol-version")), (None, None));
}
