//! Calls of 2026-07-28.

use std::time::Duration;

use mcplane::client::ListenFilter;
use serde_json::{Value, json};

use crate::server::*;

#[tokio::test]
async fn json_and_streams_answer_alike_and_nothing_of_a_session_is_sent() {
    let server = Server::start(|seen| async move {
        match (seen.method(), seen.body["params"]["name"].as_str()) {
            ("server/discover", _) => discovered(&seen).header("mcp-session-id", "trap"),
            (_, Some("stream")) => {
                let token = &seen.body["params"]["_meta"]["progressToken"];
                let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": 1, "total": 2}});
                let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("streamed")});
                let pretty = serde_json::to_string_pretty(&answer).unwrap().replace('\n', "\ndata: ");
                Reply::events(&format!(": hello\n\nid: 1\ndata:\n\ndata: {progress}\n\nevent: message\ndata: {pretty}\n\n"))
            }
            (_, Some("pretty")) => {
                let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("a\nb")});
                Reply::body(200, &serde_json::to_string_pretty(&answer).unwrap())
                    .header("content-type", "application/json; charset=utf-8")
            }
            _ => Reply::error(200, &seen, -32602, Value::Null),
        }
    })
    .await;
    let client = server.client().await.unwrap();
    let (seen, mut figures) = tokio::sync::mpsc::channel(64);
    let call =
        client.call("stream", &json!({})).on_progress(move |p| seen.try_send(p.progress).unwrap());
    assert_eq!(call.await.unwrap().content[0].as_text(), Some("streamed"));
    assert_eq!(figures.recv().await, Some(1.0));
    let pretty = client.call_tool("pretty", &()).await.unwrap();
    assert_eq!(pretty.content[0].as_text(), Some("a\nb"));
    let error = client.call_tool("no", &()).await.unwrap_err();
    assert_eq!(error.rpc().unwrap().code.0, -32602);
    client.close().await;
    for seen in server.seen() {
        assert_eq!(seen.verb, "POST");
        assert_eq!(seen.header("mcp-session-id"), None);
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(seen.header("mcp-method"), Some(seen.method()));
        assert_eq!(seen.header("mcp-name"), seen.body["params"]["name"].as_str());
    }
}

#[tokio::test]
async fn a_cancelled_call_closes_its_stream_and_says_nothing() {
    let (taps, mut tapped) = tokio::sync::mpsc::channel(64);
    let server = Server::start(move |seen| {
        let reply = if seen.method() == "server/discover" {
            discovered(&seen)
        } else {
            let (tap, reply) = Reply::stream();
            taps.try_send(tap).unwrap();
            reply
        };
        async move { reply }
    })
    .await;
    let client = server.client().await.unwrap();
    let error = client.call("x", &()).timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    tapped.recv().await.unwrap().closed().await;
    let call = client.call_tool("x", &());
    assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    tapped.recv().await.unwrap().closed().await;
    assert_eq!(server.lines(), ["POST server/discover", "POST tools/call", "POST tools/call"]);
}

#[tokio::test]
async fn a_subscription_is_a_long_exchange() {
    let (taps, mut tapped) = tokio::sync::mpsc::channel(64);
    let server = Server::start(move |seen| {
        let reply = if seen.method() == "server/discover" {
            let capabilities = json!({"tools": {"listChanged": true}});
            Reply::result(&seen, json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "resultType": "complete"}))
        } else {
            let (tap, reply) = Reply::stream();
            taps.try_send((tap, seen.body["id"].clone())).unwrap();
            reply
        };
        async move { reply }
    })
    .await;
    let client = server.client().await.unwrap();
    let filter = ListenFilter { tools_list_changed: true, ..ListenFilter::default() };
    let listen = client.listen(filter.clone());
    let speak = async {
        let (tap, id) = tapped.recv().await.unwrap();
        let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
        tap.message(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": {"toolsListChanged": true}, "_meta": meta}}))
            .await;
        tap.message(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
            "params": {"_meta": meta}}))
            .await;
        tap
    };
    let (listen, tap) = tokio::join!(listen, speak);
    let mut listen = listen.unwrap();
    assert!(listen.next().await.unwrap().is_some());
    drop(listen);
    tap.closed().await;
    assert_eq!(server.lines().len(), 2);
}

