//! The server side: requests that become a WebSocket. An [`Endpoint`] does it on its own path.
//!
//! [`Endpoint`]: crate::transport::http::server::Endpoint

use std::future::Future;

use bytes::Bytes;
use http::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::frame::Role;
use super::handshake::{accept as accept_key, has, is_key, list};
use super::{Config, Protocol, WebSocket};
use crate::error::Result;
use crate::server::Service;
use crate::transport::end::End;

/// The only version of RFC 6455.
const VERSION: &str = "13";

/// Whether a request asks for a WebSocket.
#[must_use]
pub fn is_upgrade(head: &Parts) -> bool {
    has(&head.headers, UPGRADE, "websocket")
}

/// Answers a request for a WebSocket. Check `Host` and `Origin` first. With status 101 comes the
/// conversation, which begins once the answer is sent; any other answer says what is wrong with the
/// request.
pub fn accept<B>(
    request: &mut Request<B>,
    config: &Config,
) -> (Response<Bytes>, Option<Conversation>) {
    let protocol = match check(request) {
        Ok(protocol) => protocol,
        Err((status, why)) => return (refuse(status, why), None),
    };
    let key = request.headers().get(SEC_WEBSOCKET_KEY).map_or(&[][..], HeaderValue::as_bytes);
    let answer = accept_key(&String::from_utf8_lossy(key));
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(answer) = HeaderValue::try_from(answer) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, answer);
    }
    if let Some(protocol) = protocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol.name()));
    }
    let conversation = Conversation {
        upgrade: hyper::upgrade::on(request),
        protocol: protocol.unwrap_or(Protocol::Json),
        config: config.clone(),
    };
    (response, Some(conversation))
}

/// An accepted connection, before its first message.
#[derive(Debug)]
#[must_use = "the connection is not served yet"]
pub struct Conversation {
    upgrade: OnUpgrade,
    protocol: Protocol,
    config: Config,
}

impl Conversation {
    /// Serves the connection until its client closes it. When `end` completes, requests in flight
    /// may finish within 5 s, and the connection is closed with 1001.
    ///
    /// Dropping the future closes the connection and cancels what is in flight.
    ///
    /// # Errors
    /// The client violated the protocol. A client that just goes away is not an error.
    pub async fn serve(
        self,
        service: &Service,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<()> {
        // Without it the connection broke before the answer was sent.
        let Ok(upgraded) = self.upgrade.await else { return Ok(()) };
        let (io, end) = (TokioIo::new(upgraded), End::new(end));
        service.serve(WebSocket::new(io, Role::Server, self.protocol, &self.config, end)).await
    }
}

/// The subprotocol that was agreed on; none if the client offers none (RFC 6455 §4.2.1).
fn check<B>(request: &Request<B>) -> Result<Option<Protocol>, (StatusCode, &'static str)> {
    let headers = request.headers();
    let bad = |why| Err((StatusCode::BAD_REQUEST, why));
    if request.method() != Method::GET {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "a WebSocket begins with GET"));
    }
    if request.version() != Version::HTTP_11 {
        return bad("a WebSocket begins with HTTP/1.1");
    }
    let upgrades = has(headers, UPGRADE, "websocket") && has(headers, CONNECTION, "upgrade");
    if !upgrades || only(headers, SEC_WEBSOCKET_VERSION) != Ok(Some(VERSION)) {
        let why = "this is a WebSocket of version 13: send `Connection: Upgrade`, \
                   `Upgrade: websocket` and `Sec-WebSocket-Version: 13`";
        return Err((StatusCode::UPGRADE_REQUIRED, why));
    }
    if headers.contains_key(TRANSFER_ENCODING)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
    {
        return bad("a request for a WebSocket has no body");
    }
    if !matches!(only(headers, SEC_WEBSOCKET_KEY), Ok(Some(key)) if is_key(key)) {
        return bad("`Sec-WebSocket-Key` must be 16 bytes in base64");
    }
    let mut offered = list(headers, SEC_WEBSOCKET_PROTOCOL).peekable();
    if offered.peek().is_none() {
        return Ok(None);
    }
    match offered.find_map(Protocol::named) {
        Some(protocol) => Ok(Some(protocol)),
        None => bad("none of the subprotocols is known here: offer `mcp`"),
    }
}

/// The value of a header that may be there once.
fn only(headers: &HeaderMap, name: http::HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        _ => Err(()),
    }
}

fn refuse(status: StatusCode, why: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(why.as_bytes()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("GET"));
        }
        StatusCode::UPGRADE_REQUIRED => {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
        }
        _ => {}
    }
    response
}
