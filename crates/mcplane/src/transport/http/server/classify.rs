//! Which era a request is of, and whether its headers fit its body: the body decides first.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::headers::{self, PROTOCOL_VERSION};
use mcplane_proto::message::{Kind, Message, Part, ScanError, is_batch, split_batch, write};
use mcplane_proto::meta;
use mcplane_proto::method::Method;
use mcplane_proto::version::{Era, Revision};

use super::{Reply, VERSION};
use crate::server::Service;
use crate::stages::Stage;

/// What a POST brought.
pub(super) enum Payload {
    /// A request or notification of 2026-07-28, its standard headers checked.
    Modern(Message),
    /// The beginning of a legacy session.
    Initialize(Message),
    /// A message of a legacy session.
    Message(Message),
    /// A batch: only 2025-03-26 has them.
    Batch(Bytes),
}

/// Why a POST is not a message for us.
pub(super) struct Misfit {
    id: Option<Vec<u8>>,
    error: ErrorObject,
}

impl Misfit {
    pub(super) fn new(message: Option<&Message>, error: ErrorObject) -> Self {
        let id = message.and_then(|message| message.part(Part::Id));
        Self { id: id.map(<[u8]>::to_vec), error }
    }

    pub(super) fn reply(&self) -> Reply {
        let mut body = Vec::new();
        write::error(&mut body, self.id.as_deref(), &self.error);
        Reply::Json(status(self.error.code), body.into())
    }
}

/// The status of an error that 2026-07-28 answers a request with (transports §Streamable HTTP).
/// Errors of a handler are results in band: 200.
pub(super) const fn status(code: Code) -> StatusCode {
    match code {
        Code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        Code::PARSE_ERROR
        | Code::INVALID_REQUEST
        | Code::INVALID_PARAMS
        | Code::HEADER_MISMATCH
        | Code::MISSING_CLIENT_CAPABILITY
        | Code::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// What the version header says.
pub(super) enum Named {
    Nothing,
    Legacy(Revision),
    Modern,
    Unknown(String),
}

impl Named {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(&VERSION) else { return Self::Nothing };
        let name = value.as_bytes().trim_ascii();
        match std::str::from_utf8(name).ok().and_then(Revision::parse) {
            Some(revision) if revision.era() == Era::Legacy => Self::Legacy(revision),
            Some(_) => Self::Modern,
            None => Self::Unknown(String::from_utf8_lossy(name).into_owned()),
        }
    }
}

/// Reads a body as a message and tells its era.
pub(super) fn classify(
    headers: &HeaderMap,
    body: Bytes,
    service: &Service,
) -> Result<Payload, Misfit> {
    if is_batch(&body) {
        return batch(body);
    }
    let message = Stage::Parse.of(|| Message::scan(body)).map_err(|failure| {
        let id = failure.id.as_ref().map(|id| {
            let mut json = Vec::new();
            id.write_json(&mut json);
            json
        });
        Misfit { id, error: failure.object() }
    })?;
    let is_request = matches!(message.kind(), Kind::Request | Kind::Notification);
    if is_request && message.part(Part::ProtocolVersion).is_some() {
        return match Stage::Validate.of(|| check_mirror(headers, &message, service)) {
            Ok(()) => Ok(Payload::Modern(message)),
            Err(error) => Err(Misfit::new(Some(&message), error)),
        };
    }
    if message.kind() == Kind::Notification && matches!(Named::of(headers), Named::Modern) {
        // Only requests must have an envelope (2026-07-28 §Per-request metadata).
        return Ok(Payload::Modern(message));
    }
    if let Some(error) = no_envelope(headers, &message) {
        return Err(Misfit::new(Some(&message), error));
    }
    Ok(match message.method() {
        Some(Method::Initialize) if message.kind() == Kind::Request => Payload::Initialize(message),
        _ => Payload::Message(message),
    })
}

/// A batch belongs to 2025-03-26, so it must have neither envelopes nor anything that is not a message.
fn batch(body: Bytes) -> Result<Payload, Misfit> {
    let elements =
        split_batch(&body).map_err(|failure| Misfit { id: None, error: failure.object() })?;
    let foreign = |element: Bytes| {
        Message::scan(element).map_or(true, |message| message.part(Part::ProtocolVersion).is_some())
    };
    if elements.into_iter().any(foreign) {
        let why = ScanError::BadBatch(
            "2026-07-28 has no batches, and every element of an older one must be a message",
        );
        return Err(Misfit {
            id: None,
            error: ErrorObject::new(Code::INVALID_REQUEST, why.to_string()),
        });
    }
    Ok(Payload::Batch(body))
}

/// What is wrong with a body without an envelope: a header that names a modern or unknown revision.
fn no_envelope(headers: &HeaderMap, message: &Message) -> Option<ErrorObject> {
    Some(match (Named::of(headers), message.method()) {
        (Named::Nothing | Named::Legacy(_), _) => return None,
        (Named::Modern, Some(Method::Initialize)) => ErrorObject::new(
            Code::HEADER_MISMATCH,
            format!("header {PROTOCOL_VERSION} names a revision that has no `initialize`"),
        ),
        (Named::Modern, _) => ErrorObject::invalid_params(format!(
            "`params._meta[\"{}\"]` and `[\"{}\"]` are missing",
            meta::PROTOCOL_VERSION,
            meta::CLIENT_CAPABILITIES
        )),
        (Named::Unknown(name), _) => {
            let name = name.chars().take(40).collect::<String>();
            ErrorObject::invalid_params(format!("unknown protocol version {name:?}"))
        }
    })
}

/// The standard headers against the body (2026-07-28, SEP-2243).
fn check_mirror(
    headers: &HeaderMap,
    message: &Message,
    service: &Service,
) -> Result<(), ErrorObject> {
    let Some(version) = message.text(Part::ProtocolVersion) else {
        // Not a string: the session says so.
        return Ok(());
    };
    let method = message.method_name();
    let name = match message.method() {
        Some(Method::ResourcesRead) => message.text(Part::Uri),
        Some(Method::ToolsCall | Method::PromptsGet) => message.text(Part::Name),
        _ => None,
    };
    let tool = match (message.method(), &name) {
        (Some(Method::ToolsCall), Some(name)) => service.mirrored(name),
        _ => None,
    };
    let params = tool.as_deref().unwrap_or_default();
    let arguments = message.part(Part::Arguments).filter(|_| !params.is_empty());
    let arguments = arguments.and_then(|json| std::str::from_utf8(json).ok());
    let body =
        headers::Body { version: &version, method: &method, name: name.as_deref(), arguments };
    // All that is mirrored begins like this, and most of what is sent does not.
    let mirrors = headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-"));
    let mirrors = mirrors.map(|(name, value)| (name.as_str(), HeaderValue::as_bytes(value)));
    headers::validate(mirrors, &body, params).map_err(|error| error.object())
}
