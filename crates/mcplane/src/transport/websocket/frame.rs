//! Frames of RFC 6455, without I/O: bytes in, messages out, and the other way round.
//!
//! Strict: whatever the RFC says must fail the connection does, with the code that it names.

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};

/// Which side of the connection this is: clients mask what they send (§5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// The close codes that we send (§7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Normal = 1000,
    GoingAway = 1001,
    Protocol = 1002,
    Unsupported = 1003,
    Invalid = 1007,
    TooBig = 1009,
    #[cfg(feature = "msgpack")]
    Internal = 1011,
    TryLater = 1013,
}

/// What the peer did wrong, and the code to close with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation(pub(super) Code, pub(super) Cow<'static, str>);

impl Violation {
    pub(super) const fn new(code: Code, why: &'static str) -> Self {
        Self(code, Cow::Borrowed(why))
    }
}

const fn protocol<T>(why: &'static str) -> Result<T, Violation> {
    Err(Violation::new(Code::Protocol, why))
}

/// What the peer said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Text(BytesMut),
    Binary(BytesMut),
    Ping(BytesMut),
    Pong,
    /// The code and the reason, if it gave any.
    Close(Option<u16>, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0x0,
    Text = 0x1,
    Binary = 0x2,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xA,
}

impl Opcode {
    const fn read(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return None,
        })
    }

    const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The longest payload of a control frame, in bytes (§5.5).
const CONTROL_BYTES_MAX: usize = 125;

/// Finds messages in a growing buffer.
#[derive(Debug)]
pub(super) struct Decoder {
    role: Role,
    bytes_max: usize,
    /// The head of the frame whose payload is still coming.
    head: Option<Head>,
    /// The message whose last fragment is still coming: its kind, and what there is of it.
    fragments: Option<(Opcode, BytesMut)>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    is_final: bool,
    opcode: Opcode,
    len: usize,
    mask: Option<[u8; 4]>,
}

impl Decoder {
    /// For the peer of `role`. Messages may have `bytes_max` bytes, over all their fragments.
    pub(super) const fn new(role: Role, bytes_max: usize) -> Self {
        Self { role, bytes_max, head: None, fragments: None }
    }

    /// Bytes of the fragments that are here.
    pub(super) fn held(&self) -> usize {
        self.fragments.as_ref().map_or(0, |(_, fragments)| fragments.len())
    }

