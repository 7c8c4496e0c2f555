//! What servers ask of clients: a request of the server up to 2025-11-25, an entry of
//! `inputRequests` in 2026-07-28.

use serde_json::value::RawValue;

use super::form::flat;
use super::lower::overlay;
use super::request::is_of_the_hop;
use super::text::{Object, member, members, one_line};
use crate::error::{ErrorObject, shorten};
use crate::message::{Message, Part, decode_text};
use crate::meta::PROGRESS_TOKEN;
use crate::method::Method;
use crate::types::{Content, CreateMessageParams, InputRequest};
use crate::version::{Era, Revision};

/// A legacy upstream's own request (`elicitation/create`, `sampling/createMessage`, `roots/list`) as
/// one entry of `inputRequests` for a modern client: `{method, params}` as JSON.
///
/// # Errors
/// What to answer the upstream: -32601 for any other method, -32602 for a question without
/// parameters.
pub fn question_to_modern(ask: &Message) -> Result<Vec<u8>, ErrorObject> {
    let Some(method) = ask.method().filter(|method| is_question(*method)) else {
        return Err(ErrorObject::method_not_found(&ask.method_name()));
    };
    let params = ask.part(Part::Params);
    if params.is_none() && method != Method::RootsList {
        return Err(ErrorObject::invalid_params(format!("{method} without params")));
    }
    let mut out = Vec::with_capacity(ask.bytes().len());
    let mut entry = Object::open(&mut out);
    entry.text("method", method.as_str());
    // There even when empty: not every client reads a question without them.
    let mut object = Object::open(entry.value("params"));
    for found in members(params.unwrap_or_default()) {
        match &*found.name() {
            "_meta" => object.object("_meta", |meta| copy_meta(found.value, true, meta)),
            "task" | "elicitationId" => {}
            _ => object.copy(&found),
        }
    }
    object.close();
    entry.close();
    one_line(&mut out, 0);
    Ok(out)
}

/// An entry of `inputRequests` as a request to a legacy client: its method, and its params as JSON.
/// `elicitation_id` names the question at a URL, which only 2025-11-25 needs.
///
/// # Errors
/// A sentence that says why this revision cannot ask it.
pub fn question_to_legacy(
    request: &InputRequest,
    client: Revision,
    elicitation_id: Option<&str>,
) -> Result<(Method, Vec<u8>), String> {
    let params = request.params.as_deref().map_or("{}", RawValue::get).as_bytes();
    let method = Method::parse(&request.method)
        .filter(|method| is_question(*method))
        .ok_or_else(|| format!("{} is not a question to a client", shorten(&request.method)))?;
    let params =
        legacy_params(method, params, (Revision::V2026_07_28, client), elicitation_id, None)?;
    Ok((method, params))
}

/// A legacy upstream's own request as the params (JSON) for a legacy client of another revision. One
/// that asks for progress gets `token` in place of its own, which other upstreams may use as well, or
/// none.
///
/// # Errors
/// A sentence that says why the client's revision cannot ask it.
pub fn question(
    ask: &Message,
    from: Revision,
    client: Revision,
    token: Option<u64>,
) -> Result<Vec<u8>, String> {
    let method = ask.method().filter(|method| is_question(*method));
    let method = method
        .ok_or_else(|| format!("{} is not a question to a client", shorten(&ask.method_name())))?;
    let token = token.filter(|_| ask.part(Part::ProgressToken).is_some());
    legacy_params(method, ask.part(Part::Params).unwrap_or(b"{}"), (from, client), None, token)
}

const fn is_question(method: Method) -> bool {
    matches!(method, Method::ElicitationCreate | Method::CreateMessage | Method::RootsList)
}

/// The params of a question to a legacy client.
fn legacy_params(
    method: Method,
    params: &[u8],
    (from, client): (Revision, Revision),
    elicitation_id: Option<&str>,
    token: Option<u64>,
) -> Result<Vec<u8>, String> {
    if !method.exists_in(client) {
        return Err(format!("revision {client} has no {method}"));
    }
    let mode = member(params, "mode").and_then(decode_text).unwrap_or_else(|| "form".into());
    let elicits = method == Method::ElicitationCreate;
    let old = client < Revision::V2025_11_25;
    let mut id = elicitation_id.filter(|_| elicits && mode == "url");
    if elicits && mode != "form" && old {
        return Err(format!("revision {client} has no elicitation in mode {:?}", shorten(&mode)));
    }
    if elicits && mode == "url" && id.is_none() && member(params, "elicitationId").is_none() {
        return Err("a question at a URL needs an elicitationId in 2025-11-25".into());
    }
    let mut out = Vec::with_capacity(params.len() + 64);
    let mut object = Object::open(&mut out);
    for found in members(params) {
        match &*found.name() {
            "_meta" => object.object("_meta", |meta| {
                copy_meta(found.value, from.era() == Era::Modern, meta);
                if let Some(token) = token {
                    meta.member(PROGRESS_TOKEN, token.to_string().as_bytes());
                }
            }),
            "task" if client != from => {}
            "mode" if elicits && old => {}
            "elicitationId" if id.is_some() => {
                object.text("elicitationId", id.take().unwrap_or_default());
            }
            "requestedSchema" if elicits && old => flat(found.value, object.value_of(&found))?,
            _ => object.copy(&found),
        }
    }
    if let Some(id) = id {
        object.text("elicitationId", id);
    }
    object.close();
    one_line(&mut out, 0);
    if method == Method::CreateMessage && old { without_tools(&out, client) } else { Ok(out) }
}

/// A sampling request as a revision before 2025-11-25 can say it. One that does not parse is passed
/// on as it is.
fn without_tools(params: &[u8], client: Revision) -> Result<Vec<u8>, String> {
    let Ok(request) = serde_json::from_slice::<CreateMessageParams>(params) else {
        return Ok(params.to_vec());
    };
    let tool = |block: &Content| matches!(block, Content::ToolUse(_) | Content::ToolResult(_));
    let mut blocks = request.messages.iter().flat_map(|message| &message.content);
    if request.tools.is_some() || blocks.any(tool) {
        return Err(format!("revision {client} has no sampling with tools"));
    }
    let mut out = Vec::with_capacity(params.len());
    overlay(params, &request, client, &mut out);
    Ok(out)
}

/// The keys of `_meta` that cross: never the progress token, between eras no key of the hop.
pub(super) fn copy_meta(own: &[u8], between_eras: bool, meta: &mut Object<'_>) {
    for found in members(own) {
        let name = found.name();
        if name != PROGRESS_TOKEN && !(between_eras && is_of_the_hop(&name)) {
            meta.copy(&found);
        }
    }
}
