//! `Host` and `Origin`: which names the endpoint answers to, and which pages may use it.
//!
//! A page on the web can make a browser send requests to a server on this machine; DNS rebinding
//! lets it read the answers, too. Both headers give it away (transports §Security warning).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HOST, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};

use super::refusal::Refusal;
use super::{Body, empty};

/// Which names to answer to, and which pages may use the endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins {
    /// Beside the names of this machine itself.
    pub(super) hosts: Vec<String>,
    pub(super) is_any_host: bool,
    /// `https://app.example.com`, beside pages of this machine.
    pub(super) origins: Vec<String>,
}

impl Origins {
    /// The origin to allow, if a page asks.
    ///
    /// # Errors
    /// The refusal: 400 without a `Host`, 421 for a foreign one, 403 for a foreign `Origin`.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Result<Option<HeaderValue>, Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next(), uri.authority()) {
            (Some(host), None, _) => host.to_str().ok(),
            // HTTP/2 has it in `:authority`.
            (None, _, Some(authority)) => Some(authority.as_str()),
            _ => None,
        };
        let Some(host) = host.and_then(without_port) else {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "exactly one valid `Host` is needed",
            ));
        };
        if !self.is_any_host && !self.answers_to(host) {
            let why = "this endpoint does not answer to that `Host`";
            return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, why));
        }
        let Some(origin) = headers.get(ORIGIN) else { return Ok(None) };
        if headers.get_all(ORIGIN).iter().nth(1).is_some() {
            return Err(Refusal::new(StatusCode::FORBIDDEN, "`Origin` is repeated"));
        }
        if self.allows(origin) {
            return Ok(Some(origin.clone()));
        }
        Err(Refusal::new(StatusCode::FORBIDDEN, "this `Origin` may not use the endpoint"))
    }

    fn answers_to(&self, host: &str) -> bool {
        let known = || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
        is_local(host) || known()
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.and_then(without_port).is_some_and(is_local)
    }
}

/// The host of `host[:port]`, an address of IPv6 without its brackets (RFC 9110 §7.2); `None` if it
/// is malformed.
fn without_port(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    let is_name = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'%')
    };
    (is_port && !host.is_empty() && host.bytes().all(is_name)).then_some(host)
}

/// Whether a page of another site asks without an `Origin`, as for an image: it cannot read the
/// answer, but what it opens costs a place (Fetch Metadata Request Headers §2.3).
pub(super) fn is_blind(headers: &HeaderMap) -> bool {
    let is_foreign = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    is_foreign && !headers.contains_key(ORIGIN)
}

/// The names of this machine itself.
fn is_local(host: &str) -> bool {
    // Most clients write it like this, and reading an address costs more than comparing one.
    host == "127.0.0.1"
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The answer to a page's question whether it may.
pub(super) fn preflight() -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, DELETE, OPTIONS"),
    );
    // `*` does not cover `Authorization`.
    headers
        .insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, *"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets a page read the response.
pub(super) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("mcp-session-id, www-authenticate"),
    );
    headers.insert(VARY, HeaderValue::from_static("origin"));
}
