//! Requests of 2026-07-28: JSON or a stream, closing it cancels, and subscriptions.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full};
use mcplane::transport::http::server::Endpoint;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::wire::{Event, MODERN, Request, call, text, wait};
use crate::world::{World, service};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[tokio::test]
async fn a_silent_call_is_json_and_one_that_speaks_is_a_stream() {
    let world = World::start().await;
    let silent = world.send(&Request::call(1, "later", json!({"text": "now"}))).await;
    assert_eq!((silent.status(), silent.text()), (200, "now".to_owned()));

    let mut events = world.stream(&Request::call(2, "staged", json!({}))).await_first(&world).await;
    world.stage.log("second").await;
    world.stage.answer("done").await;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        assert_eq!((event.id.clone(), event.retry), (None, None), "nothing to resume");
        seen.push(event.json());
    }
    assert_eq!(seen[0]["params"]["data"], "first");
    assert_eq!(seen[1]["params"]["data"], "second");
    assert_eq!((text(&seen[2]), seen[2]["id"].clone()), ("done".into(), json!(2)));
    assert_eq!(seen.len(), 3);
    // The connection goes on.
    let mut wire = events.into_wire();
    assert_eq!(wire.send(&Request::call(3, "echo", json!({"text": "on"}))).await.text(), "on");
    world.stop().await;
}

/// A stream begins with its first message, so the test has to say it.
trait AwaitFirst {
    async fn await_first(self, world: &World) -> crate::wire::Events;
}

impl<F: Future<Output = crate::wire::Events>> AwaitFirst for F {
    async fn await_first(self, world: &World) -> crate::wire::Events {
        tokio::join!(self, world.stage.log("first")).0
    }
}

#[tokio::test]
async fn an_inline_handler_that_speaks_streams_too() {
    let world = World::start().await;
    let mut events = world.stream(&Request::call(1, "note", json!({}))).await;
    let all = events.rest().await;
    assert_eq!(all[0]["params"]["data"], "noted");
    assert_eq!(text(&all[1]), "done");
    world.stop().await;
}

#[tokio::test]
async fn an_endpoint_of_events_answers_with_one_and_refuses_with_json() {
    let world = World::with(mcplane::transport::http::server::Builder::events).await;
    let session = world.session("2025-11-25").await;
    let said = json!({"text": "hi"});
    for call in [
        Request::call(1, "echo", said.clone()),
        Request::call(1, "later", said.clone()),
        Request::legacy_call(&session, 1, "echo", said.clone()),
        Request::legacy_call(&session, 1, "later", said),
    ] {
        let all = world.stream(&call).await.rest().await;
        assert_eq!(all.len(), 1);
        assert_eq!((text(&all[0]), all[0]["id"].clone()), ("hi".into(), json!(1)));
    }
    let unknown = world.send(&Request::modern(2, "nothing", json!({}))).await;
    assert_eq!((unknown.status(), unknown.code()), (404, -32601));
    world.stop().await;
}

