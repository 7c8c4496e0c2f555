//! Memory: what waits for clients that do not read, and for those that went away, is bounded in bytes.

use mcplane::budget::Budget;
use serde_json::{Value, json};

use crate::wire::{LATEST_LEGACY, Request, Wire, call, text, wait};
use crate::world::{World, until};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const OVERLOADED: i64 = -31999;

/// Calls the tool `staged`, goes away once its stream has begun, and has it answer with so many
/// bytes. Returns the id to come back with.
async fn abandoned(world: &World, session: &str, id: i64, bytes: usize) -> String {
    let mut stream = world.stream(&Request::legacy_call(session, id, "staged", json!({}))).await;
    let first = stream.next().await.unwrap();
    drop(stream);
    world.stage.answer(&"x".repeat(bytes)).await;
    first.id.unwrap()
}

fn resume(session: &str, last: &str) -> Request {
    Request::listen(session).header("Last-Event-ID", last)
}

#[tokio::test]
async fn a_batch_gathers_no_more_than_one_message() {
    let world = World::start().await;
    let session = world.session("2025-03-26").await;
    let big = |id| call(id, "big", json!({"bytes": 4 * MIB}));
    let batch = Value::Array((0..8).map(big).collect());
    let answer = world.send(&Request::legacy(&session, &batch)).await;
    let answers = answer.answer();
    let answers = answers.as_array().unwrap();
    assert!(answer.body.len() < 17 * MIB, "{} bytes", answer.body.len());
    let mut ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..8).collect::<Vec<_>>(), "each is answered once");
    let refused: Vec<_> = answers.iter().filter(|answer| answer["error"].is_object()).collect();
    assert_eq!(refused.len(), 5, "three of 4 MiB fit");
    for refused in refused {
        assert_eq!(refused["error"]["code"], OVERLOADED);
        assert_eq!(refused["error"]["data"], json!({"retry": true}));
    }
    world.stop().await;
}

#[tokio::test]
async fn what_is_kept_for_a_client_that_went_away_is_bounded_and_it_is_told() {
    let budget = Budget::new(2 * MIB);
    let world = World::remembering(budget.clone()).await;
    let session = world.session(LATEST_LEGACY).await;
    let mut places = Vec::new();
    for id in 0..6 {
        let before = budget.used();
        // Each has another length, so that the sum changes whatever is forgotten for it.
        let bytes = (150 + usize::try_from(id).unwrap()) * KIB;
        places.push(abandoned(&world, &session, id, bytes).await);
        until(|| budget.used() != before).await;
    }
    until(|| budget.used() <= 256 * KIB).await;
    let gone = world.send(&resume(&session, &places[0])).await;
    gone.refuses_http(410);
    assert!(gone.json()["error"]["message"].as_str().unwrap().contains("no longer kept"));
    let mut last = world.stream(&resume(&session, &places[5])).await;
    assert_eq!(text(&last.json().await).len(), 155 * KIB);
    world.send(&resume(&session, "77-1")).await.refuses_http(400);
    world.stop().await;
}

#[tokio::test]
async fn who_keeps_the_most_forgets_first() {
    let budget = Budget::new(MIB);
    let world = World::remembering(budget.clone()).await;
    let kept = async |session: &str, id, bytes| {
        let before = budget.used();
        let place = abandoned(&world, session, id, bytes).await;
        until(|| budget.used() != before).await;
        place
    };
    let modest = world.session(LATEST_LEGACY).await;
    let its = kept(&modest, 1, 60 * KIB).await;
    let mut places = Vec::new();
    for at in 1..=3 {
        let greedy = world.session(LATEST_LEGACY).await;
        let place = kept(&greedy, 1, (100 - 10 * at) * KIB).await;
        places.push((greedy, place));
    }
    until(|| budget.used() <= 256 * KIB).await;
    let mut back = world.stream(&resume(&modest, &its)).await;
    assert_eq!(text(&back.json().await).len(), 60 * KIB, "it kept the least, and the longest");
    let (greedy, place) = &places[0];
    world.send(&resume(greedy, place)).await.refuses_http(410);
    world.stop().await;
}

#[tokio::test]
async fn bodies_that_come_slowly_find_no_room_at_last() {
    let budget = Budget::new(MIB);
    let world = World::remembering(budget.clone()).await;
    let begin = async |bytes: usize| {
        let mut wire = world.wire().await;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: 1000000\r\n\r\n",
            world.address
        );
        wire.write(head.as_bytes()).await;
        wire.write(&vec![b' '; bytes]).await;
        wire
    };
    let mut waiting: Vec<Wire> = Vec::new();
    for at in 1..=5 {
        waiting.push(begin(100 * KIB).await);
        until(|| budget.used() > at * 100 * KIB).await;
    }
    let mut refused = begin(900 * KIB).await.response().await;
    refused.refuses_http(503);
    assert!(refused.head.get("retry-after").is_some());
    // What is short costs nothing.
    let answer = world.send(&Request::call(1, "echo", json!({"text": "well"}))).await;
    assert_eq!(answer.text(), "well");
    refused.body.clear();
    drop(waiting);
    until(|| budget.used() == 0).await;
    world.stop().await;
}

#[tokio::test]
async fn answers_of_http_that_nobody_reads_are_charged_until_they_are_gone() {
    // More than the system takes of each.
    const ANSWER: usize = 15 * MIB;
    let budget = Budget::new(48 * MIB);
    let world = World::remembering(budget.clone()).await;
    let mut unread = Vec::new();
    for id in 0..5 {
        let mut wire = world.wire().await;
        let big = Request::call(id, "big", json!({"bytes": ANSWER}));
        wire.write(&big.bytes()).await;
        unread.push(wire);
        until(|| budget.used() >= (id + 1).min(3) * ANSWER).await;
    }
    assert!(budget.used() <= 48 * MIB);
    let answer = world.send(&Request::call(1, "echo", json!({"text": "well"}))).await;
    assert_eq!(answer.text(), "well", "what is short is answered all the same");
    let mut refused = 0;
    // Those that came last find no room as long as nobody reads the others.
    for mut wire in unread.into_iter().rev() {
        let answer = wait(wire.response()).await.json();
        if answer["error"].is_object() {
            assert_eq!(answer["error"]["code"], OVERLOADED);
            refused += 1;
        } else {
            assert_eq!(text(&answer).len(), ANSWER);
        }
    }
    assert_eq!(refused, 2, "three of 15 MiB fit into 48");
    until(|| budget.used() == 0).await;
    world.stop().await;
}
