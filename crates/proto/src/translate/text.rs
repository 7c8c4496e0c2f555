//! JSON text looked at and rewritten in place: members, elements, edits. The text was validated when
//! its message was scanned; here only its structure is followed, and nothing is decoded or copied
//! that need not be.

use std::borrow::Cow;

use crate::message::{decode_text, write_string};

/// A member of an object, both halves as they are written.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    /// The key with its quotes.
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> Member<'a> {
    /// The key, decoded. One that is not text has the empty name, which no rule asks for.
    pub(super) fn name(&self) -> Cow<'a, str> {
        decode_text(self.key).unwrap_or_default()
    }
}

/// The members of an object, in order. What is not an object has none.
pub(super) fn members(object: &[u8]) -> Members<'_> {
    let mut cursor = Cursor { bytes: object, at: 0 };
    cursor.enter(b'{');
    Members(cursor)
}

/// The last member of that name, which is the one that most parsers see.
pub(super) fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    members(object).filter(|member| member.name() == name).last().map(|member| member.value)
}

/// Whether an object has members; what they are is not looked at.
pub(super) fn has_members(object: &[u8]) -> bool {
    let inside = object.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    inside.is_some_and(|inside| inside.starts_with(b"\""))
}

/// The member of an object in `text` that has this key and this value, which is a slice of `text`,
/// and the comma that goes with it: without them the object is complete. `None` if the key is
/// written with escapes.
pub(super) fn cut<'a>(text: &'a [u8], quoted_key: &[u8], value: &[u8]) -> Option<&'a [u8]> {
    let start = offset(text, value);
    let before = text.get(..start)?.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let before = before.strip_suffix(quoted_key)?.trim_ascii_end();
    let after = text.get(start + value.len()..)?;
    let (before, after) = match before.strip_suffix(b",") {
        Some(before) => (before, after),
        None => (before, after.trim_ascii_start().strip_prefix(b",").unwrap_or(after)),
    };
    text.get(before.len()..text.len() - after.len())
}

/// The elements of an array, in order. What is not an array has none.
pub(super) fn elements(array: &[u8]) -> Elements<'_> {
    let mut cursor = Cursor { bytes: array, at: 0 };
    cursor.enter(b'[');
    Elements(cursor)
}

pub(super) struct Members<'a>(Cursor<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        self.0.pass(|byte| byte == b',' || is_space(byte));
        if self.0.peek() != Some(b'"') {
            return None;
        }
        let key = self.0.value();
        self.0.pass(|byte| byte == b':' || is_space(byte));
        Some(Member { key, value: self.0.value() })
    }
}

pub(super) struct Elements<'a>(Cursor<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.pass(|byte| byte == b',' || is_space(byte));
        Some(self.0.value()).filter(|value| !value.is_empty())
    }
}

/// A place in valid JSON. In anything else it only ever moves forward.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn enter(&mut self, bracket: u8) {
        self.pass(is_space);
        if self.peek() == Some(bracket) {
            self.at += 1;
        } else {
            self.at = self.bytes.len();
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn pass(&mut self, passes: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&passes) {
            self.at += 1;
        }
    }

    /// The value that begins here; empty where none does.
    fn value(&mut self) -> &'a [u8] {
        let start = self.at;
        let mut open = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.string(),
                b'{' | b'[' => {
                    open += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' if open == 0 => break,
                b'}' | b']' => {
                    open -= 1;
                    self.at += 1;
                }
                _ if open > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    self.pass(|b| !is_space(b) && !matches!(b, b',' | b':' | b'}' | b']'));
                    break;
                }
            }
            if open == 0 {
                break;
            }
        }
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    fn string(&mut self) {
        self.at += 1;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', rest) {
                Some(found) if rest.get(found) == Some(&b'"') => {
                    self.at += found + 1;
                    return;
                }
                Some(found) if found + 2 <= rest.len() => self.at += found + 2,
                _ => {
                    self.at = self.bytes.len();
                    return;
                }
            }
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// An object that is being written.
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
}

impl<'o> Object<'o> {
    pub(super) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { start: out.len(), out }
    }

    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    /// Begins a member; its value is to be appended to what this gives back. `name` is plain: no
    /// character of it needs an escape.
    pub(super) fn value(&mut self, name: &str) -> &mut Vec<u8> {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(super) fn member(&mut self, name: &str, value: &[u8]) {
        self.value(name).extend_from_slice(value);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        write_string(self.value(name), value);
    }

    /// A member whose name may be any text.
    pub(super) fn entry(&mut self, name: &str, value: &[u8]) {
        self.comma();
        write_string(self.out, name);
        self.out.push(b':');
        self.out.extend_from_slice(value);
    }

    /// Begins a member with the key of another.
    pub(super) fn value_of(&mut self, member: &Member<'_>) -> &mut Vec<u8> {
        self.comma();
        self.out.extend_from_slice(member.key);
        self.out.push(b':');
        self.out
    }

    pub(super) fn copy(&mut self, member: &Member<'_>) {
        self.value_of(member).extend_from_slice(member.value);
    }

    /// Members as text that begins with a comma.
    pub(super) fn more(&mut self, members: &[u8]) {
        let empty = self.out.len() == self.start;
        let members = if empty { members.strip_prefix(b",").unwrap_or(members) } else { members };
        self.out.extend_from_slice(members);
    }

    /// A member that is an object and is left out if it gets no member.
    pub(super) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        let mark = self.out.len();
        let mut inner = Object::open(self.value(name));
        fill(&mut inner);
        let empty = inner.out.len() == inner.start;
        inner.close();
        if empty {
            self.out.truncate(mark);
        }
    }

    fn comma(&mut self) {
        if self.out.len() > self.start {
            self.out.push(b',');
        }
    }
}

