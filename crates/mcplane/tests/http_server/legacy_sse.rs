//! HTTP+SSE of 2024-11-05: a stream for everything the server says, and a place to POST to.

use serde_json::{Value, json};

use crate::wire::{Events, Request, initialize, text, wait};
use crate::world::{World, until};

async fn world() -> World {
    World::with(|builder| builder.legacy_sse("/sse", "/messages")).await
}

fn open() -> Request {
    Request::new("GET", "/sse").header("Accept", "text/event-stream")
}

/// An open session: its stream, and where to POST.
async fn connect(world: &World) -> (Events, String) {
    let mut events = world.stream(&open()).await;
    let endpoint = events.next().await.unwrap();
    assert_eq!(endpoint.event.as_deref(), Some("endpoint"));
    let target = endpoint.data.unwrap();
    assert!(target.starts_with("/messages?sessionId="), "{target}");
    (events, target)
}

async fn say(world: &World, target: &str, message: &Value) {
    let taken = world.send(&Request::post_to(target, message.to_string())).await;
    assert_eq!((taken.status(), taken.body.len()), (202, 0));
}

async fn handshake(world: &World, revision: &str) -> (Events, String) {
    let (mut events, target) = connect(world).await;
    say(world, &target, &initialize(revision)).await;
    let answer = events.message().await;
    assert!(matches!(answer.event.as_deref(), None | Some("message")), "{answer:?}");
    assert_eq!(answer.json()["result"]["protocolVersion"], revision);
    say(world, &target, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    (events, target)
}

#[tokio::test]
async fn answers_come_on_the_stream() {
    let world = world().await;
    let (mut events, target) = handshake(&world, "2024-11-05").await;
    say(&world, &target, &crate::wire::call(1, "echo", json!({"text": "inline"}))).await;
    assert_eq!(text(&events.json().await), "inline");
    say(&world, &target, &crate::wire::call(2, "later", json!({"text": "later"}))).await;
    let answer = events.json().await;
    assert_eq!((text(&answer), answer["id"].clone()), ("later".into(), json!(2)));
    say(&world, &target, &json!({"jsonrpc": "2.0", "id": 3, "method": "no/such"})).await;
    assert_eq!(events.json().await["error"]["code"], -32601);
    world.service.remove_tool("note");
    assert_eq!(events.json().await["method"], "notifications/tools/list_changed");
    world.stop().await;
}

#[tokio::test]
async fn a_client_that_accepts_only_json_may_post() {
    let world = world().await;
    let (mut events, target) = connect(&world).await;
    let post = Request::post_to(&target, initialize("2024-11-05").to_string());
    assert_eq!(world.send(&post.clone().without("Accept")).await.status(), 202);
    events.json().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let json_only = Request::post_to(&target, list).with("Accept", "application/json");
    assert_eq!(world.send(&json_only).await.status(), 202);
    assert!(events.json().await["result"]["tools"].is_array());
    world.stop().await;
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_session() {
    let mut world = world().await;
    let (events, target) = handshake(&world, "2024-11-05").await;
    assert_eq!(world.endpoint.sessions(), 1);
    say(&world, &target, &crate::wire::call(1, "hold", json!({}))).await;
    let dropped = world.stage.hold().await;
    drop(events);
    wait(dropped).await.unwrap_err();
    until(|| world.endpoint.sessions() == 0).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    world.send(&Request::post_to(&target, list)).await.refuses_http(404);
    world.stop().await;
}

#[tokio::test]
async fn sessions_of_the_two_transports_are_strangers() {
    let world = world().await;
    let (_events, target) = handshake(&world, "2024-11-05").await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let id = target.split_once('=').unwrap().1;
    world.send(&Request::legacy(id, &list)).await.refuses_http(404);
    let streamable = world.session("2025-06-18").await;
    for strange in [
        "",
        "?sessionId=",
        "?sessionId=x",
        &format!("?sessionId={streamable}"),
        &format!("?session_id={id}"),
        &format!("?sessionId={id}0"),
    ] {
        let post = Request::post_to(&format!("/messages{strange}"), list.to_string());
        world.send(&post).await.refuses_http(404);
    }
    world.stop().await;
}

#[tokio::test]
async fn other_methods_and_bodies_are_refused() {
    let world = world().await;
    let (_events, target) = handshake(&world, "2024-11-05").await;
    world.send(&Request::post_to(&target, "{")).await.refuses(400, -32700, Value::Null);
    let text = Request::post_to(&target, "{}").with("Content-Type", "text/plain");
    world.send(&text).await.refuses_http(415);
    for (method, path) in [("GET", "/messages"), ("DELETE", "/sse"), ("POST", "/sse")] {
        let request = Request::new(method, path).header("Content-Type", "application/json");
        world.send(&request).await.refuses_http(405);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_question_and_its_answer() {
    let world = world().await;
    let (mut events, target) = handshake(&world, "2025-06-18").await;
    say(&world, &target, &crate::wire::call(1, "ask", json!({}))).await;
    let question = events.json().await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    say(&world, &target, &answer).await;
    assert_eq!(text(&events.json().await), "Decline");
    world.stop().await;
}

#[tokio::test]
async fn its_only_stream_is_never_sent_away() {
    let world = world().await;
    for revision in ["2024-11-05", "2025-11-25"] {
        let (mut events, target) = handshake(&world, revision).await;
        say(&world, &target, &crate::wire::call(1, "staged", json!({}))).await;
        world.stage.log("first").await;
        assert_eq!(events.json().await["params"]["data"], "first");
        world.stage.close_stream().await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        world.stage.answer("done").await;
        assert_eq!(text(&events.json().await), "done", "{revision}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_batch_of_2025_03_26_is_answered_as_one() {
    let world = world().await;
    let (mut events, target) = handshake(&world, "2025-03-26").await;
    let batch = json!([
        crate::wire::call(1, "later", json!({"text": "one"})),
        crate::wire::call(2, "echo", json!({"text": "two"}))
    ]);
    say(&world, &target, &batch).await;
    assert_eq!(events.json().await.as_array().unwrap().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn at_shutdown_the_stream_ends() {
    let mut world = world().await;
    let (mut events, _) = handshake(&world, "2024-11-05").await;
    world.end();
    assert!(events.rest().await.is_empty());
    world.stop().await;
}
