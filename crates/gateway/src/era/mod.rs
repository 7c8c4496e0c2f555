//! Between a client and an upstream that may be of different eras.
//!
//! * this file — requests, answers and notes, one message at a time.
//! * `asked` — what waits for a client's answer, as data.
//! * `questions` — what a legacy upstream asks in the middle of a call, and `park`: how a modern
//!   client is asked.
//! * `declined` — why a question is not answered.
//! * `completions` — which client is told that an elicitation at a URL is complete.
//! * `replay` — how a legacy client is asked what a modern upstream wants to know.

pub(crate) mod asked;
mod completions;
pub(crate) mod declined;
pub(crate) mod park;
pub(crate) mod questions;
pub(crate) mod replay;

use std::sync::Arc;

use mcplane::budget::Charge;
use mcplane::proto::message::{Kind, Message, Part};
use mcplane::proto::session::Peer;
use mcplane::proto::translate::{self, Back, HopError, Onward};
use mcplane::proto::types::LogLevel;
use mcplane::proto::version::{Era, Revision};
use mcplane::server::relay::{Line, Relayed};
use serde_json::Value;

use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::settle::{Reply, Way, fail, settle};
use crate::upstream::call::{Call, Real};
use crate::upstream::life::Ended;

/// Bytes by which the translation may make an answer longer.
const GAIN: usize = 256;

/// Appends a client's request as its upstream wants it.
pub(crate) fn write_request(
    request: &Relayed,
    call: &Call,
    upstream: Revision,
    id: i64,
    retry: &[u8],
    out: &mut Vec<u8>,
) {
    let mut onward = Onward::new(upstream, id);
    onward.name = call.name.as_deref();
    onward.retry = retry;
    if (request.revision().era(), upstream.era()) == (Era::Legacy, Era::Modern) {
        onward.client_info = request.client_info();
        onward.capabilities = Some(request.capabilities());
        onward.log_level = request.log_level().map(LogLevel::as_str);
    }
    translate::request(request.message(), request.revision(), &onward, out);
}

/// Answers a call with what its upstream answered.
pub(crate) fn answer(call: &Arc<Call>, answer: &Message, peer: &Peer) {
    let hop =
        (answer.kind() == Kind::ErrorResponse).then(|| translate::hop_error(answer)).flatten();
    let mut ended = take(call, answer, peer);
    let way = call.way(&ended);
    let (Some(request), Some(sent)) = (ended.request.take(), &mut ended.sent) else { return };
    if let Some(HopError::UrlElicitationRequired { elicitations }) = &hop {
        if call.revision.era() == Era::Modern {
            return park::ask_urls(request, elicitations, way);
        }
        let completions = &call.pool.shared.questions.completions;
        completions.required(sent.place.worker.number, elicitations, &request.line());
    }
    let lacked = sent.lacks.take();
    // An older upstream has no code for this, and SDKs turn it into a failed tool.
    if let Some(lacked) = lacked
        && call.revision.era() == Era::Modern
        && Outcome::of(answer) != Outcome::Answered
    {
        return fail(request, &Failure::Capability(lacked), way);
    }
    let lacks = match &hop {
        Some(HopError::MissingCapability { required: Some(required) }) => {
            lacks(request.capabilities(), required)
        }
        _ => false,
    };
    respond(request, call, (answer, peer), lacks, way);
}

/// Ends a call that its upstream has answered. The answer is kept if the client is away.
pub(crate) fn take(call: &Call, answer: &Message, peer: &Peer) -> Ended<Real> {
    call.end(|| match call.pool.shared.questions.keep(answer) {
        Ok((answer, charge)) => (Ok((answer, peer.clone())), charge),
        Err(_) => (Err(Failure::NoRoom), Charge::default()),
    })
}

/// The extension whose calls may be answered with a task.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Whether a result belongs to an extension that the client has declared for this call
/// (2026-07-28 §Results).
pub(crate) fn is_of_extension(call: &Call, answer: &Message, peer: &Peer) -> bool {
    let are_modern = call.revision.era() == Era::Modern && peer.era() == Era::Modern;
    let kind = answer.text(Part::ResultType).filter(|_| are_modern);
    let Some(kind) = kind.filter(|kind| !matches!(&**kind, "complete" | "input_required")) else {
        return false;
    };
    let life = call.life();
    let Some(request) = life.request() else { return false };
    let declared = serde_json::from_slice::<Declared>(request.capabilities()).ok();
    declared.is_some_and(|Declared { extensions }| match &*kind {
        "task" => extensions.contains_key(TASKS),
        // Which extension it belongs to is not known here.
        _ => !extensions.is_empty(),
    })
}

#[derive(serde::Deserialize)]
struct Declared {
    extensions: serde_json::Map<String, Value>,
}

/// Answers a request with what its upstream answered.
pub(crate) fn respond(
    request: Relayed,
    call: &Call,
    (answer, peer): (&Message, &Peer),
    lacks: bool,
    way: Way<'_>,
) {
    let mut out = Vec::with_capacity(answer.bytes().len() + GAIN);
    let uri = request.message().text(Part::Uri);
    let back = Back {
        server_info: peer.info.as_deref().map(|info| info.get().as_bytes()),
        wraps: call.wraps,
        lacks_capability: lacks,
        uri: uri.as_deref(),
        ..Back::new(request.revision(), request.id_json())
    };
    let written = translate::response(call.method, answer, peer.revision, &back, &mut out);
    settle(request, Reply::Line(out, written), Outcome::of(answer), way);
}

/// Passes progress on, under the client's own token.
pub(crate) fn note_progress(call: &Call, note: &Message) {
    let life = call.life();
    let Some(request) = life.request() else { return };
    let Some(token) = request.message().part(Part::ProgressToken) else { return };
    let mut out = Vec::with_capacity(note.bytes().len() + 16);
    translate::progress(note, token, &mut out);
    request.note(out);
}

/// Passes a log message on, if the client wants messages of its level.
pub(crate) fn note_log(call: &Call, note: &Message) {
    let life = call.life();
    let Some(request) = life.request() else { return };
    let level = serde_json::from_slice::<Level<'_>>(note.part(Part::Params).unwrap_or(b"{}"));
    let level = level.ok().map(|level| LogLevel::from(&*level.level));
    // While no client has set a level, the server decides.
    let is_its = !request.is_log_level_set() && call.pool.has_no_level();
    let wanted = request.log_level();
    if is_its || level.zip(wanted).is_some_and(|(level, least)| level.passes(least)) {
        let mut out = Vec::new();
        translate::log(note, &mut out);
        request.note(out);
    }
}

/// Passes on a log message that belongs to no call, to the client whose worker it came from.
pub(crate) fn note_log_to(client: &Line, note: &Message) {
    let mut out = Vec::new();
    translate::log(note, &mut out);
    client.note(out);
}

/// A name that cannot be guessed: of a parked call, of a question at a URL.
fn unguessable() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[derive(serde::Deserialize)]
struct Level<'a> {
    #[serde(borrow)]
    level: std::borrow::Cow<'a, str>,
}

/// Whether a client lacks one of the capabilities that an upstream requires.
fn lacks(declared: &[u8], required: &[u8]) -> bool {
    type Object = serde_json::Map<String, Value>;
    let parse = |json| serde_json::from_slice::<Object>(json).unwrap_or_default();
    let (declared, required) = (parse(declared), parse(required));
    required.iter().any(|(name, needs)| match (declared.get(name), needs.as_object()) {
        (None, _) => true,
        (Some(has), Some(needs)) => needs.keys().any(|mode| has.get(mode).is_none()),
        (Some(_), None) => false,
    })
}
