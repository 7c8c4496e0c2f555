//! One message: its bytes, and where its parts are in them.
//!
//! One scan validates the JSON and notes the spans of the envelope and of the few members below it
//! that a server, a client or a gateway routes on. Values stay bytes: nothing is decoded before
//! somebody asks, and what nobody understands is forwarded as it came.
//!
//! * [`Message`] — scan, look, splice (this file).
//! * [`Part`] — the members that the scan finds.
//! * [`Outcome`] — how an answer ends its request.
//! * [`ScanError`], [`ScanFailure`] — why bytes are not a message.
//! * [`mod@write`] — the envelopes that go out.

mod part;
mod plain;
mod salvage;
mod scan;
pub mod write;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

pub use part::Part;
use part::Spans;
pub use scan::{ScanError, ScanFailure};
pub(crate) use write::string as write_string;

use crate::error::{Code, ErrorObject};
use crate::id::Id;
use crate::limits::BATCH_MAX;
use crate::method::Method;

/// What kind of message the envelope makes it (JSON-RPC 2.0 §4, §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "JSON-RPC 2.0 has these four and no more")]
pub enum Kind {
    /// `method` and `id`.
    Request,
    /// `method` without `id`.
    Notification,
    /// `result`.
    Response,
    /// `error`.
    ErrorResponse,
}

/// How an answer ends its request: what a relay needs, which does not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "JSON-RPC 2.0 §5 has these two")]
pub enum Outcome {
    /// With a result.
    Result,
    /// With an error of this code.
    Error(Code),
}

impl Outcome {
    /// The code, if it is an error.
    #[must_use]
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Result => None,
            Self::Error(code) => Some(code),
        }
    }
}

impl From<&ErrorObject> for Outcome {
    fn from(error: &ErrorObject) -> Self {
        Self::Error(error.code)
    }
}

/// One JSON-RPC message: shared bytes and the spans of its parts.
///
/// Cloning is cheap: the bytes are reference counted.
#[derive(Clone)]
pub struct Message {
    bytes: Bytes,
    kind: Kind,
    method: Option<Method>,
    spans: Spans,
}

impl Message {
    /// Scans one message.
    ///
    /// # Errors
    /// [`ScanFailure`] names what is wrong and, where it was readable, the id to answer to.
    #[allow(clippy::result_large_err, reason = "the failure carries the id it must be answered to")]
    pub fn scan(bytes: impl Into<Bytes>) -> Result<Self, ScanFailure> {
        let bytes = bytes.into();
        let scanned = scan::message(&bytes)?;
        Ok(Self { kind: scanned.kind, method: scanned.method, spans: scanned.spans, bytes })
    }

    /// The whole message.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Request, notification, response or error response.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// How an answer ends its request; -32603 stands for a code that is not an integer. `None` for what is
    /// no answer.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self.kind {
            Kind::Request | Kind::Notification => None,
            Kind::Response => Some(Outcome::Result),
            Kind::ErrorResponse => {
                let code = self.part(Part::ErrorCode).unwrap_or_default();
                let code = serde_json::from_slice(code).unwrap_or(Code::INTERNAL_ERROR);
                Some(Outcome::Error(code))
            }
        }
    }

    /// The method, if some revision defines it.
    #[must_use]
    pub const fn method(&self) -> Option<Method> {
        self.method
    }

    /// The method's name as sent; empty for a response.
    #[must_use]
    pub fn method_name(&self) -> Cow<'_, str> {
        self.text(Part::Method).unwrap_or_default()
    }

    /// The id with its JSON type; `None` for a notification or an error without an id.
    #[must_use]
    pub fn id(&self) -> Option<Id> {
        Id::from_json(self.part(Part::Id)?)
    }

    /// The JSON text of a part, or `None` if the message has no such member.
    #[must_use]
    pub fn part(&self, part: Part) -> Option<&[u8]> {
        self.bytes.get(self.spans.range(part)?)
    }

    /// The JSON text of a part, sharing the message's memory.
    #[must_use]
    pub fn share(&self, part: Part) -> Option<Bytes> {
        Some(self.bytes.slice(self.spans.range(part)?))
    }

    /// The decoded text of a part; `None` if it is absent or not a string. Borrowed unless the
    /// text has escapes.
    #[must_use]
    pub fn text(&self, part: Part) -> Option<Cow<'_, str>> {
        decode_text(self.part(part)?)
    }

    /// Whether a part is present and is the JSON literal `true`.
    #[must_use]
    pub fn is_true(&self, part: Part) -> bool {
        self.part(part) == Some(b"true")
    }

    /// The message with parts replaced, every other byte as it was. Each edit is a part and its new
    /// JSON text; edits of absent parts, and of parts inside a part that is replaced, do nothing.
    #[must_use]
    pub fn splice(&self, edits: &[(Part, &[u8])]) -> Vec<u8> {
        let grown: usize = edits.iter().map(|(_, json)| json.len()).sum();
        let mut out = Vec::with_capacity(self.bytes.len() + grown);
        self.splice_into(&mut out, edits);
        out
    }

    /// Like [`Message::splice`], appending to `out`.
    pub fn splice_into(&self, out: &mut Vec<u8>, edits: &[(Part, &[u8])]) {
        let mut copied = 0;
        // Edits are one to three: picking the leftmost that is still ahead beats a sorted copy.
        while let Some((range, json)) = edits
            .iter()
            .filter_map(|&(part, json)| Some((self.spans.range(part)?, json)))
            .filter(|(range, _)| range.start >= copied)
            .min_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)))
        {
            out.extend_from_slice(self.bytes.get(copied..range.start).unwrap_or_default());
            out.extend_from_slice(json);
            copied = range.end;
        }
        out.extend_from_slice(self.bytes.get(copied..).unwrap_or_default());
    }
}

impl fmt::Debug for Message {
    /// Kind, method, id and size; never the contents, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("kind", &self.kind)
            .field("method", &self.method_name())
            .field("id", &self.id())
            .field("len", &self.bytes.len())
            .finish()
    }
}

/// Whether a line or a body is a batch: its first byte that is not white space is `[`.
#[must_use]
pub fn is_batch(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// The elements of a batch of 2025-03-26, each sharing the memory of `bytes`.
///
/// # Errors
/// As [`Message::scan`]; an empty array or one of more than [`BATCH_MAX`] elements is refused
/// (JSON-RPC 2.0 §6).
#[allow(clippy::result_large_err, reason = "same error as Message::scan")]
pub fn split_batch(bytes: &Bytes) -> Result<Vec<Bytes>, ScanFailure> {
    let ranges = scan::batch(bytes, BATCH_MAX)?;
    Ok(ranges.into_iter().map(|range| bytes.slice(range)).collect())
}

/// Whether a key, decoded, is not `known` and yet passes for it: with a reader that ignores case (the
/// letters beyond ASCII that fold to ASCII included) or drops control characters, or for which a
/// string ends at a NUL. The scan refuses such keys wherever it looks.
#[must_use]
pub fn is_lookalike(key: &str, known: &str) -> bool {
    part::lookalike(&[known.as_bytes()], key.as_bytes()).is_some()
}

/// Decodes a JSON string; `None` for any other JSON.
pub(crate) fn decode_text(json: &[u8]) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<String>(json).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests;
