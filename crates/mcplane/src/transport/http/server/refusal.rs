//! Requests that get no further, and what their clients are told.

use std::borrow::Cow;

use http::header::{ALLOW, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::message::write;

use super::body::Body;
use super::json;

/// Why a request got no further, as far as it concerns HTTP and not a request of JSON-RPC.
pub(super) struct Refusal {
    status: StatusCode,
    why: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, why: impl Into<Cow<'static, str>>) -> Self {
        Self { status, why: why.into(), header: None }
    }

    /// Whether it is for a `Host` that is not this one.
    pub(super) fn is_misdirected(&self) -> bool {
        self.status == StatusCode::MISDIRECTED_REQUEST
    }

    /// 503, to be tried again.
    pub(super) fn overloaded(why: impl Into<Cow<'static, str>>, retry_after_s: u64) -> Self {
        let header = (RETRY_AFTER, HeaderValue::from(retry_after_s.max(1)));
        Self { header: Some(header), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, why) }
    }

    /// 404.
    pub(super) fn nothing_here() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no MCP endpoint at this path")
    }

    /// 405.
    pub(super) fn not_allowed(allowed: &'static str) -> Self {
        let header = (ALLOW, HeaderValue::from_static(allowed));
        let why = "this method is not allowed here";
        Self { header: Some(header), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, why) }
    }

    /// 401 or 403.
    pub(super) fn denied(status: StatusCode, challenge: HeaderValue) -> Self {
        let why = match status {
            StatusCode::FORBIDDEN => "this request needs more than its credentials allow",
            _ => "this endpoint requires valid credentials",
        };
        Self { header: Some((WWW_AUTHENTICATE, challenge)), ..Self::new(status, why) }
    }

    /// An error of JSON-RPC without an id.
    pub(super) fn response(self) -> Response<Body> {
        let mut body = Vec::new();
        write::error(&mut body, None, &ErrorObject::new(Code::INVALID_REQUEST, self.why));
        let mut response = json(self.status, body);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
