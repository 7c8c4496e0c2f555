//! WebSocket: RFC 6455 case by case over raw bytes, and both ends through real servers and clients.

#![cfg(feature = "websocket")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::future::Future;
use std::time::{Duration, Instant};

use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use mcplane::proto::session::EraChoice;
use mcplane::proto::version::Revision;
use mcplane::transport::listen::{Limits, Listener};
use mcplane::transport::websocket::{self, Config, Protocol, WebSocket};
use mcplane::{Client, NoArguments, Server, Service, Tool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest wait for anything that must happen.
const LIMIT: Duration = Duration::from_secs(20);

/// The longest message that the test's server takes.
const BYTES_MAX: usize = 200_000;

// Opcodes (§5.2), with and without FIN.
const FIN: u8 = 0x80;
const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

// ---- What must work.

#[tokio::test]
async fn both_eras_and_messages_of_every_length() {
    let server = Running::start().await;
    let eras = [EraChoice::Auto, EraChoice::Only(Revision::V2026_07_28), EraChoice::Legacy];
    for era in eras {
        let client = server.client(era, &Config::default()).await;
        for len in [0, 1, 60, 1000, 60_000, 150_000] {
            let text = "é".repeat(len / 2) + "\n\"";
            assert_eq!(echo(&client, &text).await, text);
        }
        let calls = (0..50).map(|n| {
            let client = client.clone();
            tokio::spawn(
                async move { assert_eq!(echo(&client, &n.to_string()).await, n.to_string()) },
            )
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        client.close().await;
    }
    server.stop().await;
}

#[tokio::test]
async fn fragments_make_one_message_and_control_frames_may_come_between() {
    let server = Running::start().await;
    let call = call(1, "echo");
    // §5.4: any number of fragments, some empty; also one byte each.
    for size in [1, 2, 7, call.len() / 2, call.len()] {
        let mut raw = server.raw().await;
        let pieces: Vec<_> = call.as_bytes().chunks(size).collect();
        for (n, piece) in pieces.iter().enumerate() {
            let opcode = if n == 0 { TEXT } else { CONTINUATION };
            raw.send(opcode, piece).await;
            raw.send(CONTINUATION, b"").await;
        }
        raw.send(FIN | CONTINUATION, b"").await;
        assert_eq!(raw.message().await["id"], 1, "{size}");
        raw.leave().await;
    }
    // §5.5: control frames between fragments are answered at once.
    let mut raw = server.raw().await;
    raw.send(TEXT, &call.as_bytes()[..20]).await;
    raw.send(FIN | PING, b"between").await;
    assert_eq!(raw.frame().await, (FIN | PONG, b"between".to_vec()));
    raw.send(CONTINUATION, &call.as_bytes()[20..40]).await;
    raw.send(FIN | PONG, b"unasked").await;
    raw.send(FIN | CONTINUATION, &call.as_bytes()[40..]).await;
    assert_eq!(raw.message().await["id"], 1);
    raw.leave().await;
    server.stop().await;
}

#[tokio::test]
async fn a_character_may_be_split_between_fragments() {
    let server = Running::start().await;
    let call = call(1, "echo").replace(EMPTY, "\"arguments\":{\"text\":\"κόσμε😀\"}");
    for split in call.find('κ').unwrap()..call.find('😀').unwrap() + 5 {
        let mut raw = server.raw().await;
        raw.send(TEXT, &call.as_bytes()[..split]).await;
        raw.send(FIN | CONTINUATION, &call.as_bytes()[split..]).await;
        assert_eq!(raw.message().await["id"], 1, "{split}");
    }
    server.stop().await;
}

#[tokio::test]
async fn bytes_may_come_one_by_one_and_many_frames_at_once() {
    let server = Running::start().await;
    let mut raw = server.raw().await;
    let mut wire = frame(FIN | PING, b"p");
    for id in 0..20 {
        wire.extend(frame(FIN | TEXT, call(id, "echo").as_bytes()));
    }
    raw.0.write_all(&wire).await.unwrap();
    assert_eq!(raw.frame().await, (FIN | PONG, b"p".to_vec()));
    for id in 0..20 {
        assert_eq!(raw.message().await["id"], id);
    }
    for byte in frame(FIN | TEXT, call(99, "echo").as_bytes()) {
        raw.0.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(raw.message().await["id"], 99);
    raw.leave().await;
    server.stop().await;
}

#[tokio::test]
async fn newlines_between_tokens_are_white_space_and_no_end() {
    let server = Running::start().await;
    let mut raw = server.raw().await;
    let pretty = call(1, "echo").replace(',', ",\r\n\n\t");
    raw.send(FIN | TEXT, pretty.as_bytes()).await;
    assert_eq!(raw.message().await["id"], 1);
    raw.send(FIN | TEXT, b"").await; // nothing is no message
    raw.send(FIN | TEXT, b"{not json\n}").await;
    assert_eq!(raw.message().await["error"]["code"], -32700);
    raw.send(FIN | TEXT, call(2, "echo").as_bytes()).await;
    assert_eq!(raw.message().await["id"], 2, "it lives on");
    server.stop().await;
}

#[tokio::test]
async fn pings_are_answered_with_their_payload() {
    let server = Running::start().await;
    let mut raw = server.raw().await;
    for payload in [&b""[..], b"x", &[0xFF; 125]] {
        raw.send(FIN | PING, payload).await;
        assert_eq!(raw.frame().await, (FIN | PONG, payload.to_vec()));
    }
    for n in 0..100_u8 {
        raw.send(FIN | PING, &[n]).await;
    }
    for n in 0..100_u8 {
        assert_eq!(raw.frame().await, (FIN | PONG, vec![n]));
    }
    raw.leave().await;
    server.stop().await;
}

// ---- What must fail, with the code that the RFC names.

#[tokio::test]
async fn breaches_of_the_protocol_close_with_1002() {
    let server = Running::start().await;
    let text = |opcode| frame(opcode, b"{}");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("§5.4 a continuation of nothing", text(FIN | CONTINUATION)),
        ("§5.4 a fragment of nothing", text(CONTINUATION)),
        ("§5.4 text in a fragmented message", [text(TEXT), text(FIN | TEXT)].concat()),
        ("§5.4 binary in a fragmented message", [text(TEXT), text(BINARY)].concat()),
        (
            "§5.4 a continuation after the end",
            [frame(TEXT, b" "), frame(FIN | CONTINUATION, b""), text(FIN | CONTINUATION)].concat(),
        ),
        ("§5.5 a ping of 126 bytes", frame(FIN | PING, &[0; 126])),
        ("§5.5 a pong of 126 bytes", frame(FIN | PONG, &[0; 126])),
        ("§5.5 a close of 126 bytes", frame(FIN | CLOSE, &[3; 126])),
        ("§5.5 a fragmented ping", frame(PING, b"")),
        ("§5.5 a fragmented close", frame(CLOSE, b"")),
        ("§5.5 a fragmented pong in a message", [text(TEXT), frame(PONG, b"")].concat()),
        ("§5.2 RSV1", text(FIN | 0x40 | TEXT)),
        ("§5.2 RSV2", text(FIN | 0x20 | TEXT)),
        ("§5.2 RSV3 on a ping", frame(FIN | 0x10 | PING, b"")),
        ("§5.2 all reserved bits", text(FIN | 0x70 | TEXT)),
        ("§5.1 no mask", b"\x81\x02{}".to_vec()),
        ("§5.1 no mask on a ping", b"\x89\x00".to_vec()),
        ("§5.2 a length that is too long a form", {
            let mut wire = vec![FIN | TEXT, 0x80 | 126, 0, 2];
            wire.extend([0; 4]);
            wire.extend(b"{}");
            wire
        }),
        ("§5.2 a negative length", vec![FIN | TEXT, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ("§5.5.1 half a close code", frame(FIN | CLOSE, &[3])),
    ];
    for (case, wire) in cases {
        server.fails(case, &wire, 1002).await;
    }
    for opcode in [3, 4, 5, 6, 7, 0xB, 0xC, 0xD, 0xE, 0xF] {
        server.fails("§5.2 a reserved opcode", &frame(FIN | opcode, b""), 1002).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn what_came_before_a_breach_or_a_close_is_answered() {
    let server = Running::start().await;
    let call = frame(FIN | TEXT, call(1, "echo").as_bytes());
    for (end, code) in [
        (frame(FIN | CONTINUATION, b""), 1002),
        (frame(FIN | TEXT, b"\xFF"), 1007),
        (frame(FIN | BINARY, b""), 1003),
        (frame(FIN | CLOSE, &close(1000, b"")), 1000),
    ] {
        let mut raw = server.raw().await;
        raw.0.write_all(&[&call[..], &call, &end].concat()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(raw.message().await["id"], 1);
        }
        assert_eq!(raw.closed().await, Some(code));
    }
    server.stop().await;
}

#[tokio::test]
async fn close_codes_that_may_be_sent_come_back_and_others_are_a_breach() {
    let server = Running::start().await;
    // §7.4.1, §7.4.2, and IANA's registry for 1012 to 1014.
    let valid =
        [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4999];
    for code in valid {
        let mut raw = server.raw().await;
        raw.send(FIN | CLOSE, &close(code, b"bye")).await;
        assert_eq!(raw.closed().await, Some(code));
    }
    let invalid = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535];
    for code in invalid {
        server.fails("§7.4 a close code", &frame(FIN | CLOSE, &close(code, b"")), 1002).await;
    }
    // §5.5.1: without a code, and with the longest reason.
    let mut raw = server.raw().await;
    raw.send(FIN | CLOSE, b"").await;
    assert_eq!(raw.closed().await, None);
    let mut raw = server.raw().await;
    raw.send(FIN | CLOSE, &close(1000, &[b'x'; 123])).await;
    assert_eq!(raw.closed().await, Some(1000));
    // Nothing counts after a close.
    let mut raw = server.raw().await;
    let wire = [frame(FIN | CLOSE, &close(1000, b"")), frame(FIN | PING, b"late")].concat();
    raw.0.write_all(&wire).await.unwrap();
    assert_eq!(raw.closed().await, Some(1000));
    server.serves().await;
    server.stop().await;
}

#[tokio::test]
async fn text_that_is_not_utf8_closes_with_1007() {
    let server = Running::start().await;
    let bad: [(&str, &[u8]); 7] = [
        ("a lone continuation", b"\x80"),
        ("an overlong slash", b"\xC0\xAF"),
        ("a surrogate", b"\xED\xA0\x80"),
        ("beyond U+10FFFF", b"\xF4\x90\x80\x80"),
        ("no character at all", b"\xFE\xFF"),
        ("the middle of a text", b"{\"a\":\"\xCE\xBA\xE1\"}"),
        ("cut short", b"\xF0\x9F\x98"),
    ];
    for (case, bytes) in bad {
        server.fails(case, &frame(FIN | TEXT, bytes), 1007).await;
        for split in 0..=bytes.len() {
            let wire = [
                frame(TEXT, &bytes[..split]),
                frame(FIN | PING, b""),
                frame(FIN | CONTINUATION, &bytes[split..]),
            ];
            server.fails(case, &wire.concat(), 1007).await;
        }
        server.fails(case, &frame(FIN | CLOSE, &close(1000, bytes)), 1007).await;
    }
    // The first half of a character, and then the end of the message.
    let wire = [frame(TEXT, b"\"\xCE"), frame(FIN | CONTINUATION, b"")].concat();
    server.fails("§8.1 an unfinished character", &wire, 1007).await;
    server.stop().await;
}

#[tokio::test]
async fn what_is_too_big_closes_with_1009_before_it_is_here() {
    let server = Running::start().await;
    let head = |opcode: u8, len: usize| {
        let mut head = vec![opcode, 0xFF];
        head.extend((len as u64).to_be_bytes());
        head.extend([0; 4]);
        head
    };
    server.fails("one frame", &head(FIN | TEXT, BYTES_MAX + 1), 1009).await;
    server.fails("the longest of all", &head(FIN | TEXT, usize::MAX >> 1), 1009).await;
    server.fails("a first fragment", &head(TEXT, BYTES_MAX + 1), 1009).await;
    let half = vec![b' '; BYTES_MAX / 2];
    let sum = [frame(TEXT, &half), frame(CONTINUATION, &half), head(FIN, 65_536)].concat();
    server.fails("the sum of the fragments", &sum, 1009).await;
    // Exactly as long as allowed.
    let mut raw = server.raw().await;
    let mut call = call(5, "echo");
    call.push_str(&" ".repeat(BYTES_MAX - call.len()));
    raw.send(FIN | TEXT, call.as_bytes()).await;
    assert_eq!(raw.message().await["id"], 5);
    // A whole message that is too big: its sender reads the reason although it still writes.
    let mut raw = server.raw().await;
    raw.send(FIN | TEXT, &vec![b' '; 8 * BYTES_MAX]).await;
    assert_eq!(raw.closed().await, Some(1009));
    server.stop().await;
}

#[tokio::test]
async fn binary_on_mcp_closes_with_1003() {
    let server = Running::start().await;
    server.fails("binary", &frame(FIN | BINARY, b"{}"), 1003).await;
    let wire = [frame(BINARY, b"{"), frame(FIN | CONTINUATION, b"}")].concat();
    server.fails("binary in fragments", &wire, 1003).await;
    server.stop().await;
}

// ---- The life of a connection.

#[tokio::test]
async fn a_client_that_leaves_cancels_what_it_has_in_flight() {
    let (service, mut held) = service();
    let server = Running::with(service, limits(), Config::default(), local).await;
    for polite in [true, false] {
        let mut raw = server.raw().await;
        raw.send(FIN | TEXT, call(1, "hold").as_bytes()).await;
        let dropped = wait(held.recv()).await.unwrap();
        let before = Instant::now();
        if polite {
            raw.leave().await;
        } else {
            drop(raw);
        }
        wait(dropped).await.unwrap_err();
        assert!(before.elapsed() < Duration::from_secs(4), "long before the loop's own limit");
    }
    server.stop().await;
}

#[tokio::test]
async fn silence_is_looked_into_and_then_given_up() {
    let config = Config::default().keep_alive(Duration::from_millis(100));
    let server = Running::with(service().0, limits(), config, local).await;
    let mut raw = server.raw().await;
    for _ in 0..3 {
        assert_eq!(raw.frame().await, (FIN | PING, vec![]));
        raw.send(FIN | PONG, b"").await;
    }
    assert_eq!(raw.frame().await, (FIN | PING, vec![]));
    assert_eq!(raw.0.read(&mut [0; 8]).await.unwrap(), 0, "no pong, no connection");

    let config = Config::default().keep_alive(Duration::from_millis(50));
    let client = server.client(EraChoice::Auto, &config).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(echo(&client, "still here").await, "still here");
    server.stop().await;
}

#[tokio::test]
async fn pongs_that_nobody_takes_do_not_pile_up() {
    let server = Running::start().await;
    let mut raw = server.raw().await;
    let pings = frame(FIN | PING, &[7; 125]).repeat(1000);
    let mut sent = 0;
    // Until the server stops reading: its queue and the kernel's buffers are full.
    while let Ok(wrote) =
        timeout(Duration::from_millis(500), raw.0.write(&pings[sent % pings.len()..])).await
    {
        sent += wrote.unwrap();
        assert!(sent < 256 * 1024 * 1024, "it reads for ever");
    }
    server.serves().await;
    // And it goes on as soon as they are taken.
    assert_eq!(raw.frame().await, (FIN | PONG, vec![7; 125]));
    server.stop().await;
}

#[tokio::test]
async fn at_shutdown_what_is_in_flight_is_finished_and_1001_says_why() {
    let server = Running::start().await;
    let mut raw = server.raw().await;
    raw.send(FIN | TEXT, call(1, "slow").as_bytes()).await;
    raw.send(FIN | TEXT, call(2, "echo").as_bytes()).await;
    assert_eq!(raw.message().await["id"], 2, "the server has read both");
    tokio::join!(server.stop(), async {
        assert_eq!(raw.message().await["id"], 1);
        let (opcode, payload) = raw.frame().await;
        assert_eq!((opcode, payload), (FIN | CLOSE, close(1001, b"")));
        raw.send(FIN | CLOSE, &close(1001, b"")).await;
        assert_eq!(raw.0.read(&mut [0; 8]).await.unwrap(), 0);
    });
}

#[tokio::test]
async fn a_pending_call_ends_when_the_server_closes() {
    let (service, mut held) = service();
    let limits = limits().drain(Duration::from_millis(50));
    let server = Running::with(service, limits, Config::default(), local).await;
    let client = server.client(EraChoice::Auto, &Config::default()).await;
    let call = tokio::spawn(async move { client.call_tool("hold", &json!({})).await });
    wait(held.recv()).await.unwrap();
    wait(server.stop()).await;
    assert!(wait(call).await.unwrap().unwrap_err().is_closed());
}

// ---- The opening handshake.

#[tokio::test]
async fn the_server_refuses_what_is_no_handshake() {
    let server = Running::start().await;
    let good = server.request();
    let cases = [
        ("POST", good.replace("GET", "POST"), 405),
        ("HTTP/1.0", good.replace("HTTP/1.1", "HTTP/1.0"), 400),
        ("no upgrade", good.replace("upgrade: websocket\r\n", ""), 426),
        ("another upgrade", good.replace("websocket\r\n", "h2c\r\n"), 426),
        ("no connection", good.replace("connection: Upgrade\r\n", ""), 426),
        ("version 8", good.replace("version: 13", "version: 8"), 426),
        ("no version", good.replace("sec-websocket-version: 13\r\n", ""), 426),
        ("no key", good.replace("sec-websocket-key", "x-key"), 400),
        ("a short key", good.replace("bXBsZSBub25jZQ==", "bXBs"), 400),
        ("two keys", good.replace("\r\n\r\n", &format!("\r\n{KEY}\r\n\r\n")), 400),
        ("unknown subprotocols", offering("graphql, mqtt", &good), 400),
        ("a body", good.replace("\r\n\r\n", "\r\ncontent-length: 2\r\n\r\n{}"), 400),
        (
            "a foreign origin",
            good.replace("\r\n\r\n", "\r\norigin: https://evil.example\r\n\r\n"),
            403,
        ),
        ("an opaque origin", good.replace("\r\n\r\n", "\r\norigin: null\r\n\r\n"), 403),
        ("a foreign host", good.replace("host: 127.0.0.1", "host: rebound.example"), 421),
    ];
    for (case, request, status) in cases {
        let head = server.ask(&request).await.0;
        assert_eq!(head.split(' ').nth(1), Some(&*status.to_string()), "{case}: {head}");
        if status == 426 {
            assert!(head.contains("sec-websocket-version: 13"), "§4.4: {head}");
        }
    }
    server.serves().await;
    server.stop().await;
}

#[tokio::test]
async fn subprotocols_are_agreed_on() {
    let server = Running::start().await;
    let good = server.request();
    for (offered, chosen) in [("mcp", Some("mcp")), ("other, mcp", Some("mcp")), ("", None)] {
        let request = if offered.is_empty() { good.clone() } else { offering(offered, &good) };
        let (head, mut raw) = server.ask(&request).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "§1.3");
        let line = chosen.map(|name| format!("sec-websocket-protocol: {name}\r\n"));
        assert_eq!(head.contains("sec-websocket-protocol"), line.is_some(), "{head}");
        assert!(head.contains(&line.unwrap_or_default()), "{head}");
        raw.send(FIN | TEXT, call(1, "echo").as_bytes()).await;
        assert_eq!(raw.message().await["id"], 1);
    }
    // A page of this machine is welcome.
    let local = good.replace("\r\n\r\n", "\r\norigin: http://localhost:5173\r\n\r\n");
    assert!(server.ask(&local).await.0.starts_with("HTTP/1.1 101"));
    server.stop().await;
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let limits = limits().handshake(Duration::from_millis(100)).connections_max(1);
    let server = Running::with(service().0, limits, Config::default(), local).await;
    let mut slow = TcpStream::connect(&server.address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n").await.unwrap();
    wait(slow.read_to_end(&mut Vec::new())).await.unwrap();
    server.serves().await;
    server.stop().await;
}

#[tokio::test]
async fn a_full_server_says_when_to_come_back() {
    let server = Running::with(service().0, limits().connections_max(1), Config::default(), local);
    let server = server.await;
    let first = server.raw().await;
    let error = server.connect(&Config::default()).await.unwrap_err();
    assert!(
        error.to_string().contains("503") && error.to_string().contains("after 1 s"),
        "{error}"
    );
    drop(first);
    server.serves().await;
    server.stop().await;
}

#[tokio::test]
async fn the_callers_check_and_headers_count() {
    let check = |head: &http::request::Parts| match head.headers.get("authorization") {
        Some(token) if token == "Bearer good" => Ok(()),
        _ => {
            let mut refusal = Response::new(Full::from("who are you?\nmore"));
            *refusal.status_mut() = StatusCode::UNAUTHORIZED;
            Err(refusal)
        }
    };
    let server = Running::with(service().0, limits(), Config::default(), check).await;
    let error = server.connect(&Config::default()).await.unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("who are you?"), "{error}");
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer good".parse().unwrap());
    let url = format!("ws://{}/", server.address);
    dial(&url, &headers, &Config::default()).await.unwrap();

    headers.insert("sec-websocket-key", "mine".parse().unwrap());
    assert!(dial(&url, &headers, &Config::default()).await.unwrap_err().is_misuse());
    for url in ["http://x/", "ws:///", "ws://user@x/", "nonsense"] {
        let error = dial(url, &HeaderMap::new(), &Config::default()).await.unwrap_err();
        assert!(error.is_misuse(), "{url}: {error}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_client_refuses_a_server_that_breaks_the_handshake() {
    const ANSWER: &str = "HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";
    for (answer, why) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n".to_owned(), "200"),
        (ANSWER.to_owned() + "sec-websocket-accept: wrong\r\n", "does not answer our key"),
        (ANSWER.replace("websocket", "h2c"), "no WebSocket"),
        (ANSWER.to_owned() + "{accept}sec-websocket-extensions: x\r\n", "extension"),
        (ANSWER.to_owned() + "{accept}sec-websocket-protocol: soap\r\n", "subprotocol"),
    ] {
        let url = fake(answer, Vec::new()).await.0;
        let error = dial(&url, &HeaderMap::new(), &Config::default()).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn the_client_holds_the_server_to_the_protocol() {
    for (wire, code, why) in [
        (frame(FIN | TEXT, b"{}"), 1002, "masked"),
        (b"\x82\x02{}".to_vec(), 1003, "text frames"),
        (b"\x81\x01\xFF".to_vec(), 1007, "UTF-8"),
        (b"\x81\x7f\x00\x00\x00\x00\x7f\xff\xff\xff".to_vec(), 1009, "at most"),
        (b"\x88\x06\x03\xf3oops".to_vec(), 1011, "1011 oops"),
    ] {
        let answer = "HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: upgrade\r\n{accept}";
        let (url, said) = fake(answer.to_owned(), wire).await;
        let mut socket = dial(&url, &HeaderMap::new(), &Config::default()).await.unwrap();
        let error = wait(socket.read(&mut [0; 64])).await.unwrap_err();
        assert!(error.to_string().contains(why), "{code}: {error}");
        let said = wait(said).await.unwrap();
        // A masked close frame: its first six bytes are head and mask.
        assert_eq!((said[0], said[1] & 0x80), (FIN | CLOSE, 0x80), "{code}");
        assert_eq!(u16::from_be_bytes([said[6] ^ said[2], said[7] ^ said[3]]), code);
    }
}

#[tokio::test]
async fn halves_in_different_tasks_wake_each_other() {
    let server = Running::start().await;
    let (mut reader, mut writer) =
        tokio::io::split(server.connect(&Config::default()).await.unwrap());
    let reading = tokio::spawn(async move {
        let (mut newlines, mut buffer) = (0, vec![0; 4096]);
        while newlines < 200 {
            let count = reader.read(&mut buffer).await.unwrap();
            newlines += buffer[..count].iter().filter(|byte| **byte == b'\n').count();
        }
    });
    for id in 0..200 {
        let arguments = json!({"text": "x".repeat(9999)}).to_string();
        let line = call(id, "echo").replace(EMPTY, &format!("\"arguments\":{arguments}"));
        writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        writer.flush().await.unwrap();
    }
    wait(reading).await.unwrap();
    wait(writer.shutdown()).await.unwrap();
    server.stop().await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn over_tls() {
    use mcplane::transport::tls::{ClientTls, ServerTls};
    let data = |name: &str| format!("{}/tests/data/test-only-{name}", env!("CARGO_MANIFEST_DIR"));
    let tls = ServerTls::from_pem_files(data("first.pem"), data("first.key.pem")).unwrap();
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits()).await.unwrap();
    let server = Running::on(listener.with_tls(tls), service().0, Config::default(), local);
    let tls = ClientTls::new().unwrap().ca_pem_file(data("ca.pem")).unwrap();
    let url = format!("wss://{}/mcp?x=1", server.address.replace("127.0.0.1", "localhost"));
    let socket = websocket::connect(&url, &HeaderMap::new(), Some(&tls)).await.unwrap();
    let client = Client::builder("t", "1").connect(socket).await.unwrap();
    assert_eq!(echo(&client, "secret").await, "secret");
    let error = websocket::connect(&url, &HeaderMap::new(), None).await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    client.close().await;
    server.stop().await;
}

#[cfg(feature = "msgpack")]
mod msgpack {
    use super::*;

    #[tokio::test]
    async fn calls_in_both_eras() {
        let server = Running::start().await;
        let config = Config::default().protocols([Protocol::MessagePack, Protocol::Json]);
        for era in [EraChoice::Auto, EraChoice::Legacy] {
            let socket = server.connect(&config).await.unwrap();
            assert_eq!(socket.protocol(), Protocol::MessagePack);
            let client = Client::builder("t", "1").revision(era).connect(socket).await.unwrap();
            for text in ["", "short", &"é\n".repeat(50_000)] {
                assert_eq!(echo(&client, text).await, text);
            }
            client.close().await;
        }
        server.stop().await;
    }

    #[tokio::test]
    async fn the_client_chooses_and_falls_back() {
        let server = Running::start().await;
        let good = server.request();
        for (offered, chosen) in [("mcp.msgpack, mcp", "mcp.msgpack"), ("mcp, mcp.msgpack", "mcp")]
        {
            let head = server.ask(&offering(offered, &good)).await.0;
            assert!(head.contains(&format!("sec-websocket-protocol: {chosen}\r\n")), "{head}");
        }
        // A server that knows `mcp` alone.
        let answer = "HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                      sec-websocket-protocol: mcp\r\n{accept}";
        let url = fake(answer.to_owned(), Vec::new()).await.0;
        let config = Config::default().protocols([Protocol::MessagePack, Protocol::Json]);
        let socket = dial(&url, &HeaderMap::new(), &config).await.unwrap();
        assert_eq!(socket.protocol(), Protocol::Json);
        server.stop().await;
    }

    #[tokio::test]
    async fn text_and_what_is_no_messagepack_are_refused() {
        let server = Running::start().await;
        let request = offering("mcp.msgpack", &server.request());
        for (wire, code) in [
            (frame(FIN | TEXT, b"{}"), 1003),
            (frame(FIN | BINARY, b"\xc1"), 1007),
            (frame(FIN | BINARY, b"\xc4\x01x"), 1007),
            (frame(FIN | BINARY, &[0x91; 1000]), 1007),
        ] {
            let mut raw = server.ask(&request).await.1;
            raw.0.write_all(&wire).await.unwrap();
            assert_eq!(raw.closed().await, Some(code));
        }
        server.serves().await;
        server.stop().await;
    }
}

// ---- The server of the tests, and a client that is written by hand.

fn limits() -> Limits {
    Limits::default().accepts_per_s(0)
}

/// Held calls: each comes with what fails once its handler is dropped.
type Held = mpsc::Receiver<oneshot::Receiver<()>>;

fn service() -> (Service, Held) {
    let (hold, held) = mpsc::channel(8);
    let echo = |_: &_, text: EchoArguments| text.text.unwrap_or_default();
    let server = Server::new("websocket", "1")
        .tool(Tool::inline("echo", echo))
        .tool(Tool::waiting("slow", |_, _: NoArguments| async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            "at last"
        }))
        .tool(Tool::waiting("hold", move |_, _: NoArguments| {
            let hold = hold.clone();
            async move {
                let (_alive, dropped) = oneshot::channel();
                hold.send(dropped).await.unwrap();
                std::future::pending::<()>().await;
                "never"
            }
        }));
    (server.start().unwrap(), held)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArguments {
    text: Option<String>,
}

async fn echo(client: &Client, text: &str) -> String {
    let result = wait(client.call_tool("echo", &json!({"text": text}))).await.unwrap();
    result.content.first().unwrap().as_text().unwrap().to_owned()
}

type Checked = Result<(), Response<Full<bytes::Bytes>>>;

#[allow(clippy::result_large_err, reason = "what the hook has")]
fn local(head: &http::request::Parts) -> Checked {
    websocket::server::local_only(head)
}

struct Running {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start() -> Self {
        let config = Config::default().message_bytes_max(BYTES_MAX);
        Self::with(service().0, limits(), config, local).await
    }

    async fn with(
        service: Service,
        limits: Limits,
        config: Config,
        check: impl Fn(&http::request::Parts) -> Checked + Send + Sync + 'static,
    ) -> Self {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), limits).await.unwrap();
        Self::on(listener, service, config, check)
    }

    fn on(
        listener: Listener,
        service: Service,
        config: Config,
        check: impl Fn(&http::request::Parts) -> Checked + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_address().to_string();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { stopped.await.unwrap() };
        let serve = websocket::server::serve(listener, service, config, check, shutdown);
        Self { address, stop, task: tokio::spawn(serve) }
    }

    async fn connect(&self, config: &Config) -> mcplane::Result<WebSocket> {
        dial(&format!("ws://{}/mcp", self.address), &HeaderMap::new(), config).await
    }

    async fn client(&self, era: EraChoice, config: &Config) -> Client {
        let socket = self.connect(config).await.unwrap();
        assert_eq!(socket.protocol(), Protocol::Json);
        Client::builder("t", "1").revision(era).connect(socket).await.unwrap()
    }

    /// A request for a WebSocket without subprotocols.
    fn request(&self) -> String {
        format!(
            "GET /mcp HTTP/1.1\r\nhost: {}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\n{KEY}\r\n\r\n",
            self.address
        )
    }

    /// The head of the answer to a request, and the connection.
    async fn ask(&self, request: &str) -> (String, Raw) {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(wait(stream.read_u8()).await.unwrap());
        }
        (String::from_utf8(head).unwrap(), Raw(stream))
    }

    async fn raw(&self) -> Raw {
        let (head, raw) = self.ask(&self.request()).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        raw
    }

    /// Whoever sends this is closed with this code, and nobody else is.
    async fn fails(&self, case: &str, wire: &[u8], code: u16) {
        let mut raw = self.raw().await;
        raw.0.write_all(wire).await.unwrap();
        assert_eq!(raw.closed().await, Some(code), "{case}: {wire:02x?}");
        self.serves().await;
    }

    /// A well-behaved client is served; a place may have to become free first.
    async fn serves(&self) {
        wait(async {
            loop {
                let (head, mut raw) = self.ask(&self.request()).await;
                if head.starts_with("HTTP/1.1 101") {
                    raw.send(FIN | TEXT, call(9, "echo").as_bytes()).await;
                    assert_eq!(raw.message().await["id"], 9);
                    return raw.leave().await;
                }
            }
        })
        .await;
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        wait(self.task).await.unwrap();
    }
}

struct Raw(TcpStream);

impl Raw {
    async fn send(&mut self, opcode: u8, payload: &[u8]) {
        // The server may have hung up on us meanwhile: what it said tells.
        let _ = self.0.write_all(&frame(opcode, payload)).await;
    }

    /// The next frame, which must not be masked (§5.1).
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        wait(async {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).await.expect("a frame");
            let len = match head[1] {
                126 => self.0.read_u16().await.unwrap().into(),
                127 => usize::try_from(self.0.read_u64().await.unwrap()).unwrap(),
                short => usize::from(short),
            };
            let mut payload = vec![0; len];
            self.0.read_exact(&mut payload).await.unwrap();
            (head[0], payload)
        })
        .await
    }

    async fn message(&mut self) -> Value {
        let (opcode, payload) = self.frame().await;
        assert_eq!(opcode, FIN | TEXT, "{:?}", String::from_utf8_lossy(&payload));
        serde_json::from_slice(&payload).unwrap()
    }

    /// The code that the server closes with, after which it hangs up. Pongs may come before.
    async fn closed(&mut self) -> Option<u16> {
        let payload = loop {
            match self.frame().await {
                (CLOSED, payload) => break payload,
                (opcode, _) => assert_eq!(opcode, FIN | PONG),
            }
        };
        let rest = wait(self.0.read(&mut [0; 8])).await;
        assert_eq!(rest.unwrap_or(0), 0, "nothing follows a close");
        std::str::from_utf8(payload.get(2..).unwrap_or_default()).expect("a reason is text");
        payload.first_chunk().map(|code| u16::from_be_bytes(*code))
    }

    async fn leave(mut self) {
        self.send(FIN | CLOSE, &close(1000, b"")).await;
        assert_eq!(self.closed().await, Some(1000));
    }
}

const CLOSED: u8 = FIN | CLOSE;

/// The challenge of §1.3.
const KEY: &str = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";

fn offering(protocols: &str, request: &str) -> String {
    request.replace("\r\n\r\n", &format!("\r\nsec-websocket-protocol: {protocols}\r\n\r\n"))
}

/// A masked frame.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut frame = vec![opcode];
    match payload.len() {
        len @ 0..=125 => frame.push(0x80 | u8::try_from(len).unwrap()),
        len @ 126..=65_535 => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes(), reason].concat()
}

/// The arguments of [`call`].
const EMPTY: &str = "\"arguments\":{}";

/// A call in the era of 2026-07-28.
fn call(id: u32, tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"_meta": meta, "name": tool, "arguments": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// A server for one client: answers the handshake with `answer`, in which `{accept}` stands for
/// the right header, sends `wire`, and hands over what the client says then.
async fn fake(answer: String, wire: Vec<u8>) -> (String, oneshot::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let (say, said) = oneshot::channel();
    tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains("sec-websocket-version: 13"), "{head}");
        let accept = format!("sec-websocket-accept: {}\r\n", answered(&head).await);
        let answer = answer.replace("{accept}", &accept) + "\r\n";
        stream.write_all(&[answer.as_bytes(), &wire].concat()).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        let _ = say.send(rest);
    });
    (url, said)
}

/// The answer to the challenge in a request's head: a real server knows it.
async fn answered(head: &str) -> String {
    let key = head.lines().find(|line| line.starts_with("sec-websocket-key")).expect("a key");
    let server = Running::start().await;
    let answer = server.ask(&server.request().replace(KEY, key)).await.0;
    let accept = answer.lines().find_map(|line| line.strip_prefix("sec-websocket-accept: "));
    accept.expect("an answer").to_owned()
}

async fn dial(url: &str, headers: &HeaderMap, config: &Config) -> mcplane::Result<WebSocket> {
    #[cfg(feature = "tls")]
    return websocket::connect_with(url, headers, None, config).await;
    #[cfg(not(feature = "tls"))]
    return websocket::connect_with(url, headers, config).await;
}

async fn wait<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("it took too long")
}
