//! More connections than fit: probes are answered, guests stay, and who is of no use makes room.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use mcplane::transport::http::server::{ConnectionLimits, Pages};
use serde_json::json;

use crate::site::{Guests, with_token};
use crate::wire::{Request, Wire};
use crate::world::{World, limits};

/// `/healthz`, for everybody.
struct Health;

impl Pages for Health {
    fn has(&self, path: &str) -> bool {
        path == "/healthz"
    }

    fn is_open(&self, _: &str) -> bool {
        true
    }

    fn page(&self, _: &Parts, _: Bytes) -> http::Response<Bytes> {
        http::Response::new("well".into())
    }
}

fn echo() -> Request {
    with_token("alice")(Request::call(1, "echo", json!({"text": "here"})))
}

#[tokio::test]
async fn probes_are_answered_when_connections_are_refused() {
    let few = limits().accepts_per_s(1).accepts_burst(1);
    let crowded = |builder: mcplane::transport::http::server::Builder| {
        builder.pages(Arc::new(Health)).authenticate(Guests)
    };
    let world = World::within(crowded, few, ConnectionLimits::default()).await;
    assert_eq!(world.send(&echo()).await.text(), "here");
    for _ in 0..20 {
        let mut wire = world.wire().await;
        let answer = wire.send(&Request::new("GET", "/healthz")).await;
        assert_eq!((answer.status(), answer.body.as_slice()), (200, &b"well"[..]));
    }
    let mut refused = 0;
    for _ in 0..20 {
        refused += usize::from(world.send(&echo()).await.status() == 503);
    }
    assert!(refused > 10, "{refused} of 20");
    world.stop().await;
}

#[tokio::test]
async fn connections_that_say_nothing_are_not_counted_and_make_room() {
    let few = limits().accepts_per_s(1).accepts_burst(2).connections_max(3);
    let guarded = |builder: mcplane::transport::http::server::Builder| builder.authenticate(Guests);
    let world = World::within(guarded, few, ConnectionLimits::default()).await;
    let mut alice = world.wire().await;
    assert_eq!(alice.send(&echo()).await.text(), "here");
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(world.wire().await);
    }
    assert_eq!(world.send(&echo()).await.text(), "here", "there is a place, and a token");
    assert_eq!(alice.send(&echo()).await.text(), "here", "who is known stays");
    let mut gone = 0;
    for wire in &mut silent[..40] {
        gone += usize::from(wire.closed().await.is_empty());
    }
    assert_eq!(gone, 40);
    world.stop().await;
}

#[tokio::test]
async fn who_is_no_guest_makes_room_for_guests() {
    let few = limits().connections_max(3);
    let guarded = |builder: mcplane::transport::http::server::Builder| builder.authenticate(Guests);
    let world = World::within(guarded, few, ConnectionLimits::default()).await;
    let mut alice = world.wire().await;
    assert_eq!(alice.send(&echo()).await.text(), "here");
    let mut crowd: Vec<Wire> = Vec::new();
    for n in 0..30 {
        let mut wire = world.wire().await;
        match n % 2 {
            0 => wire.write(b"POST /mcp HTTP/1.1\r\nHost: loc").await,
            _ => wire.send(&with_token("mallory")(Request::post("{}"))).await.refuses_http(401),
        }
        crowd.push(wire);
    }
    let mut bob = world.wire().await;
    assert_eq!(bob.send(&echo()).await.text(), "here");
    let mut carol = world.wire().await;
    assert_eq!(carol.send(&echo()).await.text(), "here");
    let full = world.send(&echo()).await;
    full.refuses_http(503);
    assert!(full.head.get("retry-after").is_some());
    for guest in [&mut alice, &mut bob, &mut carol] {
        assert_eq!(guest.send(&echo()).await.text(), "here");
    }
    world.stop().await;
}
