//! `_meta`: the reserved keys, and the envelope that every request of 2026-07-28 carries
//! (SEP-2575).

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::ErrorObject;
use crate::id::Id;
use crate::types::json::{Text, append, is_object, member, members};
use crate::types::wire::write_body;
use crate::types::{ClientCapabilities, Implementation, LogLevel, Params, Wire};
use crate::version::{Era, Revision};

/// The revision of a request. Required in 2026-07-28.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The capabilities of the client for one request. Required in 2026-07-28.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The least severe log message that the client wants for one request; absent means none.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who the server is; on results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The request that opened a subscription; on its messages.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a message belongs to (2025-11-25 only).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// What to tell the model while a task works (2025-11-25 only).
pub const MODEL_IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
/// The token under which a request's progress is told.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// W3C Trace Context (SEP-414).
pub const TRACEPARENT: &str = "traceparent";
/// W3C Trace Context (SEP-414).
pub const TRACESTATE: &str = "tracestate";
/// W3C Baggage (SEP-414).
pub const BAGGAGE: &str = "baggage";

/// The keys that an envelope owns: a caller's own members cannot replace them.
const OWNED: [&str; 8] = [
    PROTOCOL_VERSION,
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROGRESS_TOKEN,
    TRACEPARENT,
    TRACESTATE,
    BAGGAGE,
];

/// What a request says about itself in `_meta`.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Envelope {
    /// The revision. Not always one that anybody published.
    pub protocol_version: Cow<'static, str>,
    /// What the client can do for this request.
    pub client_capabilities: ClientCapabilities,
    /// Who the client is.
    pub client_info: Option<Implementation>,
    /// The least severe log message that the client wants.
    pub log_level: Option<LogLevel>,
    /// Asks to be told the progress under this token.
    pub progress_token: Option<Id>,
    /// W3C Trace Context.
    pub trace: Trace,
}

/// Where a request stands in a distributed trace (SEP-414). Strings as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Trace {
    /// `traceparent`.
    pub parent: Option<String>,
    /// `tracestate`.
    pub state: Option<String>,
    /// `baggage`.
    pub baggage: Option<String>,
}

impl Envelope {
    /// An envelope with what 2026-07-28 requires.
    #[must_use]
    pub const fn new(revision: Revision, client_capabilities: ClientCapabilities) -> Self {
        Self {
            protocol_version: Cow::Borrowed(revision.as_str()),
            client_capabilities,
            client_info: None,
            log_level: None,
            progress_token: None,
            trace: Trace { parent: None, state: None, baggage: None },
        }
    }

    /// Appends the `_meta` object. Legacy revisions know `progressToken` and the trace only; the
    /// rest of the envelope is not written there. The members of `extra` follow, but for those
    /// that the envelope owns. Returns whether the object has any member.
    pub fn write(&self, revision: Revision, extra: Option<&RawValue>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.push(b'{');
        let mut object = Members { out, start };
        if revision.era() == Era::Modern {
            object.member(PROTOCOL_VERSION, &self.protocol_version);
            object.member(CLIENT_CAPABILITIES, &*self.client_capabilities.at(revision));
            object.optional(CLIENT_INFO, self.client_info.as_ref());
            object.optional(LOG_LEVEL, self.log_level.as_ref());
        }
        object.optional(PROGRESS_TOKEN, self.progress_token.as_ref());
        object.optional(TRACEPARENT, self.trace.parent.as_ref());
        object.optional(TRACESTATE, self.trace.state.as_ref());
        object.optional(BAGGAGE, self.trace.baggage.as_ref());
        if let Some(extra) = extra {
            // What is not an object has no members to add.
            let _ = members(extra.get(), |key, value| {
                let trace = [TRACEPARENT, TRACESTATE, BAGGAGE].contains(&&*key);
                let unset = trace && self.trace == Trace::default();
                if !OWNED.contains(&&*key) || unset {
                    object.member(&key, value);
                }
            });
        }
        out.push(b'}');
        out.len() > start + 2
    }

    /// Reads the envelope from the `_meta` of a request of 2026-07-28 (`None`: no `_meta`).
    ///
    /// # Errors
    /// -32602 that names each key that is missing or has the wrong type.
    pub fn parse(meta: Option<&[u8]>) -> Result<Self, ErrorObject> {
        EnvelopeRef::parse(meta)?.to_owned()
    }
}

