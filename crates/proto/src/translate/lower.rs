//! A result in the words of an older revision.
//!
//! What the older side knows stays byte for byte. Only an entry, a block or a schema that says
//! something new is read as its type, down-levelled ([`Wire::at`]) and laid over its own text, so
//! that members which nobody here knows survive. What does not parse is passed on as it is.

use std::borrow::Cow;

use memchr::memmem;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::response::Back;
use super::text::{Member, Object, elements, member, members, one_line};
use crate::limits::DEPTH_MAX;
use crate::message::{decode_text, write_string};
use crate::meta::SERVER_INFO;
use crate::method::Method;
use crate::types::json::append;
use crate::types::{Content, Prompt, Resource, ResourceTemplate, Tool, Wire};
use crate::version::{Era, Revision};

/// Words that an older revision may not have, each after its quote, and the revision that has them.
const NEW_WORDS: [(&[u8], Revision); 9] = [
    (b"audio\"", Revision::V2025_03_26),
    (b"annotations\"", Revision::V2025_03_26),
    (b"title\"", Revision::V2025_06_18),
    (b"resource_link\"", Revision::V2025_06_18),
    (b"icons\"", Revision::V2025_11_25),
    (b"tool_", Revision::V2025_11_25),
    (b"execution\"", Revision::V2025_11_25),
    // From 2025-06-18, but objects only.
    (b"outputSchema\"", Revision::V2026_07_28),
    (b"structuredContent\"", Revision::V2026_07_28),
];

/// Whether a text of revision `from` may say something that `to` has no words for: one pass over
/// its quotes, wrong only on the safe side.
pub(super) fn needs(json: &[u8], from: Revision, to: Revision) -> bool {
    if to >= from {
        return false;
    }
    memchr::memchr2_iter(b'"', b'\\', json).any(|at| {
        let rest = json.get(at + 1..).unwrap_or_default();
        match json.get(at) {
            // A word may hide behind escapes of plain letters.
            Some(b'\\') => rest.starts_with(b"u00"),
            _ => NEW_WORDS.iter().any(|(word, first)| to < *first && rest.starts_with(word)),
        }
    })
}

/// Appends the result of `method` for the older client.
pub(super) fn lower(
    method: Method,
    result: &[u8],
    from: Revision,
    back: &Back<'_>,
    out: &mut Vec<u8>,
) {
    let strip = from.era() == Era::Modern;
    let to = back.revision;
    let deep = back.wraps || needs(result, from, to);
    let structured = Structured::of(method, result, back).filter(|_| deep);
    let mut object = Object::open(out);
    let mut said = false;
    for found in members(result) {
        match (&*found.name(), method) {
            ("resultType" | "ttlMs" | "cacheScope", _) if strip => {}
            ("_meta", _) if strip => object.object("_meta", |meta| {
                let own = members(found.value).filter(|member| member.name() != SERVER_INFO);
                own.for_each(|member| meta.copy(&member));
            }),
            ("content", Method::ToolsCall) if deep => {
                said = true;
                let note = structured.as_ref().and_then(|s| s.note(found.value));
                blocks(found.value, from, to, note, object.value_of(&found));
            }
            ("structuredContent", Method::ToolsCall) if deep => {
                if let Some(structured) = &structured {
                    structured.write(&found, &mut object);
                }
            }
            ("messages", Method::PromptsGet) if deep => {
                array(found.value, object.value_of(&found), |message, out| {
                    with_member(message, "content", out, |block, out| {
                        relevel::<Content>(block, from, to, out);
                    });
                })
            }
            (name, _) if deep && is_list(method, name) => {
                array(found.value, object.value_of(&found), |item, out| {
                    entry(method, item, from, to, out);
                });
            }
            _ => object.copy(&found),
        }
    }
    if let Some(note) = structured.and_then(|s| s.note(b"[]")).filter(|_| !said) {
        blocks(b"[]", from, to, Some(note), object.value("content"));
    }
    object.close();
}

