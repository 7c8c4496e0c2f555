//! The headers that repeat the body (2026-07-28, SEP-2243): each case is -32020 on 400, or fine.

use serde_json::{Value, json};

use crate::wire::Request;
use crate::world::World;

fn echo() -> Request {
    Request::call(1, "echo", json!({"text": "x"}))
}

#[tokio::test]
async fn every_standard_header_must_be_there_once_and_equal() {
    let world = World::start().await;
    for name in ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"] {
        let missing = echo().without(name);
        let differing = echo().with(name, "other");
        let empty = echo().with(name, "");
        let twin = match name {
            "MCP-Protocol-Version" => "2026-07-28",
            "Mcp-Method" => "tools/call",
            _ => "echo",
        };
        let repeated = echo().header(name, twin);
        for request in [missing, differing, empty, repeated] {
            let refused = world.send(&request).await;
            refused.refuses(400, -32020, json!(1));
            let why = refused.json()["error"]["message"].to_string().to_lowercase();
            assert!(why.contains(&name.to_lowercase()), "{why}");
        }
        // Header names are not case-sensitive, and white space around a value is not part of it.
        let spelt = echo().without(name).header(&name.to_uppercase(), format!(" \t{twin}  \t"));
        assert_eq!(world.send(&spelt).await.status(), 200, "{name}");
    }
    world.stop().await;
}

