//! An index of JSON text: one pass over the bytes, one fixed-size token per value and per key.
//!
//! The validator asks the same questions of a value many times ("how many members", "the next
//! member"). Answering them from the bytes would scan the text again for each, which is quadratic
//! in the depth; the index answers them in constant time, and for a small instance it lives on the
//! stack.

use std::str::from_utf8;

use memchr::memchr2;
use serde_json::Number;

/// Deepest nesting, in levels: that of a message (`mcplane_proto::limits::DEPTH_MAX`). A handler's
/// parser refuses 128.
pub(super) const DEPTH_MAX: usize = 100;

/// Longest text, in bytes: positions are 32 bits wide, and no message comes close.
const TEXT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Tokens kept on the stack, 20 bytes each: the arguments of an ordinary call. A larger instance
/// costs one growing heap buffer.
const INLINE_TOKENS: usize = 48;

/// A number at least this long, in bytes, may lie outside the range of `f64`, as may any with an
/// exponent.
const LONG_NUMBER_BYTES: usize = 300;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Null,
    True,
    False,
    Number,
    /// A string that reads as it is written.
    Plain,
    /// A string with at least one escape.
    Escaped,
    Array,
    Object,
}

/// One value or one key. A container is followed by the tokens of what it holds; an object's
/// alternate between key and value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Token {
    /// First byte; of a string, the one after its quote.
    pub(super) start: u32,
    /// One past the last byte; of a string, its closing quote.
    pub(super) end: u32,
    /// Tokens of this subtree, itself included.
    pub(super) size: u32,
    /// Elements of an array, members of an object.
    pub(super) count: u32,
    pub(super) kind: Kind,
}

impl Token {
    const NONE: Self = Self { start: 0, end: 0, size: 0, count: 0, kind: Kind::Null };
}

/// Why a text cannot be checked, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub(super) what: &'static str,
    pub(super) at: usize,
}

/// The tokens of one text.
#[derive(Debug)]
pub(super) struct Tape {
    inline: [Token; INLINE_TOKENS],
    used: usize,
    spill: Vec<Token>,
}

impl Tape {
    pub(super) const fn empty() -> Self {
        Self { inline: [Token::NONE; INLINE_TOKENS], used: 0, spill: Vec::new() }
    }

    /// The index of `text`, which should be valid JSON.
    pub(super) fn index(text: &str) -> Result<Self, Flaw> {
        let mut tape = Self::empty();
        tape.fill(text.as_bytes())?;
        Ok(tape)
    }

    /// Indexes what should be valid JSON, in place, for an empty tape is a kilobyte; returns the
    /// text. What is not JSON at all is refused; a slip in the punctuation may pass, and then the
    /// reader of the values meets it.
    pub(super) fn fill<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a str, Flaw> {
        let text = from_utf8(bytes)
            .map_err(|error| Flaw { what: "is not UTF-8", at: error.valid_up_to() })?;
        let mut indexer = Indexer { text, at: 0, open: None, depth: 0, tape: self };
        if text.len() > TEXT_BYTES_MAX {
            return Err(indexer.flaw("is too long"));
        }
        while let Some(byte) = indexer.next_byte() {
            indexer.step(byte)?;
        }
        let whole = indexer.tape.tokens().first().map(|root| root.size as usize);
        if indexer.open.is_some() || whole != Some(indexer.tape.used) {
            return Err(indexer.flaw("is not one whole JSON value"));
        }
        Ok(text)
    }

    pub(super) fn tokens(&self) -> &[Token] {
        if self.spill.is_empty() {
            self.inline.get(..self.used).unwrap_or_default()
        } else {
            &self.spill
        }
    }

    fn push(&mut self, token: Token) {
        if let Some(slot) = self.inline.get_mut(self.used) {
            *slot = token;
        } else {
            if self.spill.is_empty() {
                self.spill.reserve(INLINE_TOKENS * 4);
                self.spill.extend_from_slice(&self.inline);
            }
            self.spill.push(token);
        }
        self.used += 1;
    }

