//! Server-sent events (WHATWG HTML §9.2): the decoder a client feeds, and what a server writes.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::limits::EVENT_BYTES_MAX;

/// One block of an event stream, up to its blank line.
///
/// Unlike a browser, the decoder also gives blocks without data that say something: a server primes
/// resumption with an `id` and empty data (SEP-1699), and may send `retry` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The type; `None` means `message`.
    pub name: Option<Box<str>>,
    /// The `id` that this block set; the empty string forgets the last one.
    pub id: Option<Box<str>>,
    /// How long to wait before connecting again.
    pub retry: Option<Duration>,
    /// The data, valid UTF-8, its lines joined by `\n`.
    pub data: Bytes,
}

impl Event {
    /// Whether there is a message to read: data, and of the type `message`.
    #[must_use]
    pub fn is_message(&self) -> bool {
        !self.data.is_empty() && self.name.as_deref().is_none_or(|name| name == "message")
    }
}

/// Decodes an event stream that arrives in chunks cut anywhere.
#[derive(Debug)]
pub struct Decoder {
    event_bytes_max: usize,
    /// The beginning of a line that is not complete yet.
    line: Vec<u8>,
    data: Vec<u8>,
    event: Event,
    state: State,
    last_id: Option<Box<str>>,
}

#[derive(Debug, Default)]
struct State {
    /// The first line, which may begin with a byte order mark, is over.
    begun: bool,
    /// The last byte was a CR: an LF now belongs to it.
    after_cr: bool,
    /// The block has a `data`, `id` or `retry` field.
    said: bool,
    /// The block was given up; its remaining lines are dropped.
    skipping: bool,
    /// The line that is being dropped is not blank.
    skipped: bool,
    /// A field that must be text is not UTF-8.
    not_text: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(EVENT_BYTES_MAX)
    }
}

impl Decoder {
    /// A decoder that accepts blocks of at most `event_bytes_max` bytes.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            line: Vec::new(),
            data: Vec::new(),
            event: Event::default(),
            state: State::default(),
            last_id: None,
        }
    }

    /// Takes the next event that ends within `chunk` and advances `chunk` past it. `None` means
    /// that the chunk is used up; the rest of an event is kept for the next one.
    ///
    /// # Errors
    /// A block that is too long or not UTF-8. It is dropped; the stream goes on after it.
    pub fn next(&mut self, chunk: &mut &[u8]) -> Option<Result<Event, EventError>> {
        loop {
            if chunk.is_empty() {
                return None;
            }
            if std::mem::take(&mut self.state.after_cr) {
                *chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', chunk) else {
                let rest = std::mem::take(chunk);
                return self.keep(rest).err().map(Err);
            };
            let (head, tail) = chunk.split_at_checked(end)?;
            let (end_byte, rest) = tail.split_first()?;
            *chunk = rest;
            self.state.after_cr = *end_byte == b'\r';
            if let Some(event) = self.line(head).transpose() {
                return Some(event);
            }
        }
    }

    /// The id to send as `Last-Event-ID` when connecting again.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Whether the stream would break off inside an event if it ended now.
    #[must_use]
    pub const fn is_inside_event(&self) -> bool {
        self.state.said || self.state.skipping || !self.line.is_empty()
    }

    /// Keeps the beginning of a line, unless the block has grown too long.
    fn keep(&mut self, piece: &[u8]) -> Result<(), EventError> {
        if self.state.skipping {
            self.state.skipped |= !piece.is_empty();
            return Ok(());
        }
        self.line.extend_from_slice(piece);
        self.check_length(self.line.len())
    }

    fn check_length(&mut self, line_bytes: usize) -> Result<(), EventError> {
        let len = line_bytes + self.data.len();
        if len <= self.event_bytes_max {
            return Ok(());
        }
        self.reset();
        self.state.skipping = true;
        self.state.skipped = true;
        Err(EventError::TooLong { len, max: self.event_bytes_max })
    }

    /// Ends a line whose last piece is `piece`; a blank one ends the block.
    fn line(&mut self, piece: &[u8]) -> Result<Option<Event>, EventError> {
        if self.state.skipping {
            let blank = !std::mem::take(&mut self.state.skipped) && piece.is_empty();
            self.state.skipping = !blank;
            return Ok(None);
        }
        let mut kept = std::mem::take(&mut self.line);
        let mut line = piece;
        if !kept.is_empty() {
            kept.extend_from_slice(piece);
            line = &kept;
        }
        if !std::mem::replace(&mut self.state.begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        // Before its meaning is known, so that every way of cutting it into chunks is judged alike.
        self.check_length(line.len())?;
        self.field(line);
        kept.clear();
        if kept.capacity() <= LINE_BYTES_KEPT {
            self.line = kept;
        }
        Ok(None)
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(0) => return, // a comment
            Some(at) => {
                (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default())
            }
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
                self.state.said = true;
            }
            b"event" => self.event.name = self.text(value).filter(|name| !name.is_empty()),
            b"id" if !value.contains(&0) => {
                self.event.id = self.text(value);
                self.state.said = true;
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let ms = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.event.retry = Some(Duration::from_millis(ms.unwrap_or(u64::MAX)));
                self.state.said = true;
            }
            _ => {}
        }
    }

    fn text(&mut self, value: &[u8]) -> Option<Box<str>> {
        let text = std::str::from_utf8(value).ok();
        self.state.not_text |= text.is_none();
        text.map(Into::into)
    }

    fn dispatch(&mut self) -> Result<Option<Event>, EventError> {
        let (said, not_text) = (self.state.said, self.state.not_text);
        let mut data = std::mem::take(&mut self.data);
        let event = std::mem::take(&mut self.event);
        self.reset();
        if not_text || std::str::from_utf8(&data).is_err() {
            return Err(EventError::NotText { len: data.len() });
        }
        if let Some(id) = &event.id {
            self.last_id = Some(id.clone());
        }
        data.pop();
        Ok(said.then(|| Event { data: data.into(), ..event }))
    }

    fn reset(&mut self) {
        self.line = Vec::new();
        self.data = Vec::new();
        self.event = Event::default();
        self.state.said = false;
        self.state.not_text = false;
    }
}