#[tokio::test]
async fn values_are_case_sensitive() {
    let world = World::start().await;
    for (name, value) in [("Mcp-Method", "Tools/Call"), ("Mcp-Name", "Echo")] {
        world.send(&echo().with(name, value)).await.refuses(400, -32020, json!(1));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_legacy_version_in_the_header_over_an_envelope_is_a_mismatch() {
    let world = World::start().await;
    for version in ["2025-11-25", "2025-03-26", "2026-07-27"] {
        let refused = world.send(&echo().with("MCP-Protocol-Version", version)).await;
        refused.refuses(400, -32020, json!(1));
    }
    world.stop().await;
}

#[tokio::test]
async fn names_beyond_ascii_come_as_base64() {
    let world = World::start().await;
    // The tool is unknown, so that the name passes the mirror exactly if the answer is -32602.
    let request = |header: &str| {
        let params = json!({"name": "új", "arguments": {}});
        Request::modern(1, "tools/call", params).with("Mcp-Name", header)
    };
    for (header, code) in [
        ("=?base64?w7pq?=", -32602),
        ("=?BASE64?w7pq?=", -32020),
        ("=?base64?w7pr?=", -32020),
        ("=?base64?w7p?=", -32020),
        ("=?base64?!!!!?=", -32020),
        ("=?base64?/w==?=", -32020),
        ("új", -32020),
    ] {
        world.send(&request(header)).await.refuses(400, code, json!(1));
    }
    let plain = echo().with("Mcp-Name", "=?base64?ZWNobw==?=");
    assert_eq!(world.send(&plain).await.status(), 200, "what need not be encoded may be");
    // A name that looks encoded is sent encoded, so that it is not decoded to another one.
    let params = json!({"name": "=?base64?ZWNobw==?=", "arguments": {}});
    let collision = Request::modern(1, "tools/call", params.clone());
    world.send(&collision).await.refuses(400, -32020, json!(1));
    let encoded = Request::modern(1, "tools/call", params)
        .with("Mcp-Name", "=?base64?PT9iYXNlNjQ/WldOb2J3PT0/PQ==?=");
    world.send(&encoded).await.refuses(400, -32602, json!(1));
    world.stop().await;
}

#[tokio::test]
async fn resources_and_prompts_have_names_too_and_lists_have_none() {
    let world = World::start().await;
    let read = Request::modern(1, "resources/read", json!({"uri": "mem:a"}));
    assert_eq!(world.send(&read).await.status(), 200);
    world.send(&read.with("Mcp-Name", "mem:b")).await.refuses(400, -32020, json!(1));
    let get = Request::modern(1, "prompts/get", json!({"name": "greet"}));
    assert_eq!(world.send(&get).await.status(), 200);
    world.send(&get.without("Mcp-Name")).await.refuses(400, -32020, json!(1));
    let list = Request::modern(1, "tools/list", json!({})).header("Mcp-Name", "anything");
    assert_eq!(world.send(&list).await.status(), 200, "it mirrors nothing");
    world.stop().await;
}

/// A call of `mirrored` with these arguments and headers; whether it passes.
async fn passes(world: &World, arguments: Value, headers: &[(&str, &str)]) -> bool {
    let mut request = Request::call("p", "mirrored", arguments.clone());
    for (name, value) in headers {
        request = request.header(&format!("Mcp-Param-{name}"), *value);
    }
    let answer = world.send(&request).await;
    if answer.status() == 200 {
        assert_eq!(answer.text(), "mirrored", "{arguments} {headers:?}");
        return true;
    }
    answer.refuses(400, -32020, json!("p"));
    false
}

#[tokio::test]
async fn mirrored_arguments_must_be_there_once_and_equal() {
    let world = World::start().await;
    let region = || json!({"region": "eu"});
    assert!(passes(&world, region(), &[("Region", "eu")]).await);
    assert!(passes(&world, region(), &[("region", "  eu\t")]).await);
    assert!(passes(&world, region(), &[("Region", "=?base64?ZXU=?=")]).await);
    assert!(!passes(&world, region(), &[]).await);
    assert!(!passes(&world, region(), &[("Region", "us")]).await);
    assert!(!passes(&world, region(), &[("Region", "EU")]).await);
    assert!(!passes(&world, region(), &[("Region", "")]).await);
    assert!(!passes(&world, region(), &[("Region", "eu"), ("region", "eu")]).await);
    assert!(!passes(&world, region(), &[("Region", "eu"), ("Limit", "1")]).await);
    assert!(!passes(&world, json!({}), &[("Region", "eu")]).await);
    assert!(passes(&world, json!({}), &[]).await);
    assert!(passes(&world, region(), &[("Region", "eu"), ("Unknown", "forwarded")]).await);
    let trimmed = json!({"region": " eu"});
    assert!(!passes(&world, trimmed.clone(), &[("Region", " eu")]).await);
    assert!(passes(&world, trimmed, &[("Region", "=?base64?IGV1?=")]).await);
    world.stop().await;
}

#[tokio::test]
async fn integers_are_compared_as_numbers_and_booleans_as_words() {
    let world = World::start().await;
    for (header, passing) in
        [("42", true), ("42.0", true), ("4.2e1", true), ("43", false), ("0x2a", false), ("", false)]
    {
        assert_eq!(passes(&world, json!({"limit": 42}), &[("Limit", header)]).await, passing);
    }
    assert!(passes(&world, json!({"limit": 42.0}), &[("Limit", "42")]).await);
    assert!(passes(&world, json!({"limit": -7}), &[("Limit", "-7")]).await);
    let safe = 9_007_199_254_740_991_i64;
    assert!(passes(&world, json!({"limit": safe}), &[("Limit", &safe.to_string())]).await);
    let deep = |flag: bool| json!({"deep": {"flag": flag}});
    assert!(passes(&world, deep(true), &[("Flag", "true")]).await);
    assert!(!passes(&world, deep(true), &[("Flag", "True")]).await);
    assert!(!passes(&world, deep(true), &[("Flag", "1")]).await);
    assert!(!passes(&world, deep(false), &[]).await);
    world.stop().await;
}

#[tokio::test]
async fn a_null_argument_has_no_header() {
    let world = World::start().await;
    let null = json!({"region": null});
    assert!(!passes(&world, null.clone(), &[("Region", "null")]).await);
    assert!(!passes(&world, null.clone(), &[("Region", "")]).await);
    // Without a header the mirror is right; whether null is a string is another question.
    let answer = world.send(&Request::call(1, "mirrored", null)).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json()["result"]["isError"], true);
    world.stop().await;
}

#[tokio::test]
async fn the_old_revisions_mirror_nothing() {
    let world = World::start().await;
    let session = world.session("2025-11-25").await;
    let call = Request::legacy_call(&session, 1, "mirrored", json!({"region": "eu"}))
        .header("Mcp-Method", "wrong")
        .header("Mcp-Name", "wrong")
        .header("Mcp-Param-Region", "wrong");
    assert_eq!(world.send(&call).await.text(), "mirrored");
    world.stop().await;
}
