//! Server-sent events: however a stream is cut, the same events come out, and what is written is
//! read again.

use std::time::Duration;

use mcplane_proto::frame::sse::{self, Block, Decoder, Event, EventError};

/// Any bytes.
pub fn run(data: &[u8]) {
    let [cut, stream @ ..] = data else { return };
    let size = usize::from(*cut).max(1);
    let whole = decode(stream, stream.len().max(1), usize::MAX);
    assert_eq!(decode(stream, 1, usize::MAX), whole, "byte by byte");
    assert_eq!(decode(stream, size, usize::MAX), whole, "in pieces of {size}");
    // Blocks that are too long are given up, and no event is longer than the bound.
    for event in decode(stream, size, size).0.into_iter().flatten() {
        assert!(event.data.len() <= size);
    }
    written(stream, u64::from(*cut));
}

type Found = Vec<Result<Event, EventError>>;

fn decode(stream: &[u8], size: usize, max: usize) -> (Found, Option<String>, bool) {
    let mut decoder = Decoder::new(max);
    let mut events = Vec::new();
    for mut piece in stream.chunks(size) {
        while let Some(event) = decoder.next(&mut piece) {
            events.push(event);
        }
        assert!(piece.is_empty(), "a chunk is used up");
    }
    (events, decoder.last_id().map(Into::into), decoder.is_inside_event())
}

/// Any text as data, any text as type and id.
fn written(stream: &[u8], ms: u64) {
    let Ok(text) = std::str::from_utf8(stream) else { return };
    let (head, data) = text.split_at(text.floor_char_boundary(text.len() / 4));
    let mut out = Vec::new();
    sse::comment(&mut out, text);
    let retry = Some(Duration::from_millis(ms));
    Block { event: Some(head), id: Some(head), retry, data: Some(data.as_bytes()) }.write(&mut out);
    let start = sse::begin(&mut out, None, None);
    out.extend_from_slice(data.as_bytes());
    sse::end(&mut out, start);
    let (events, last_id, is_inside) = decode(&out, out.len(), usize::MAX);
    assert!(!is_inside);
    let events: Vec<Event> = events.into_iter().map(|event| event.expect("an event")).collect();
    let [block, message] = &events[..] else { panic!("two events, not {events:?}") };

    let line: String = head.chars().filter(|c| !matches!(c, '\n' | '\r' | '\0')).collect();
    assert_eq!(block.name.as_deref(), Some(line.as_str()).filter(|name| !name.is_empty()));
    assert_eq!(block.id.as_deref(), Some(line.as_str()));
    assert_eq!(last_id, Some(line).filter(|id| !id.is_empty()));
    assert_eq!(block.retry, retry);
    assert_eq!(block.data, data.replace("\r\n", "\n").replace('\r', "\n"));
    assert_eq!(message.data, data.replace(['\r', '\n'], " "));
}
