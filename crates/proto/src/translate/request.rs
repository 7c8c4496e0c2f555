//! A client's request for an upstream.

use super::text::{Edit, New, Object, cut, members, one_line, splice};
use crate::message::{Message, Part};
use crate::meta;
use crate::method::Method;
use crate::version::{Era, Revision};

/// How a request goes on to an upstream.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Onward<'a> {
    /// The upstream's revision.
    pub revision: Revision,
    /// The request's id on the upstream's hop, and its progress token if the client gave one.
    pub id: i64,
    /// What the request is about, as the upstream calls it: `params.name`, `params.uri`,
    /// `params.taskId`, or the name or URI in the `params.ref` of a completion. `None`: as it came.
    pub name: Option<&'a str>,
    /// The client's `Implementation` as JSON, for the envelope when the upstream is modern and the
    /// client legacy.
    pub client_info: Option<&'a [u8]>,
    /// `clientCapabilities` as JSON, for the envelope when the upstream is modern. `None`: as it
    /// came from a modern client, none (`{}`) of a legacy one.
    pub capabilities: Option<&'a [u8]>,
    /// The level of log messages, for the envelope when the upstream is modern and the client
    /// legacy.
    pub log_level: Option<&'a str>,
    /// The answers of one round and its state ([`retry_members`](crate::session::rounds::retry_members)):
    /// more members of `params`, a comma before each. Unless empty they replace those of the
    /// message. Ignored by legacy upstreams, which have none.
    pub retry: &'a [u8],
}

impl Onward<'_> {
    /// To an upstream of `revision`, as request `id`; all else as it came.
    #[must_use]
    pub const fn new(revision: Revision, id: i64) -> Self {
        Self {
            revision,
            id,
            name: None,
            client_info: None,
            capabilities: None,
            log_level: None,
            retry: &[],
        }
    }
}

/// Appends a client's request as `onward` says: one line, without its line feed. `from` is the client's
/// revision.
///
/// Within one era every byte stays that `onward` does not replace. Between eras the reserved keys of
/// `_meta` (`io.modelcontextprotocol/…`) are the hop's own and never cross: a modern upstream gets a
/// new envelope, a legacy one none; other keys stay. The members that only the client's era knows
/// (`inputResponses` and `requestState`, or `task`) are left out. Methods are not translated: that
/// the upstream's revision has this one is for the caller to see to.
pub fn request(message: &Message, from: Revision, onward: &Onward<'_>, out: &mut Vec<u8>) {
    let (start, to) = (out.len(), onward.revision.era());
    let modern = to == Era::Modern;
    // A legacy server that also speaks 2026-07-28 would take such a request for a modern one.
    let posing = !modern && message.part(Part::ProtocolVersion).is_some();
    let differs = from.era() != to || posing || (modern && !onward.retry.is_empty());
    match bare(message).filter(|_| differs && !modern) {
        Some(envelope) => splice_request(message, onward, Some((envelope, New::Json(b""))), out),
        None if differs => rewrite(message, from.era(), onward, out),
        None => splice_request(message, onward, None, out),
    }
    one_line(out, start);
}

/// `_meta` with its key, if there is nothing in it but the envelope of a modern hop, and nothing else
/// that a legacy upstream has no words for: without it the request is a legacy one.
fn bare(message: &Message) -> Option<&[u8]> {
    let meta = message.part(Part::Meta)?;
    let is_retry = [Part::InputResponses, Part::RequestState].map(|part| message.part(part));
    let is_bare = || members(meta).all(|member| is_of_the_hop(&member.name()));
    if is_retry != [None; 2] || !is_bare() {
        return None;
    }
    cut(message.bytes(), b"\"_meta\"", meta)
}

/// The fast path: the hop's own values are replaced where they are.
fn splice_request(message: &Message, onward: &Onward<'_>, envelope: Edit<'_>, out: &mut Vec<u8>) {
    let modern = onward.revision.era() == Era::Modern;
    let capabilities = onward.capabilities.filter(|_| modern).map(New::Json);
    let version = Some(New::Text(onward.revision.as_str())).filter(|_| modern);
    let id = Some(New::Integer(onward.id));
    let edits = [
        edit(message, Part::Id, id),
        edit(message, Part::ProgressToken, id),
        edit(message, Part::ProtocolVersion, version),
        edit(message, Part::ClientCapabilities, capabilities),
        rename(message, onward),
        envelope,
    ];
    splice(message.bytes(), edits, out);
}

