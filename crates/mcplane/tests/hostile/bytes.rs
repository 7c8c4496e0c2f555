//! Requests that are no requests. Each is refused or hung up on, and none reaches a handler twice.

use serde_json::json;

use crate::siege::{Target, siege};
use crate::wire::{LATEST_LEGACY, Request, call, modern_body, wait};
use crate::world::World;

/// Everything that the server says to these bytes, until it hangs up or has said enough.
async fn said(world: &World, bytes: &[u8]) -> String {
    let mut wire = world.wire().await;
    wire.write(bytes).await;
    String::from_utf8_lossy(&wire.closed().await).into_owned()
}

/// A good request whose head is changed before it is sent.
fn changed(change: impl Fn(&str) -> String) -> Vec<u8> {
    let bytes = Request::call(1, "echo", json!({"text": "smuggled"})).bytes();
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = change(std::str::from_utf8(&bytes[..at + 2]).unwrap());
    [head.as_bytes(), b"\r\n", &bytes[at + 4..]].concat()
}

#[test]
fn requests_that_two_readers_would_read_differently() {
    siege(Target::default(), async |world| {
        let length = |head: &str| head.split("Content-Length: ").nth(1).unwrap().trim().to_owned();
        let shapes: Vec<(&str, Vec<u8>)> = vec![
            ("two lengths", changed(|head| format!("{head}Content-Length: 3\r\n"))),
            (
                "a list of lengths",
                changed(|head| {
                    head.replace("Content-Length: ", &format!("Content-Length: {}, ", 3))
                }),
            ),
            (
                "a signed length",
                changed(|head| head.replace("Content-Length: ", "Content-Length: +")),
            ),
            (
                "a negative length",
                changed(|head| head.replace("Content-Length: ", "Content-Length: -")),
            ),
            ("a long length", changed(|head| head.replace(&length(head), "18446744073709551616"))),
            ("a hexadecimal length", changed(|head| head.replace(&length(head), "0x10"))),
            ("an unknown coding", changed(|head| format!("{head}Transfer-Encoding: xchunked\r\n"))),
            (
                "a coding after chunked",
                changed(|head| format!("{head}Transfer-Encoding: chunked, identity\r\n")),
            ),
            ("a vertical tab", changed(|head| format!("{head}Transfer-Encoding: \x0bchunked\r\n"))),
            ("a folded line", changed(|head| format!("{head}X-A: 1\r\n folded: 2\r\n"))),
            (
                "a folded coding",
                changed(|head| format!("{head}Transfer-Encoding:\r\n chunked\r\n")),
            ),
            (
                "a space before the colon",
                changed(|head| head.replace("Content-Length:", "Content-Length :")),
            ),
            ("a NUL in a value", changed(|head| format!("{head}X-A: a\0b\r\n"))),
            ("a NUL in a name", changed(|head| format!("{head}X\0A: b\r\n"))),
            ("a bare CR in a value", changed(|head| format!("{head}X-A: a\rX-B: b\r\n"))),
            ("no name", changed(|head| format!("{head}: b\r\n"))),
            ("no colon", changed(|head| format!("{head}nothing\r\n"))),
            ("a space before the first header", changed(|head| head.replacen("\r\n", "\r\n ", 1))),
            (
                "chunked in HTTP/1.0",
                changed(|head| {
                    head.replace("HTTP/1.1", "HTTP/1.0") + "Transfer-Encoding: chunked\r\n"
                }),
            ),
            ("an unknown version", changed(|head| head.replace("HTTP/1.1", "HTTP/9.9"))),
            ("a space in the target", changed(|head| head.replace("/mcp", "/m cp"))),
            ("no method", changed(|head| head.replace("POST ", " "))),
        ];
        for (name, bytes) in shapes {
            let said = said(world, &bytes).await;
            assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{name}: {said}");
            assert!(!said.contains("smuggled"), "{name}: {said}");
        }
    });
}