fn annotated(name: &str, schema: &Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": schema}})
}

#[tokio::test]
async fn arguments_are_mirrored_and_bad_tools_are_left_out() {
    let server = Server::start(|seen| async move {
        match seen.method() {
            "server/discover" => discovered(&seen),
            "tools/list" => {
                let good = json!({"region": {"type": "string", "x-mcp-header": "Region"},
                    "count": {"type": "integer", "x-mcp-header": "Count"},
                    "dry": {"type": "boolean", "x-mcp-header": "Dry"},
                    "none": {"type": "string", "x-mcp-header": "None"},
                    "nested": {"type": "object", "properties": {"deep": {"type": "string", "x-mcp-header": "Deep"}}}});
                let bad = json!({"a": {"type": "number", "x-mcp-header": "A"}});
                let tools = [annotated("good", &good), annotated("bad", &bad), annotated("plain", &json!({}))];
                Reply::result(&seen, json!({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}))
            }
            _ => Reply::result(&seen, text("ok")),
        }
    })
    .await;
    let http = server.http();
    let dropped = http.dropped_tools();
    let client = connect(builder(), http).await.unwrap();
    let names: Vec<_> = client.list_tools().await.unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["good", "plain"]);
    let dropped = dropped.list();
    assert_eq!((dropped.len(), &*dropped[0].name), (1, "bad"));
    let arguments = json!({"region": " Zürich", "count": 42, "dry": false, "none": null, "nested": {"deep": "=?base64?x?="}});
    client.call_tool("good", &arguments).await.unwrap();
    let call = server.wait("POST tools/call").await;
    assert_eq!(call.header("mcp-name"), Some("good"));
    assert_eq!(call.header("mcp-param-region"), Some("=?base64?IFrDvHJpY2g=?="));
    assert_eq!(call.header("mcp-param-count"), Some("42"));
    assert_eq!(call.header("mcp-param-dry"), Some("false"));
    assert_eq!(call.header("mcp-param-none"), None);
    assert_eq!(call.header("mcp-param-deep"), Some("=?base64?PT9iYXNlNjQ/eD89?="));
    client.read_resource("file:///path/to/file%20name.txt").await.unwrap_err();
    let read = server.wait("POST resources/read").await;
    assert_eq!(read.header("mcp-name"), Some("file:///path/to/file%20name.txt"));
}

#[tokio::test]
async fn an_unknown_schema_is_looked_up_and_the_call_sent_again() {
    let server = Server::start(|seen| async move {
        match (seen.method(), seen.header("mcp-param-p"), seen.body["params"]["cursor"].as_str()) {
            ("server/discover", ..) => discovered(&seen),
            ("tools/list", _, None) => {
                Reply::result(&seen, json!({"tools": [], "nextCursor": "2"}))
            }
            ("tools/list", _, Some("2")) => {
                let tool = annotated("x", &json!({"p": {"type": "string", "x-mcp-header": "P"}}));
                Reply::result(&seen, json!({"tools": [tool]}))
            }
            (_, Some("v"), _) => Reply::result(&seen, text("ok")),
            _ => Reply::error(400, &seen, -32020, Value::Null),
        }
    })
    .await;
    let client = server.client().await.unwrap();
    let result = client.call_tool("x", &json!({"p": "v"})).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("ok"));
    let list = server.wait("POST tools/list").await;
    assert_eq!(
        list.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    assert_eq!(server.lines().len(), 5);
    // Once is enough: a server that is never content gets no third attempt.
    let error = client.call_tool("y", &json!({})).await.unwrap_err();
    assert_eq!(error.rpc().unwrap().code.0, -32020);
    assert_eq!(server.lines().iter().filter(|line| *line == "POST tools/call").count(), 4);
}
