//! Errors: those for the client, and those for the gateway.

use std::borrow::Cow;

use serde::Deserialize;

use super::response::{Back, with_id};
use super::text::{Edit, New, Object, elements, member, members, one_line, splice};
use crate::error::{Code, ErrorObject};
use crate::message::{Message, Outcome, Part, decode_text, write};
use crate::method::Method;
use crate::version::{Era, Revision};

/// An error that describes the hop to the upstream, so that it is for the gateway to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HopError<'a> {
    /// -32020: our HTTP headers did not fit the body. Learn the tool's schema anew and repeat.
    HeaderMismatch,
    /// -32021: our envelope did not declare a capability.
    MissingCapability {
        /// `requiredCapabilities` as JSON, if named.
        required: Option<&'a [u8]>,
    },
    /// -32022: the upstream does not speak the request's revision.
    UnsupportedVersion {
        /// The revisions that it does speak.
        supported: Vec<String>,
    },
    /// -32042: the user must open URLs first (2025-11-25).
    UrlElicitationRequired {
        /// An array of URL elicitations as JSON; for a modern client see [`url_questions`].
        elicitations: &'a [u8],
    },
}

/// Which error of the hop an upstream's answer is; `None` for a result or any other error.
#[must_use]
pub fn hop_error(answer: &Message) -> Option<HopError<'_>> {
    let code = code(answer)?;
    let data = member(answer.part(Part::Error)?, "data").unwrap_or_default();
    Some(match code {
        Code::HEADER_MISMATCH => HopError::HeaderMismatch,
        Code::MISSING_CLIENT_CAPABILITY => {
            HopError::MissingCapability { required: member(data, "requiredCapabilities") }
        }
        Code::UNSUPPORTED_VERSION => {
            let supported = elements(member(data, "supported").unwrap_or_default());
            let supported = supported.filter_map(decode_text).map(Cow::into_owned).collect();
            HopError::UnsupportedVersion { supported }
        }
        Code::URL_ELICITATION_REQUIRED => HopError::UrlElicitationRequired {
            elicitations: member(data, "elicitations").unwrap_or(b"[]"),
        },
        _ => return None,
    })
}

/// The entries of `inputRequests` that ask a modern client to open the URLs of a -32042.
#[must_use]
pub fn url_questions(elicitations: &[u8]) -> Vec<Vec<u8>> {
    let question = |elicitation: &[u8]| {
        let mut out = Vec::with_capacity(elicitation.len() + 64);
        let mut entry = Object::open(&mut out);
        entry.text("method", Method::ElicitationCreate.as_str());
        let mut params = Object::open(entry.value("params"));
        params.text("mode", "url");
        for found in members(elicitation) {
            if !matches!(&*found.name(), "mode" | "elicitationId" | "task") {
                params.copy(&found);
            }
        }
        params.close();
        entry.close();
        one_line(&mut out, 0);
        out
    };
    elements(elicitations).map(question).collect()
}

/// Appends an upstream's error for the client.
pub(super) fn error(
    method: Method,
    answer: &Message,
    from: Revision,
    back: &Back<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let client = back.revision;
    let code = code(answer);
    let renamed = match code {
        Some(Code::RESOURCE_NOT_FOUND) if client.era() == Era::Modern => Some(Code::INVALID_PARAMS),
        Some(Code::INVALID_PARAMS)
            if client.era() == Era::Legacy && from.era() == Era::Modern && is_not_found(answer) =>
        {
            Some(Code::RESOURCE_NOT_FOUND)
        }
        _ => None,
    };
    let renamed = renamed.filter(|_| method == Method::ResourcesRead);
    if let Some(uri) = back.uri.filter(|_| {
        method == Method::ResourcesRead
            && (from.era(), client.era()) == (Era::Legacy, Era::Modern)
            && matches!(code, Some(Code::RESOURCE_NOT_FOUND | Code::INVALID_PARAMS))
            && is_not_found(answer)
            && member(answer.part(Part::Error).unwrap_or_default(), "data").is_none()
    }) {
        // 2026-07-28 resources §Error Handling: the URI is in the data.
        let mut error = ErrorObject::resource_not_found(Era::Modern, uri);
        error.message = text(answer).into_owned().into();
        write::error(out, Some(back.id_json), &error);
        return Outcome::from(&error);
    }
    if let Some(code) = code.filter(|code| is_for_the_gateway(*code, from, back)) {
        let why = text(answer);
        let why = format!("the gateway's request to the upstream was refused with {code}: {why}");
        let error = ErrorObject::new(Code::INTERNAL_ERROR, why);
        write::error(out, Some(back.id_json), &error);
        return Outcome::from(&error);
    }
    let outcome = Outcome::Error(renamed.or(code).unwrap_or(Code::INTERNAL_ERROR));
    let code: Edit<'_> =
        renamed.and_then(|new| Some((answer.part(Part::ErrorCode)?, New::Integer(new.0))));
    match answer.part(Part::Id) {
        Some(id) if code.is_some() => {
            splice(answer.bytes(), [Some((id, New::Json(back.id_json))), code], out);
        }
        Some(_) => with_id(answer, back, out),
        None => {
            let mut envelope = Object::open(out);
            envelope.member("jsonrpc", b"\"2.0\"");
            envelope.member("id", back.id_json);
            splice(answer.part(Part::Error).unwrap_or(b"{}"), [code], envelope.value("error"));
            envelope.close();
        }
    }
    outcome
}

/// Whether an error says something about the hop to the upstream that the client cannot mend.
fn is_for_the_gateway(code: Code, from: Revision, back: &Back<'_>) -> bool {
    let (upstream, client) = (from.era(), back.revision.era());
    match code {
        // Between legacy peers these three have no meaning of the protocol.
        Code::HEADER_MISMATCH | Code::UNSUPPORTED_VERSION => {
            (upstream, client) != (Era::Legacy, Era::Legacy)
        }
        Code::MISSING_CLIENT_CAPABILITY => {
            (upstream, client) != (Era::Legacy, Era::Legacy)
                && !(back.lacks_capability && client == Era::Modern)
        }
        Code::URL_ELICITATION_REQUIRED => back.revision != Revision::V2025_11_25,
        _ => false,
    }
}

/// Whether -32602 to `resources/read` means that there is no such resource: it names the URI, or
/// says so.
fn is_not_found(answer: &Message) -> bool {
    let error = answer.part(Part::Error).unwrap_or_default();
    let names = member(error, "data").is_some_and(|data| member(data, "uri").is_some());
    let text = text(answer).to_ascii_lowercase();
    names || ["not found", "unknown resource", "no such"].iter().any(|word| text.contains(word))
}

fn text(answer: &Message) -> Cow<'_, str> {
    let error = answer.part(Part::Error).unwrap_or_default();
    member(error, "message").and_then(decode_text).unwrap_or_default()
}

fn code(answer: &Message) -> Option<Code> {
    Code::deserialize(&mut serde_json::Deserializer::from_slice(answer.part(Part::ErrorCode)?)).ok()
}
