//! The scan: one pass that validates JSON (RFC 8259) and notes the spans of a message's parts.

use std::ops::Range;

use thiserror::Error;

use super::Kind;
use super::part::{Inside, Part, Spans};
use super::plain::{WORDS_MIN, escaped_len, is_short, plain_bytes, plain_len};
use crate::error::{Code, ErrorObject, shorten};
use crate::id::Id;
use crate::limits::{DEPTH_MAX, MESSAGE_BYTES_MAX};
use crate::method::Method;

/// Why bytes are not a message. Offsets are in bytes from the start of the message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// Longer than [`MESSAGE_BYTES_MAX`].
    #[error("message of {len} bytes; at most {max} are accepted")]
    TooLong {
        /// The message's length in bytes.
        len: usize,
        /// The bound in bytes.
        max: usize,
    },
    /// Not UTF-8.
    #[error("invalid UTF-8 at byte {at}")]
    NotUtf8 {
        /// The first bad byte.
        at: usize,
    },
    /// Not JSON.
    #[error("invalid JSON at byte {at}: expected {expected}")]
    NotJson {
        /// Where the JSON ends to make sense.
        at: usize,
        /// What would have made sense.
        expected: &'static str,
    },
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("nested deeper than {max} levels at byte {at}")]
    TooDeep {
        /// Where the first level too many begins.
        at: usize,
        /// The bound in levels.
        max: usize,
    },
    /// JSON, but not an object.
    #[error("a message is a JSON object")]
    NotObject,
    /// An array where the revision has no batches, an empty one, or one of too many elements.
    #[error("{0}")]
    BadBatch(&'static str),
    /// A key that decides something occurs twice: two readers could see two different messages.
    #[error("duplicate key {key:?} at byte {at}")]
    DuplicateKey {
        /// The key.
        key: &'static str,
        /// Where the second one's value begins.
        at: usize,
    },
    /// A key that some reader takes for one that decides something: it would see another message.
    #[error(
        "key {key:?} at byte {at} passes for {alike:?} where case or control characters do not \
         count: spell it exactly, or leave it out"
    )]
    LookalikeKey {
        /// The key, shortened.
        key: Box<str>,
        /// The key that it passes for.
        alike: &'static str,
        /// Where it begins.
        at: usize,
    },
    /// A key with half of a surrogate pair is not text: readers do not agree on what it is.
    #[error("the key at byte {at} has half of a surrogate pair")]
    BadKey {
        /// Where it begins.
        at: usize,
    },
    /// `jsonrpc` is absent or not `"2.0"`.
    #[error("`jsonrpc` must be \"2.0\"")]
    BadVersion,
    /// `id` is neither a string nor an integer of 64 bits.
    #[error("`id` must be a string or an integer")]
    BadId,
    /// `method` is not a string.
    #[error("`method` must be a string")]
    BadMethod,
    /// `params` is not an object.
    #[error("`params` must be an object")]
    BadParams,
    /// `params._meta` is not an object.
    #[error("`params._meta` must be an object")]
    BadMeta,
    /// `result` or `error` is not an object.
    #[error("`{0}` must be an object")]
    BadOutcome(&'static str),
    /// Neither a request, a notification nor a response, or more than one of them.
    #[error("a message has either `method`, or `result`, or `error`")]
    BadShape,
}

impl ScanError {
    /// The JSON-RPC code to answer with.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::NotUtf8 { .. } | Self::NotJson { .. } => Code::PARSE_ERROR,
            Self::BadParams | Self::BadMeta => Code::INVALID_PARAMS,
            _ => Code::INVALID_REQUEST,
        }
    }
}

/// A refused message: why, and whom to answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct ScanFailure {
    /// What is wrong.
    #[source]
    pub error: ScanError,
    /// The id, where one was readable before the message went wrong; of a response, where there is
    /// no doubt about it.
    pub id: Option<Id>,
    /// Whether the message is a response: those are never answered, but end the request that they
    /// were for.
    pub is_response: bool,
}

impl ScanFailure {
    /// The error object to answer with.
    #[must_use]
    pub fn object(&self) -> ErrorObject {
        ErrorObject::new(self.error.code(), self.error.to_string())
    }
}