    fn token_mut(&mut self, index: usize) -> Option<&mut Token> {
        if self.spill.is_empty() { self.inline.get_mut(index) } else { self.spill.get_mut(index) }
    }
}

struct Indexer<'a> {
    text: &'a str,
    at: usize,
    /// The innermost open container. Until it closes, its `size` holds the one around it, plus one.
    open: Option<usize>,
    depth: usize,
    tape: &'a mut Tape,
}

impl Indexer<'_> {
    /// The next byte that means something, with separators skipped.
    fn next_byte(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn step(&mut self, byte: u8) -> Result<(), Flaw> {
        match byte {
            b'}' => self.close(Kind::Object),
            b']' => self.close(Kind::Array),
            _ => {
                self.count(byte == b'"')?;
                match byte {
                    b'{' => self.open(Kind::Object),
                    b'[' => self.open(Kind::Array),
                    b'"' => self.string(),
                    _ => self.scalar(),
                }
            }
        }
    }

    /// Counts a key or value into the open container; inside an object every other one is a key.
    fn count(&mut self, is_string: bool) -> Result<(), Flaw> {
        let (flaw, is_first) = (self.flaw("is not JSON"), self.tape.used == 0);
        match self.open.and_then(|open| self.tape.token_mut(open)) {
            None if !is_first => Err(flaw),
            None => Ok(()),
            Some(open) if open.kind == Kind::Object && open.count % 2 == 0 && !is_string => {
                Err(flaw)
            }
            Some(open) => {
                open.count += 1;
                Ok(())
            }
        }
    }

    fn open(&mut self, kind: Kind) -> Result<(), Flaw> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.flaw("is nested too deep"));
        }
        let around = self.open.map_or(0, |open| open + 1);
        self.open = Some(self.tape.used);
        self.tape.push(Token {
            start: narrow(self.at),
            size: narrow(around),
            kind,
            ..Token::default()
        });
        self.at += 1;
        Ok(())
    }

    fn close(&mut self, kind: Kind) -> Result<(), Flaw> {
        let flaw = self.flaw("is not JSON");
        let (index, used, end) = (self.open.ok_or(flaw)?, self.tape.used, self.at + 1);
        let token = self.tape.token_mut(index).ok_or(flaw)?;
        if token.kind != kind || (kind == Kind::Object && token.count % 2 == 1) {
            return Err(flaw);
        }
        self.open = (token.size as usize).checked_sub(1);
        token.end = narrow(end);
        token.size = narrow(used - index);
        token.count /= if kind == Kind::Object { 2 } else { 1 };
        self.depth -= 1;
        self.at = end;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Flaw> {
        let start = self.at + 1;
        let rest = self.text.get(start..).unwrap_or_default();
        let (length, kind) = string_end(rest).ok_or_else(|| self.flaw("is not JSON"))?;
        let end = start + length;
        if kind == Kind::Escaped && !self.text.get(start - 1..=end).is_some_and(has_text) {
            return Err(self.flaw("is a string with a broken escape"));
        }
        self.leaf(start, end, kind);
        self.at = end + 1;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), Flaw> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.' | b'E'))
            .unwrap_or(rest.len());
        let kind = match rest.get(..length).unwrap_or_default() {
            b"true" => Kind::True,
            b"false" => Kind::False,
            b"null" => Kind::Null,
            digits @ [b'-' | b'0'..=b'9', ..] => {
                if !in_range(digits) {
                    return Err(self.flaw("is a number beyond the range of a 64-bit float"));
                }
                Kind::Number
            }
            _ => return Err(self.flaw("is not JSON")),
        };
        self.leaf(self.at, self.at + length, kind);
        self.at += length;
        Ok(())
    }

    fn leaf(&mut self, start: usize, end: usize, kind: Kind) {
        self.tape.push(Token { start: narrow(start), end: narrow(end), size: 1, count: 0, kind });
    }

    fn flaw(&self, what: &'static str) -> Flaw {
        Flaw { what, at: self.at }
    }
}

