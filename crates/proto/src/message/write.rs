//! The envelopes that go out, written straight into an output buffer. Compact JSON: no newline, so
//! each is one line as it stands.

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

/// Appends a JSON string.
pub fn string(out: &mut Vec<u8>, text: &str) {
    json(out, text);
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
