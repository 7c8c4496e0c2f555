//! Requests: pages, progress, deadlines, cancellation, the cache, servers that go away.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcplane_proto::error::{Code, Retry};
use mcplane_proto::limits::IN_FLIGHT_MAX;
use mcplane_proto::method::Method;
use mcplane_proto::types::{CompleteParams, CompletionReference, LogLevel};
use tokio::time::Instant;

use super::*;

const META: &str = "io.modelcontextprotocol/";

#[tokio::test]
async fn a_modern_call_carries_its_envelope() {
    let (client, mut fake) = modern(builder()).await;
    client.set_log_level(LogLevel::Warning).await.unwrap();
    let call = client.call("add", &json!({"a": 1})).meta(&json!({"x/y": 1, "progressToken": 9}));
    let (result, asked) = tokio::join!(
        call.into_future(),
        fake.serve("tools/call", json!({"content": [], "structuredContent": null}))
    );
    let meta = &asked["params"]["_meta"];
    assert_eq!(meta[format!("{META}protocolVersion")], "2026-07-28");
    assert_eq!(meta[format!("{META}clientCapabilities")], json!({}));
    assert_eq!(meta[format!("{META}clientInfo")]["name"], "test");
    assert_eq!(meta[format!("{META}logLevel")], "warning");
    assert_eq!((&meta["x/y"], meta.get("progressToken")), (&json!(1), None));
    assert_eq!(asked["params"]["arguments"], json!({"a": 1}));
    assert_eq!(result.unwrap().structured_content.unwrap().get(), "null");
}

#[tokio::test]
async fn a_legacy_call_carries_nothing_it_does_not_need() {
    let (client, mut fake) = legacy(builder()).await;
    let (result, asked) =
        tokio::join!(client.call_tool("now", &()), fake.serve("tools/call", text("noon")));
    assert_eq!(asked["params"], json!({"name": "now"}));
    assert_eq!(result.unwrap().content[0].as_text(), Some("noon"));
    let (set, asked) = tokio::join!(
        client.set_log_level(LogLevel::Error),
        fake.serve("logging/setLevel", json!({}))
    );
    set.unwrap();
    assert_eq!(asked["params"]["level"], "error");
}

#[tokio::test]
async fn every_other_request_has_its_function() {
    let (client, mut fake) = modern(builder()).await;
    let read = json!({"contents": [{"uri": "file:///a", "text": "hi"}]});
    let (read, asked) =
        tokio::join!(client.read_resource("file:///a"), fake.serve("resources/read", read));
    assert_eq!(read.unwrap().contents.len(), 1);
    assert_eq!(asked["params"]["uri"], "file:///a");

    let got = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]});
    let (got, asked) =
        tokio::join!(client.get_prompt("p", [("k", "v")]), fake.serve("prompts/get", got));
    assert_eq!(got.unwrap().messages.len(), 1);
    assert_eq!(asked["params"]["arguments"], json!({"k": "v"}));

    let params = CompleteParams::new(CompletionReference::prompt("p"), "k", "v");
    let values = json!({"completion": {"values": ["v1", "v2"]}});
    let (completed, asked) =
        tokio::join!(client.complete(&params), fake.serve("completion/complete", values));
    assert_eq!(completed.unwrap().values, ["v1", "v2"]);
    assert_eq!(asked["params"]["argument"], json!({"name": "k", "value": "v"}));

    let cursor = json!({"cursor": ""});
    let raw = client.request_raw(Method::ToolsList, &cursor);
    let (raw, _) = tokio::join!(raw, fake.serve("tools/list", json!({"tools": [], "z": 1.0})));
    assert!(raw.unwrap().ends_with(b"\"z\":1.0}"));
    let raw = client.request_raw(Method::PromptsList, &());
    let (raw, asked) = tokio::join!(raw, fake.serve("prompts/list", json!({"prompts": []})));
    raw.unwrap();
    assert_eq!(asked["params"].as_object().unwrap().len(), 1, "{asked}");
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_here() {
    let (client, _fake) = modern(builder()).await;
    for error in [
        client.call_tool("x", &[1, 2]).await.unwrap_err(),
        client.request_raw(Method::Ping, &()).await.unwrap_err(),
        client.request_raw(Method::RootsList, &()).await.unwrap_err(),
        client.request_raw(Method::Listen, &()).await.unwrap_err(),
        client.call("x", &()).meta(&7).await.unwrap_err(),
    ] {
        assert!(error.is_misuse(), "{error}");
    }
}

