//! Which era a request is of: the body decides first. One test for each rung.

use serde_json::{Value, json};

use crate::wire::{LATEST_LEGACY, MODERN, Request, initialize, modern_body};
use crate::world::World;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn ping(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

#[tokio::test]
async fn rung_1_what_is_no_post_is_legacy() {
    let world = World::start().await;
    for method in ["GET", "DELETE"] {
        let accept = |request: Request| request.header("Accept", "text/event-stream");
        let none = world.send(&accept(Request::new(method, "/mcp"))).await;
        none.refuses_http(400);
        let modern = accept(Request::new(method, "/mcp")).header("MCP-Protocol-Version", MODERN);
        let refused = world.send(&modern).await;
        refused.refuses_http(405);
        assert_eq!(refused.head.get("allow"), Some("POST"));
    }
    for method in ["PUT", "PATCH", "HEAD"] {
        let mut wire = world.wire().await;
        wire.write(&Request::new(method, "/mcp").bytes()).await;
        let head = wire.head().await;
        assert_eq!((head.status, head.get("allow").is_some()), (405, true), "{method}");
    }
    world.stop().await;
}

#[tokio::test]
async fn rung_2_what_is_no_json_is_a_parse_error() {
    let world = World::start().await;
    for body in ["", "{", "null x", "{\"jsonrpc\":\"2.0\",", "\u{feff}{}"] {
        world.send(&Request::post(body)).await.refuses(400, -32700, Value::Null);
    }
    world.send(&Request::post([b'"', 0xff, b'"'])).await.refuses(400, -32700, Value::Null);
    world.stop().await;
}

#[tokio::test]
async fn rung_2_json_that_is_no_message_is_an_invalid_request() {
    let world = World::start().await;
    for body in ["1", "null", "\"x\"", "{}", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#] {
        let refused = world.send(&Request::post(body)).await;
        assert_eq!((refused.status(), refused.code()), (400, -32600), "{body}");
    }
    let readable = r#"{"jsonrpc":"2.0","id":7,"method":1}"#;
    world.send(&Request::post(readable)).await.refuses(400, -32600, json!(7));
    world.stop().await;
}

#[tokio::test]
async fn rung_2_a_batch_with_an_envelope_or_a_stranger_is_refused() {
    let world = World::start().await;
    let session = world.session("2025-03-26").await;
    let enveloped = json!([modern_body(1, "tools/list", json!({}))]);
    for body in [enveloped, json!([ping(1), 2]), json!([])] {
        let request = Request::post(body.to_string());
        world.send(&request).await.refuses(400, -32600, Value::Null);
        let request = request.header("Mcp-Session-Id", &session);
        world.send(&request).await.refuses(400, -32600, Value::Null);
    }
    world.stop().await;
}

#[tokio::test]
async fn rung_2_a_batch_belongs_to_a_session_of_2025_03_26() {
    let world = World::start().await;
    let batch = json!([ping(1), {"jsonrpc": "2.0", "method": "notifications/x"}, ping(2)]);
    world.send(&Request::post(batch.to_string())).await.refuses_http(400);
    for revision in ["2024-11-05", "2025-06-18", LATEST_LEGACY] {
        let session = world.session(revision).await;
        world.send(&Request::legacy(&session, &batch)).await.refuses_http(400);
        // One element is still a batch.
        world.send(&Request::legacy(&session, &json!([ping(1)]))).await.refuses_http(400);
    }
    let session = world.session("2025-03-26").await;
    let answer = world.send(&Request::legacy(&session, &batch)).await;
    assert_eq!(answer.status(), 200);
    let ids: Vec<_> = answer.json().as_array().unwrap().iter().map(|a| a["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(2)]);
    let answer = world.send(&Request::legacy(&session, &json!([ping(3)]))).await;
    assert_eq!(answer.json()[0]["id"], 3, "an array for an array");
    world.stop().await;
}

#[tokio::test]
async fn rung_2_a_batch_may_wait_for_its_answers_and_must_not_initialize() {
    let world = World::start().await;
    let session = world.session("2025-03-26").await;
    let later = crate::wire::call("a", "later", json!({"ms": 20, "text": "at last"}));
    let batch = json!([later, ping(2), initialize("2025-03-26")]);
    let answer = world.send(&Request::legacy(&session, &batch)).await.json();
    let answers = answer.as_array().unwrap();
    assert_eq!(answers.len(), 3, "{answer}");
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(crate::wire::text(of(json!("a"))), "at last");
    assert_eq!(of(json!(2))["result"], json!({}));
    assert_eq!(of(json!("init"))["error"]["code"], -32600);
    // Notifications alone have no answer.
    let note = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    assert_eq!(world.send(&Request::legacy(&session, &note)).await.status(), 202);
    world.stop().await;
}

#[tokio::test]
async fn rung_3_a_response_belongs_to_a_session() {
    let world = World::start().await;
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let post = Request::post(response.to_string());
    world.send(&post).await.refuses_http(400);
    let modern = world.send(&post.header("MCP-Protocol-Version", MODERN)).await;
    assert_eq!(modern.status(), 400);
    let session = world.session(LATEST_LEGACY).await;
    let taken = world.send(&Request::legacy(&session, &response)).await;
    assert_eq!((taken.status(), taken.body.len()), (202, 0));
    world.stop().await;
}

#[tokio::test]
async fn rung_4_initialize_with_an_envelope_is_a_method_that_modern_does_not_have() {
    let world = World::start().await;
    let refused = world.send(&Request::modern(4, "initialize", json!({}))).await;
    refused.refuses(404, -32601, json!(4));
    world.stop().await;
}

#[tokio::test]
async fn rung_4_initialize_under_a_modern_header_is_a_mismatch() {
    let world = World::start().await;
    let request = Request::post(initialize(LATEST_LEGACY).to_string());
    let refused = world.send(&request.clone().header("MCP-Protocol-Version", MODERN)).await;
    refused.refuses(400, -32020, json!("init"));
    assert_eq!(world.endpoint.sessions(), 0);
    let opened = world.send(&request.header("MCP-Protocol-Version", LATEST_LEGACY)).await;
    assert_eq!(opened.status(), 200);
    assert_eq!(world.endpoint.sessions(), 1);
    world.stop().await;
}

#[tokio::test]
async fn rung_4_initialize_never_agrees_on_a_modern_revision() {
    let world = World::start().await;
    for asked in [MODERN, "1999-01-01"] {
        let answer = world.send(&Request::post(initialize(asked).to_string())).await.json();
        assert_eq!(answer["result"]["protocolVersion"], LATEST_LEGACY, "{answer}");
    }
    world.stop().await;
}

#[tokio::test]
async fn rung_4_an_initialize_that_fails_opens_no_session() {
    let world = World::start().await;
    let bad = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let answer = world.send(&Request::post(bad.to_string())).await;
    assert_eq!((answer.status(), answer.code()), (200, -32602));
    assert_eq!(answer.head.get("mcp-session-id"), None);
    assert_eq!(world.endpoint.sessions(), 0);
    world.stop().await;
}

#[tokio::test]
async fn rung_5_half_an_envelope_is_modern_and_named() {
    let world = World::start().await;
    let mut body = modern_body(5, "tools/list", json!({}));
    body["params"]["_meta"].as_object_mut().unwrap().remove(CAPABILITIES);
    let headers = |body: &Value| {
        Request::post(body.to_string())
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", "tools/list")
    };
    let refused = world.send(&headers(&body)).await;
    refused.refuses(400, -32602, json!(5));
    let why = refused.json()["error"]["message"].to_string();
    assert!(why.contains(CAPABILITIES), "{why}");

    body["params"]["_meta"] = json!({VERSION: 1, CAPABILITIES: {}});
    world.send(&headers(&body)).await.refuses(400, -32602, json!(5));
    world.stop().await;
}

#[tokio::test]
async fn rung_5_the_client_need_not_name_itself() {
    let world = World::start().await;
    let mut body = modern_body(5, "tools/list", json!({}));
    body["params"]["_meta"] = json!({VERSION: MODERN, CAPABILITIES: {}});
    let request = Request::post(body.to_string())
        .header("MCP-Protocol-Version", MODERN)
        .header("Mcp-Method", "tools/list");
    let answer = world.send(&request).await;
    assert_eq!(answer.status(), 200, "{}", answer.json());
    world.stop().await;
}

#[tokio::test]
async fn rung_5_a_version_that_nobody_speaks_is_unsupported() {
    let world = World::start().await;
    for version in ["2027-01-01", "2025-06-18", "", "x"] {
        let mut body = modern_body(5, "tools/list", json!({}));
        body["params"]["_meta"][VERSION] = json!(version);
        let request = Request::post(body.to_string())
            .header("MCP-Protocol-Version", version)
            .header("Mcp-Method", "tools/list");
        let refused = world.send(&request).await;
        refused.refuses(400, -32022, json!(5));
        let data = &refused.json()["error"]["data"];
        assert_eq!(data["requested"], version);
        assert!(data["supported"].as_array().unwrap().contains(&json!(MODERN)), "{data}");
    }
    world.stop().await;
}

#[tokio::test]
async fn rung_5_methods_that_modern_does_not_have_are_not_found() {
    let world = World::start().await;
    for method in ["ping", "logging/setLevel", "resources/subscribe", "no/such", "Tools/List"] {
        let refused = world.send(&Request::modern("m", method, json!({}))).await;
        refused.refuses(404, -32601, json!("m"));
    }
    world.stop().await;
}

#[tokio::test]
async fn rung_5_a_session_is_neither_looked_at_nor_made() {
    let world = World::start().await;
    let list = Request::modern(5, "tools/list", json!({}));
    for id in ["", "unknown", "x y"] {
        let answer = world.send(&list.clone().header("Mcp-Session-Id", id)).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.head.get("mcp-session-id"), None);
    }
    let answer = world.send(&list.header("Last-Event-ID", "0-0")).await.json();
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(world.endpoint.sessions(), 0);
    world.stop().await;
}

#[tokio::test]
async fn rung_5_bad_parameters_are_400_and_unknown_names_are_no_404() {
    let world = World::start().await;
    let bad = [
        Request::call(1, "no such tool", json!({})),
        Request::modern(1, "prompts/get", json!({"name": "none"})),
        Request::modern(1, "resources/read", json!({"uri": "mem:none"})),
        Request::modern(1, "tools/list", json!({"cursor": "bad"})),
        Request::modern(1, "tools/call", json!({})),
    ];
    for request in bad {
        world.send(&request).await.refuses(400, -32602, json!(1));
    }
    world.stop().await;
}

#[tokio::test]
async fn rung_6_a_modern_header_without_an_envelope_misses_it() {
    let world = World::start().await;
    for method in ["tools/list", "ping"] {
        let body = json!({"jsonrpc": "2.0", "id": "six", "method": method}).to_string();
        let request =
            |version: &str| Request::post(body.clone()).header("MCP-Protocol-Version", version);
        let refused = world.send(&request(MODERN)).await;
        refused.refuses(400, -32602, json!("six"));
        let why = refused.json()["error"]["message"].to_string();
        assert!(why.contains(VERSION) && why.contains(CAPABILITIES), "{why}");
        // A version that nobody published can only be a newer one.
        for version in ["2027-01-01", "bogus", "2025-06-18, 2025-11-25", ""] {
            let refused = world.send(&request(version)).await;
            refused.refuses(400, -32602, json!("six"));
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn rung_6_a_session_does_not_help_an_unknown_version() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let request = Request::legacy(&session, &ping(1));
    for (version, status) in [("2024-01-01", 400), (MODERN, 400), ("2025-06-18", 200)] {
        let answer = world.send(&request.clone().header("MCP-Protocol-Version", version)).await;
        assert_eq!(answer.status(), status, "{version}");
    }
    assert_eq!(world.send(&request).await.status(), 200, "2025-03-26 did not name it");
    world.stop().await;
}

#[tokio::test]
async fn rung_7_the_rest_needs_its_session() {
    let world = World::start().await;
    world.send(&Request::post(ping(1).to_string())).await.refuses_http(400);
    let unknown = "0123456789abcdef0123456789abcdef";
    for id in [unknown, "", "%00", "../../etc/passwd", &"f".repeat(4096)] {
        world.send(&Request::legacy(id, &ping(1))).await.refuses_http(404);
    }
    let session = world.session(LATEST_LEGACY).await;
    assert_eq!(world.send(&Request::legacy(&session, &ping(1))).await.status(), 200);
    let shouted = session.to_ascii_uppercase();
    if shouted != session {
        world.send(&Request::legacy(&shouted, &ping(1))).await.refuses_http(404);
    }
    world.stop().await;
}

#[tokio::test]
async fn errors_of_the_legacy_eras_ride_on_200() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    for (method, code) in [("no/such", -32601), ("tools/call", -32602)] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
        world.send(&Request::legacy(&session, &body)).await.refuses(200, code, json!(1));
    }
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read",
        "params": {"uri": "mem:none"}});
    world.send(&Request::legacy(&session, &read)).await.refuses(200, -32002, json!(1));
    world.stop().await;
}