#[tokio::test]
async fn a_notification_is_accepted_and_cancels_nothing() {
    let mut world = World::start().await;
    let mut wire = world.wire().await;
    wire.write(&Request::call(1, "hold", json!({})).bytes()).await;
    let mut dropped = world.stage.hold().await;
    let mut note = crate::wire::modern_body(0, "notifications/cancelled", json!({"requestId": 1}));
    note.as_object_mut().unwrap().remove("id");
    let request = Request::post(note.to_string())
        .header("MCP-Protocol-Version", MODERN)
        .header("Mcp-Method", "notifications/cancelled");
    let taken = world.send(&request).await;
    assert_eq!((taken.status(), taken.body.len()), (202, 0));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(dropped.try_recv().is_err_and(|error| error.to_string().contains("empty")));
    drop(wire);
    wait(dropped).await.unwrap_err();
    world.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_event_cancels() {
    let mut world = World::start().await;
    let mut wire = world.wire().await;
    wire.write(&Request::call(1, "hold", json!({})).bytes()).await;
    let dropped = world.stage.hold().await;
    drop(wire);
    wait(dropped).await.unwrap_err();
    world.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_after_the_first_event_cancels() {
    let world = World::start().await;
    let call = Request::call(1, "staged", json!({}));
    let events = world.stream(&call).await_first(&world).await;
    drop(events);
    // The step is taken by the next call: the first does not wait for one any more.
    let mut next = world.wire().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    next.write(&Request::call(2, "staged", json!({})).bytes()).await;
    world.stage.answer("for the second").await;
    assert_eq!(wait(next.response()).await.text(), "for the second");
    world.stop().await;
}

#[tokio::test]
async fn a_question_is_a_round_and_not_a_request() {
    let world = World::start().await;
    let first = world.send(&Request::call(1, "ask", json!({}))).await.json();
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    assert_eq!(first["result"]["inputRequests"]["elicitation"]["method"], "elicitation/create");
    let params = json!({"name": "ask", "arguments": {},
        "inputResponses": {"elicitation": {"action": "decline"}},
        "requestState": first["result"]["requestState"]});
    let second = world.send(&Request::modern(2, "tools/call", params)).await;
    assert_eq!(second.text(), "Decline");
    world.stop().await;
}

fn listen(id: impl Into<Value>) -> Request {
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["mem:a"]});
    Request::modern(id, "subscriptions/listen", json!({"notifications": filter}))
}

#[tokio::test]
async fn a_listen_is_acknowledged_first_and_every_message_is_tagged() {
    let mut world = World::start().await;
    for id in [json!(1), json!("1")] {
        let mut events = world.stream(&listen(id.clone())).await;
        let first = events.json().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["_meta"][SUBSCRIPTION], id);
        assert_eq!(first["params"]["notifications"]["toolsListChanged"], true);

        world.service.resource_updated("mem:other");
        world.service.remove_prompt("none");
        world.service.resource_updated("mem:a");
        let updated = events.json().await;
        assert_eq!(updated["method"], "notifications/resources/updated", "only what was asked for");
        assert_eq!(updated["params"]["uri"], "mem:a");
        assert_eq!(updated["params"]["_meta"][SUBSCRIPTION], id);
        world.service.remove_tool("note");
        let changed = events.json().await;
        assert_eq!(changed["method"], "notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], id);
    }
    let mut events = world.stream(&listen("last")).await;
    events.json().await;
    world.end();
    let rest = events.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(
        (&rest[0]["id"], &rest[0]["result"]["resultType"]),
        (&json!("last"), &json!("complete"))
    );
    assert_eq!(rest[0]["result"]["_meta"][SUBSCRIPTION], "last");
    world.stop().await;
}

#[tokio::test]
async fn closing_an_endpoint_ends_the_open_listens_and_not_the_later_ones() {
    let world = World::start().await;
    for round in 0..3 {
        world.endpoint.close();
        let mut events = world.stream(&listen(round)).await;
        events.json().await;
        world.service.resource_updated("mem:a");
        assert_eq!(events.json().await["method"], "notifications/resources/updated");
        world.endpoint.close();
        assert_eq!(events.rest().await.len(), 1, "its result");
    }
    world.stop().await;
}

#[tokio::test]
async fn every_listener_hears_of_a_change_once() {
    let world = World::start().await;
    let mut all = Vec::new();
    for id in 0..20 {
        let mut events = world.stream(&listen(id)).await;
        events.json().await;
        all.push(events);
    }
    world.service.resource_updated("mem:a");
    world.service.remove_tool("note");
    for events in &mut all {
        assert_eq!(events.json().await["method"], "notifications/resources/updated");
        assert_eq!(events.json().await["method"], "notifications/tools/list_changed");
    }
    world.stop().await;
}

// What takes long is tested without a network, so that the clock can be turned.

pub type Mounted = http::Response<mcplane::transport::http::server::Body>;