/// The envelope where it lies in a request: checked, and not copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnvelopeRef<'a> {
    /// The revision. Not always one that anybody published.
    pub protocol_version: Cow<'a, str>,
    /// What the client can do for this request: an object.
    pub client_capabilities: &'a RawValue,
    /// Who the client is: an object with `name` and `version`.
    pub client_info: Option<&'a RawValue>,
    /// The least severe log message that the client wants: one of the eight.
    pub log_level: Option<LogLevel>,
    /// Asks to be told the progress under this token.
    pub progress_token: Option<Id>,
    trace: [Option<&'a RawValue>; 3],
}

impl<'a> EnvelopeRef<'a> {
    /// Reads the envelope from the `_meta` of a request of 2026-07-28 (`None`: no `_meta`).
    ///
    /// # Errors
    /// -32602 that names each key that is missing or has the wrong type.
    pub fn parse(meta: Option<&'a [u8]>) -> Result<Self, ErrorObject> {
        let raw: RawEnvelope<'a> = match meta {
            Some(meta) => serde_json::from_slice(meta).map_err(|error| {
                ErrorObject::invalid_params(format!("params._meta is not an envelope: {error}"))
            })?,
            None => RawEnvelope::default(),
        };
        let mut faults = Faults::default();
        let version = faults.required(PROTOCOL_VERSION, raw.protocol_version);
        let version = faults.read(PROTOCOL_VERSION, "a string", version);
        let capabilities = faults.required(CLIENT_CAPABILITIES, raw.client_capabilities);
        if capabilities.is_some_and(|value| !is_object(value.get())) {
            faults.wrong(CLIENT_CAPABILITIES, "an object");
        }
        let form = "an object with `name` and `version`";
        faults.read::<NameAndVersion<'_>>(CLIENT_INFO, form, raw.client_info);
        let form = "one of debug, info, notice, warning, error, critical, alert, emergency";
        let log_level: Option<LogLevel> = faults.read(LOG_LEVEL, form, raw.log_level);
        if matches!(log_level, Some(LogLevel::Other(_))) {
            faults.wrong(LOG_LEVEL, form);
        }
        let form = "a string or an integer";
        let progress_token = faults.read(PROGRESS_TOKEN, form, raw.progress_token);
        match (faults.error(), version, capabilities) {
            (None, Some(Text(protocol_version)), Some(client_capabilities)) => Ok(Self {
                protocol_version,
                client_capabilities,
                client_info: raw.client_info,
                log_level,
                progress_token,
                trace: [raw.traceparent, raw.tracestate, raw.baggage],
            }),
            (error, ..) => Err(error
                .unwrap_or_else(|| ErrorObject::invalid_params("params._meta is not an envelope"))),
        }
    }

    /// Where the request stands in a distributed trace. What is not a string counts as absent.
    #[must_use]
    pub fn trace(&self) -> Trace {
        let [parent, state, baggage] = self.trace.map(|value| {
            let Text(text) = serde_json::from_str(value?.get()).ok()?;
            Some(text.into_owned())
        });
        Trace { parent, state, baggage }
    }

    /// The same, owned.
    ///
    /// # Errors
    /// -32602 when an optional member of the client's info has the wrong type.
    pub fn to_owned(&self) -> Result<Envelope, ErrorObject> {
        fn owned<T: DeserializeOwned>(key: &str, value: &RawValue) -> Result<T, ErrorObject> {
            serde_json::from_str(value.get()).map_err(|error| {
                ErrorObject::invalid_params(format!("params._meta: {key}: {error}"))
            })
        }
        let published = Revision::parse(&self.protocol_version);
        Ok(Envelope {
            protocol_version: match published {
                Some(revision) => Cow::Borrowed(revision.as_str()),
                None => Cow::Owned(self.protocol_version.clone().into_owned()),
            },
            client_capabilities: owned(CLIENT_CAPABILITIES, self.client_capabilities)?,
            client_info: self.client_info.map(|info| owned(CLIENT_INFO, info)).transpose()?,
            log_level: self.log_level.clone(),
            progress_token: self.progress_token.clone(),
            trace: self.trace(),
        })
    }
}

#[derive(Default, Deserialize)]
struct RawEnvelope<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    client_capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    client_info: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow)]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow)]
    tracestate: Option<&'a RawValue>,
    #[serde(borrow)]
    baggage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read to be checked only")]
struct NameAndVersion<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
}

/// What is wrong with an envelope, key by key.
#[derive(Default)]
struct Faults {
    missing: Vec<&'static str>,
    wrong: Vec<String>,
}

