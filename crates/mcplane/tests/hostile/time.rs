//! Peers that are slow, silent or gone.

use std::time::Duration;

use mcplane::transport::http::server::ConnectionLimits;
use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};

use crate::siege::{Target, siege};
use crate::wire::{LATEST_LEGACY, Request, Wire, wait};
use crate::world::{World, limits};

const SHORT: Duration = Duration::from_millis(600);

/// A target that has no patience.
fn hasty() -> Target {
    let connection = ConnectionLimits { header: SHORT, idle: SHORT, ..ConnectionLimits::default() };
    Target { connection, limits: limits().stall(SHORT), ..Target::default() }
}

/// As many connections as `count`, each used like this at the same time.
async fn each<F, Fut>(world: &World, count: usize, work: F)
where
    F: Fn(Wire) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..count {
        all.spawn(work(world.wire().await));
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// Writes byte by byte until the server hangs up.
async fn drip(mut wire: Wire, bytes: Vec<u8>) {
    for byte in bytes.iter().cycle() {
        if !wire.io_write(&[*byte]).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn heads_that_never_end() {
    siege(hasty(), async |world| {
        each(world, 30, |wire| wait(drip(wire, b"GET /mcp HTTP/1.1\r\nX: ".to_vec()))).await;
        each(world, 30, |wire| async {
            wait(drip_after_a_request(wire)).await;
        })
        .await;
    });
}

async fn drip_after_a_request(mut wire: Wire) {
    assert_eq!(wire.send(&Request::call(1, "echo", json!({"text": "x"}))).await.text(), "x");
    drip(wire, b"x".to_vec()).await;
}

#[test]
fn connections_that_never_speak_or_never_speak_again() {
    siege(hasty(), async |world| {
        each(world, 50, |mut wire| async move {
            assert!(wire.closed().await.is_empty());
        })
        .await;
        each(world, 50, |mut wire| async move {
            wire.send(&Request::call(1, "echo", json!({}))).await;
            assert!(wire.closed().await.is_empty());
        })
        .await;
    });
}

#[test]
fn bodies_that_stop_in_the_middle() {
    siege(hasty(), async |world| {
        let half = |request: Request| {
            let bytes = request.bytes();
            bytes[..bytes.len() - 20].to_vec()
        };
        let part = half(Request::call(1, "echo", json!({"text": "long enough to be cut"})));
        // Gone: with a FIN, with a RST, and half.
        let cut = part.clone();
        each(world, 20, |mut wire| {
            let cut = cut.clone();
            async move { wire.write(&cut).await }
        })
        .await;
        for _ in 0..20 {
            let stream = TcpStream::connect(&world.address).await.unwrap();
            stream.set_zero_linger().unwrap();
            let mut wire = Wire::over(stream);
            wire.write(&part).await;
        }
        each(world, 20, |mut wire| {
            let part = part.clone();
            async move {
                wire.write(&part).await;
                wire.finish().await;
                let said = String::from_utf8_lossy(&wire.closed().await).into_owned();
                assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{said}");
            }
        })
        .await;
    });
}

#[test]
fn clients_that_vanish_while_they_are_answered() {
    siege(hasty(), async |world| {
        let session = world.session(LATEST_LEGACY).await;
        for n in 0..40 {
            let stream = TcpStream::connect(&world.address).await.unwrap();
            if n % 2 == 0 {
                stream.set_zero_linger().unwrap();
            }
            let mut wire = Wire::over(stream);
            let request = match n % 4 {
                0 | 1 => Request::call(n, "hold", json!({})),
                2 => Request::legacy_call(&session, n, "later", json!({"ms": 100})),
                _ => Request::call(n, "later", json!({"ms": 100})),
            };
            wire.write(&request.bytes()).await;
            if n % 4 < 2 {
                world.stage.hold().await;
            }
        }
        let gone = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session);
        assert_eq!(world.send(&gone).await.status(), 204);
    });
}

#[test]
fn half_open_clients_are_answered_or_given_up() {
    siege(hasty(), async |world| {
        each(world, 30, |mut wire| async move {
            wire.write(&Request::call(1, "later", json!({"ms": 10})).bytes()).await;
            wire.finish().await;
            let said = String::from_utf8_lossy(&wire.closed().await).into_owned();
            assert!(said.is_empty() || said.starts_with("HTTP/1.1 200"), "{said}");
        })
        .await;
        each(world, 30, |mut wire| async move {
            wire.finish().await;
            assert!(wire.closed().await.is_empty());
        })
        .await;
    });
}

/// Bytes of an answer that does not fit into the buffers of the connection.
const HUGE_BYTES: usize = 6 * 1024 * 1024;

/// A connection whose client has asked for a huge answer, and takes in little at once.
async fn huge(world: &World) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    let stream = socket.connect(world.address.parse().unwrap()).await.unwrap();
    let mut wire = Wire::over(stream);
    wire.write(&Request::call(1, "big", json!({"bytes": HUGE_BYTES})).bytes()).await;
    assert_eq!(wire.head().await.status, 200);
    wire
}

#[test]
fn a_huge_answer_that_nobody_reads() {
    // Hasty with those who take nothing, and only with them.
    let target = Target { limits: limits().stall(SHORT), ..Target::default() };
    siege(target, async |world| {
        let wires = [huge(world).await, huge(world).await];
        // The connections stay open on our side until the server has given them up.
        tokio::time::sleep(2 * SHORT).await;
        for mut wire in wires {
            assert!(wire.closed().await.len() < HUGE_BYTES, "it was not cut off");
        }
    });
}

#[test]
fn a_slow_reader_is_not_an_idle_one() {
    siege(hasty(), async |world| {
        let mut wire = huge(world).await;
        let mut read = 0;
        let mut piece = vec![0; 256 * 1024];
        while read < HUGE_BYTES {
            let count = wire.io_read(&mut piece).await;
            assert!(count > 0, "cut off after {read} bytes");
            read += count;
            if read % (4 * piece.len()) < count {
                tokio::time::sleep(SHORT / 3).await;
            }
        }
    });
}
