//! Frames of WebSocket: however a stream is cut, the same messages come out and the same breach ends
//! it; what is kept is bounded; what is written is read again.

use bytes::{Bytes, BytesMut};

use frame::{Code, Decoder, Event, Opcode, Role, Violation};

#[allow(dead_code, reason = "a file of another crate, of which a part is run")]
#[path = "../../../crates/mcplane/src/transport/websocket/frame.rs"]
mod frame;

/// Any bytes.
pub fn run(data: &[u8]) {
    let [max, cut, stream @ ..] = data else { return };
    let max = usize::from(*max) * 4;
    for role in [Role::Client, Role::Server] {
        let whole = decode(role, stream, stream.len().max(1), max);
        assert_eq!(decode(role, stream, 1, max), whole, "byte by byte");
        let size = usize::from(*cut).max(1);
        assert_eq!(decode(role, stream, size, max), whole, "in pieces of {size}");
    }
    let mask = [*cut, 1, 255, 0];
    for (writer, reader, mask) in
        [(Role::Client, Role::Server, Some(mask)), (Role::Server, Role::Client, None)]
    {
        written(writer, reader, mask, stream);
    }
}

/// What was said, and the breach at its end if there is one.
type Found = (Vec<Event>, Option<Violation>);

fn decode(role: Role, stream: &[u8], size: usize, max: usize) -> Found {
    let (mut decoder, mut input) = (Decoder::new(role, max), BytesMut::new());
    let mut events = Vec::new();
    for piece in stream.chunks(size) {
        input.extend_from_slice(piece);
        loop {
            match decoder.next(&mut input) {
                Ok(Some(event)) => {
                    check(&event, max);
                    events.push(event);
                }
                Ok(None) => break,
                Err(violation) => return (events, Some(violation)),
            }
        }
        assert!(decoder.held() <= max, "what is kept is bounded");
        assert!(size > 1 || input.len() <= max.max(125) + 14, "a frame at most");
    }
    (events, None)
}

fn check(event: &Event, max: usize) {
    match event {
        Event::Text(text) => {
            assert!(text.len() <= max);
            std::str::from_utf8(text).expect("text is UTF-8");
        }
        Event::Binary(bytes) => assert!(bytes.len() <= max),
        Event::Ping(payload) => assert!(payload.len() <= 125),
        Event::Pong => {}
        Event::Close(code, reason) => {
            assert!(code.is_some() || reason.is_empty());
            assert!(code.is_none_or(|code| (1000..5000).contains(&code)) && reason.len() <= 123);
        }
    }
}

/// Any bytes as a message, and any text as a reason.
fn written(writer: Role, reader: Role, mask: Option<[u8; 4]>, stream: &[u8]) {
    let (start, end) = stream.split_at(stream.len() / 3);
    let mut wire = Vec::new();
    frame::write(&mut wire, Opcode::Binary, mask, &[start, end]);
    let (events, breach) = decode(reader, &wire, wire.len(), stream.len());
    assert_eq!((events, breach), (vec![Event::Binary(stream.into())], None));
    // Whoever writes so is told apart by the mask.
    let (events, breach) = decode(writer, &wire, wire.len(), stream.len());
    assert!(events.is_empty() && matches!(breach, Some(Violation(Code::Protocol, _))));

    let reason = String::from_utf8_lossy(stream);
    let mut wire = Vec::new();
    frame::write_close(&mut wire, mask, 1000, &reason);
    let (events, breach) = decode(reader, &wire, wire.len(), 125);
    let [Event::Close(Some(1000), read)] = &events[..] else { panic!("{events:?} {breach:?}") };
    assert!(reason.starts_with(read.as_str()) && reason.len() - read.len() <= reason.len());
    assert!(read.len() == reason.len() || read.len() > 119, "as much as fits");
    let _: Bytes = wire.into();
}
