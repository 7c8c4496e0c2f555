//! HTTP/1.1 responses, as bytes bring them (RFC 9112). Strict: what two readers could understand
//! in two ways is refused.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use mcplane_proto::limits::MESSAGE_BYTES_MAX;

/// Longest head of a response, in bytes; also the longest line about a chunk.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Longest body that is not an event stream, in bytes. Checked by whoever collects it.
pub(super) const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

/// The start of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) kind: Kind,
    /// `Mcp-Session-Id`.
    pub(crate) session: Option<Box<str>>,
    /// `Retry-After`.
    pub(crate) retry_after: Option<Box<str>>,
    /// Whether the connection may be used again.
    pub(super) keep: bool,
}

/// What the body is, by its `Content-Type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Events,
    #[default]
    Other,
}

impl fmt::Display for Head {
    /// `HTTP 503 Service Unavailable, Retry-After: 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        let reason = http::StatusCode::from_u16(self.status).ok();
        if let Some(reason) = reason.and_then(|status| status.canonical_reason()) {
            write!(f, " {reason}")?;
        }
        match &self.retry_after {
            Some(after) => write!(f, ", Retry-After: {after}"),
            None => Ok(()),
        }
    }
}

/// The next thing that a response has to say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Head(Head),
    Body(Bytes),
    End,
}

/// Reads one response after the other off a buffer.
#[derive(Debug, Default)]
pub(super) struct Responses {
    state: State,
    /// Bytes of the buffer that hold no end of a head or line.
    searched: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// So many bytes are left.
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    UntilClose,
    End,
}

impl Responses {
    /// Whether a response has begun and not ended. Without it, nothing that comes is an answer.
    pub(super) fn is_inside(&self) -> bool {
        self.state != State::Head
    }

    /// The next part; `None` if it needs more bytes.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Part>, String> {
        loop {
            match self.state {
                State::Head => {
                    let Some(head) = self.until(input, b"\r\n\r\n")? else { return Ok(None) };
                    let (head, state) = parse(&head)?;
                    if !(100..200).contains(&head.status) {
                        self.state = state;
                        return Ok(Some(Part::Head(head)));
                    }
                }
                State::Length(0) | State::End => {
                    self.state = State::Head;
                    return Ok(Some(Part::End));
                }
                State::Length(left) => {
                    let piece = take(input, left);
                    self.state = State::Length(left - piece.len() as u64);
                    return Ok((!piece.is_empty()).then_some(Part::Body(piece)));
                }
                State::UntilClose => {
                    let piece = input.split().freeze();
                    return Ok((!piece.is_empty()).then_some(Part::Body(piece)));
                }
                State::ChunkSize => {
                    let Some(line) = self.until(input, b"\r\n")? else { return Ok(None) };
                    self.state = match chunk_size(&line)? {
                        0 => State::Trailer,
                        size => State::Chunk(size),
                    };
                }
                State::Chunk(left) => {
                    let piece = take(input, left);
                    let left = left - piece.len() as u64;
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    return Ok((!piece.is_empty()).then_some(Part::Body(piece)));
                }
                State::ChunkEnd => {
                    let Some(line) = self.until(input, b"\r\n")? else { return Ok(None) };
                    if !line.is_empty() {
                        return Err("a chunk is longer than it says".to_owned());
                    }
                    self.state = State::ChunkSize;
                }
                State::Trailer => {
                    let Some(line) = self.until(input, b"\r\n")? else { return Ok(None) };
                    if line.is_empty() {
                        self.state = State::End;
                    }
                }
            }
        }
    }

    /// The connection has ended. Whether that ends the response too.
    pub(super) fn close(&mut self) -> bool {
        let ends = self.state == State::UntilClose;
        *self = Self::default();
        ends
    }

    /// What is in front of `end`, which is taken too.
    fn until(&mut self, input: &mut BytesMut, end: &[u8]) -> Result<Option<Bytes>, String> {
        let from = self.searched.saturating_sub(end.len() - 1);
        let rest = input.get(from..).unwrap_or_default();
        let Some(at) = memchr::memmem::find(rest, end).map(|at| from + at) else {
            self.searched = input.len();
            return match self.searched {
                len if len > HEAD_BYTES_MAX => {
                    Err(format!("a head or line of more than {HEAD_BYTES_MAX} bytes"))
                }
                _ => Ok(None),
            };
        };
        self.searched = 0;
        let found = input.split_to(at).freeze();
        input.advance(end.len());
        Ok(Some(found))
    }
}