impl Faults {
    fn required<T>(&mut self, key: &'static str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.missing.push(key);
        }
        value
    }

    fn wrong(&mut self, key: &str, form: &str) {
        self.wrong.push(format!("{key} must be {form}"));
    }

    fn read<'a, T: Deserialize<'a>>(
        &mut self,
        key: &str,
        form: &str,
        value: Option<&'a RawValue>,
    ) -> Option<T> {
        let parsed = serde_json::from_str(value?.get()).ok();
        if parsed.is_none() {
            self.wrong(key, form);
        }
        parsed
    }

    fn error(&self) -> Option<ErrorObject> {
        if self.missing.is_empty() && self.wrong.is_empty() {
            return None;
        }
        let mut parts = self.wrong.clone();
        if !self.missing.is_empty() {
            parts.insert(0, format!("missing {}", self.missing.join(", ")));
        }
        Some(ErrorObject::invalid_params(format!("params._meta: {}", parts.join("; "))))
    }
}

/// Appends the `params` object of a message: `_meta` from the envelope and the parameters' own,
/// then the parameters as `revision` can say them. Without any member it is `{}`; legacy messages
/// may then leave `params` out.
pub fn write_params<P: Params>(
    params: &P,
    revision: Revision,
    envelope: Option<&Envelope>,
    out: &mut Vec<u8>,
) {
    const META: &[u8] = b"\"_meta\":";
    out.push(b'{');
    let own = params.meta();
    let mark = out.len();
    out.extend_from_slice(META);
    let written = match (envelope, own) {
        (Some(envelope), own) => envelope.write(revision, own, out),
        (None, Some(own)) => {
            out.extend_from_slice(own.get().as_bytes());
            true
        }
        (None, None) => false,
    };
    if !written {
        out.truncate(mark);
    }
    write_body(&*params.at(revision), out);
}

/// Whether a `_meta` object claims to be an envelope of 2026-07-28, half-built or not. Such a
/// request belongs to the modern era.
#[must_use]
pub fn has_envelope(meta: &[u8]) -> bool {
    std::str::from_utf8(meta).is_ok_and(|meta| member(meta, PROTOCOL_VERSION).is_some())
}

/// The progress token in the `_meta` of a request of any era. One of the wrong type counts as
/// absent.
#[must_use]
pub fn progress_token(meta: &RawValue) -> Option<Id> {
    Id::from_json(member(meta.get(), PROGRESS_TOKEN)?.get().as_bytes())
}

/// The subscription that a notification belongs to.
#[must_use]
pub fn subscription_id(meta: &RawValue) -> Option<Id> {
    Id::from_json(member(meta.get(), SUBSCRIPTION_ID)?.get().as_bytes())
}

/// Who the server is, from the `_meta` of a result; `None` when absent or malformed.
#[must_use]
pub fn server_info(meta: &RawValue) -> Option<Implementation> {
    serde_json::from_str(member(meta.get(), SERVER_INFO)?.get()).ok()
}

/// Whether a key of `_meta` follows the grammar: an optional prefix of dotted labels and a `/`,
/// then a name. Labels begin with a letter and end with a letter or a digit, with hyphens between;
/// names begin and end with a letter or a digit, with `-`, `_` and `.` between, and may be empty.
#[must_use]
pub fn is_valid_key(key: &str) -> bool {
    let (prefix, name) = split(key);
    let name = name.is_empty()
        || (name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && ends_well(name)
            && name.starts_with(|c: char| c.is_ascii_alphanumeric()));
    name && prefix.is_none_or(|prefix| {
        prefix.split('.').all(|label| {
            label.starts_with(|c: char| c.is_ascii_alphabetic())
                && ends_well(label)
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
    })
}

/// Whether a key belongs to the protocol: the second label of its prefix is `modelcontextprotocol`
/// or `mcp`, as in `io.modelcontextprotocol/…`, `dev.mcp/…` and `org.mcp.tools/…`.
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    let (prefix, _) = split(key);
    prefix
        .and_then(|prefix| prefix.split('.').nth(1))
        .is_some_and(|label| matches!(label, "modelcontextprotocol" | "mcp"))
}

fn split(key: &str) -> (Option<&str>, &str) {
    key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name))
}

fn ends_well(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Appends members to an object that began at `start`.
struct Members<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl Members<'_> {
    fn member(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        if self.out.len() > self.start + 1 {
            self.out.push(b',');
        }
        append(self.out, key);
        self.out.push(b':');
        append(self.out, value);
    }

    fn optional(&mut self, key: &str, value: Option<&(impl Serialize + ?Sized)>) {
        if let Some(value) = value {
            self.member(key, value);
        }
    }
}

#[cfg(test)]
mod tests;