#[tokio::test]
async fn all_pages_come_in_order_and_the_empty_cursor_is_one() {
    let (client, mut fake) = modern(builder()).await;
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let serve = async {
        let first = fake.serve("tools/list", json!({"tools": [tool("a")], "nextCursor": ""})).await;
        assert!(first["params"].get("cursor").is_none());
        let page = json!({"tools": [tool("b")], "nextCursor": "c2"});
        assert_eq!(fake.serve("tools/list", page).await["params"]["cursor"], "");
        let last = fake.serve("tools/list", json!({"tools": [tool("c")]})).await;
        assert_eq!(last["params"]["cursor"], "c2");
    };
    let (tools, ()) = tokio::join!(client.list_tools(), serve);
    let names: Vec<_> = tools.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_circle_of_cursors_is_an_error() {
    let (client, mut fake) = modern(builder()).await;
    let serve = async {
        for cursor in ["x", "y", "x"] {
            fake.serve("prompts/list", json!({"prompts": [], "nextCursor": cursor})).await;
        }
    };
    let (prompts, ()) = tokio::join!(client.list_prompts(), serve);
    let error = prompts.unwrap_err();
    assert!(error.is_malformed() && error.to_string().contains("\"x\" came twice"), "{error}");
}

#[tokio::test]
async fn errors_of_the_server_keep_their_code() {
    let (client, mut fake) = modern(builder()).await;
    let serve = async {
        let call = fake.expect("tools/call").await;
        fake.refuse(&call, -32602).await;
        let call = fake.expect("tools/call").await;
        fake.reply(&call, json!({"content": [], "resultType": "surprise"})).await;
        let call = fake.expect("tools/call").await;
        fake.reply(&call, json!({"content": 5})).await;
    };
    let calls = async {
        let error = client.call_tool("x", &()).await.unwrap_err();
        assert_eq!(error.rpc().unwrap().code, Code::INVALID_PARAMS);
        let error = client.call_tool("x", &()).await.unwrap_err();
        assert!(error.is_malformed() && error.to_string().contains("surprise"), "{error}");
        assert!(client.call_tool("x", &()).await.unwrap_err().is_malformed());
    };
    tokio::join!(calls, serve);
}

#[tokio::test]
async fn progress_comes_before_the_result() {
    let (client, mut fake) = modern(builder()).await;
    let serve = async {
        for _ in 0..2 {
            let call = fake.expect("tools/call").await;
            let token = call["params"]["_meta"]["progressToken"].clone();
            assert_eq!(token, call["id"]);
            for at in 1..=3 {
                let params = json!({"progressToken": token, "progress": at, "total": 3});
                fake.notify("notifications/progress", params).await;
            }
            fake.notify("notifications/progress", json!({"progressToken": 777, "progress": 1}))
                .await;
            fake.reply(&call, text("done")).await;
        }
    };
    let calls = async {
        let mut flight = client.call("x", &()).start().await.unwrap();
        let mut seen = Vec::new();
        while let Some(progress) = flight.progress().await {
            seen.push(progress.progress);
        }
        assert_eq!(seen, [1.0, 2.0, 3.0]);
        assert_eq!(flight.await.unwrap().content[0].as_text(), Some("done"));

        let watched = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&watched);
        let watch = move |progress: crate::client::Progress| copy.lock().unwrap().push(progress);
        client.call("x", &()).on_progress(watch).await.unwrap();
        assert_eq!(watched.lock().unwrap().len(), 3);
    };
    tokio::join!(calls, serve);
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_deadline_and_silence_ends_the_call() {
    let (client, mut fake) = modern(builder().timeout(Duration::from_secs(10))).await;
    let start = Instant::now();
    let serve = async {
        let call = fake.expect("tools/call").await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        let params = json!({"progressToken": call["id"], "progress": 1});
        fake.notify("notifications/progress", params).await;
        let gone = fake.expect("notifications/cancelled").await;
        assert_eq!(gone["params"]["requestId"], call["id"]);
        // Too late: dropped without harm, as is one that nobody asked for.
        fake.reply(&call, text("late")).await;
        fake.send(json!({"id": "never", "result": {}})).await;
        fake.serve("tools/call", text("next")).await;
    };
    let calls = async {
        let error = client.call("x", &()).start().await.unwrap().await.unwrap_err();
        assert!(error.is_timeout() && error.to_string().contains("`tools/call` after 10 s"));
        assert_eq!(error.retry(), Retry::Perhaps);
        assert_eq!(start.elapsed().as_secs(), 18);
        let next = client.call("x", &()).timeout(Duration::from_secs(1)).await.unwrap();
        assert_eq!(next.content[0].as_text(), Some("next"));
    };
    tokio::join!(calls, serve);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_on_the_wire() {
    let (client, mut fake) = modern(builder()).await;
    let other = client.clone();
    let dropped = tokio::spawn(async move { other.call_tool("slow", &()).await });
    let call = fake.expect("tools/call").await;
    dropped.abort();
    let gone = fake.expect("notifications/cancelled").await;
    assert_eq!(gone["params"]["requestId"], call["id"]);

    let flight = client.call("slow", &()).start().await.unwrap();
    let call = fake.expect("tools/call").await;
    flight.cancel("changed my mind");
    let gone = fake.expect("notifications/cancelled").await;
    assert_eq!(gone["params"], json!({"requestId": call["id"], "reason": "changed my mind"}));

    // Given up before the connection's task saw it: never sent at all.
    drop(client.call("never", &()).start().await.unwrap());
    let (pong, _) = tokio::join!(client.ping(), fake.serve("server/discover", json!({})));
    pong.unwrap();
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order_and_only_once() {
    let (client, mut fake) = modern(builder()).await;
    let serve = async {
        let mut calls = Vec::new();
        for _ in 0..50 {
            calls.push(fake.expect("tools/call").await);
        }
        for call in calls.iter().rev() {
            let name = call["params"]["name"].as_str().unwrap();
            fake.reply(call, text(name)).await;
            fake.reply(call, text("a second answer")).await;
        }
    };
    let calls = (0..50).map(|at| {
        let client = client.clone();
        tokio::spawn(async move {
            let name = format!("tool-{at}");
            let result = client.call_tool(&name, &()).await.unwrap();
            assert_eq!(result.content[0].as_text(), Some(&*name));
        })
    });
    let calls: Vec<_> = calls.collect();
    serve.await;
    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_dies_fails_its_calls_at_once() {
    let (client, mut fake) = modern(builder()).await;
    let other = client.clone();
    let waiting = tokio::spawn(async move { other.call_tool("slow", &()).await });
    fake.expect("tools/call").await;
    drop(fake);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_closed() && error.to_string().contains("the server closed it"), "{error}");
    assert!(client.ping().await.unwrap_err().is_closed());
    assert!(client.listen(crate::client::ListenFilter::default()).await.unwrap_err().is_closed());
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_slots_wait_their_turn() {
    let (client, mut fake) = modern(builder().timeout(Duration::from_secs(5))).await;
    let calls: Vec<_> = (0..IN_FLIGHT_MAX + 10)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("x", &()).await })
        })
        .collect();
    let serve = tokio::spawn(async move {
        let call = fake.expect("tools/call").await;
        fake.reply(&call, text("one")).await;
        while fake.next().await.is_some() {}
    });
    let (mut answered, mut late, mut overloaded) = (0, 0, 0);
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) if error.is_timeout() => late += 1,
            Err(error) => {
                assert!(error.is_overloaded(), "{error}");
                overloaded += 1;
            }
        }
    }
    assert_eq!(answered, 1);
    assert!(late >= 960 && overloaded < 74, "{late} late, {overloaded} overloaded");
    drop(client);
    serve.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn results_are_reused_for_as_long_as_the_server_says() {
    let (client, mut fake) = modern(builder()).await;
    let page = json!({"tools": [], "ttlMs": 1000, "cacheScope": "public"});
    let (list, _) = tokio::join!(client.list_tools(), fake.serve("tools/list", page.clone()));
    list.unwrap();
    client.list_tools().await.unwrap();
    // Another page is another entry.
    let other = client.list_tools_page(Some("2"));
    let (other, _) = tokio::join!(other, fake.serve("tools/list", json!({"tools": []})));
    other.unwrap();
    tokio::time::advance(Duration::from_millis(1001)).await;
    let (list, _) = tokio::join!(client.list_tools(), fake.serve("tools/list", page));
    list.unwrap();
    fake.notify("notifications/tools/list_changed", json!({})).await;
    let stale = json!({"tools": [], "ttlMs": "soon"});
    let after = async {
        // The notification is on its way: ask until it has come.
        while client.strays().count == 0 {
            tokio::task::yield_now().await;
        }
        client.list_tools().await
    };
    fake.raw("a line to wait for").await;
    let (list, _) = tokio::join!(after, fake.serve("tools/list", stale.clone()));
    list.unwrap();
    // A malformed hint is not a hint.
    let (list, _) = tokio::join!(client.list_tools(), fake.serve("tools/list", stale));
    list.unwrap();
}