fn take(input: &mut BytesMut, most: u64) -> Bytes {
    let len = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
    input.split_to(len).freeze()
}

fn chunk_size(line: &[u8]) -> Result<u64, String> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let text = std::str::from_utf8(digits).ok();
    let hex = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex.and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .ok_or_else(|| "a chunk without a size".to_owned())
}

/// A head and how its body is delimited (RFC 9112 §6.3).
fn parse(bytes: &[u8]) -> Result<(Head, State), String> {
    let mut lines = Lines(bytes);
    let (status, mut keep) = status_line(lines.next().unwrap_or_default())?;
    let mut head = Head { status, ..Head::default() };
    let (mut length, mut chunked) = (None::<u64>, false);
    for line in lines {
        let Some((name, value)) = field(line) else {
            return Err("a malformed header line".to_owned());
        };
        let text = || std::str::from_utf8(value).ok().map(Box::from);
        if name.eq_ignore_ascii_case(b"content-length") {
            let number = number(value).ok_or("a Content-Length that is not a number")?;
            if length.is_some_and(|length| length != number) {
                return Err("two different Content-Lengths".to_owned());
            }
            length = Some(number);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err("a Transfer-Encoding other than chunked".to_owned());
            }
            chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-type") {
            head.kind = kind(value);
        } else if name.eq_ignore_ascii_case(b"connection") {
            let has = |token: &[u8]| {
                value.split(|b| *b == b',').any(|t| t.trim_ascii().eq_ignore_ascii_case(token))
            };
            keep = (keep || has(b"keep-alive")) && !has(b"close");
        } else if name.eq_ignore_ascii_case(b"mcp-session-id") {
            head.session = text();
        } else if name.eq_ignore_ascii_case(b"retry-after") {
            head.retry_after = text();
        }
    }
    let state = match (length, chunked) {
        _ if matches!(status, 100..200 | 204 | 304) => State::End,
        (Some(_), true) => {
            return Err("both a Content-Length and a Transfer-Encoding".to_owned());
        }
        (Some(length), false) => State::Length(length),
        (None, true) => State::ChunkSize,
        (None, false) => State::UntilClose,
    };
    head.keep = keep && state != State::UntilClose;
    Ok((head, state))
}

/// The lines of a head, which end in CR LF.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\r', self.0).unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at_checked(end)?;
        // A lone CR stays at the front of the next line, which is malformed then.
        self.0 = rest.strip_prefix(b"\r\n").unwrap_or(rest);
        if self.0.len() == rest.len() && !rest.is_empty() {
            self.0 = &[];
            return Some(b"\r");
        }
        Some(line)
    }
}

/// The status, and whether the version keeps connections.
fn status_line(line: &[u8]) -> Result<(u16, bool), String> {
    let wrong = || "it does not speak HTTP/1.1".to_owned();
    let (version, rest) = line.split_at_checked(9).ok_or_else(wrong)?;
    let keep = match version {
        b"HTTP/1.1 " => true,
        b"HTTP/1.0 " => false,
        _ => return Err(wrong()),
    };
    let (digits, reason) = rest.split_at_checked(3).ok_or_else(wrong)?;
    let status = number(digits).and_then(|status| u16::try_from(status).ok()).ok_or_else(wrong)?;
    match reason.first() {
        None | Some(b' ') if status >= 100 => Ok((status, keep)),
        _ => Err(wrong()),
    }
}

