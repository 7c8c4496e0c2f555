//! Frames: what must work, and what must fail with the code that RFC 6455 names.

use super::*;

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
