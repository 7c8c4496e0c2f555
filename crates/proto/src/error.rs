//! Error codes and error objects: what went wrong, whose fault it is, and whether to try again.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::version::Era;

/// A JSON-RPC error code. An open set: peers send codes that no revision names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[allow(clippy::exhaustive_structs, reason = "a code is a number and nothing else")]
pub struct Code(pub i64);

impl Code {
    /// The bytes are not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The JSON is not a request.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// No such method, or its capability is not advertised.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// Wrong parameters, unknown tool or prompt, missing envelope key; in 2026-07-28 also an
    /// unknown resource.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The receiver failed.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// Resource not found, up to 2025-11-25.
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// An HTTP header and the body disagree (2026-07-28, SEP-2243).
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// The request needs a capability that the client did not declare (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: Self = Self(-32021);
    /// The server does not speak the request's revision (2026-07-28).
    pub const UNSUPPORTED_VERSION: Self = Self(-32022);
    /// The client must open a URL first (2025-11-25 only).
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
    /// The user declined (the sampling documents of the legacy revisions).
    pub const USER_REJECTED: Self = Self(-1);
    /// mcplane's own: every worker and every queue slot is taken; try again later. Outside the
    /// range that JSON-RPC and MCP reserve (-32768 … -32000).
    pub const OVERLOADED: Self = Self(-31_999);
    /// mcplane's own: the handler did not finish within its time limit.
    pub const HANDLER_TIMEOUT: Self = Self(-31_998);
    /// mcplane's own: the server behind a gateway is not available, or the request was lost on its way
    /// there. It is the peer's own word: what this side's transport has lost is told without a code.
    pub const UNAVAILABLE: Self = Self(-31_997);

    /// Whether sending the same request again later may succeed.
    #[must_use]
    pub const fn retry(self) -> Retry {
        match self {
            Self::OVERLOADED => Retry::Later,
            Self::INTERNAL_ERROR | Self::HANDLER_TIMEOUT | Self::UNAVAILABLE => Retry::Perhaps,
            Self::UNSUPPORTED_VERSION | Self::HEADER_MISMATCH | Self::URL_ELICITATION_REQUIRED => {
                Retry::Changed
            }
            _ => Retry::Never,
        }
    }

    /// Whose fault an error with this code is, as seen by the sender of the request.
    #[must_use]
    pub const fn fault(self) -> Fault {
        match self {
            Self::INTERNAL_ERROR | Self::OVERLOADED | Self::HANDLER_TIMEOUT | Self::UNAVAILABLE => {
                Fault::Peer
            }
            _ => Fault::Caller,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The other end of this connection broke a rule or failed.
    Peer,
    /// A server behind the other end failed.
    Upstream,
    /// The caller asked for something wrong.
    Caller,
    /// A bug or a limit of this program.
    Us,
}

/// Whether trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retry {
    /// The same request fails again.
    Never,
    /// A corrected request may succeed: another revision, a header, consent of the user.
    Changed,
    /// The same request may succeed later, if it is safe to repeat.
    Later,
    /// Nobody can tell.
    Perhaps,
}

/// The `error` member of a response.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "JSON-RPC 2.0 §5.1 closes this object")]
pub struct ErrorObject {
    /// What kind of error.
    pub code: Code,
    /// One sentence for people.
    #[serde(default)]
    pub message: Cow<'static, str>,
    /// More, in the form that the code defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with `data`. Data that cannot be serialised is left out.
    #[must_use]
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }

    /// -32601 for a method that nobody here answers.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Code::METHOD_NOT_FOUND, format!("method not found: {}", shorten(method)))
    }

    /// What a server answers when it has no resource of this URI: -32602 in 2026-07-28, -32002
    /// before (2025-11-25 resources §Error Handling).
    #[must_use]
    pub fn resource_not_found(era: Era, uri: &str) -> Self {
        let code = match era {
            Era::Modern => Code::INVALID_PARAMS,
            Era::Legacy => Code::RESOURCE_NOT_FOUND,
        };
        let uri = shorten(uri);
        Self::new(code, format!("resource not found: {uri}")).with_data(&json!({"uri": uri}))
    }

    /// -32602 with a sentence that says what was wrong.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::INVALID_PARAMS, message)
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}

/// The first 200 characters of something a peer sent, for an error message.
#[must_use]
pub fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(200) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}