    /// Takes the next message out of `input`; `None` means that more bytes are needed. After a
    /// violation the rest of the input means nothing.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Event>, Violation> {
        loop {
            let head = match self.head {
                Some(head) => head,
                None => match self.read_head(input)? {
                    Some(head) => *self.head.insert(head),
                    None => return Ok(None),
                },
            };
            if input.len() < head.len {
                return Ok(None);
            }
            self.head = None;
            let mut payload = input.split_to(head.len);
            if let Some(mask) = head.mask {
                apply_mask(mask, &mut payload);
            }
            if let Some(event) = self.frame(head, payload)? {
                return Ok(Some(event));
            }
        }
    }

    /// Reads a head and refuses what may not follow it, before a byte of its payload is here.
    fn read_head(&self, input: &mut BytesMut) -> Result<Option<Head>, Violation> {
        let [first, second, rest @ ..] = &**input else { return Ok(None) };
        let (is_final, is_masked) = (first & 0x80 != 0, second & 0x80 != 0);
        if first & 0x70 != 0 {
            return protocol("reserved bits without an extension");
        }
        let Some(opcode) = Opcode::read(first & 0x0F) else {
            return protocol("a reserved opcode");
        };
        let short = usize::from(second & 0x7F);
        if opcode.is_control() {
            if !is_final {
                return protocol("a fragmented control frame");
            }
            if short > CONTROL_BYTES_MAX {
                return protocol("a control frame of more than 125 bytes");
            }
        } else if (opcode == Opcode::Continuation) != self.fragments.is_some() {
            return protocol(match opcode {
                Opcode::Continuation => "a continuation of nothing",
                _ => "a new message inside a fragmented one",
            });
        }
        match (self.role, is_masked) {
            (Role::Server, false) => return protocol("a client's frame that is not masked"),
            (Role::Client, true) => return protocol("a server's frame that is masked"),
            _ => {}
        }
        let (len, rest) = match (short, rest) {
            (126, [a, b, rest @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), rest),
            (127, [a, b, c, d, e, f, g, h, rest @ ..]) => {
                (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), rest)
            }
            (126.., _) => return Ok(None),
            _ => (short as u64, rest),
        };
        if short == 126 && len < 126 || short == 127 && len <= u64::from(u16::MAX) {
            return protocol("a length that is not in its shortest form");
        }
        if len >> 63 != 0 {
            return protocol("a length beyond 63 bits");
        }
        let before = match (opcode, &self.fragments) {
            (Opcode::Continuation, Some((_, fragments))) => fragments.len(),
            _ => 0,
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if before.saturating_add(len) > self.bytes_max {
            let why = format!("at most {} bytes in a message", self.bytes_max);
            return Err(Violation(Code::TooBig, why.into()));
        }
        let (mask, rest) = match (is_masked, rest) {
            (true, [a, b, c, d, rest @ ..]) => (Some([*a, *b, *c, *d]), rest),
            (true, _) => return Ok(None),
            (false, rest) => (None, rest),
        };
        let read = input.len() - rest.len();
        input.advance(read);
        Ok(Some(Head { is_final, opcode, len, mask }))
    }

    /// What a whole frame means.
    fn frame(&mut self, head: Head, payload: BytesMut) -> Result<Option<Event>, Violation> {
        match head.opcode {
            Opcode::Close => return close(&payload).map(Some),
            Opcode::Ping => return Ok(Some(Event::Ping(payload))),
            Opcode::Pong => return Ok(Some(Event::Pong)),
            Opcode::Continuation => {
                if let Some((_, fragments)) = &mut self.fragments {
                    fragments.extend_from_slice(&payload);
                }
            }
            kind if head.is_final => return whole(kind, payload).map(Some),
            kind => self.fragments = Some((kind, payload)),
        }
        match self.fragments.take_if(|_| head.is_final) {
            Some((kind, payload)) => whole(kind, payload).map(Some),
            None => Ok(None),
        }
    }
}

fn whole(kind: Opcode, payload: BytesMut) -> Result<Event, Violation> {
    if kind == Opcode::Binary {
        return Ok(Event::Binary(payload));
    }
    match std::str::from_utf8(&payload) {
        Ok(_) => Ok(Event::Text(payload)),
        Err(_) => Err(Violation::new(Code::Invalid, "text that is not UTF-8")),
    }
}

fn close(payload: &[u8]) -> Result<Event, Violation> {
    let (code, reason) = match payload {
        [] => return Ok(Event::Close(None, String::new())),
        [_] => return protocol("half a close code"),
        [a, b, reason @ ..] => (u16::from_be_bytes([*a, *b]), reason),
    };
    // §7.4.1 and §7.4.2: defined, in IANA's registry (1012 to 1014), or free to use.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return protocol("a close code that may not be sent");
    }
    match std::str::from_utf8(reason) {
        Ok(reason) => Ok(Event::Close(Some(code), reason.to_owned())),
        Err(_) => Err(Violation::new(Code::Invalid, "a reason that is not UTF-8")),
    }
}

