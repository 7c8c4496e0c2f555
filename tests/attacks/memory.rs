//! Who makes the gateway remember more than it has.
//!
//! Each gateway may map 1 GiB, and has its default settings: it takes a quarter of that for what waits.
//! Where a control group can be made, it and its servers have no more than 1 GiB together.

use std::{fs, io::Write as _, net::TcpStream, thread, time::Duration};

use http_body_util::Full;
use hyper::{Request, body::Bytes, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use crate::{
    client::{Client, initialize, legacy_call, text},
    door::{frame, upgraded},
    gateway::{Gateway, bad, eventually, good},
    neighbour::Neighbours,
};

/// What the process may map.
const MAPPED_KIB: u32 = 1024 * 1024;

/// The most that the process may ever have taken: what waits, at most a quarter of a GiB, and what a
/// debug build with a few copies of long messages takes beside it.
const PEAK_MIB_MAX: u64 = 400;

/// Calls of one client, and the length of each answer.
const CALLS: i64 = 48;
const ANSWER_MB: u64 = 4;

const OVERLOADED: i64 = -31999;

fn attacked() -> Gateway {
    Gateway::serve_within(MAPPED_KIB, &(good() + &bad("", &[])))
}

/// The most memory that a process has had, in MiB.
fn peak_mib(gateway: &Gateway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

fn used(gateway: &Gateway) -> u64 {
    gateway.status()["memory"]["used_bytes"].as_u64().unwrap()
}

fn huge(id: i64) -> Value {
    legacy_call(id, "huge", json!({"mb": ANSWER_MB}))
}

/// Waits until the server behind has answered everything.
fn is_through(gateway: &Gateway) {
    gateway.server("bad", |server| {
        server["workers"][0]["calls"].as_u64().unwrap() >= CALLS.unsigned_abs()
            && server["workers"][0]["in_flight"] == 0
            && server["queued"] == 0
    });
}

#[track_caller]
fn was_bounded(gateway: &Gateway, neighbours: Neighbours) {
    neighbours.are_well();
    let peak = peak_mib(gateway);
    assert!(peak <= PEAK_MIB_MAX, "the gateway took {peak} MiB");
}

const TOKENS: &str = "tokens = {alice = \"a-secret\"}\n";

/// Pages that are for everybody, and others.
const PATHS: [&str; 6] = ["/healthz", "/mcp", "/good/mcp", "/admin/status", "/sse", "/nowhere"];

/// As long as a body may be.
const BODY_BYTES: usize = 4_000_000;

const GROWN_MIB_MAX: u64 = 32;

/// Who has no token makes it keep nothing: many bodies, each as long as one may be, and none of them to
/// its end.
#[test]
fn bodies_of_nobody() {
    const BODIES: usize = 96;
    keeps_nothing_of(|gateway| {
        let sending = (0..BODIES).map(|number| {
            let address = gateway.address();
            let head = format!(
                "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {BODY_BYTES}\r\n\r\n",
                PATHS[number % PATHS.len()]
            );
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
                // It may not be taken, and the connection may be gone.
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&vec![b' '; BODY_BYTES - 1]);
                stream
            })
        });
        sending.collect::<Vec<_>>().into_iter().map(thread::JoinHandle::join).collect::<Vec<_>>()
    });
}