pub async fn mounted<B>(endpoint: &Endpoint, request: &Request, body: B) -> Mounted
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let bytes = request.bytes();
    let text = std::str::from_utf8(&bytes).unwrap();
    let mut lines = text.split("\r\n\r\n").next().unwrap().lines();
    let mut first = lines.next().unwrap().split(' ');
    let mut built =
        http::Request::builder().method(first.next().unwrap()).uri(first.next().unwrap());
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        built = built.header(name, value);
    }
    endpoint.clone().call(built.body(body).unwrap()).await.unwrap()
}

pub fn body_of(request: &Request) -> Full<Bytes> {
    let bytes = request.bytes();
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    Full::new(Bytes::copy_from_slice(&bytes[at + 4..]))
}

/// The next events of a body; empty at its end.
async fn events(response: &mut Mounted) -> Vec<Event> {
    let Some(frame) = response.body_mut().frame().await else { return Vec::new() };
    let data = frame.unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&data).unwrap();
    text.split_terminator("\n\n").map(Event::parse).collect()
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_silent_for_long_gets_a_stream_with_comments() {
    let (service, _stage) = service();
    let endpoint = Endpoint::new(service);
    let request = Request::call(1, "later", json!({"ms": 100_000, "text": "late"}));
    let start = tokio::time::Instant::now();
    let mut response = mounted(&endpoint, &request, body_of(&request)).await;
    assert!(start.elapsed() < Duration::from_secs(60), "a proxy gives up");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut comments = 0;
    loop {
        let before = tokio::time::Instant::now();
        let events = events(&mut response).await;
        assert!(before.elapsed() < Duration::from_secs(60), "a proxy gives up");
        match events.as_slice() {
            [] => break,
            [event] if event.is_comment => comments += 1,
            [event] => assert_eq!(text(&event.json()), "late"),
            more => panic!("{more:?}"),
        }
    }
    assert!(comments >= 2, "{comments}");
    assert_eq!(start.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_kept_open_with_comments() {
    let (service, _stage) = service();
    let endpoint = Endpoint::new(service);
    let request = listen(1);
    let mut response = mounted(&endpoint, &request, body_of(&request)).await;
    assert_eq!(events(&mut response).await.len(), 1);
    let start = tokio::time::Instant::now();
    for _ in 0..100 {
        assert!(events(&mut response).await[0].is_comment);
    }
    let each = start.elapsed() / 100;
    assert!((1..60).contains(&each.as_secs()), "{each:?}");
}

/// A body that begins and never ends.
struct Endless(Option<Bytes>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.take().map_or(Poll::Pending, |data| Poll::Ready(Some(Ok(Frame::data(data)))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let (service, _stage) = service();
    let endpoint = Endpoint::new(service);
    let request = Request::call(1, "echo", json!({}));
    for body in [Endless(None), Endless(Some(Bytes::from_static(b"{\"jsonrpc\"")))] {
        assert!(!body.is_end_stream());
        let start = tokio::time::Instant::now();
        let response = mounted(&endpoint, &request, body).await;
        assert_eq!(response.status(), 408);
        assert_eq!(start.elapsed().as_secs(), 30);
    }
}

#[tokio::test]
async fn an_endpoint_is_a_service_to_mount_anywhere() {
    let (service, _stage) = service();
    let endpoint = Endpoint::builder(service).any_path().build();
    let request = Request::call(1, "echo", json!({"text": "mounted"}));
    let mut mount = endpoint.clone();
    std::future::poll_fn(|cx| {
        tower_service::Service::<http::Request<Full<Bytes>>>::poll_ready(&mut mount, cx)
    })
    .await
    .unwrap();
    let response = mounted(&endpoint, &request, body_of(&request)).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.body().size_hint().exact(), response_length(&response));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(text(&answer), "mounted");
    let elsewhere = Request::post_to("/wherever", call(1, "echo", json!({})).to_string());
    let response = mounted(&endpoint, &elsewhere, body_of(&elsewhere)).await;
    assert_eq!(response.status(), 400, "the path is the framework's affair");
}

/// A body of a known length says so.
fn response_length(response: &Mounted) -> Option<u64> {
    let length = response.body().size_hint().exact();
    assert!(length.is_some_and(|length| length > 0));
    length
}
