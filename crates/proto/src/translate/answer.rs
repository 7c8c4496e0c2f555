//! What clients answer, who can be asked, and how a modern client is asked.

use super::lower::overlay;
use super::question::copy_meta;
use super::text::{Object, member, members, one_line};
use crate::message::{decode_text, write};
use crate::meta::SERVER_INFO;
use crate::method::Method;
use crate::types::{ClientCapabilities, CreateMessageParams, CreateMessageResult};
use crate::version::Revision;

/// A legacy client's answer (`result` as JSON) as the value in `inputResponses`.
#[must_use]
pub fn answer_to_modern(result: &[u8]) -> Vec<u8> {
    bare(result)
}

/// A value in `inputResponses` as the result (JSON) of the legacy upstream's request. Before
/// 2025-11-25 a model says one block.
#[must_use]
pub fn answer_to_legacy(value: &[u8], method: Method, upstream: Revision) -> Vec<u8> {
    let bare = bare(value);
    if method != Method::CreateMessage || upstream >= Revision::V2025_11_25 {
        return bare;
    }
    let Ok(said) = serde_json::from_slice::<CreateMessageResult>(&bare) else { return bare };
    let mut out = Vec::with_capacity(bare.len());
    overlay(&bare, &said, upstream, &mut out);
    out
}

/// A result without what belongs to the hop it came over.
fn bare(result: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(result.len());
    let mut object = Object::open(&mut out);
    for found in members(result) {
        match &*found.name() {
            "resultType" => {}
            "_meta" => object.object("_meta", |meta| copy_meta(found.value, true, meta)),
            _ => object.copy(&found),
        }
    }
    object.close();
    one_line(&mut out, 0);
    out
}

/// Whether a client of these capabilities (JSON) can be asked that. `elicitation:{}` means forms.
///
/// # Errors
/// The capabilities that it lacks: the `requiredCapabilities` of -32021. Empty for a method that is
/// no question to a client.
pub fn can_answer(
    method: Method,
    params: Option<&[u8]>,
    capabilities: &[u8],
) -> Result<(), ClientCapabilities> {
    let client: ClientCapabilities = serde_json::from_slice(capabilities).unwrap_or_default();
    let none = ClientCapabilities::new();
    let (can, required) = match method {
        Method::RootsList => (client.roots(), none.with_roots(false)),
        Method::CreateMessage => {
            let ask = params.and_then(|params| serde_json::from_slice(params).ok());
            let tools = ask.is_some_and(|ask: CreateMessageParams| ask.needs_tools());
            let can = client.sampling() && (client.sampling_tools() || !tools);
            (can, if tools { none.with_sampling_tools() } else { none.with_sampling() })
        }
        Method::ElicitationCreate => {
            let mode = params.and_then(|params| decode_text(member(params, "mode")?));
            let (form, url) = (client.elicitation_form(), client.elicitation_url());
            match mode.as_deref() {
                Some("url") => (url, none.with_elicitation_url()),
                None | Some("form") => (form, none.with_elicitation_form()),
                // In a mode that nobody here knows the client decides.
                Some(_) => (form || url, none.with_elicitation_form()),
            }
        }
        _ => (false, none),
    };
    if can { Ok(()) } else { Err(required) }
}

/// Appends the `input_required` answer to a modern client's request `id_json`: entries by key, each
/// `{method, params}` as JSON, and the state that the client is to send back.
pub fn input_required(
    id_json: &[u8],
    entries: &[(&str, &[u8])],
    state: &str,
    server_info: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    write::begin_result(out, id_json);
    let mut result = Object::open(out);
    result.member("resultType", b"\"input_required\"");
    result.object("inputRequests", |requests| {
        for (key, entry) in entries {
            requests.entry(key, entry);
        }
    });
    result.text("requestState", state);
    result.object("_meta", |meta| {
        if let Some(info) = server_info {
            meta.member(SERVER_INFO, info);
        }
    });
    result.close();
    write::end(out);
    one_line(out, start);
}