/// The same in streams of HTTP/2, as many on each of three connections as there may be.
#[test]
fn bodies_of_nobody_over_http_2() {
    const STREAMS: usize = 128;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    keeps_nothing_of(|gateway| {
        let open = (0..3).map(|_| {
            runtime.block_on(async {
                let stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
                let builder = http2::Builder::new(TokioExecutor::new());
                let (mut sender, connection) =
                    builder.handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                let mut answers = Vec::new();
                for number in 0..STREAMS {
                    let uri = format!("http://localhost{}", PATHS[number % PATHS.len()]);
                    let request = Request::post(uri).header("content-type", "application/json");
                    let body = Full::new(Bytes::from_static(&[b' '; BODY_BYTES]));
                    answers.push(tokio::spawn(sender.send_request(request.body(body).unwrap())));
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                let mut refused = 0;
                for answer in answers.iter_mut().filter(|answer| answer.is_finished()) {
                    if let Ok(answer) = answer.await.unwrap() {
                        assert!(answer.status().is_client_error(), "{answer:?}");
                        refused += 1;
                    }
                }
                assert!(refused > 0, "nobody was told anything");
                (sender, answers)
            })
        });
        open.collect::<Vec<_>>()
    });
}

/// Attacks a gateway that has a token, while its client is served.
#[track_caller]
fn keeps_nothing_of<T>(attack: impl FnOnce(&Gateway) -> T) {
    let gateway = Gateway::serve_within(MAPPED_KIB, &(TOKENS.to_owned() + &good()));
    let mut alice = Client::known(gateway.address(), "/good/mcp", "a-secret");
    eventually(|| match alice.tools() {
        tools if tools.iter().any(|tool| tool == "echo") => Ok(()),
        tools => Err(format!("{tools:?}")),
    });
    let before = peak_mib(&gateway);
    let open = attack(&gateway);
    let grown = peak_mib(&gateway) - before;
    assert!(grown <= GROWN_MIB_MAX, "bodies of {BODY_BYTES} bytes took {grown} MiB");
    let response = alice.call("echo", json!({"message": "well"}));
    assert_eq!(text(&response), "well");
    drop(open);
}

#[test]
fn a_batch_of_long_answers() {
    let gateway = attacked();
    assert_eq!(gateway.status()["memory"]["max_bytes"], 256 * 1024 * 1024, "a quarter");
    let neighbours = Neighbours::of(&gateway, "good");
    let mut client = Client::modern(gateway.address(), "/bad/mcp");
    let mut hello = initialize(1);
    hello["params"]["protocolVersion"] = json!("2025-03-26");
    let answer = client.post(&hello);
    client.session = Some(answer.headers["mcp-session-id"].clone());
    let batch: Vec<_> = (0..CALLS).map(huge).collect();
    let answer = client.post_as("2025-03-26", &Value::Array(batch));
    let answers = answer.messages().swap_remove(0);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), usize::try_from(CALLS).unwrap());
    let refused = answers.iter().filter(|answer| answer["error"]["code"] == OVERLOADED).count();
    let whole = answers.iter().filter(|answer| answer["result"].is_object()).count();
    assert_eq!((whole, refused), (4, answers.len() - 4), "16 MiB of 4 MB each");
    was_bounded(&gateway, neighbours);
}

#[test]
fn streams_that_are_abandoned() {
    let gateway = attacked();
    let neighbours = Neighbours::of(&gateway, "good");
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let client = gateway.legacy("bad");
        let session = client.session.clone().unwrap();
        // The first one takes so long that the others are streams before they are answered.
        let first = legacy_call(0, "huge", json!({"mb": ANSWER_MB, "ms": 2000}));
        let calls: Vec<_> = [first].into_iter().chain((1..CALLS).map(huge)).collect();
        let open: Vec<_> = calls
            .iter()
            .map(|call| {
                let mut one = Client::modern(gateway.address(), "/bad/mcp");
                one.session = Some(session.clone());
                one.begin(call);
                one
            })
            .collect();
        thread::sleep(Duration::from_secs(1));
        drop(open);
        sessions.push(client);
    }
    is_through(&gateway);
    eventually(|| match used(&gateway) {
        used if used <= 2 * 17 * 1024 * 1024 => Ok(()),
        used => Err(format!("{used} bytes are kept")),
    });
    was_bounded(&gateway, neighbours);
}

#[test]
fn websockets_that_nobody_reads() {
    let gateway = attacked();
    let neighbours = Neighbours::of(&gateway, "good");
    let sockets: Vec<_> = (0..2)
        .map(|_| {
            let mut socket = upgraded(gateway.address(), "/bad/mcp");
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            for message in [initialize(-1), ready].into_iter().chain((0..CALLS).map(huge)) {
                socket.write_all(&frame(0x81, message.to_string().as_bytes())).unwrap();
            }
            socket
        })
        .collect();
    is_through(&gateway);
    assert!(used(&gateway) <= 2 * 64 * 1024 * 1024 + 4 * 1024 * 1024);
    drop(sockets);
    eventually(|| match used(&gateway) {
        0 => Ok(()),
        used => Err(format!("{used} bytes are left")),
    });
    was_bounded(&gateway, neighbours);
}