/// Appends a whole frame.
pub(super) fn write(out: &mut Vec<u8>, opcode: Opcode, mask: Option<[u8; 4]>, payload: &[&[u8]]) {
    let len = payload.iter().map(|piece| piece.len()).sum::<usize>();
    out.reserve(len + 14);
    out.push(0x80 | opcode as u8);
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(short @ 0..=125), _) => out.push(masked | short),
        (_, Ok(len)) => {
            out.push(masked | 126);
            out.extend_from_slice(&len.to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(mask.as_ref().map_or(&[], |mask| mask));
    let start = out.len();
    for piece in payload {
        out.extend_from_slice(piece);
    }
    if let (Some(mask), Some(written)) = (mask, out.get_mut(start..)) {
        apply_mask(mask, written);
    }
}

/// Appends a close frame. The reason is cut to what fits.
pub(super) fn write_close(out: &mut Vec<u8>, mask: Option<[u8; 4]>, code: u16, reason: &str) {
    let reason = reason.get(..reason.floor_char_boundary(CONTROL_BYTES_MAX - 2));
    let pieces = [&code.to_be_bytes()[..], reason.unwrap_or_default().as_bytes()];
    write(out, Opcode::Close, mask, &pieces);
}

/// Masks, and unmasks: it is the same.
fn apply_mask(mask: [u8; 4], payload: &mut [u8]) {
    let [a, b, c, d] = mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = payload.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

/// Where a client's masks come from. They must be unpredictable (§5.3, §10.3), so they come from
/// the system, many at a time.
#[derive(Debug, Default)]
pub(super) struct Masks(Bytes);

impl Masks {
    pub(super) fn next(&mut self) -> [u8; 4] {
        if self.0.len() < 4 {
            let mut fresh = [0; 256];
            // Should the system have none, the mask is zero: it protects old proxies from pages
            // that choose the bytes on the wire, and this program is not a web page.
            let _ = getrandom::fill(&mut fresh);
            self.0 = Bytes::copy_from_slice(&fresh);
        }
        self.0.get_u32().to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: Option<[u8; 4]> = Some([0x37, 0xFA, 0x21, 0x3D]);

    fn decode(role: Role, bytes: &[u8]) -> Result<Option<Event>, Violation> {
        Decoder::new(role, 70_000).next(&mut bytes.into())
    }

    #[test]
    fn the_examples_of_section_5_7() {
        let text = |text: &str| Ok(Some(Event::Text(text.into())));
        let plain = b"\x81\x05Hello";
        assert_eq!(decode(Role::Client, plain), text("Hello"));
        let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
        assert_eq!(decode(Role::Server, masked), text("Hello"));
        assert_eq!(decode(Role::Client, b"\x01\x03Hel\x80\x02lo"), text("Hello"));
        assert_eq!(decode(Role::Client, b"\x89\x05Hello"), Ok(Some(Event::Ping("Hello".into()))));

        let mut out = Vec::new();
        write(&mut out, Opcode::Text, MASK, &[b"Hel", b"lo"]);
        assert_eq!(out, masked);
    }

    #[test]
    fn every_length_and_every_split_comes_back() {
        for len in [0, 1, 7, 8, 9, 125, 126, 127, 65_535, 65_536, 70_000] {
            let payload: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            for (role, mask) in [(Role::Server, MASK), (Role::Client, None)] {
                let mut wire = Vec::new();
                write(&mut wire, Opcode::Binary, mask, &[&payload]);
                for split in (0..wire.len().min(40)).chain([wire.len() - 1]) {
                    let mut decoder = Decoder::new(role, 70_000);
                    let mut input = BytesMut::from(&wire[..split]);
                    assert_eq!(decoder.next(&mut input), Ok(None), "{len} at {split}");
                    input.extend_from_slice(&wire[split..]);
                    let whole = Event::Binary(payload.as_slice().into());
                    assert_eq!(decoder.next(&mut input), Ok(Some(whole)), "{len} at {split}");
                    assert!(input.is_empty());
                }
            }
        }
    }

    #[test]
    fn lengths_must_be_in_their_shortest_form() {
        for head in [&b"\x82\x7e\x00\x7d"[..], b"\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff"] {
            assert_eq!(decode(Role::Client, head).unwrap_err().0, Code::Protocol);
        }
        let sign = b"\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00";
        assert_eq!(decode(Role::Client, sign).unwrap_err().0, Code::Protocol);
        let huge = b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!(decode(Role::Client, huge).unwrap_err().0, Code::TooBig);
    }

    #[test]
    fn reasons_are_cut_between_characters() {
        let mut out = Vec::new();
        write_close(&mut out, None, 1000, &"é".repeat(100));
        let close = decode(Role::Client, &out).unwrap().unwrap();
        assert_eq!(close, Event::Close(Some(1000), "é".repeat(61)));
    }

    #[test]
    fn masks_differ() {
        let mut masks = Masks::default();
        let mut drawn: Vec<_> = (0..1000).map(|_| masks.next()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert!(drawn.len() > 990);
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics_and_messages_stay_within_the_bound(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            is_server in proptest::bool::ANY,
        ) {
            let role = if is_server { Role::Server } else { Role::Client };
            let (mut decoder, mut input) = (Decoder::new(role, 16), BytesMut::from(&bytes[..]));
            while let Ok(Some(event)) = decoder.next(&mut input) {
                if let Event::Text(payload) | Event::Binary(payload) = event {
                    assert!(payload.len() <= 16);
                }
            }
        }
    }
}
