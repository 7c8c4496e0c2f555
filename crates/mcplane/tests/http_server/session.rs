//! Sessions of 2025-03-26 … 2025-11-25: who may use them, how they end, their streams and how
//! those are resumed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::wire::{Event, Events, LATEST_LEGACY, Request, initialize, text, wait};
use crate::world::{World, until};
use mcplane::transport::http::server::SessionLimits;

fn ping(session: &str) -> Request {
    Request::legacy(session, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
}

fn delete(session: &str) -> Request {
    Request::new("DELETE", "/mcp").header("Mcp-Session-Id", session)
}

fn resume(session: &str, last: &str) -> Request {
    Request::listen(session).header("Last-Event-ID", last)
}

fn cancelled(id: impl Into<Value>) -> Value {
    let params = json!({"requestId": id.into()});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

#[tokio::test]
async fn ids_are_long_visible_and_never_the_same() {
    let world = World::start().await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..50 {
        let id = world.session(LATEST_LEGACY).await;
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        assert!(ids.insert(id));
    }
    assert_eq!(world.endpoint.sessions(), 50);
    world.stop().await;
}

#[tokio::test]
async fn a_session_without_an_id_is_400_and_a_strange_one_404_on_every_method() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let mut forged = session.clone().into_bytes();
    forged[0] = if forged[0] == b'0' { b'1' } else { b'0' };
    let forged = String::from_utf8(forged).unwrap();
    for request in [ping(&forged), Request::listen(&forged), delete(&forged)] {
        world.send(&request).await.refuses_http(404);
        world.send(&request.without("Mcp-Session-Id")).await.refuses_http(400);
    }
    assert_eq!(world.send(&ping(&session)).await.status(), 200);
    world.stop().await;
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_everything_in_it() {
    let mut world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let mut stream = world.stream(&Request::listen(&session)).await;
    let mut wire = world.wire().await;
    wire.write(&Request::legacy_call(&session, 1, "hold", json!({})).bytes()).await;
    let dropped = world.stage.hold().await;
    let gone = world.send(&delete(&session)).await;
    assert!(matches!(gone.status(), 200 | 204), "{}", gone.status());
    wait(dropped).await.unwrap_err();
    assert!(stream.rest().await.is_empty());
    for request in [ping(&session), Request::listen(&session), delete(&session)] {
        world.send(&request).await.refuses_http(404);
    }
    assert_eq!(world.endpoint.sessions(), 0);
    world.stop().await;
}

#[tokio::test]
async fn a_session_that_lies_idle_expires_and_one_with_a_stream_does_not() {
    let limits = SessionLimits { idle: Duration::from_millis(200), ..SessionLimits::default() };
    let world = World::with(|builder| builder.sessions(limits)).await;
    let idle = world.session(LATEST_LEGACY).await;
    let listening = world.session(LATEST_LEGACY).await;
    let stream = world.stream(&Request::listen(&listening)).await;
    let busy = world.session(LATEST_LEGACY).await;
    let mut call = world.wire().await;
    let later = json!({"ms": 700, "text": "there"});
    call.write(&Request::legacy_call(&busy, 7, "later", later).bytes()).await;
    until(|| world.endpoint.sessions() == 2).await;
    world.send(&ping(&idle)).await.refuses_http(404);
    let mut answer = Events::open(call).await;
    assert_eq!(text(&answer.json().await), "there");
    assert_eq!(world.send(&ping(&listening)).await.status(), 200);
    drop((stream, answer));
    until(|| world.endpoint.sessions() == 0).await;
    world.send(&ping(&listening)).await.refuses_http(404);
    world.stop().await;
}

#[tokio::test]
async fn beyond_the_cap_the_idlest_goes_and_else_the_newcomer() {
    let limits = SessionLimits { count_max: 2, ..SessionLimits::default() };
    let world = World::with(|builder| builder.sessions(limits)).await;
    let first = world.session(LATEST_LEGACY).await;
    let second = world.session(LATEST_LEGACY).await;
    assert_eq!(world.send(&ping(&first)).await.status(), 200, "the second is idler now");
    let third = world.session(LATEST_LEGACY).await;
    world.send(&ping(&second)).await.refuses_http(404);
    assert_eq!(world.send(&ping(&first)).await.status(), 200);
    assert_eq!(world.endpoint.sessions(), 2);

    let streams = (
        world.stream(&Request::listen(&first)).await,
        world.stream(&Request::listen(&third)).await,
    );
    let full = world.send(&Request::post(initialize(LATEST_LEGACY).to_string())).await;
    full.refuses_http(503);
    assert!(full.head.get("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    let modern = world.send(&Request::call(1, "echo", json!({"text": "on"}))).await;
    assert_eq!(modern.text(), "on", "who needs no session is served");
    drop(streams);
    until_opened(&world).await;
    world.stop().await;
}

async fn until_opened(world: &World) {
    wait(async {
        let request = Request::post(initialize(LATEST_LEGACY).to_string());
        while world.send(&request).await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_initialize_that_fails_pushes_nobody_out() {
    let limits = SessionLimits { count_max: 1, ..SessionLimits::default() };
    let world = World::with(|builder| builder.sessions(limits)).await;
    let session = world.session(LATEST_LEGACY).await;
    let bad = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    world.send(&Request::post(bad.to_string())).await;
    assert_eq!(world.send(&ping(&session)).await.status(), 200);
    world.stop().await;
}

#[tokio::test]
async fn changes_come_on_the_stream_of_the_session_and_on_one_only() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let mut old = world.stream(&Request::listen(&session)).await;
    let mut new = world.stream(&Request::listen(&session)).await;
    world.service.remove_tool("note");
    let event = new.message().await;
    assert_eq!(event.json()["method"], "notifications/tools/list_changed");
    assert!(event.id.is_some());
    world.send(&delete(&session)).await;
    assert_eq!(new.rest().await.len(), 0);
    assert_eq!(old.rest().await.len(), 0);
    world.stop().await;
}

#[tokio::test]
async fn what_happens_before_anybody_listens_waits() {
    let world = World::start().await;
    let session = world.session("2025-03-26").await;
    world.service.remove_tool("note");
    world.service.resource_updated("mem:not subscribed");
    let mut stream = world.stream(&Request::listen(&session)).await;
    assert_eq!(stream.next().await.unwrap().json()["method"], "notifications/tools/list_changed");
    world.stop().await;
}

impl Events {
    /// The stream that a request on this connection is answered with.
    async fn open(mut wire: crate::wire::Wire) -> Self {
        let head = wire.head().await;
        Self::from_parts(wire, head)
    }
}

/// A call of `staged` that has said "first", with that event read; and the id that it can be
/// resumed after.
async fn staged(world: &World, session: &str, id: u32) -> (Events, String) {
    let request = Request::legacy_call(session, id, "staged", json!({}));
    let (mut events, ()) = tokio::join!(world.stream(&request), world.stage.log("first"));
    let event = events.message().await;
    assert_eq!(event.json()["params"]["data"], "first");
    (events, event.id.unwrap())
}

#[tokio::test]
async fn a_stream_begins_with_a_priming_event_from_2025_11_25_on() {
    let world = World::start().await;
    for (revision, primed) in [("2025-03-26", false), ("2025-06-18", false), (LATEST_LEGACY, true)]
    {
        let session = world.session(revision).await;
        let request = Request::legacy_call(&session, 1, "staged", json!({}));
        let (mut events, ()) = tokio::join!(world.stream(&request), world.stage.log("first"));
        let first = events.next().await.unwrap();
        assert_eq!(first.data.as_deref() == Some(""), primed, "{revision} {first:?}");
        if primed {
            assert!(first.id.is_some() && first.retry.is_some(), "{first:?}");
            assert_eq!(events.json().await["params"]["data"], "first");
        }
        world.stage.answer("done").await;
        assert_eq!(text(&events.json().await), "done");
        assert_eq!(events.next().await, None);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_cut_stream_goes_on_with_exactly_the_missing_events() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let (events, first) = staged(&world, &session, 1).await;
    world.stage.log("second").await;
    drop(events);
    world.stage.log("third").await;
    // Whatever was on its way to the lost connection comes again.
    let mut events = world.stream(&resume(&session, &first)).await;
    assert_eq!(events.json().await["params"]["data"], "second");
    let third = events.message().await;
    assert_eq!(third.json()["params"]["data"], "third");
    world.stage.answer("done").await;
    let answer = events.message().await;
    assert_eq!((text(&answer.json()), answer.json()["id"].clone()), ("done".into(), json!(1)));
    assert_eq!(events.next().await, None);
    // And again, as often as it is asked for.
    for (last, left) in [(first, 3), (third.id.unwrap(), 1), (answer.id.unwrap(), 0)] {
        let mut events = world.stream(&resume(&session, &last)).await;
        assert_eq!(events.rest().await.len(), left, "after {last}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_request_goes_on_without_its_client_and_its_answer_can_be_fetched() {
    let mut world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let later = json!({"ms": 900, "text": "after all"});
    let mut events = world.stream(&Request::legacy_call(&session, 1, "later", later)).await;
    let priming = events.next().await.unwrap().id.unwrap();
    drop(events);
    wait(world.stage.finished.recv()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut events = world.stream(&resume(&session, &priming)).await;
    assert_eq!(text(&events.json().await), "after all");
    assert_eq!(events.next().await, None);
    world.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_does_not_cancel() {
    let mut world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    // Before the headers, and after them.
    for pause in [0_u32, 700] {
        let mut wire = world.wire().await;
        let later = json!({"ms": 900, "text": ""});
        wire.write(&Request::legacy_call(&session, pause, "later", later).bytes()).await;
        tokio::time::sleep(Duration::from_millis(100 + u64::from(pause))).await;
        drop(wire);
        wait(world.stage.finished.recv()).await.unwrap();
    }
    world.stop().await;
}

#[tokio::test]
async fn event_ids_of_nobody_are_400() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let other = world.session(LATEST_LEGACY).await;
    let (_events, id) = staged(&world, &session, 1).await;
    let max = u64::MAX;
    let (route, _) = id.split_once('-').unwrap();
    let strange = [
        "",
        "x",
        "-",
        "0",
        "0-",
        "-0",
        "0-1",
        "99-0",
        "0-99",
        "1-1-1",
        " ",
        "0x0-0",
        &format!("{route}-{max}"),
        &format!("0-{max}"),
        &format!("{max}-{max}"),
        &format!("{route}-99"),
        &"9".repeat(1000),
    ];
    for id in strange {
        let refused = world.send(&resume(&session, id)).await;
        assert_eq!(refused.status(), 400, "{id:?}");
    }
    world.send(&resume(&other, &id)).await.refuses_http(400);
    assert_eq!(world.send(&ping(&session)).await.status(), 200);
    world.stage.answer("done").await;
    world.stop().await;
}

#[tokio::test]
async fn another_get_stream_does_not_begin_before_what_was_sent() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let mut first = world.stream(&Request::listen(&session)).await;
    world.service.remove_tool("note");
    first.message().await;
    drop(first);
    let mut second = world.stream(&Request::listen(&session)).await;
    let priming = second.next().await.unwrap();
    assert_eq!(priming.data.as_deref(), Some(""));
    drop(second);
    world.service.remove_tool("fail");
    let mut third = world.stream(&resume(&session, &priming.id.unwrap())).await;
    third.message().await;
    world.send(&delete(&session)).await;
    assert_eq!(third.rest().await.len(), 0, "each change once");
    world.stop().await;
}

#[tokio::test]
async fn a_get_stream_is_resumed_too() {
    let world = World::start().await;
    let session = world.session("2025-06-18").await;
    let mut stream = world.stream(&Request::listen(&session)).await;
    world.service.remove_tool("note");
    let last = stream.message().await.id.unwrap();
    drop(stream);
    world.service.remove_tool("fail");
    world.service.remove_tool("panic");
    let mut stream = world.stream(&resume(&session, &last)).await;
    let (one, two) = (stream.message().await, stream.message().await);
    assert_ne!(one.id, two.id);
    world.send(&delete(&session)).await;
    assert!(stream.rest().await.is_empty());
    world.stop().await;
}

#[tokio::test]
async fn only_the_newest_events_are_kept() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let (mut events, first) = staged(&world, &session, 1).await;
    for n in 0..300 {
        world.stage.log(&n.to_string()).await;
        events.json().await;
    }
    let gone = world.send(&resume(&session, &first)).await;
    gone.refuses_http(410);
    drop(events);
    world.stage.answer("done").await;
    world.stop().await;
}

#[tokio::test]
async fn a_handler_can_send_its_client_away_for_the_rest() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let (mut events, _) = staged(&world, &session, 1).await;
    world.stage.log("second").await;
    let last = events.message().await.id.unwrap();
    world.stage.close_stream().await;
    assert_eq!(events.next().await, None, "the end of the stream, and not of the request");
    world.stage.log("third").await;
    let mut events = world.stream(&resume(&session, &last)).await;
    assert_eq!(events.json().await["params"]["data"], "third");
    world.stage.close_stream().await;
    assert_eq!(events.next().await, None, "as often as it likes");
    world.stage.answer("done").await;
    let mut events = world.stream(&resume(&session, &last)).await;
    let rest = events.rest().await;
    assert_eq!((rest.len(), text(&rest[1])), (2, "done".into()));
    world.stop().await;
}

#[tokio::test]
async fn a_client_of_an_older_revision_is_not_sent_away() {
    let world = World::start().await;
    for revision in ["2025-03-26", "2025-06-18"] {
        let session = world.session(revision).await;
        let (mut events, _) = staged(&world, &session, 1).await;
        world.stage.close_stream().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.stage.answer("done").await;
        assert_eq!(text(&events.json().await), "done", "{revision}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_cancelled_request_ends_without_an_answer() {
    let mut world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    for id in [json!(1), json!("one")] {
        let request = Request::legacy_call(&session, id.clone(), "hold", json!({}));
        let (events, dropped) = {
            let stage = &mut world.stage;
            let address = world.address.clone();
            tokio::join!(
                async { crate::wire::Wire::connect(&address).await.stream(&request).await },
                stage.hold()
            )
        };
        let mut events = events;
        let taken = world.send(&Request::legacy(&session, &cancelled(id))).await;
        assert_eq!(taken.status(), 202);
        assert!(events.rest().await.is_empty());
        wait(dropped).await.unwrap_err();
    }
    // Before the headers: there is nothing to answer, and the response ends.
    let mut wire = world.wire().await;
    wire.write(&Request::legacy_call(&session, 3, "hold", json!({})).bytes()).await;
    let dropped = world.stage.hold().await;
    world.send(&Request::legacy(&session, &cancelled(3))).await;
    let ended = wait(wire.response()).await;
    assert!(!String::from_utf8_lossy(&ended.body).contains("jsonrpc"), "{ended:?}");
    wait(dropped).await.unwrap_err();
    world.stop().await;
}

#[tokio::test]
async fn a_session_cannot_cancel_for_another() {
    let mut world = World::start().await;
    let mine = world.session(LATEST_LEGACY).await;
    let theirs = world.session(LATEST_LEGACY).await;
    let mut wire = world.wire().await;
    wire.write(&Request::legacy_call(&mine, 1, "hold", json!({})).bytes()).await;
    let mut dropped = world.stage.hold().await;
    world.send(&Request::legacy(&theirs, &cancelled(1))).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(dropped.try_recv().is_err_and(|error| error.to_string().contains("empty")));
    world.stop().await;
}

#[tokio::test]
async fn a_question_goes_over_the_stream_of_its_call_and_its_answer_is_another_post() {
    let world = World::start().await;
    for revision in ["2025-06-18", LATEST_LEGACY] {
        let session = world.session(revision).await;
        let mut alone = world.stream(&Request::listen(&session)).await;
        let mut events = world.stream(&Request::legacy_call(&session, 1, "ask", json!({}))).await;
        let question = events.json().await;
        assert_eq!(question["method"], "elicitation/create");
        let answer =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "cancel"}});
        // Not by another session.
        let other = world.session(revision).await;
        assert_eq!(world.send(&Request::legacy(&other, &answer)).await.status(), 202);
        assert_eq!(world.send(&Request::legacy(&session, &answer)).await.status(), 202);
        assert_eq!(text(&events.json().await), "Cancel");
        assert_eq!(events.next().await, None);
        world.send(&delete(&session)).await;
        assert!(alone.rest().await.is_empty(), "a message goes on one stream");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_resumed_stream_carries_the_question_too() {
    let world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let mut events = world.stream(&Request::legacy_call(&session, 1, "ask", json!({}))).await;
    let priming = events.next().await.unwrap().id.unwrap();
    drop(events);
    let mut events = world.stream(&resume(&session, &priming)).await;
    let question = events.json().await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    world.send(&Request::legacy(&session, &answer)).await;
    assert_eq!(text(&events.json().await), "Decline");
    world.stop().await;
}

#[tokio::test]
async fn one_id_twice_in_flight_is_refused() {
    let mut world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let mut wire = world.wire().await;
    wire.write(&Request::legacy_call(&session, 1, "hold", json!({})).bytes()).await;
    let _dropped = world.stage.hold().await;
    let twin = world.send(&Request::legacy_call(&session, 1, "echo", json!({}))).await;
    twin.refuses(200, -32600, json!(1));
    let other = world.send(&Request::legacy_call(&session, "1", "echo", json!({}))).await;
    assert_eq!(other.text(), "");
    world.stop().await;
}

#[tokio::test]
async fn notes_of_an_inline_handler_come_before_its_answer() {
    let world = World::start().await;
    let session = world.session("2025-03-26").await;
    let mut events = world.stream(&Request::legacy_call(&session, 1, "note", json!({}))).await;
    let seen: Vec<Event> = vec![events.message().await, events.message().await];
    assert_eq!(seen[0].json()["params"]["data"], "noted");
    assert_eq!(text(&seen[1].json()), "done");
    assert_eq!(events.next().await, None);
    world.stop().await;
}

#[tokio::test]
async fn at_shutdown_a_call_in_flight_may_finish() {
    let mut world = World::start().await;
    let session = world.session(LATEST_LEGACY).await;
    let alone = world.stream(&Request::listen(&session)).await;
    let mut streaming = world
        .stream(&Request::legacy_call(&session, 1, "later", json!({"ms": 1000, "text": "one"})))
        .await;
    let mut silent = world.wire().await;
    let call = Request::legacy_call(&session, 2, "later", json!({"ms": 200, "text": "two"}));
    silent.write(&call.bytes()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.end();
    let mut alone = alone;
    assert!(alone.rest().await.is_empty(), "streams end");
    assert_eq!(wait(silent.response()).await.text(), "two");
    assert_eq!(text(&streaming.json().await), "one");
    world.stop().await;
}

#[tokio::test]
async fn at_shutdown_a_modern_call_in_flight_may_finish() {
    let mut world = World::start().await;
    let request = Request::call(1, "staged", json!({}));
    let (mut events, ()) = tokio::join!(world.stream(&request), world.stage.log("first"));
    events.json().await;
    let mut silent = world.wire().await;
    let call = Request::call(2, "later", json!({"ms": 200, "text": "two"}));
    silent.write(&call.bytes()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.end();
    assert_eq!(wait(silent.response()).await.text(), "two");
    world.stage.answer("one").await;
    assert_eq!(text(&events.json().await), "one");
    world.stop().await;
}