/// Appends one entry of a list of `method` as a client's revision can say it: `tools/list`,
/// `prompts/list`, `resources/list` or `resources/templates/list`. `from` is the upstream's
/// revision. A legacy tool for a modern client loses `execution` and any `x-mcp-header`, which
/// means nothing to its server.
pub fn entry(method: Method, item: &[u8], from: Revision, client: Revision, out: &mut Vec<u8>) {
    let start = out.len();
    match method {
        Method::ToolsList if client.era() == Era::Modern && from.era() == Era::Legacy => {
            modern_tool(item, out);
        }
        Method::ToolsList => relevel::<Tool>(item, from, client, out),
        Method::PromptsList => relevel::<Prompt>(item, from, client, out),
        Method::ResourcesList => relevel::<Resource>(item, from, client, out),
        Method::ResourceTemplatesList => relevel::<ResourceTemplate>(item, from, client, out),
        _ => out.extend_from_slice(item),
    }
    one_line(out, start);
}

/// The `tools` of a legacy result and how a modern client gets them; `None`: as they are.
pub(super) fn modern_tools(result: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    if !is_legacy_tool(result) {
        return None;
    }
    let tools = member(result, "tools")?;
    let mut out = Vec::with_capacity(tools.len());
    array(tools, &mut out, modern_tool);
    Some((tools, out))
}

fn is_legacy_tool(json: &[u8]) -> bool {
    [&b"\"execution\""[..], b"x-mcp-header", b"\\u00"]
        .iter()
        .any(|w| memmem::find(json, w).is_some())
}

fn modern_tool(tool: &[u8], out: &mut Vec<u8>) {
    if !tool.starts_with(b"{") || !is_legacy_tool(tool) {
        return out.extend_from_slice(tool);
    }
    let mut object = Object::open(out);
    for found in members(tool) {
        match &*found.name() {
            "execution" => {}
            "inputSchema" => without_headers(found.value, false, 0, object.value_of(&found)),
            _ => object.copy(&found),
        }
    }
    object.close();
}

/// A schema without `x-mcp-header`. `names`: the keys are names of properties, not of keywords.
fn without_headers(schema: &[u8], names: bool, depth: usize, out: &mut Vec<u8>) {
    match schema.first() {
        Some(b'{') if depth < DEPTH_MAX => {
            let mut object = Object::open(out);
            for found in members(schema) {
                let name = found.name();
                match &*name {
                    "x-mcp-header" if !names => {}
                    "const" | "enum" | "default" | "examples" if !names => object.copy(&found),
                    name => {
                        let names = !names
                            && matches!(
                                name,
                                "properties"
                                    | "patternProperties"
                                    | "$defs"
                                    | "definitions"
                                    | "dependentSchemas"
                            );
                        without_headers(found.value, names, depth + 1, object.value_of(&found));
                    }
                }
            }
            object.close();
        }
        Some(b'[') if depth < DEPTH_MAX => {
            array(schema, out, |item, out| without_headers(item, false, depth + 1, out));
        }
        _ => out.extend_from_slice(schema),
    }
}

fn is_list(method: Method, name: &str) -> bool {
    matches!(
        (method, name),
        (Method::ToolsList, "tools")
            | (Method::PromptsList, "prompts")
            | (Method::ResourcesList, "resources")
            | (Method::ResourceTemplatesList, "resourceTemplates")
    )
}

