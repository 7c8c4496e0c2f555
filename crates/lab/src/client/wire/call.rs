//! Requests whose bytes are ready but for their ids.

use bytes::Bytes;
use mcplane_proto::frame::lines as framing;
use mcplane_proto::message::write;
use mcplane_proto::{Id, Method};

/// A request whose bytes are ready but for its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// The HTTP head up to its length; empty on other transports.
    pub(super) head: Vec<u8>,
    /// The message before and after the id.
    pub(super) before: Vec<u8>,
    pub(super) after: Vec<u8>,
    /// Where in `after` the call's number goes.
    pub(super) stamps: Vec<usize>,
}

impl Call {
    pub(super) fn new(head: Vec<u8>, method: Method, params: &[u8], newline: bool) -> Self {
        let whole = |id: i64| {
            let mut line = Vec::new();
            write::request(&mut line, &Id::from(id), method.as_str(), Some(params));
            framing::end(&mut line, 0);
            line.truncate(line.len() - usize::from(!newline));
            line
        };
        // Two calls differ in nothing but the id.
        let (mut before, one) = (whole(0), whole(1));
        let at = before.iter().zip(&one).position(|(a, b)| a != b).unwrap_or(0);
        let after = before.split_off(at + 1);
        before.truncate(at);
        Self { head, before, after, stamps: Vec::new() }
    }

    /// The same call, with its id for a number wherever the arguments have [`UNSTAMPED`].
    pub(crate) fn stamped(mut self) -> Self {
        self.stamps = stamps(&self.after);
        self
    }

    /// What follows the id.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.after
    }

    /// The same call with texts in place of others: for each where it begins after the id, how long
    /// what it replaces is, and what it says; in their order.
    pub(crate) fn filled(&self, fills: impl Iterator<Item = (usize, usize, String)>) -> Self {
        let mut call = Self { after: Vec::with_capacity(self.after.len()), ..self.clone() };
        let mut from = 0;
        for (at, len, text) in fills {
            call.after.extend_from_slice(self.after.get(from..at).unwrap_or_default());
            from = at + len;
            let grown = call.after.len() + text.len();
            for (stamp, place) in call.stamps.iter_mut().zip(&self.stamps) {
                if *place >= from {
                    *stamp = grown + place - from;
                }
            }
            call.after.extend_from_slice(text.as_bytes());
        }
        call.after.extend_from_slice(self.after.get(from..).unwrap_or_default());
        call
    }

    /// Bytes of one call with an id of one digit, and for HTTP with its head.
    pub(crate) fn len(&self) -> usize {
        let message = self.before.len() + 1 + self.after.len();
        let length = if self.head.is_empty() { 0 } else { "Content-Length: 100\r\n\r\n".len() };
        self.head.len() + length + message
    }

    pub(super) fn write_body(&self, id: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before);
        write_digits(out, id);
        let start = out.len();
        out.extend_from_slice(&self.after);
        for at in &self.stamps {
            if let Some(place) = out.get_mut(start + at..start + at + UNSTAMPED.len()) {
                place.copy_from_slice(&stamp(id));
            }
        }
    }

    pub(super) fn body(&self, id: i64) -> Bytes {
        let mut out = Vec::with_capacity(self.before.len() + self.after.len() + 20);
        self.write_body(id, &mut out);
        out.into()
    }
}

/// What stands in arguments, and in the first result, for the number of a call: as long as the
/// longest of them.
pub(crate) const UNSTAMPED: [u8; 16] = [b'0'; 16];

/// The number of a call, at its full length.
pub(crate) fn stamp(id: i64) -> [u8; UNSTAMPED.len()] {
    let (mut stamp, mut rest) = (UNSTAMPED, id);
    for digit in stamp.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    stamp
}

/// Where a text has [`UNSTAMPED`].
pub(crate) fn stamps(text: &[u8]) -> Vec<usize> {
    memchr::memmem::find_iter(text, &UNSTAMPED).collect()
}

/// Appends a number that is not negative in decimal.
pub(super) fn write_digits(out: &mut Vec<u8>, number: i64) {
    let start = out.len();
    let mut rest = number;
    while rest > 9 {
        out.push(b'0' + u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
    }
    out.push(b'0' + u8::try_from(rest).unwrap_or(0));
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_its_halves_around_the_id() {
        let call = Call::new(Vec::new(), Method::ToolsCall, br#"{"name":"a0"}"#, true);
        assert_eq!(call.before, br#"{"jsonrpc":"2.0","id":"#);
        assert_eq!(call.after, b",\"method\":\"tools/call\",\"params\":{\"name\":\"a0\"}}\n");
        let framed = Call::new(Vec::new(), Method::ToolsCall, br#"{"name":"a0"}"#, false);
        assert_eq!(framed.after, &call.after[..call.after.len() - 1]);
    }

    #[test]
    fn a_stamped_call_says_its_number() {
        let params = br#"{"name":"echo","arguments":{"message":"no 0000000000000000"}}"#;
        let call = Call::new(Vec::new(), Method::ToolsCall, params, false);
        assert!(call.body(12).ends_with(b"no 0000000000000000\"}}}"));
        assert!(call.stamped().body(12).ends_with(b"no 0000000000000012\"}}}"));
    }

    #[test]
    fn a_filled_call_keeps_its_number_in_place() {
        let params = br#"{"a":"0000000000000000 <1> 0000000000000000 <2> 0000000000000000"}"#;
        let call = Call::new(Vec::new(), Method::ToolsCall, params, false).stamped();
        let at = |mark: &str| memchr::memmem::find(call.tail(), mark.as_bytes()).unwrap();
        let fills = [(at("<1>"), 3, "longer text".to_owned()), (at("<2>"), 3, String::new())];
        let filled = call.filled(fills.into_iter()).body(12);
        let want = b"{\"a\":\"0000000000000012 longer text 0000000000000012  0000000000000012\"}}";
        assert!(filled.ends_with(want), "{filled:?}");
    }

    #[test]
    fn digits_are_decimal() {
        let mut out = b"x".to_vec();
        for number in [0, 7, 10, 1234567890, i64::MAX] {
            write_digits(&mut out, number);
            out.push(b' ');
        }
        assert_eq!(out, b"x0 7 10 1234567890 9223372036854775807 ");
    }
}