/// Where the string that `rest` continues ends, and whether it holds an escape.
fn string_end(rest: &str) -> Option<(usize, Kind)> {
    let first = memchr2(b'"', b'\\', rest.as_bytes())?;
    if rest.as_bytes().get(first) == Some(&b'"') {
        return Some((first, Kind::Plain));
    }
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((end, Kind::Escaped))
}

/// Whether a string with escapes stands for text: half of a surrogate pair does not, and no
/// handler could read it.
fn has_text(quoted: &str) -> bool {
    let surrogate = |pair: &[u8]| matches!(pair, [b'u', b'd' | b'D']);
    !quoted.as_bytes().windows(2).any(surrogate) || serde_json::from_str::<String>(quoted).is_ok()
}

/// Whether `serde_json`, and so the handler, can represent the number.
fn in_range(digits: &[u8]) -> bool {
    let plain =
        digits.len() < LONG_NUMBER_BYTES && !digits.iter().any(|b| matches!(b, b'e' | b'E'));
    plain || serde_json::from_slice::<Number>(digits).is_ok()
}

/// `TEXT_BYTES_MAX` keeps every position and count far below `u32::MAX`.
fn narrow(wide: usize) -> u32 {
    u32::try_from(wide).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, u32, u32)> {
        let tape = Tape::index(text).unwrap();
        tape.tokens().iter().map(|token| (token.kind, token.size, token.count)).collect()
    }

    #[test]
    fn one_token_for_each_key_and_value() {
        assert_eq!(
            kinds(r#" {"a" : [1, "\n"], "": {}} "#),
            [
                (Kind::Object, 7, 2),
                (Kind::Plain, 1, 0),
                (Kind::Array, 3, 2),
                (Kind::Number, 1, 0),
                (Kind::Escaped, 1, 0),
                (Kind::Plain, 1, 0),
                (Kind::Object, 1, 0),
            ]
        );
        assert_eq!(kinds("null"), [(Kind::Null, 1, 0)]);
        assert_eq!(kinds(r#""a\\""#), [(Kind::Escaped, 1, 0)]);
    }

    #[test]
    fn spills_beyond_the_stack_without_losing_a_token() {
        for count in [INLINE_TOKENS - 2, INLINE_TOKENS - 1, INLINE_TOKENS, 10_000] {
            let text = format!("[{}]", vec!["[]"; count].join(","));
            let tape = Tape::index(&text).unwrap();
            assert_eq!(tape.tokens().len(), count + 1);
            assert_eq!(tape.tokens()[0].count as usize, count);
            assert!(tape.tokens()[1..].iter().all(|token| token.size == 1));
        }
    }

    #[test]
    fn refuses_what_no_handler_could_read() {
        for text in [
            "",
            " ",
            "{",
            "]",
            "[}",
            "{]",
            "{1:2}",
            r#"{"a"}"#,
            r#"{"a":1,"b"}"#,
            "1 2",
            r#""open"#,
            r#""a\""#,
            "nul",
            "True",
            "NaN",
            "+1",
            "'a'",
            "1e999",
            "-1e999",
            r#""\ud800""#,
            r#"["\uD800\u0041"]"#,
            "[] []",
            "[1]]",
        ] {
            assert!(Tape::index(text).is_err(), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_err(), "{text}");
        }
        assert!(Tape::index(&format!("1{}", "0".repeat(400))).is_err());
        assert!(Tape::index(r#""\ud83e\udd80""#).is_ok());
        assert_eq!(Tape::empty().fill(b"\"\xff\"").unwrap_err().at, 1);
    }

    #[test]
    fn depth_is_bounded_where_a_message_is() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Tape::index(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(Tape::index(&nested(DEPTH_MAX + 1)).unwrap_err().what, "is nested too deep");
        assert_eq!(DEPTH_MAX, mcplane_proto::limits::DEPTH_MAX);
    }
}