#[test]
fn chunks_that_lie() {
    siege(Target::default(), async |world| {
        let body = String::from_utf8(Request::call(1, "echo", json!({"text": "smuggled"})).bytes())
            .unwrap();
        let (head, body) = body.split_once("\r\n\r\n").unwrap();
        let lines = head.lines().filter(|line| !line.starts_with("Content-Length"));
        let head =
            lines.collect::<Vec<_>>().join("\r\n") + "\r\nTransfer-Encoding: chunked\r\n\r\n";
        let size = body.len();
        let good = format!("{head}{size:x}\r\n{body}\r\n0\r\n\r\n");
        let mut wire = world.wire().await;
        wire.write(good.as_bytes()).await;
        assert_eq!(wire.response().await.text(), "smuggled");

        for chunks in [
            format!("fffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
            format!("ffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
            format!("-1\r\n{body}\r\n0\r\n\r\n"),
            format!("0x{size:x}\r\n{body}\r\n0\r\n\r\n"),
            format!("{size:x} \n{body}\r\n0\r\n\r\n"),
            format!("{size:x}\n{body}\n0\n\n"),
            format!("{size:x}\r\n{body}X\r\n0\r\n\r\n"),
            format!("\r\n{body}\r\n0\r\n\r\n"),
            format!("{size:x};{}\r\n{body}\r\n0\r\n\r\n", "e".repeat(100_000)),
            format!("{size:x}\r\n{body}\r\n0\r\n{}\r\n", "T: x\r\n".repeat(20_000)),
            format!("{:x}\r\n{body}\r\n", size + 2),
        ] {
            let mut wire = world.wire().await;
            wire.write(head.as_bytes()).await;
            let _ = wire.io_write(chunks.as_bytes()).await;
            wire.finish().await;
            let said = String::from_utf8_lossy(&wire.closed().await).into_owned();
            let name = &chunks[..chunks.len().min(24)];
            assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{name:?}: {said}");
        }
    });
}

#[test]
fn a_length_beside_chunks_is_one_request_and_the_end_of_its_connection() {
    siege(Target::default(), async |world| {
        // RFC 9112 §6.1: chunks win, and the connection closes, whatever comes after.
        let inner = Request::call(2, "echo", json!({"text": "smuggled"})).bytes();
        for first in [true, false] {
            let coding = "Transfer-Encoding: chunked";
            let length = format!("Content-Length: {}", inner.len() + 5);
            let both = if first {
                format!("{coding}\r\n{length}")
            } else {
                format!("{length}\r\n{coding}")
            };
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{both}\r\n\r\n"
            );
            let said = said(world, &[head.as_bytes(), b"0\r\n\r\n", &inner].concat()).await;
            assert_eq!(said.matches("HTTP/1.1").count(), 1, "{said}");
            assert!(said.starts_with("HTTP/1.1 400") && !said.contains("smuggled"), "{said}");
        }
    });
}

#[test]
fn bare_line_feeds_do_not_hide_a_request() {
    siege(Target::default(), async |world| {
        // RFC 9112 §2.2 lets a server take a bare LF for a line's end; what matters is that the
        // bytes are one request and not two.
        let bytes =
            String::from_utf8(Request::call(1, "echo", json!({"text": "x"})).bytes()).unwrap();
        let bare = bytes.replace("\r\n", "\n");
        let mut wire = world.wire().await;
        wire.write(bare.as_bytes()).await;
        wire.finish().await;
        let said = String::from_utf8_lossy(&wire.closed().await).into_owned();
        assert!(said.matches("HTTP/1.1").count() <= 1, "{said}");
    });
}

#[test]
fn heads_that_are_too_large() {
    siege(Target::default(), async |world| {
        let list = || Request::modern(1, "tools/list", json!({}));
        let many = (0..2000).fold(list(), |request, n| request.header(&format!("X-{n}"), "x"));
        let long = list().header("X-Long", "x".repeat(200 * 1024));
        let name = list().header(&"N".repeat(100_000), "x");
        let uri = Request::post_to(&format!("/{}", "x".repeat(200 * 1024)), "{}");
        let cookies = (0..90).fold(list(), |request, _| request.header("C", "x".repeat(2000)));
        for request in [many, long, name, uri, cookies] {
            let mut wire = world.wire().await;
            let _ = wire.io_write(&request.bytes()).await;
            let said = String::from_utf8_lossy(&wire.closed().await).into_owned();
            let refused = ["400", "414", "431"].map(|status| format!("HTTP/1.1 {status}"));
            let fine = said.is_empty() || refused.iter().any(|status| said.starts_with(status));
            assert!(fine, "{said}");
        }
        let endless = vec![b'A'; 1024 * 1024];
        let mut wire = world.wire().await;
        let _ = wire.io_write(&endless).await;
        assert!(!String::from_utf8_lossy(&wire.closed().await).contains(" 200 "));
    });
}

#[test]
fn bodies_that_are_too_large_are_refused_before_they_are_read() {
    siege(Target::default(), async |world| {
        for length in [4 * 1024 * 1024 + 1, 1 << 40, u64::MAX - 2] {
            let head =
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
            let mut wire = world.wire().await;
            wire.write(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes()).await;
            wire.response().await.refuses_http(413);
            wire.finish().await;
            wire.closed().await;
        }
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        let mut wire = world.wire().await;
        wire.write(head.as_bytes()).await;
        let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
        let mut sent = 0;
        while sent < 1024 && wire.io_write(&chunk).await {
            sent += 1;
        }
        assert!(sent < 1024, "64 MiB were taken");
        let said = String::from_utf8_lossy(&wire.closed().await).into_owned();
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 413"), "{said}");
    });
}

#[test]
fn json_bombs() {
    siege(Target::default(), async |world| {
        let session = world.session("2025-03-26").await;
        let ping = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
        let deep = 200_000;
        for body in [
            "[".repeat(deep),
            format!("{}{}", "[".repeat(deep), "]".repeat(deep)),
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}"#,
                "{\"a\":".repeat(deep)
            ),
            format!("[{}]", vec![ping; 50_000].join(",")),
            format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "i".repeat(100_000)),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "m".repeat(100_000)),
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, "9".repeat(100_000)),
        ] {
            let answer = world.send(&Request::legacy_text(&session, body.clone())).await;
            assert!(answer.status() < 500, "{} for {}", answer.status(), &body[..40]);
            assert!(answer.body.len() < 10_000 || answer.body.len() < 2 * body.len());
        }
        let gone = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session);
        world.send(&gone).await;
        let nested = (0..500).fold(json!(1), |inner, _| json!([inner]));
        let answer = world.send(&Request::call(1, "echo", json!({"text": nested}))).await;
        assert!(answer.status() < 500);
    });
}