#[tokio::test]
async fn both_eras_share_one_connection() {
    let world = World::start().await;
    let session = world.session("2025-06-18").await;
    let mut wire = world.wire().await;
    for round in 0..20 {
        let modern = wire.send(&Request::call(round, "echo", json!({"text": "new"}))).await;
        assert_eq!((modern.text(), modern.json()["id"].clone()), ("new".into(), json!(round)));
        let old = Request::legacy_call(&session, round, "echo", json!({"text": "old"}));
        let legacy = wire.send(&old).await;
        assert_eq!((legacy.text(), legacy.json()["id"].clone()), ("old".into(), json!(round)));
        assert_eq!(legacy.json()["result"]["resultType"], Value::Null);
    }
    world.stop().await;
}

#[tokio::test]
async fn ids_keep_their_type() {
    let world = World::start().await;
    for id in [json!(1), json!("1"), json!(-9_007_199_254_740_991_i64), json!("új \"q\"")] {
        let answer = world.send(&Request::modern(id.clone(), "tools/list", json!({}))).await;
        assert_eq!(answer.json()["id"], id);
        world.send(&Request::modern(id.clone(), "nope", json!({}))).await.refuses(404, -32601, id);
    }
    world.stop().await;
}

#[tokio::test]
async fn errors_of_a_handler_have_the_status_of_their_code() {
    let world = World::start().await;
    let codes = [
        (-32601, 404),
        (-32602, 400),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32603, 200),
        (-32042, 200),
        (7, 200),
    ];
    for tool in ["fail", "late_fail"] {
        for (code, status) in codes {
            let answer = world.send(&Request::call("e", tool, json!({"code": code}))).await;
            answer.refuses(status, code, json!("e"));
        }
    }
    world.send(&Request::call(1, "panic", json!({}))).await.refuses(200, -32603, json!(1));
    let mute = modern_body(
        1,
        "tools/call",
        json!({"name": "ask",
        "_meta": {VERSION: MODERN, CAPABILITIES: {}}}),
    );
    let request = Request::post(mute.to_string())
        .header("MCP-Protocol-Version", MODERN)
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "ask");
    let refused = world.send(&request).await;
    refused.refuses(400, -32021, json!(1));
    let needed = &refused.json()["error"]["data"]["requiredCapabilities"];
    assert!(needed["elicitation"].is_object(), "{needed}");
    world.stop().await;
}

