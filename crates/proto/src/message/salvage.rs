//! Which request bytes answer that are not a message: it fails at once and need not wait.

use super::part::{Inside, Part};
use crate::id::Id;

/// The id of what can only be an answer: an object with one `id`, an outcome and no method, whatever
/// is wrong with their values. `None` where a reader could see another id or none.
pub(super) fn answered(bytes: &[u8]) -> Option<Id> {
    let mut id = None;
    let mut is_answer = false;
    let mut walk = Walk { bytes, at: 0 };
    walk.take(b'{')?;
    loop {
        let key = super::decode_text(walk.string()?)?;
        walk.take(b':')?;
        let value = walk.value()?;
        let part = Part::find(Inside::Envelope, key.as_bytes());
        match (part, Part::lookalike(Inside::Envelope, key.as_bytes())) {
            (Some(Part::Id), _) if id.is_none() => id = Some(value),
            (Some(Part::Id | Part::Method), _) | (_, Some("id" | "method")) => return None,
            (Some(Part::Result | Part::Error), _) | (_, Some("result" | "error")) => {
                is_answer = true;
            }
            _ => {}
        }
        if walk.take(b',').is_none() {
            break;
        }
    }
    walk.take(b'}')?;
    walk.space();
    let is_whole = is_answer && walk.at == bytes.len();
    is_whole.then(|| Id::from_json(id?)).flatten()
}

/// A place among the members of one object. What is inside their values is only counted.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn space(&mut self) {
        self.pass(|byte| byte.is_ascii_whitespace());
    }

    fn pass(&mut self, passes: impl Fn(u8) -> bool) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| passes(**byte)).count();
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Passes this byte, if it is the next one.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.space();
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.space();
        let start = self.at;
        self.take(b'"')?;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.bytes.get(start..self.at)
    }

    /// Any value, and words that look like one, such as `NaN`.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.space();
        let start = self.at;
        let mut open = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    open += 1;
                    self.at += 1;
                }
                b'}' | b']' if open > 0 => {
                    open -= 1;
                    self.at += 1;
                }
                _ if open > 0 => self.at += 1,
                _ => self.pass(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)),
            }
            if open == 0 {
                break;
            }
        }
        self.bytes.get(start..self.at).filter(|value| !value.is_empty())
    }
}
