//! Messages on their way out of a stream, and how many of their bytes have left.

use std::ops::Deref;

use super::lines;
use crate::error::ErrorObject;
use crate::id::Id;
use crate::message::{Outcome, write};
use crate::method::Method;

/// An output buffer that drops what was sent while there is still more to send. One that waits until
/// *all* is sent grows for ever under a steady load, where that moment never comes.
///
/// Messages are appended whole, each as one line: nobody else ends them. Its length counts bytes that
/// are sent until they are dropped; [`Output::unsent`] is what is left.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    sent: usize,
    is_unflushed: bool,
    outcome: Option<Outcome>,
}

/// Sent bytes are dropped when there are at least so many of them, and no fewer than unsent ones:
/// each byte is then moved once at the most.
const DROPPED_BYTES_MIN: usize = 64 * 1024;

/// A buffer that has grown beyond this is given back when little of it is used, in bytes: room for two
/// messages of a megabyte, which costs as much to get anew as to fill.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

impl Output {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), sent: 0, is_unflushed: false, outcome: None }
    }

    /// Lets `write` append one message, as one line; nothing if it writes nothing.
    pub fn line<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let start = self.bytes.len();
        let value = write(&mut self.bytes);
        if self.bytes.len() > start {
            lines::end(&mut self.bytes, start);
        }
        value
    }

    /// Lets `write` append an answer, and say how it ends its request.
    pub fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Outcome) {
        self.outcome = Some(self.line(write));
    }

    /// Appends a response. `id_json` and `result` are JSON text.
    pub fn result(&mut self, id_json: &[u8], result: &[u8]) {
        self.reply(|out| {
            write::result(out, id_json, result);
            Outcome::Result
        });
    }

    /// Appends an error response. Without an id, `null` stands for it (JSON-RPC 2.0 §5).
    pub fn error(&mut self, id_json: Option<&[u8]>, error: &ErrorObject) {
        self.reply(|out| {
            write::error(out, id_json, error);
            error.into()
        });
    }

    /// Appends a request. `params` is JSON text.
    pub fn request(&mut self, id: &Id, method: Method, params: Option<&[u8]>) {
        self.line(|out| write::request(out, id, method.as_str(), params));
    }

    /// Appends a notification. `params` is JSON text.
    pub fn notification(&mut self, method: Method, params: Option<&[u8]>) {
        self.line(|out| write::notification(out, method.as_str(), params));
    }

    /// How the last answer that was appended ends its request.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// The bytes themselves, for what is not lines. Only append: bytes before the end may be sent.
    pub const fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes the last line back, which begins at `start`; without its end.
    #[must_use]
    pub fn take_back(&mut self, start: usize) -> Vec<u8> {
        let mut line = self.bytes.split_off(start.min(self.bytes.len()));
        line.pop();
        line
    }

    /// Bytes that it has room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// What waits to be sent.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub const fn backlog(&self) -> usize {
        self.bytes.len().saturating_sub(self.sent)
    }

    /// Whether all was sent, and the stream was flushed since.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        !self.is_unflushed && self.backlog() == 0
    }

    /// The first `len` bytes of [`Output::unsent`] were sent.
    pub fn advance(&mut self, len: usize) {
        self.is_unflushed = true;
        self.sent = self.bytes.len().min(self.sent + len);
        let rest = self.backlog();
        if rest == 0 {
            self.clear();
        } else if self.sent >= DROPPED_BYTES_MIN.max(rest) {
            self.bytes.drain(..self.sent);
            self.sent = 0;
            self.trim();
        }
    }

    /// The stream was flushed.
    pub const fn flushed(&mut self) {
        self.is_unflushed = false;
    }

    /// Drops everything, sent or not.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.outcome = None;
        self.trim();
    }

    /// Takes what waits to be sent.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.bytes.drain(..self.sent);
        self.sent = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Frees memory that a burst needed.
    fn trim(&mut self) {
        if self.bytes.capacity() / 4 > self.bytes.len() {
            self.bytes.shrink_to(KEPT_BYTES.max(2 * self.bytes.len()));
        }
    }
}

impl Deref for Output {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn what_was_sent_is_dropped_though_more_waits_all_the_time() {
        let mut output = Output::new();
        let (mut sent, mut put) = (0_u64, 0_u64);
        let mut number = 0_u8..=u8::MAX;
        for _ in 0..2_000 {
            while output.backlog() < 512 * 1024 {
                let piece = vec![(put % 251) as u8; 64 * 1024 - 1];
                output.raw().extend_from_slice(&piece);
                put += 1;
            }
            let len = 60_000 + usize::from(number.next().unwrap_or_default());
            let piece = &output.unsent()[..len];
            // Every byte says which piece it was put in with.
            let expected = |at: u64| ((at / (64 * 1024 - 1)) % 251) as u8;
            assert_eq!(
                (piece[0], piece[len - 1]),
                (expected(sent), expected(sent + len as u64 - 1))
            );
            output.advance(len);
            sent += len as u64;
            assert!(output.len() <= 2 * 1024 * 1024, "{} bytes are held", output.len());
            assert!(output.capacity() <= 4 * 1024 * 1024, "room for {}", output.capacity());
        }
    }

    #[test]
    fn it_is_done_when_all_is_sent_and_flushed() {
        let mut output = Output::new();
        assert!(output.is_done());
        output.raw().extend_from_slice(b"one two");
        output.advance(4);
        assert_eq!((output.unsent(), output.backlog()), (&b"two"[..], 3));
        output.advance(99);
        assert!(output.is_empty() && !output.is_done());
        output.flushed();
        assert!(output.is_done());
    }

    #[test]
    fn messages_are_lines_and_answers_have_an_outcome() {
        let mut output = Output::new();
        output.line(|_| ());
        output.notification(Method::Initialized, None);
        assert_eq!(output.outcome(), None, "nothing was answered");
        output.error(Some(b"1"), &ErrorObject::method_not_found("x"));
        assert_eq!(output.outcome().and_then(Outcome::code), Some(Code::METHOD_NOT_FOUND));
        let start = output.len();
        output.result(b"2", b"{\n}");
        assert_eq!(output.outcome(), Some(Outcome::Result));
        assert_eq!(output.iter().filter(|byte| **byte == b'\n').count(), 3);
        assert_eq!(output.take_back(start), br#"{"jsonrpc":"2.0","id":2,"result":{ }}"#);
        assert_eq!((output.len(), output.last()), (start, Some(&b'\n')));
    }

    #[test]
    fn what_is_taken_was_not_sent() {
        let mut output = Output::new();
        output.raw().extend_from_slice(b"one two");
        output.advance(4);
        assert_eq!(output.take(), b"two");
        assert!(output.is_empty() && output.unsent().is_empty());
    }
}