fn edit<'a>(message: &'a Message, part: Part, new: Option<New<'a>>) -> Edit<'a> {
    Some((message.part(part)?, new?))
}

/// The slow path: the request is written anew, member by member.
fn rewrite(message: &Message, from: Era, onward: &Onward<'_>, out: &mut Vec<u8>) {
    let to = onward.revision.era();
    let mut envelope = Object::open(out);
    envelope.member("jsonrpc", b"\"2.0\"");
    New::Integer(onward.id).write(envelope.value("id"));
    envelope.member("method", message.part(Part::Method).unwrap_or_default());
    let mut params = Object::open(envelope.value("params"));
    let rename = rename(message, onward);
    let own = message.part(Part::Meta).unwrap_or_default();
    if to == Era::Modern {
        params.object("_meta", |meta| write_meta(own, from, onward, meta));
    }
    for member in members(message.part(Part::Params).unwrap_or_default()) {
        match &*member.name() {
            "_meta" if to == Era::Modern => {}
            "_meta" => params.object("_meta", |meta| write_meta(own, from, onward, meta)),
            "inputResponses" | "requestState"
                if from != to || to == Era::Legacy || !onward.retry.is_empty() => {}
            "task" if from == Era::Legacy && to == Era::Modern => {}
            _ => splice(member.value, [rename], params.value_of(&member)),
        }
    }
    if to == Era::Modern {
        params.more(onward.retry);
    }
    params.close();
    envelope.close();
}

/// The `_meta` for the upstream: this hop's envelope, our progress token, the caller's other keys.
fn write_meta(own: &[u8], from: Era, onward: &Onward<'_>, meta: &mut Object<'_>) {
    let to = onward.revision.era();
    if from == Era::Legacy && to == Era::Modern {
        meta.text(meta::PROTOCOL_VERSION, onward.revision.as_str());
        meta.member(meta::CLIENT_CAPABILITIES, onward.capabilities.unwrap_or(b"{}"));
        if let Some(info) = onward.client_info {
            meta.member(meta::CLIENT_INFO, info);
        }
        if let Some(level) = onward.log_level {
            meta.text(meta::LOG_LEVEL, level);
        }
    }
    let keeps_envelope = from == Era::Modern && to == Era::Modern;
    for member in members(own) {
        let name = member.name();
        match (&*name, onward.capabilities) {
            (meta::PROGRESS_TOKEN, _) => New::Integer(onward.id).write(meta.value_of(&member)),
            (meta::PROTOCOL_VERSION, _) if keeps_envelope => {
                New::Text(onward.revision.as_str()).write(meta.value_of(&member));
            }
            (meta::CLIENT_CAPABILITIES, Some(json)) if keeps_envelope => {
                meta.value_of(&member).extend_from_slice(json);
            }
            (name, _) if is_of_the_hop(name) && !keeps_envelope => {}
            _ => meta.copy(&member),
        }
    }
}

/// Whether a key of `_meta` means one hop and does not cross to another era.
pub(super) fn is_of_the_hop(key: &str) -> bool {
    key.starts_with("io.modelcontextprotocol/")
}

/// The edit that gives the request the upstream's name for what it is about.
fn rename<'a>(message: &'a Message, onward: &Onward<'a>) -> Edit<'a> {
    let name = onward.name?;
    let old = match message.method()? {
        Method::ToolsCall | Method::PromptsGet => message.part(Part::Name),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            message.part(Part::Uri)
        }
        Method::TasksGet | Method::TasksCancel | Method::TasksResult | Method::TasksUpdate => {
            message.part(Part::TaskId)
        }
        Method::Complete if message.text(Part::RefType)? == "ref/resource" => {
            message.part(Part::RefUri)
        }
        Method::Complete => message.part(Part::RefName),
        _ => None,
    };
    Some((old?, New::Text(name)))
}