/// What becomes of the structured content of a call.
enum Structured<'a> {
    /// Before 2025-06-18 there is none: a text says the same.
    Dropped(&'a [u8]),
    /// It becomes `{"result": …}`.
    Wrapped(&'a [u8]),
    Kept,
}

impl<'a> Structured<'a> {
    fn of(method: Method, result: &'a [u8], back: &Back<'_>) -> Option<Self> {
        let json = member(result, "structuredContent").filter(|_| method == Method::ToolsCall)?;
        Some(match back.revision {
            revision if revision < Revision::V2025_06_18 => Self::Dropped(json),
            _ if back.wraps || !json.starts_with(b"{") => Self::Wrapped(json),
            _ => Self::Kept,
        })
    }

    fn write(&self, found: &Member<'_>, object: &mut Object<'_>) {
        match self {
            Self::Dropped(_) => {}
            Self::Wrapped(json) => {
                let mut wrapped = Object::open(object.value_of(found));
                wrapped.member("result", json);
                wrapped.close();
            }
            Self::Kept => object.copy(found),
        }
    }

    /// The text that must be added to `content`, unless a block says it already.
    fn note(&self, content: &[u8]) -> Option<&'a [u8]> {
        let Self::Dropped(json) = self else { return None };
        let same = |text: &str| {
            let value = serde_json::from_slice::<Value>(json);
            value.is_ok_and(|value| {
                serde_json::from_str(text).is_ok_and(|said: Value| said == value)
            })
        };
        let mut texts = elements(content).filter_map(|block| decode_text(member(block, "text")?));
        let said = texts.any(|text| text.as_bytes() == *json || same(&text));
        (!said).then_some(*json)
    }
}

fn blocks(content: &[u8], from: Revision, to: Revision, note: Option<&[u8]>, out: &mut Vec<u8>) {
    array(content, out, |block, out| relevel::<Content>(block, from, to, out));
    let Some(note) = note.and_then(|note| std::str::from_utf8(note).ok()) else { return };
    if out.pop() == Some(b']') {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        write_string(out, note);
        out.extend_from_slice(b"}]");
    }
}

/// Appends an array with each element written by `write`. What is not an array is copied.
pub(super) fn array(json: &[u8], out: &mut Vec<u8>, mut write: impl FnMut(&[u8], &mut Vec<u8>)) {
    if !json.starts_with(b"[") {
        return out.extend_from_slice(json);
    }
    out.push(b'[');
    for (index, element) in elements(json).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(b']');
}

/// Appends an object with one member written by `write`. What is not an object is copied.
fn with_member(json: &[u8], name: &str, out: &mut Vec<u8>, write: impl Fn(&[u8], &mut Vec<u8>)) {
    if !json.starts_with(b"{") {
        return out.extend_from_slice(json);
    }
    let mut object = Object::open(out);
    for found in members(json) {
        if found.name() == name {
            write(found.value, object.value_of(&found));
        } else {
            object.copy(&found);
        }
    }
    object.close();
}

/// Appends a value as `to` can say it: its own text, with what [`Wire::at`] changes laid over it.
pub(super) fn relevel<T: Wire + DeserializeOwned>(
    json: &[u8],
    from: Revision,
    to: Revision,
    out: &mut Vec<u8>,
) {
    if !needs(json, from, to) {
        return out.extend_from_slice(json);
    }
    match serde_json::from_slice::<T>(json) {
        Ok(value) => overlay(json, &value, to, out),
        Err(_) => out.extend_from_slice(json),
    }
}

/// Appends the text that `value` was read from, with what [`Wire::at`] changes laid over it.
pub(super) fn overlay<T: Wire>(json: &[u8], value: &T, to: Revision, out: &mut Vec<u8>) {
    let Cow::Owned(changed) = value.at(to) else { return out.extend_from_slice(json) };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    append(&mut before, value);
    append(&mut after, &changed);
    let mut object = Object::open(out);
    for found in members(json) {
        let name = found.name();
        match (member(&before, &name), member(&after, &name)) {
            (Some(_), None) => {}
            (old, Some(new)) if old != Some(new) => object.value_of(&found).extend_from_slice(new),
            _ => object.copy(&found),
        }
    }
    for added in members(&after).filter(|added| member(json, &added.name()).is_none()) {
        object.copy(&added);
    }
    object.close();
}
