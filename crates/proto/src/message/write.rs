//! The envelopes that go out, written straight into an output buffer. Compact JSON: no newline, so
//! each is one line as it stands.

use super::plain::{plain_bytes, plain_len};
use crate::error::ErrorObject;
use crate::id::Id;

/// Appends a request. `params` is its JSON text, or nothing.
pub fn request(out: &mut Vec<u8>, id: &Id, method: &str, params: Option<&[u8]>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write_json(out);
    out.extend_from_slice(b",\"method\":");
    call(out, method, params);
}

/// Appends a notification. `params` is its JSON text, or nothing.
pub fn notification(out: &mut Vec<u8>, method: &str, params: Option<&[u8]>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    call(out, method, params);
}

/// Appends a response up to its result, which the caller writes before [`end`].
pub fn begin_result(out: &mut Vec<u8>, id_json: &[u8]) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id_json);
    out.extend_from_slice(b",\"result\":");
}

/// Closes an envelope.
pub fn end(out: &mut Vec<u8>) {
    out.push(b'}');
}

/// Appends a response. `id_json` and `result` are JSON text.
pub fn result(out: &mut Vec<u8>, id_json: &[u8], result: &[u8]) {
    begin_result(out, id_json);
    out.extend_from_slice(result);
    end(out);
}

/// Appends an error response. Without an id, `null` stands for it (JSON-RPC 2.0 §5).
pub fn error(out: &mut Vec<u8>, id_json: Option<&[u8]>, error: &ErrorObject) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id_json.unwrap_or(b"null"));
    out.extend_from_slice(b",\"error\":");
    json(out, error);
    end(out);
}

/// Appends an error response that has no `id` member: from 2025-11-25 on an id is a string, a
/// number or absent.
pub fn error_without_id(out: &mut Vec<u8>, error: &ErrorObject) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"error\":");
    json(out, error);
    end(out);
}

/// Appends a JSON string, as serde_json writes it, and faster where it is long.
pub fn string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    while let Some(word) = rest.first_chunk() {
        let plain = plain_bytes(word);
        if plain == word.len() {
            rest = copy_plain(out, rest);
            continue;
        }
        // To copy eight bytes, which takes one instruction, and to drop some costs less than a loop.
        let end = out.len() + plain;
        out.extend_from_slice(word);
        out.truncate(end);
        rest = rest.get(plain..).unwrap_or_default();
        if let Some((byte, behind)) = rest.split_first() {
            escape(out, *byte);
            rest = behind;
        }
    }
    loop {
        rest = copy_plain(out, rest);
        let Some((byte, behind)) = rest.split_first() else { break };
        escape(out, *byte);
        rest = behind;
    }
    out.push(b'"');
}

/// Appends what needs no escape; returns the rest.
fn copy_plain<'a>(out: &mut Vec<u8>, text: &'a [u8]) -> &'a [u8] {
    let (plain, rest) = text.split_at(plain_len(text));
    out.extend_from_slice(plain);
    rest
}

/// Appends a quote, a backslash or a control character (RFC 8259 §7).
fn escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        other @ 0x20.. => other,
        control => {
            let digit = |half: u8| if half < 10 { b'0' + half } else { b'a' - 10 + half };
            let (high, low) = (digit(control >> 4), digit(control & 0xf));
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Appends any value as JSON. Our own types always serialise; should one not, `null` stands in, so
/// that the envelope around it stays JSON.
pub fn json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

fn call(out: &mut Vec<u8>, method: &str, params: Option<&[u8]>) {
    string(out, method);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params);
    }
    end(out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_character_is_written_as_serde_json_does_wherever_it_is() {
        for character in ('\0'..='\u{ff}').chain(['\u{2028}', '\u{fffd}', '\u{1f980}']) {
            for before in [0, 1, 7, 8, 31, 32, 33, 100, 300] {
                for after in [0, 1, 8, 100] {
                    let text = format!("{}{character}{}", "a".repeat(before), "\"".repeat(after));
                    assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_does(
            text in prop_oneof![".{0,400}", "[a-z\\\\\"\n\x00-\x1f]{0,400}", "[a-z]{0,400}[\"\n][a-z]{0,400}"],
        ) {
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