/// A line buffer larger than this many bytes is given back after its line: idle streams stay small.
const LINE_BYTES_KEPT: usize = 4096;

/// Why a block of an event stream is not an event. The stream goes on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EventError {
    /// The block is longer than the bound.
    #[error("an event of {len} bytes or more; at most {max} are accepted")]
    TooLong {
        /// How many bytes had come when it was given up.
        len: usize,
        /// The bound in bytes.
        max: usize,
    },
    /// The block is not UTF-8.
    #[error("an event with {len} bytes of data that is not UTF-8")]
    NotText {
        /// How many bytes of data it has.
        len: usize,
    },
}

/// An event to be written. Nothing is written for a field that is `None`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "the standard has these four fields")]
pub struct Block<'a> {
    /// The type.
    pub event: Option<&'a str>,
    /// The id, for resumption.
    pub id: Option<&'a str>,
    /// How long a client should wait before connecting again.
    pub retry: Option<Duration>,
    /// The data; empty data primes resumption.
    pub data: Option<&'a [u8]>,
}

impl Block<'_> {
    /// Appends the event. Data is split at its line ends; line ends and NUL in the event type or the
    /// id, which would forge other fields, are left out.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_head(out, self.event, self.id);
        if let Some(retry) = self.retry {
            let ms = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
            out.extend_from_slice(b"retry: ");
            out.extend_from_slice(itoa::Buffer::new().format(ms).as_bytes());
            out.push(b'\n');
        }
        if let Some(mut data) = self.data {
            loop {
                let end = memchr::memchr2(b'\n', b'\r', data).unwrap_or(data.len());
                let (line, rest) = data.split_at_checked(end).unwrap_or((data, &[]));
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(line);
                out.push(b'\n');
                let after = rest.strip_prefix(b"\r\n").or_else(|| rest.get(1..));
                let Some(after) = after else { break };
                data = after;
            }
        }
        out.push(b'\n');
    }
}

/// Begins an event whose data is one JSON message, to be written into `out` next. Returns where
/// the message begins, for [`end`].
pub fn begin(out: &mut Vec<u8>, event: Option<&str>, id: Option<&str>) -> usize {
    write_head(out, event, id);
    out.extend_from_slice(b"data: ");
    out.len()
}

/// Ends an event whose message was written into `out` from `start` on. Line ends in valid JSON are
/// white space between tokens, so each becomes a space.
pub fn end(out: &mut Vec<u8>, start: usize) {
    super::lines::end(out, start);
    out.push(b'\n');
}

/// Appends a comment, which clients ignore: it keeps a quiet connection alive.
pub fn comment(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b": ");
    write_line(out, text);
    out.push(b'\n');
}

fn write_head(out: &mut Vec<u8>, event: Option<&str>, id: Option<&str>) {
    if let Some(event) = event {
        out.extend_from_slice(b"event: ");
        write_line(out, event);
    }
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        write_line(out, id);
    }
}