#[tokio::test]
async fn statuses_of_http_come_before_the_message() {
    let world = World::with(|builder| builder.body_bytes_max(1000)).await;
    let good = Request::modern(1, "tools/list", json!({}));
    for (request, status) in [
        (good.clone().with("Content-Type", "text/plain"), 415),
        (good.clone().without("Content-Type"), 415),
        (good.clone().with("Content-Type", "application/jsonp"), 415),
        (good.clone().with("Accept", "application/json"), 406),
        (good.clone().with("Accept", "text/event-stream"), 406),
        (good.clone().with("Accept", "text/html"), 406),
        (Request::post(vec![b' '; 1001]), 413),
        (Request::post_to("/other", "{}"), 404),
        (Request::post_to("/mcp/", "{}"), 404),
        (Request::new("GET", "/mcp").header("Mcp-Session-Id", "x").header("Accept", "a/b"), 406),
    ] {
        world.send(&request).await.refuses_http(status);
    }
    for request in [
        good.clone().without("Accept"),
        good.clone().with("Accept", "*/*"),
        good.clone().with("Accept", "text/*;q=0.5, application/*"),
        good.clone().with("Accept", "text/event-stream").header("Accept", "application/json"),
        good.clone().with("Content-Type", "Application/JSON; charset=utf-8"),
    ] {
        assert_eq!(world.send(&request).await.status(), 200, "{request:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_stateless_endpoint_answers_the_old_revisions_without_a_session() {
    let world = World::with(mcplane::transport::http::server::Builder::stateless).await;
    let opened = world.send(&Request::post(initialize("2025-06-18").to_string())).await;
    assert_eq!(opened.json()["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(opened.head.get("mcp-session-id"), None);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(world.send(&Request::post(note.to_string())).await.status(), 202);

    let call = |text: &str| crate::wire::call(1, "echo", json!({"text": text}));
    let request = Request::post(call("hello").to_string());
    assert_eq!(world.send(&request).await.text(), "hello", "without a version: 2025-03-26");
    let named = request.header("MCP-Protocol-Version", "2025-11-25");
    assert_eq!(world.send(&named).await.text(), "hello");
    let stale = named.header("Mcp-Session-Id", "of another process");
    assert_eq!(world.send(&stale).await.text(), "hello", "any process can answer");

    let batch = json!([call("a"), ping(2)]).to_string();
    assert_eq!(world.send(&Request::post(batch.clone())).await.json()[1]["id"], 2);
    let named = Request::post(batch).header("MCP-Protocol-Version", "2025-06-18");
    world.send(&named).await.refuses_http(400);

    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "no/such"});
    world.send(&Request::post(body.to_string())).await.refuses(200, -32601, json!(9));
    let ask = crate::wire::call(1, "ask", json!({}));
    let refused = world.send(&Request::post(ask.to_string())).await;
    assert_eq!((refused.status(), refused.code()), (200, -32600), "nobody can be asked");
    for method in ["GET", "DELETE"] {
        let request = Request::new(method, "/mcp").header("Mcp-Session-Id", "x");
        let refused = world.send(&request).await;
        refused.refuses_http(405);
        assert_eq!(refused.head.get("allow"), Some("POST"));
    }
    assert_eq!(world.send(&Request::call(1, "echo", json!({"text": "new"}))).await.text(), "new");
    assert_eq!(world.endpoint.sessions(), 0);
    world.stop().await;
}
