//! Who makes the gateway remember more than it has.
//!
//! Each gateway may map 1 GiB, and has its default settings: it takes a quarter of that for what waits.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    client::{Client, initialize, legacy_call},
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
            let mut socket = websocket(&gateway);
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            for message in [initialize(-1), ready].into_iter().chain((0..CALLS).map(huge)) {
                socket.write_all(&frame(&message)).unwrap();
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

fn websocket(gateway: &Gateway) -> TcpStream {
    let mut socket = TcpStream::connect(gateway.address()).unwrap();
    let head = "GET /bad/mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    socket
}

/// A text frame of a client, under a mask of zeros.
fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let length = u16::try_from(text.len()).unwrap();
    let mut frame = vec![0x81];
    match u8::try_from(length) {
        Ok(short @ ..126) => frame.push(0x80 | short),
        _ => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}