/// A header's name and value. A line that continues another (obs-fold) is malformed.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = line.split_at_checked(colon)?;
    let token = |byte: &u8| byte.is_ascii_graphic();
    let plain = |byte: &u8| !matches!(byte, b'\n' | 0);
    let valid = !name.is_empty() && name.iter().all(token) && value.iter().all(plain);
    valid.then(|| (name, value.get(1..).unwrap_or_default().trim_ascii()))
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn kind(value: &[u8]) -> Kind {
    let name = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if name.eq_ignore_ascii_case(b"application/json") {
        Kind::Json
    } else if name.eq_ignore_ascii_case(b"text/event-stream") {
        Kind::Events
    } else {
        Kind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What responses say, their bodies joined, cut into pieces of `size` bytes.
    fn read(bytes: &[u8], size: usize) -> Result<Vec<(Head, Vec<u8>)>, String> {
        let (mut responses, mut input) = (Responses::default(), BytesMut::new());
        let (mut found, mut open) = (Vec::new(), None::<(Head, Vec<u8>)>);
        for piece in bytes.chunks(size) {
            input.extend_from_slice(piece);
            while let Some(part) = responses.next(&mut input)? {
                match part {
                    Part::Head(head) => open = Some((head, Vec::new())),
                    Part::Body(body) => open.as_mut().unwrap().1.extend_from_slice(&body),
                    Part::End => found.extend(open.take()),
                }
            }
        }
        if let Some(open) = open.take().filter(|_| responses.close()) {
            found.push(open);
        }
        Ok(found)
    }

    const THREE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\ncontent-length: 2\r\n\r\n{}\
        HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\ncontent-type: TEXT/event-stream\r\n\r\n\
        3;x=y\r\nabc\r\n0000A \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n\
        HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nMcp-Session-Id: s\r\nConnection: foo, Close\r\n\
        Content-Length: 0\r\n\r\n";

    #[test]
    fn responses_are_the_same_however_they_are_cut() {
        let whole = read(THREE, THREE.len()).unwrap();
        let [one, two, three] = &whole[..] else { panic!("{whole:?}") };
        assert_eq!(
            (one.0.status, one.0.kind, one.0.keep, &one.1[..]),
            (200, Kind::Json, true, &b"{}"[..])
        );
        assert_eq!((two.0.kind, &two.1[..]), (Kind::Events, &b"abc0123456789"[..]));
        assert_eq!((three.0.status, three.0.keep), (503, false));
        assert_eq!(three.0.session.as_deref(), Some("s"));
        assert_eq!(three.0.to_string(), "HTTP 503 Service Unavailable, Retry-After: 2");
        for size in 1..THREE.len() {
            assert_eq!(read(THREE, size).as_ref(), Ok(&whole), "in pieces of {size}");
        }
    }

    #[test]
    fn a_body_may_end_with_the_connection() {
        let found = read(b"HTTP/1.0 200 OK\r\n\r\nabc", 5).unwrap();
        assert_eq!((found[0].1.as_slice(), found[0].0.keep), (&b"abc"[..], false));
        let cut = read(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", 5).unwrap();
        assert!(cut.is_empty(), "{cut:?}");
        let none = read(b"HTTP/1.1 204 No Content\r\n\r\n", 5).unwrap();
        assert_eq!(none[0].0.status, 204);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let both = "Content-Length: 1\r\nTransfer-Encoding: chunked";
        for head in [
            both,
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: +1",
            "Content-Length: 1, 1",
            "Transfer-Encoding: gzip, chunked",
            "A: b\r\n folded",
            "A: b\nB: c",
            "A: b\rB: c",
            "A : b",
            ": b",
            "none",
        ] {
            let response = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
            assert!(read(response.as_bytes(), 64).is_err(), "{head}");
        }
        for start in ["HTTP/2 200 OK", "HTTP/1.1 20", "HTTP/1.1 2000", "SSH-2.0-x", "HTTP/1.1 099"]
        {
            assert!(read(format!("{start}\r\n\r\n").as_bytes(), 64).is_err(), "{start}");
        }
        for chunk in ["x\r\n", "\r\n", "-1\r\n", "1\r\nab\r\n", "11111111111111111\r\n"] {
            let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
            assert!(read(response.as_bytes(), 64).is_err(), "{chunk}");
        }
        assert!(read(&vec![b'x'; HEAD_BYTES_MAX + 2], 4096).is_err());
    }
}