/// What stands in the place of an old value.
#[derive(Clone, Copy)]
pub(super) enum New<'a> {
    Json(&'a [u8]),
    Text(&'a str),
    Integer(i64),
    Joined(&'a [&'a [u8]]),
}

impl New<'_> {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Json(json) => out.extend_from_slice(json),
            Self::Joined(pieces) => pieces.iter().for_each(|piece| out.extend_from_slice(piece)),
            Self::Text(text) => write_string(out, text),
            Self::Integer(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
        }
    }
}

/// Makes what was appended after `start` one line: raw line feeds and carriage returns in valid JSON
/// are white space between tokens, and become spaces.
pub(super) fn one_line(out: &mut [u8], start: usize) {
    let mut rest = out.get_mut(start..).unwrap_or_default();
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        let Some((end, after)) = rest.get_mut(at..).and_then(<[u8]>::split_first_mut) else {
            return;
        };
        *end = b' ';
        rest = after;
    }
}

/// An old value, which is a slice of the text that is edited, and the new one.
pub(super) type Edit<'a> = Option<(&'a [u8], New<'a>)>;

/// Appends `text` with some values replaced and every other byte as it is. Edits that are `None`,
/// not in `text`, or inside another edit do nothing.
pub(super) fn splice<const N: usize>(text: &[u8], mut edits: [Edit<'_>; N], out: &mut Vec<u8>) {
    let place = |edit: &Edit<'_>| edit.map_or(usize::MAX, |(old, _)| offset(text, old));
    edits.sort_unstable_by_key(place);
    let mut copied = 0;
    for (old, new) in edits.into_iter().flatten() {
        let start = offset(text, old);
        let Some(before) = text.get(copied..start).filter(|_| start < text.len()) else { continue };
        out.extend_from_slice(before);
        new.write(out);
        copied = start + old.len();
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
}

/// Where a part of `text` begins in it; beyond its end for what is not a part of it.
pub(super) fn offset(text: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr().wrapping_sub(text.as_ptr().addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(object: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        members(object.as_bytes()).map(|m| (m.name().into_owned(), text(m.value))).collect()
    }

    #[test]
    fn members_are_found_whatever_they_hold() {
        let found = pairs(
            " { \"a\" : 1 , \"\\u0062\":\"x\\\"},{\\\\\" ,\n\"c\":[{\"d\":\"]\"},[]],\"e\":{},\"f\":null}",
        );
        let expected = [
            ("a", "1"),
            ("b", "\"x\\\"},{\\\\\""),
            ("c", "[{\"d\":\"]\"},[]]"),
            ("e", "{}"),
            ("f", "null"),
        ];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert!(pairs("{}").is_empty() && pairs("[1]").is_empty() && pairs("").is_empty());
        assert_eq!(member(br#"{"a":1,"a":2}"#, "a"), Some(&b"2"[..]));
    }

    #[test]
    fn a_member_is_cut_out_with_its_comma() {
        for (text, expected) in [
            (r#"{"k":{"a":1}}"#, "{}"),
            (r#"{ "k" : 1 , "b":2}"#, r#"{ "b":2}"#),
            (r#"{"a":1 , "k":[] }"#, r#"{"a":1  }"#),
            (r#"{"a":1,"k":null,"b":2}"#, r#"{"a":1,"b":2}"#),
        ] {
            let value = member(text.as_bytes(), "k").unwrap();
            let edit = cut(text.as_bytes(), b"\"k\"", value).map(|old| (old, New::Json(b"")));
            let mut out = Vec::new();
            splice(text.as_bytes(), [edit], &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let escaped = br#"{"\u006b":1}"#;
        assert_eq!(cut(escaped, b"\"k\"", member(escaped, "k").unwrap()), None);
        assert_eq!(cut(b"1", b"\"k\"", b"elsewhere"), None);
    }

    #[test]
    fn an_object_has_members_or_none() {
        for (text, has) in [("{}", false), (" { \"a\":1}", true), ("{ }", false), ("[1]", false)] {
            assert_eq!(has_members(text.as_bytes()), has, "{text}");
        }
    }

    #[test]
    fn elements_are_found_whatever_they_are() {
        let found: Vec<_> = elements(b"[ 1, \"]\" ,[2,[3]],{\"a\":[]}, true]").collect();
        assert_eq!(found, [&b"1"[..], b"\"]\"", b"[2,[3]]", b"{\"a\":[]}", b"true"]);
        assert_eq!(elements(b"[]").count() + elements(b"{}").count() + elements(b"[").count(), 0);
    }

    #[test]
    fn what_is_no_json_comes_to_an_end() {
        for text in ["{\"a", "{\"a\":", "{\"a\\", "{:", "[[[[", "[:", "{\"a\":\"\\", "[\"", "{,,"] {
            assert!(members(text.as_bytes()).count() + elements(text.as_bytes()).count() <= 2);
        }
    }

    #[test]
    fn edits_come_in_any_order() {
        let text = &b"[1,22,\"x\"]"[..];
        let all: Vec<_> = elements(text).collect();
        let mut out = Vec::new();
        let edits = [
            Some((all[2], New::Text("a\"b"))),
            None,
            Some((all[0], New::Integer(-7))),
            Some((&b"elsewhere"[..], New::Json(b"!"))),
        ];
        splice(text, edits, &mut out);
        assert_eq!(out, b"[-7,22,\"a\\\"b\"]");
    }
}