impl From<ScanError> for ScanFailure {
    fn from(error: ScanError) -> Self {
        Self { error, id: None, is_response: false }
    }
}

/// What a scan of a message found.
pub(super) struct Scanned {
    pub(super) kind: Kind,
    pub(super) method: Option<Method>,
    pub(super) spans: Spans,
}

/// Scans one message.
#[allow(clippy::result_large_err, reason = "see Message::scan")]
pub(super) fn message(bytes: &[u8]) -> Result<Scanned, ScanFailure> {
    admit(bytes).map_err(|error| match error {
        ScanError::TooLong { .. } => error.into(),
        _ => refused(bytes, &Spans::new(), error),
    })?;
    let mut scan = Scan::new(bytes);
    let walked = scan.document();
    let (spans, fault) = (scan.spans, scan.fault);
    let error = match (walked, fault) {
        (Err(error), _) | (Ok(()), Some(error)) => error,
        (Ok(()), None) => {
            match envelope(&|part| spans.range(part).and_then(|range| bytes.get(range))) {
                Ok((kind, method)) => return Ok(Scanned { kind, method, spans }),
                Err(error) => error,
            }
        }
    };
    Err(refused(bytes, &spans, error))
}

/// Why the message is refused, and whom to answer, as far as that can be read.
#[cold]
fn refused(bytes: &[u8], spans: &Spans, error: ScanError) -> ScanFailure {
    let part = |part| spans.range(part).and_then(|range| bytes.get(range));
    let answered = super::salvage::answered(bytes);
    let is_response = answered.is_some()
        || part(Part::Method).is_none()
            && (part(Part::Result).is_some() || part(Part::Error).is_some());
    let id = if is_response || error.code() == Code::PARSE_ERROR {
        answered
    } else {
        part(Part::Id).and_then(Id::from_json)
    };
    ScanFailure { error, id, is_response }
}

/// The element ranges of a JSON array of at most `max` elements.
#[allow(clippy::result_large_err, reason = "see Message::scan")]
pub(super) fn batch(bytes: &[u8], max: usize) -> Result<Vec<Range<usize>>, ScanFailure> {
    admit(bytes)?;
    let mut scan = Scan::new(bytes);
    let mut elements = Vec::new();
    scan.space();
    scan.expect(b'[', "'['")?;
    scan.space();
    if scan.peek() == Some(b']') {
        return Err(ScanError::BadBatch("an empty batch").into());
    }
    loop {
        if elements.len() == max {
            return Err(ScanError::BadBatch("too many messages in one batch").into());
        }
        elements.push(scan.value(1)?);
        scan.space();
        match scan.bump() {
            Some(b',') => scan.space(),
            Some(b']') => break,
            _ => return Err(scan.unexpected("',' or ']'").into()),
        }
    }
    scan.end()?;
    Ok(elements)
}

/// Length and encoding, before a byte of JSON is looked at.
fn admit(bytes: &[u8]) -> Result<(), ScanError> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(ScanError::TooLong { len: bytes.len(), max: MESSAGE_BYTES_MAX });
    }
    // Most messages are, and to know that is cheaper.
    if bytes.is_ascii() {
        return Ok(());
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(ScanError::NotUtf8 { at: error.valid_up_to() }),
    }
}

/// The rules of JSON-RPC 2.0 on which members go together.
fn envelope<'a>(
    part: &impl Fn(Part) -> Option<&'a [u8]>,
) -> Result<(Kind, Option<Method>), ScanError> {
    if part(Part::JsonRpc) != Some(b"\"2.0\"") {
        return Err(ScanError::BadVersion);
    }
    let id = part(Part::Id);
    let is_id = |json: &[u8]| Id::from_json(json).is_some();
    match (part(Part::Method), part(Part::Result), part(Part::Error)) {
        (Some(name), None, None) => {
            let Some(name) = super::decode_text(name) else { return Err(ScanError::BadMethod) };
            match id {
                None => Ok((Kind::Notification, Method::parse(&name))),
                Some(json) if is_id(json) => Ok((Kind::Request, Method::parse(&name))),
                Some(_) => Err(ScanError::BadId),
            }
        }
        (None, Some(_), None) if id.is_some_and(is_id) => Ok((Kind::Response, None)),
        (None, None, Some(_)) if id.is_none_or(|json| json == b"null" || is_id(json)) => {
            Ok((Kind::ErrorResponse, None))
        }
        (None, Some(_), None) | (None, None, Some(_)) => Err(ScanError::BadId),
        _ => Err(ScanError::BadShape),
    }
}

