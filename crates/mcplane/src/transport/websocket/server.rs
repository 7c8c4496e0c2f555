//! The server's end: upgrading requests, and a server that does nothing else.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER,
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::frame::Role;
use super::handshake::{accept as accept_key, has, is_key, list};
use super::{Config, Protocol, WebSocket};
use crate::error::Result;
use crate::server::Service;
use crate::transport::listen::{Admission, Connections, End, Incoming, Limits, Listener, Patient};

/// The only version of RFC 6455.
const VERSION: &str = "13";

/// Longest head of a request to [`serve`], in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Whether a request asks for a WebSocket.
#[must_use]
pub fn is_upgrade(head: &Parts) -> bool {
    has(&head.headers, UPGRADE, "websocket")
}

/// Upgrades a request and serves the connection in a task of its own, until its client closes it.
/// Check `Host` and `Origin` before. The answer is 101, or says what is wrong with the request.
///
/// To count the connection, or to end it at shutdown, use [`accept`].
pub fn upgrade<B>(
    request: &mut Request<B>,
    service: &Service,
    config: &Config,
) -> Response<Full<Bytes>> {
    let (response, conversation) = accept(request, config);
    if let Some(conversation) = conversation {
        let service = service.clone();
        tokio::spawn(async move {
            // How a connection breaks concerns nobody but its client.
            let _ = conversation.serve(&service, std::future::pending()).await;
        });
    }
    response
}

/// Answers a request for a WebSocket. With 101 comes the conversation that begins once the answer
/// is sent; any other answer says what is wrong with the request.
pub fn accept<B>(
    request: &mut Request<B>,
    config: &Config,
) -> (Response<Full<Bytes>>, Option<Conversation>) {
    let protocol = match check(request) {
        Ok(protocol) => protocol,
        Err((status, why)) => return (refuse(status, why), None),
    };
    let key = request.headers().get(SEC_WEBSOCKET_KEY).map_or(&[][..], HeaderValue::as_bytes);
    let answer = accept_key(&String::from_utf8_lossy(key));
    let mut response = Response::new(Full::default());
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
#[must_use = "nobody serves the connection yet"]
pub struct Conversation {
    upgrade: OnUpgrade,
    protocol: Protocol,
    config: Config,
}

impl Conversation {
    /// Serves the connection until its client closes it. When `end` comes, what is in flight is
    /// finished within the loop's own limit of 5 s and the connection is closed with 1001.
    ///
    /// Dropping the future closes the connection and cancels what is in flight.
    ///
    /// # Errors
    /// The client broke the protocol. A client that just goes away is no error.
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

/// Serves every connection of `listener` until `shutdown` comes, as WebSocket and nothing else. For
/// Streamable HTTP beside it, use [`http::server`](crate::transport::http::server).
///
/// `check` sees each request before it is upgraded: [`local_only`], or what your pages and names
/// need. The listener's [`Limits`] hold as for [`tcp::serve`](crate::transport::tcp::serve), except
/// that a refused connection is told 503 with `Retry-After`, and that pings replace the idle limit.
///
/// Cancel safe: dropped, it closes the listener and every connection.
pub async fn serve(
    listener: Listener,
    service: Service,
    config: Config,
    check: impl Fn(&Parts) -> Result<(), Response<Full<Bytes>>> + Send + Sync + 'static,
    shutdown: impl Future<Output = ()>,
) {
    // A ping every now and then is what a WebSocket has for it.
    let limits = listener.limits().clone().idle(None);
    let drain = limits.drain;
    let site = Arc::new(Site { service, config, check, limits });
    let mut connections = Connections::default();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = connections.reap() => {}
            incoming = listener.accept() => {
                let site = Arc::clone(&site);
                connections.spawn(|end| converse(incoming, site, end));
            }
        }
    }
    drop(listener);
    connections.drain(drain).await;
}

/// Lets a request pass that came by a name of this machine and, if from a page, from a page of this
/// machine: no other page, and no name that was made to point here, gets in.
///
/// # Errors
/// The refusal: 400 without a `Host`, 421 for a foreign one, 403 for a foreign `Origin`.
#[allow(clippy::result_large_err, reason = "it is sent as it is")]
pub fn local_only(head: &Parts) -> Result<(), Response<Full<Bytes>>> {
    let Ok(host) = only(&head.headers, HOST).and_then(|host| host.ok_or(())) else {
        return Err(refuse(StatusCode::BAD_REQUEST, "exactly one `Host` is needed"));
    };
    if !is_local(host) {
        let why = "this server does not answer to that `Host`";
        return Err(refuse(StatusCode::MISDIRECTED_REQUEST, why));
    }
    let origin = only(&head.headers, ORIGIN);
    let page = |origin: &str| {
        let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        site.is_some_and(is_local)
    };
    match origin {
        Ok(origin) if origin.is_none_or(page) => Ok(()),
        _ => Err(refuse(StatusCode::FORBIDDEN, "this `Origin` may not use the server")),
    }
}

struct Site<C> {
    service: Service,
    config: Config,
    check: C,
    limits: Limits,
}

async fn converse<C>(incoming: Incoming, site: Arc<Site<C>>, mut end: End)
where
    C: Fn(&Parts) -> Result<(), Response<Full<Bytes>>> + Send + Sync + 'static,
{
    let admission = incoming.admission();
    let Ok((stream, _permit)) = incoming.handshake().await else { return };
    let (stream, _) = Patient::new(stream, &site.limits, End::new(std::future::pending()));
    let conversation = Mutex::new(None);
    let answer = service_fn(|request: Request<hyper::body::Incoming>| {
        let (response, begun) = site.answer(request, admission);
        *conversation.lock().unwrap_or_else(PoisonError::into_inner) = begun;
        ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(site.limits.handshake)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades();
    tokio::select! {
        biased;
        _ = connection => {}
        () = &mut end => return,
    }
    let begun = conversation.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(conversation) = begun {
        let _ = conversation.serve(&site.service, end).await;
    }
}

impl<C: Fn(&Parts) -> Result<(), Response<Full<Bytes>>>> Site<C> {
    fn answer<B>(
        &self,
        request: Request<B>,
        admission: Admission,
    ) -> (Response<Full<Bytes>>, Option<Conversation>) {
        if let Admission::Refused { retry_after } = admission {
            let why = "too many connections; try again later";
            let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, why);
            let seconds = retry_after.as_secs_f64().ceil() as u64;
            response.headers_mut().insert(RETRY_AFTER, seconds.max(1).into());
            return (response, None);
        }
        let (head, _) = request.into_parts();
        match (self.check)(&head) {
            Ok(()) => accept(&mut Request::from_parts(head, ()), &self.config),
            Err(refusal) => (refusal, None),
        }
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

/// Whether this names this machine, with or without a port.
fn is_local(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn refuse(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(why));
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
