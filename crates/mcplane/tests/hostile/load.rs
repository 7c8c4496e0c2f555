//! More of everything than fits.

use std::env;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use mcplane::transport::http::server::{ConnectionLimits, SessionLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::siege::{Target, descriptors, resident_bytes, siege};
use crate::wire::{LATEST_LEGACY, Request, Wire, initialize, wait};
use crate::world::limits;

/// Connections that idle at the same time, if so many descriptors can be had.
const IDLE: usize = 10_000;

/// Most memory of an idle connection, the runtime's share included, in bytes.
const IDLE_BYTES_MAX: usize = 8 * 1024;

/// Where the clients of [`ten_thousand_idle_connections`] go, in a process of their own: both ends
/// in one would need twice the descriptors.
const IDLE_AT: &str = "MCPLANE_TEST_IDLE_AT";

#[test]
fn ten_thousand_idle_connections() {
    let minute = Duration::from_secs(60);
    let target = Target {
        limits: limits().first_byte(minute),
        connection: ConnectionLimits {
            header: minute,
            idle: minute,
            ..ConnectionLimits::default()
        },
        ..Target::default()
    };
    let room = room();
    siege(target, async |world| {
        let count = IDLE.min(room - descriptors() - 200);
        let before = resident_bytes();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let others = tasks();
        let mut clients = Command::new(env::current_exe().unwrap())
            .args(["--exact", "load::clients_that_idle", "--nocapture"])
            .env(IDLE_AT, format!("{} {count}", world.address))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let all = async {
            while tasks() < others + count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(minute, all).await.is_ok(), "{} of {count} came", tasks() - others);
        let each = resident_bytes().saturating_sub(before) / count;
        assert!(each <= IDLE_BYTES_MAX, "{each} bytes for each of {count}");
        let answer = world.send(&Request::call(1, "echo", json!({"text": "room"}))).await;
        assert_eq!(answer.text(), "room");
        drop(clients.stdin.take());
        assert!(clients.wait().unwrap().success(), "a client was turned away");
    });
}

/// Nothing by itself: the other process of [`ten_thousand_idle_connections`], until its standard
/// input ends.
#[test]
fn clients_that_idle() {
    let Ok(place) = env::var(IDLE_AT) else { return };
    let (address, count) = place.split_once(' ').unwrap();
    room();
    let mut idle = Vec::new();
    for at in 0..count.parse().unwrap() {
        // What comes faster than it is accepted is lost, and sent again after a second: fewer at once
        // than the queue of a listener holds, 128 on many systems.
        if at % 100 == 99 {
            std::thread::sleep(Duration::from_millis(10));
        }
        idle.push(std::net::TcpStream::connect(address).unwrap());
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    for connection in idle {
        connection.set_nonblocking(true).unwrap();
        let still = (&connection).read(&mut [0]).unwrap_err();
        assert_eq!(still.kind(), std::io::ErrorKind::WouldBlock, "it was closed");
    }
}

/// How many descriptors this process may have, after it has asked for enough.
fn room() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = IDLE as u64 + 500;
    let raised =
        Rlimit { current: Some(wanted), maximum: limit.maximum.map(|max| max.max(wanted)) };
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if limit.maximum.is_some_and(|max| max < wanted) {
        // Where the hard limit may be raised, too.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |max| max as usize)
}

#[test]
fn beyond_the_requests_in_flight_others_are_told_to_wait() {
    let target =
        Target { configure: |builder| builder.in_flight_max(8), fills: true, ..Target::default() };
    siege(target, async |world| {
        let mut holding = Vec::new();
        for n in 0..8 {
            let mut wire = world.wire().await;
            wire.write(&Request::call(n, "hold", json!({})).bytes()).await;
            world.stage.hold().await;
            holding.push(wire);
        }
        let mut wire = world.wire().await;
        for request in
            [Request::call(1, "echo", json!({})), Request::listen("x"), Request::post("{")]
        {
            let refused = wire.send(&request).await;
            refused.refuses_http(503);
            assert!(refused.head.get("retry-after").unwrap().parse::<u32>().unwrap() > 0);
        }
        drop(holding.pop());
        wait(async {
            while wire.send(&Request::call(1, "echo", json!({}))).await.status() != 200 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    });
}

#[test]
fn beyond_the_rate_of_connections_newcomers_are_told_to_wait() {
    let target =
        Target { limits: limits().accepts_per_s(20).accepts_burst(8), ..Target::default() };
    siege(target, async |world| {
        let mut refused = 0;
        for _ in 0..40 {
            let mut wire = world.wire().await;
            let answer = wire.send(&Request::call(1, "echo", json!({}))).await;
            if answer.status() != 200 {
                answer.refuses_http(503);
                assert!(answer.head.get("retry-after").unwrap().parse::<u32>().unwrap() > 0);
                assert!(wire.closed().await.is_empty(), "and it is closed");
                refused += 1;
            }
        }
        assert!(refused > 10, "{refused} of 40");
        wait(async {
            while world.send(&Request::call(1, "echo", json!({}))).await.status() != 200 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    });
}

#[test]
fn beyond_the_connections_newcomers_are_told_to_wait() {
    let target = Target { limits: limits().connections_max(10), ..Target::default() };
    siege(target, async |world| {
        let mut open = Vec::new();
        let mut refused = 0;
        for _ in 0..40 {
            let mut wire = world.wire().await;
            let answer = wire.send(&Request::call(1, "echo", json!({}))).await;
            if answer.status() == 503 {
                refused += 1;
            }
            open.push(wire);
        }
        assert!(refused >= 30, "{refused}");
        drop(open);
        wait(async {
            while world.send(&Request::call(1, "echo", json!({}))).await.status() != 200 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    });
}

/// Most memory that streams which nobody reads may take, in bytes.
const FLOOD_BYTES_MAX: usize = 96 * 1024 * 1024;

#[test]
fn floods_that_nobody_reads() {
    let target = Target { limits: limits().stall(Duration::from_millis(300)), ..Target::default() };
    siege(target, async |world| {
        let session = world.session(LATEST_LEGACY).await;
        let before = resident_bytes();
        let mut wires: Vec<Wire> = Vec::new();
        for n in 0..4 {
            for request in [
                Request::call(n, "flood", json!({"bytes": 1024})),
                Request::legacy_call(&session, n, "flood", json!({"bytes": 1024})),
            ] {
                let mut wire = world.wire().await;
                wire.write(&request.bytes()).await;
                wires.push(wire);
            }
        }
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let grown = resident_bytes().saturating_sub(before);
            assert!(grown < FLOOD_BYTES_MAX, "{grown} bytes");
        }
        let gone = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session);
        assert_eq!(world.send(&gone).await.status(), 204);
    });
}

#[test]
fn floods_of_large_messages_that_nobody_reads() {
    let target = Target { limits: limits().stall(Duration::from_millis(300)), ..Target::default() };
    siege(target, async |world| {
        let session = world.session(LATEST_LEGACY).await;
        let before = resident_bytes();
        let mut wires: Vec<Wire> = Vec::new();
        for request in [
            Request::call(1, "flood", json!({"bytes": 1_000_000})),
            Request::legacy_call(&session, 1, "flood", json!({"bytes": 1_000_000})),
        ] {
            let mut wire = world.wire().await;
            wire.write(&request.bytes()).await;
            wires.push(wire);
        }
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let grown = resident_bytes().saturating_sub(before);
            assert!(grown < FLOOD_BYTES_MAX, "{grown} bytes");
        }
        let gone = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session);
        assert_eq!(world.send(&gone).await.status(), 204);
    });
}

#[test]
fn guesses_at_session_ids() {
    siege(Target::default(), async |world| {
        let session = world.session(LATEST_LEGACY).await;
        let mut wire = world.wire().await;
        let known = u128::from_str_radix(&session, 16).unwrap();
        for n in 1..400_u128 {
            let guess = format!("{:032x}", known ^ (1 << (n % 128)) ^ (n / 128));
            let request = match n % 3 {
                0 => Request::listen(&guess),
                1 => Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &guess),
                _ => Request::legacy_call(&guess, 1, "echo", json!({})),
            };
            if guess != session {
                wire.send(&request).await.refuses_http(404);
            }
        }
        let gone = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session);
        assert_eq!(wire.send(&gone).await.status(), 204, "it was there all the time");
    });
}

#[test]
fn a_flood_of_sessions_takes_only_their_number() {
    let target = Target {
        configure: |builder| {
            let idle = Duration::from_millis(300);
            builder.sessions(SessionLimits { count_max: 50, idle })
        },
        ..Target::default()
    };
    siege(target, async |world| {
        let mut wire = world.wire().await;
        let request = Request::post(initialize(LATEST_LEGACY).to_string());
        for _ in 0..200 {
            assert!(matches!(wire.send(&request).await.status(), 200 | 503));
            assert!(world.endpoint.sessions() <= 50);
        }
    });
}

#[test]
fn a_client_that_resets_its_streams_as_fast_as_it_opens_them() {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    siege(Target::default(), async |world| {
        let stream = TcpStream::connect(&world.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        let connection = tokio::spawn(connection);
        for _ in 0..3000 {
            let request = http::Request::post("http://localhost/mcp")
                .header("content-type", "application/json")
                .body(http_body_util::Full::new(bytes::Bytes::from_static(b"{")))
                .unwrap();
            if sender.ready().await.is_err() {
                break;
            }
            let sent = sender.send_request(request);
            tokio::task::yield_now().await;
            drop(sent);
        }
        drop(sender);
        connection.abort();
    });
}