fn write_line(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r' | 0)));
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]], max: usize) -> (Vec<Result<Event, EventError>>, Decoder) {
        let mut decoder = Decoder::new(max);
        let mut events = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while let Some(event) = decoder.next(&mut rest) {
                events.push(event);
            }
            assert!(rest.is_empty());
        }
        (events, decoder)
    }

    fn data(text: &'static str) -> Event {
        Event { data: Bytes::from_static(text.as_bytes()), ..Event::default() }
    }

    /// Every form of line end, a byte order mark, comments, unknown fields, multi-line data,
    /// priming, retry, and characters of several bytes.
    const STREAM: &str = "\u{feff}: hello\n\nevent: endpoint\r\ndata: /x?a=1\r\n\r\n\
        id: 7\rdata\r\r\
        data:{\"a\":\ndata: 1}\nnonsense\nwhat: ever\n\n\
        retry: 250\n\nretry: 1s\n\nid: bad\0id\ndata: grüße 世界\n\n\
        event: lost\n\ndata: last\n\ndata: cut off";

    fn expected() -> Vec<Result<Event, EventError>> {
        let retry = Some(Duration::from_millis(250));
        vec![
            Ok(Event { name: Some("endpoint".into()), ..data("/x?a=1") }),
            Ok(Event { id: Some("7".into()), ..data("") }),
            Ok(data("{\"a\":\n1}")),
            Ok(Event { retry, ..data("") }),
            Ok(data("grüße 世界")),
            Ok(data("last")),
        ]
    }

    #[test]
    fn every_split_gives_the_same_events() {
        let stream = STREAM.as_bytes();
        for at in 0..=stream.len() {
            let (events, decoder) = decode(&[&stream[..at], &stream[at..]], 1000);
            assert_eq!(events, expected(), "split at {at}");
            assert_eq!(decoder.last_id(), Some("7"));
            assert!(decoder.is_inside_event());
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(decode(&bytes, 1000).0, expected());
    }

    #[test]
    fn each_line_end_alone_ends_lines() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = format!("data: a{end}data: b{end}{end}id:{end}data: c{end}{end}");
            for at in 0..=stream.len() {
                let (events, decoder) =
                    decode(&[&stream.as_bytes()[..at], &stream.as_bytes()[at..]], 100);
                let second = Event { id: Some("".into()), ..data("c") };
                assert_eq!(events, [Ok(data("a\nb")), Ok(second)], "{end:?} at {at}");
                assert_eq!(decoder.last_id(), None, "an empty id forgets the last one");
                assert!(!decoder.is_inside_event());
            }
        }
    }

    #[test]
    fn an_event_too_long_is_reported_once_and_the_next_one_lives() {
        let stream = b"data: 0123456789\ndata: 0123456789\nid: 1\n\ndata: ok\n\n";
        for at in 0..=stream.len() {
            let (events, decoder) = decode(&[&stream[..at], &stream[at..]], 20);
            assert_eq!(events.len(), 2, "split at {at}: {events:?}");
            assert!(matches!(events[0], Err(EventError::TooLong { max: 20, .. })));
            assert_eq!(events[1], Ok(data("ok")));
            assert_eq!(decoder.last_id(), None);
        }
        let endless = vec![b'x'; 1000];
        let (events, decoder) = decode(&[&endless, &endless, &endless], 20);
        assert_eq!(events, [Err(EventError::TooLong { len: 1000, max: 20 })]);
        assert_eq!(decoder.line.capacity(), 0);
        let text = events[0].as_ref().unwrap_err().to_string();
        assert_eq!(text, "an event of 1000 bytes or more; at most 20 are accepted");
    }

    #[test]
    fn bytes_that_are_no_text_are_reported_and_the_next_event_lives() {
        for bad in [&b"data: \xff\n\n"[..], b"id: \xff\ndata: a\n\n", b"event: \xc3\ndata: a\n\n"] {
            let (events, decoder) = decode(&[bad, b"data: ok\n\n"], 100);
            assert!(matches!(events[..], [Err(EventError::NotText { .. }), Ok(_)]), "{events:?}");
            assert_eq!(decoder.last_id(), None);
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut out = Vec::new();
        comment(&mut out, "keep\nalive");
        let retry = Some(Duration::from_secs(3));
        Block { id: Some("a\n\0b"), retry, data: Some(b""), ..Block::default() }.write(&mut out);
        Block { event: Some("message"), data: Some(b"1\r\n2\n3\r"), ..Block::default() }
            .write(&mut out);
        let start = begin(&mut out, None, Some("c"));
        out.extend_from_slice(b"{\n}");
        end(&mut out, start);
        assert_eq!(
            String::from_utf8_lossy(&out),
            ": keepalive\n\nid: ab\nretry: 3000\ndata: \n\n\
             event: message\ndata: 1\ndata: 2\ndata: 3\ndata: \n\nid: c\ndata: { }\n\n"
        );
        let (events, _) = decode(&[&out], 100);
        let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
        assert_eq!(events[0], Event { id: Some("ab".into()), retry, ..data("") });
        assert!(!events[0].is_message());
        assert_eq!(events[1], Event { name: Some("message".into()), ..data("1\n2\n3\n") });
        assert!(events[1].is_message());
        assert_eq!(events[2], Event { id: Some("c".into()), ..data("{ }") });
    }
}
