//! An upstream's answer for a client.

use super::error::error;
use super::lower::{lower, modern_tools, needs};
use super::text::{New, has_members, member, one_line, splice};
use crate::error::{Code, ErrorObject};
use crate::message::{Kind, Message, Outcome, Part, write};
use crate::meta::SERVER_INFO;
use crate::method::Method;
use crate::version::{Era, Revision};

/// How an answer goes back to a client.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Back<'a> {
    /// The client's revision.
    pub revision: Revision,
    /// The client's own id, as JSON.
    pub id_json: &'a [u8],
    /// The upstream's `Implementation` as JSON, for a modern client of a legacy upstream.
    pub server_info: Option<&'a [u8]>,
    /// Whether the called tool is listed to this client with a wrapped output schema
    /// ([`Tool::wraps_output`](crate::types::Tool::wraps_output)), so that its structured content
    /// must be wrapped even if it is an object.
    pub wraps: bool,
    /// Whether the client itself lacks the capability that an upstream's -32021 names, so that the
    /// error is for it.
    pub lacks_capability: bool,
    /// What a `resources/read` asked for: older servers need not say it when they do not have it.
    pub uri: Option<&'a str>,
}

impl<'a> Back<'a> {
    /// To a client of `revision`, as the answer to its request `id_json`.
    #[must_use]
    pub const fn new(revision: Revision, id_json: &'a [u8]) -> Self {
        Self {
            revision,
            id_json,
            server_info: None,
            wraps: false,
            lacks_capability: false,
            uri: None,
        }
    }
}

/// Appends an upstream's response to a request of `method`, result or error, for the client: one
/// line, without its line feed. `from` is the upstream's revision. What comes back is how it ends the
/// client's request.
///
/// Where nothing has to be said differently only the id is replaced. A legacy result for a modern
/// client gains `resultType`, the cache hints and the server's info; a modern result for a legacy
/// client loses them; what the client's revision has no words for is said in other words. A result
/// that no legacy revision can say (`input_required`, a task of the extension) becomes -32603: the
/// gateway deals with those before.
pub fn response(
    method: Method,
    answer: &Message,
    from: Revision,
    back: &Back<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let start = out.len();
    let (upstream, client) = (from.era(), back.revision.era());
    let mut outcome = Outcome::Result;
    match (answer.kind(), upstream, client) {
        (Kind::ErrorResponse, ..) => outcome = error(method, answer, from, back, out),
        (_, Era::Modern, Era::Modern) => with_id(answer, back, out),
        (_, Era::Legacy, Era::Modern) => raise(method, answer, back, out),
        (_, Era::Modern, Era::Legacy) => match answer.text(Part::ResultType).as_deref() {
            None | Some("complete") => lowered(method, answer, from, back, out),
            Some(other) => {
                let why = format!(
                    "the upstream answered {method} with resultType {other:?}, which revision {} \
                     does not have",
                    back.revision
                );
                let object = ErrorObject::new(Code::INTERNAL_ERROR, why);
                write::error(out, Some(back.id_json), &object);
                outcome = Outcome::from(&object);
            }
        },
        (_, Era::Legacy, Era::Legacy) if needs(answer.bytes(), from, back.revision) => {
            lowered(method, answer, from, back, out);
        }
        (_, Era::Legacy, Era::Legacy) => with_id(answer, back, out),
    }
    one_line(out, start);
    outcome
}

/// The answer with the client's id, every other byte as it came.
pub(super) fn with_id(answer: &Message, back: &Back<'_>, out: &mut Vec<u8>) {
    let id = answer.part(Part::Id).map(|old| (old, New::Json(back.id_json)));
    splice(answer.bytes(), [id], out);
}

fn lowered(method: Method, answer: &Message, from: Revision, back: &Back<'_>, out: &mut Vec<u8>) {
    write::begin_result(out, back.id_json);
    lower(method, answer.part(Part::Result).unwrap_or(b"{}"), from, back, out);
    write::end(out);
}

/// A legacy result for a modern client: a few members are inserted, the rest is copied.
fn raise(method: Method, answer: &Message, back: &Back<'_>, out: &mut Vec<u8>) {
    let result = answer.part(Part::Result).unwrap_or_default();
    let meta = answer.part(Part::ResultMeta);
    let when = |condition: bool, text: &'static [u8]| if condition { text } else { b"" };
    let absent = |part: Part| answer.part(part).is_none();
    let cached = method.is_cacheable();
    let named = back.server_info.filter(|_| meta.is_none());
    // `resultType` comes last: where it is there already, the object is not empty, and a comma
    // after the others is right.
    let typed = absent(Part::ResultType);
    let lead = [
        when(cached && absent(Part::TtlMs), b"\"ttlMs\":0,"),
        when(cached && absent(Part::CacheScope), b"\"cacheScope\":\"private\","),
        when(named.is_some(), b"\"_meta\":{\"io.modelcontextprotocol/serverInfo\":"),
        named.unwrap_or_default(),
        when(named.is_some(), b"},"),
        when(typed, b"\"resultType\":\"complete\""),
        when(typed && has_members(result), b","),
    ];
    let added = back.server_info.filter(|_| meta.is_some_and(|m| member(m, SERVER_INFO).is_none()));
    let name = [
        b"\"io.modelcontextprotocol/serverInfo\":",
        added.unwrap_or_default(),
        when(meta.is_some_and(has_members), b","),
    ];
    let tools = (method == Method::ToolsList).then(|| modern_tools(result)).flatten();
    let edits = [
        answer.part(Part::Id).map(|old| (old, New::Json(back.id_json))),
        result.get(1..1).map(|start| (start, New::Joined(&lead))),
        meta.filter(|meta| added.is_some() && meta.starts_with(b"{"))
            .and_then(|meta| Some((meta.get(1..1)?, New::Joined(&name)))),
        tools.as_ref().map(|(old, new)| (*old, New::Json(new))),
    ];
    splice(answer.bytes(), edits, out);
}