#[tokio::test]
async fn nothing_is_reused_when_the_cache_is_off() {
    let (client, mut fake) = modern(builder().cache(false)).await;
    for _ in 0..2 {
        let page = json!({"tools": [], "ttlMs": 60_000});
        let (list, _) = tokio::join!(client.list_tools(), fake.serve("tools/list", page));
        list.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_is_no_message_ends_its_call() {
    let (client, mut fake) = modern(builder()).await;
    let arguments = json!({});
    for (rest, why) in [
        (r#""result":5"#, "`result` must be an object"),
        (r#""result":{},"Result":{}"#, "passes for"),
        (r#""result":{"content":NaN}"#, "invalid JSON"),
        (r#""x":1"#, "either `method`"),
    ] {
        let serve = async {
            let id = fake.expect("tools/call").await["id"].take();
            fake.raw(&format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#)).await;
        };
        let (result, ()) = tokio::join!(client.call_tool("x", &arguments), serve);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(client.strays().count, 4);
}

#[tokio::test]
async fn a_server_that_does_not_read_is_heard_all_the_same() {
    let (heard_in, mut heard) = tokio::sync::mpsc::channel(1);
    let listening = builder().on_log(move |log| heard_in.try_send(log).unwrap());
    let (client, mut fake) = modern(listening).await;
    let large = json!({"text": "x".repeat(4 * memory::BUFFER_BYTES)});
    let other = client.clone();
    let call = tokio::spawn(async move { other.call_tool("x", &large).await });
    tokio::task::yield_now().await;
    fake.notify("notifications/message", json!({"level": "info", "data": "hello"})).await;
    assert_eq!(heard.recv().await.unwrap().data.get(), "\"hello\"");
    fake.serve("tools/call", text("ok")).await;
    assert_eq!(call.await.unwrap().unwrap().content[0].as_text(), Some("ok"));
}