/// A cursor over the bytes. Syntax errors end the scan; the first error of meaning is kept while
/// the scan goes on, so that the id is known when the error is answered.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    spans: Spans,
    fault: Option<ScanError>,
}

impl<'a> Scan<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, spans: Spans::new(), fault: None }
    }

    /// The whole document: one object and nothing after it.
    fn document(&mut self) -> Result<(), ScanError> {
        self.space();
        if self.peek() == Some(b'{') {
            self.object(Inside::Envelope, 1)?;
        } else {
            self.value(0)?;
            self.fault = Some(ScanError::NotObject);
        }
        self.end()
    }

    /// The members of an object that the scan looks into, noting the parts among them.
    fn object(&mut self, inside: Inside, depth: usize) -> Result<(), ScanError> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let part = self.key(inside)?;
            self.space();
            self.expect(b':', "':'")?;
            self.space();
            let start = self.at;
            match part.and_then(look_into) {
                Some(inner) if self.peek() == Some(b'{') => self.object(inner, depth + 1)?,
                inner => {
                    self.value(depth)?;
                    if let Some(error) = inner.and_then(Inside::not_an_object) {
                        self.fault.get_or_insert(error);
                    }
                }
            }
            if let Some(part) = part
                && !self.spans.set(part, start, self.at)
            {
                let error = ScanError::DuplicateKey { key: part.key(), at: start };
                self.fault.get_or_insert(error);
            }
            self.space();
            match self.bump() {
                Some(b',') => self.space(),
                Some(b'}') => return Ok(()),
                _ => return Err(self.unexpected("',' or '}'")),
            }
        }
    }

    /// A key, and the part it names. An escaped key is decoded first: `"\u0069d"` is `id`.
    fn key(&mut self, inside: Inside) -> Result<Option<Part>, ScanError> {
        if self.peek() != Some(b'"') {
            return Err(ScanError::NotJson { at: self.at, expected: "a string as key" });
        }
        let start = self.at;
        let escaped = self.string()?;
        let json = self.bytes.get(start..self.at).unwrap_or_default();
        let decoded = if escaped { super::decode_text(json) } else { None };
        let key = match &decoded {
            Some(text) => text.as_bytes(),
            None if escaped => {
                self.fault.get_or_insert(ScanError::BadKey { at: start });
                return Ok(None);
            }
            None => json.get(1..json.len() - 1).unwrap_or_default(),
        };
        let part = Part::find(inside, key);
        if part.is_none()
            && let Some(alike) = Part::lookalike(inside, key)
        {
            let key = shorten(&String::from_utf8_lossy(key)).into();
            self.fault.get_or_insert(ScanError::LookalikeKey { key, alike, at: start });
        }
        Ok(part)
    }

    /// Any value. Iterative, so that depth costs no stack: bit `n` of `kinds` tells whether the
    /// n-th open level is an object.
    fn value(&mut self, depth: usize) -> Result<Range<usize>, ScanError> {
        let start = self.at;
        let mut kinds: u128 = 0;
        let mut open = 0_usize;
        loop {
            // A value begins here.
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                Some(bracket @ (b'{' | b'[')) => {
                    if depth + open >= DEPTH_MAX {
                        return Err(ScanError::TooDeep { at: self.at, max: DEPTH_MAX });
                    }
                    self.at += 1;
                    self.space();
                    let is_object = bracket == b'{';
                    let close = if is_object { b'}' } else { b']' };
                    if self.peek() == Some(close) {
                        self.at += 1;
                    } else {
                        kinds = kinds << 1 | u128::from(is_object);
                        open += 1;
                        if is_object {
                            self.member_key()?;
                        }
                        continue;
                    }
                }
                _ => return Err(ScanError::NotJson { at: self.at, expected: "a value" }),
            }
            // A value ended: close every level that ends with it.
            loop {
                if open == 0 {
                    return Ok(start..self.at);
                }
                self.space();
                let is_object = kinds & 1 == 1;
                match self.bump() {
                    Some(b',') => {
                        self.space();
                        if is_object {
                            self.member_key()?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => {}
                    Some(b']') if !is_object => {}
                    _ => return Err(self.unexpected("',' or the end of the object or array")),
                }
                kinds >>= 1;
                open -= 1;
            }
        }
    }

    fn member_key(&mut self) -> Result<(), ScanError> {
        if self.peek() != Some(b'"') {
            return Err(ScanError::NotJson { at: self.at, expected: "a string as key" });
        }
        self.string()?;
        self.space();
        self.expect(b':', "':'")?;
        self.space();
        Ok(())
    }

    /// A string, from its opening to its closing quote. Returns whether it has escapes.
    fn string(&mut self) -> Result<bool, ScanError> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.plain();
            match self.bump() {
                Some(b'"') => return Ok(escaped),
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                    // Where one is there are more.
                    self.at += escaped_len(self.rest());
                }
                Some(0x00..=0x1f) => return Err(self.unexpected("an escaped control character")),
                Some(_) => {}
                None => return Err(self.unexpected("'\"'")),
            }
        }
    }

    /// Goes to the next byte that is not plain, or near the end.
    #[inline]
    fn plain(&mut self) {
        // Most texts end within a few words.
        for _ in 0..WORDS_MIN {
            let Some(word) = self.rest().first_chunk() else { return };
            let plain = plain_bytes(word);
            self.at += plain;
            if plain < word.len() {
                return;
            }
        }
        self.at += plain_len(self.rest());
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        match self.bump() {
            Some(byte) if is_short(byte) => Ok(()),
            Some(b'u') => {
                let digits = self.rest().first_chunk::<4>();
                if !digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(ScanError::NotJson { at: self.at, expected: "four hex digits" });
                }
                self.at += 4;
                Ok(())
            }
            _ => Err(self.unexpected("an escape")),
        }
    }

    fn number(&mut self) -> Result<(), ScanError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.bump() {
            Some(b'0') => {}
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("a digit")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit()?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digit()?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self) -> Result<(), ScanError> {
        match self.bump() {
            Some(b'0'..=b'9') => Ok(()),
            _ => Err(self.unexpected("a digit")),
        }
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<(), ScanError> {
        if !self.rest().starts_with(word) {
            return Err(ScanError::NotJson { at: self.at, expected: "a value" });
        }
        self.at += word.len();
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn end(&mut self) -> Result<(), ScanError> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(ScanError::NotJson { at: self.at, expected: "the end of the message" }),
        }
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ScanError> {
        if self.bump() == Some(byte) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The byte just taken is wrong.
    const fn unexpected(&self, expected: &'static str) -> ScanError {
        ScanError::NotJson { at: self.at - 1, expected }
    }
}

/// The objects that the scan descends into.
const fn look_into(part: Part) -> Option<Inside> {
    match part {
        Part::Params => Some(Inside::Params),
        Part::Ref => Some(Inside::Ref),
        Part::Meta => Some(Inside::ParamsMeta),
        Part::Result => Some(Inside::Result),
        Part::ResultMeta => Some(Inside::ResultMeta),
        Part::Error => Some(Inside::Error),
        _ => None,
    }
}

impl Inside {
    /// What is wrong if it is something else; `None` where that is for others to judge.
    const fn not_an_object(self) -> Option<ScanError> {
        match self {
            Self::Params => Some(ScanError::BadParams),
            Self::ParamsMeta => Some(ScanError::BadMeta),
            Self::Result => Some(ScanError::BadOutcome("result")),
            Self::Error => Some(ScanError::BadOutcome("error")),
            Self::Envelope => Some(ScanError::NotObject),
            Self::Ref | Self::ResultMeta => None,
        }
    }
}