#[test]
fn headers_that_lie_about_the_body() {
    siege(Target::default(), async |world| {
        let mut wire = world.wire().await;
        let echo = || Request::call(1, "echo", json!({"text": "x"}));
        for _ in 0..50 {
            wire.send(&echo().with("Mcp-Name", "other")).await.refuses(400, -32020, json!(1));
            wire.send(&echo().header("Mcp-Name", "echo")).await.refuses(400, -32020, json!(1));
            wire.send(&echo().with("Mcp-Method", "tools/list")).await.refuses(
                400,
                -32020,
                json!(1),
            );
            wire.send(&echo().with("Host", "evil.example")).await.refuses_http(421);
            wire.send(&echo().header("Origin", "https://evil.example")).await.refuses_http(403);
            assert_eq!(wire.send(&echo()).await.text(), "x", "on the same connection");
        }
    });
}

#[test]
fn one_byte_at_a_time_is_still_a_request() {
    siege(Target::default(), async |world| {
        let mut wire = world.wire().await;
        for n in 0..3 {
            for byte in Request::call(n, "echo", json!({"text": "slow"})).bytes() {
                wire.write(&[byte]).await;
            }
            assert_eq!(wire.response().await.text(), "slow");
        }
    });
}

#[test]
fn pipelined_requests_are_answered_in_order_or_not_at_all() {
    siege(Target::default(), async |world| {
        let mut wire = world.wire().await;
        let mut all = Vec::new();
        for n in 0..100 {
            let tool = if n % 10 == 0 { "later" } else { "echo" };
            all.extend(Request::call(n, tool, json!({"text": n.to_string(), "ms": 1})).bytes());
        }
        wire.write(&all).await;
        for n in 0..100 {
            let answer = wait(wire.response()).await;
            assert_eq!((answer.text(), answer.json()["id"].clone()), (n.to_string(), json!(n)));
        }
        // And with an error in the middle, or nobody to read them.
        let mut broken = all.clone();
        broken.splice(all.len() / 2..all.len() / 2, *b"\r\n\0GARBAGE");
        wire.write(&broken).await;
        wire.finish().await;
        wire.closed().await;
        let mut wire = world.wire().await;
        let _ = wire.io_write(&all.repeat(20)).await;
    });
}

#[test]
fn legacy_messages_that_fit_nothing() {
    siege(Target::default(), async |world| {
        let session = world.session(LATEST_LEGACY).await;
        let mut wire = world.wire().await;
        for n in 0..60 {
            for message in [
                json!({"jsonrpc": "2.0", "id": n, "result": {}}),
                json!({"jsonrpc": "2.0", "id": n, "error": {"code": 1, "message": "x"}}),
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}}),
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": n}}),
            ] {
                assert_eq!(wire.send(&Request::legacy(&session, &message)).await.status(), 202);
            }
            let body = modern_body(n, "tools/call", json!({"name": "echo"}));
            let lying = wire.send(&Request::legacy(&session, &body)).await;
            lying.refuses(400, -32020, json!(n));
        }
        let echo = Request::legacy(&session, &call(1, "echo", json!({"text": "on"})));
        assert_eq!(wire.send(&echo).await.text(), "on");
        world.send(&Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session)).await;
    });
}
