//! Bodies that nobody wants: pages do not wait for them, and clients get to read why. Answers that
//! nobody takes end their connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcplane::transport::http::server::{ConnectionLimits, Pages};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::site::{Guests, with_token};
use crate::wire::{Request, Wire, wait};
use crate::world::{World, limits};

/// Longer than any body may be, in bytes.
const TOO_MUCH: usize = 5 * 1024 * 1024;

/// `/open` is for everybody and `/mine` for guests; each says how much body it got.
struct Lengths;

impl Pages for Lengths {
    fn has(&self, path: &str) -> bool {
        matches!(path, "/open" | "/mine")
    }

    fn is_open(&self, path: &str) -> bool {
        path == "/open"
    }

    fn page(&self, _: &Parts, body: Bytes) -> http::Response<Bytes> {
        http::Response::new(body.len().to_string().into())
    }
}

async fn world() -> World {
    World::with(|builder| builder.pages(Arc::new(Lengths)).authenticate(Guests).in_flight_max(1))
        .await
}

/// A request whose body is still to come.
fn announced(path: &str, length: usize, token: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Authorization: {token}\r\nContent-Length: {length}\r\n\r\n"
    )
    .into_bytes()
}

#[tokio::test]
async fn an_open_page_waits_for_no_body_and_needs_no_permit() {
    let mut world = world().await;
    let mut busy = world.wire().await;
    busy.write(&with_token("alice")(Request::call(1, "hold", json!({}))).bytes()).await;
    let _held = world.stage.hold().await;
    for length in [1, 1000, TOO_MUCH] {
        let mut wire = world.wire().await;
        wire.write(&announced("/open", length, "none")).await;
        let answer = wire.response().await;
        assert_eq!((answer.status(), answer.body.as_slice()), (200, &b"0"[..]), "{length}");
    }
    let chunked = "POST /open HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut wire = world.wire().await;
    wire.write(format!("{chunked}3\r\nabc\r\n").as_bytes()).await;
    assert_eq!(wire.response().await.body, b"0");
    world.send(&with_token("alice")(Request::new("GET", "/mine"))).await.refuses_http(503);
    drop(busy);
    world.stop().await;
}

#[tokio::test]
async fn who_is_nobody_is_refused_before_a_body_is_read() {
    let world = world().await;
    for (path, token, status) in [
        ("/mine", "Bearer mallory", 401),
        ("/mcp", "Bearer mallory", 401),
        ("/mcp", "Bearer child", 403),
        ("/mine", "Bearer alice", 413),
        ("/mcp", "Bearer alice", 413),
        ("/nothing", "Bearer alice", 404),
    ] {
        let mut wire = world.wire().await;
        wire.write(&announced(path, TOO_MUCH, token)).await;
        wire.response().await.refuses_http(status);
    }
    let mine = with_token("alice")(Request::post_to("/mine", "12345"));
    assert_eq!(world.send(&mine).await.body, b"5");
    let long = with_token("alice")(Request::post_to("/mine", vec![b' '; 65 * 1024]));
    world.send(&long).await.refuses_http(413);
    world.stop().await;
}

/// Most clients send all of their body before they look for an answer. A reset meanwhile takes the
/// answer away from them.
#[tokio::test]
async fn who_sends_all_of_it_first_reads_why_it_was_refused() {
    let world = world().await;
    for (path, token, status) in
        [("/mcp", "Bearer alice", 413), ("/mcp", "Bearer mallory", 401), ("/open", "none", 200)]
    {
        for pause_ms in [0, 100] {
            let mut wire = world.wire().await;
            wire.write(&announced(path, TOO_MUCH, token)).await;
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            for piece in vec![b' '; TOO_MUCH].chunks(64 * 1024) {
                assert!(wire.io_write(piece).await, "{path} {status}: reset after {pause_ms} ms");
            }
            assert_eq!(wire.response().await.status(), status);
            assert_eq!(wire.closed().await, b"");
        }
    }
    world.stop().await;
}

/// The bounds are in the server's own SETTINGS and WINDOW_UPDATE (RFC 9113 §6.5, §6.9).
#[tokio::test]
async fn unread_bodies_of_http_2_are_bounded() {
    let world = world().await;
    let mut wire = world.wire().await;
    wire.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    let (kind, settings) = frame(&mut wire).await;
    assert_eq!(kind, 4);
    let value = |wanted: u16| {
        let mut all = settings.chunks(6);
        let found = all.find(|setting| setting[..2] == wanted.to_be_bytes()).unwrap();
        u32::from_be_bytes(found[2..].try_into().unwrap())
    };
    let (streams, window) = (value(3), value(4));
    assert_eq!((streams, window), (128, 256 * 1024));
    let (mut kind, mut update) = frame(&mut wire).await;
    while kind != 8 {
        (kind, update) = frame(&mut wire).await;
    }
    let more = u32::from_be_bytes(update.try_into().unwrap());
    assert_eq!(65_535 + more, 1024 * 1024, "of all streams together");
    drop(wire);
    world.stop().await;
}

/// The type and the payload of a frame.
async fn frame(wire: &mut Wire) -> (u8, Vec<u8>) {
    let head = wire.exactly(9).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    (head[3], wire.exactly(length as usize).await.unwrap())
}

/// A connection of HTTP/2 whose client has a window of so many bytes for each answer.
async fn http2(
    world: &World,
    window: u32,
) -> (SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(&world.address).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    (sender, tokio::spawn(connection))
}

#[tokio::test]
async fn a_client_of_http_2_that_takes_no_answers_is_given_up_and_a_slow_one_is_not() {
    let limits = limits().stall(Duration::from_millis(400));
    let connection =
        ConnectionLimits { header: Duration::from_millis(400), ..ConnectionLimits::default() };
    let world = World::within(|builder| builder, limits, connection).await;
    let big = Request::call(1, "big", json!({"bytes": 256 * 1024})).http("localhost");
    let (mut idle, ended) = http2(&world, 64 * 1024).await;
    let unread = wait(idle.send_request(big.clone())).await.unwrap();
    let (mut slow, connection) = http2(&world, 32 * 1024).await;
    let mut answer = wait(slow.send_request(big)).await.unwrap().into_body();
    let (began, mut taken) = (Instant::now(), 0);
    while let Some(frame) = wait(answer.frame()).await {
        taken += frame.expect("it reads").into_data().unwrap().len();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    assert!(taken > 256 * 1024 && began.elapsed() > 2 * Duration::from_millis(400));
    assert!(!connection.is_finished(), "it did read");

    let _ = wait(ended).await.unwrap();
    assert!(wait(unread.collect()).await.is_err(), "the rest never came");
    world.stop().await;
}
