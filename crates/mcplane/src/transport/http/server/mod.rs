//! The endpoint of Streamable HTTP: both eras at once, decided for each request.
//!
//! * [`Endpoint`] — a [`tower_service::Service`], to mount anywhere (this file: the request path).
//! * [`serve`] — the same behind a listener of its own.
//! * `classify` — which era a request is of, and whether its headers fit.
//! * `modern` — one request of 2026-07-28.
//! * `session`, `log` — sessions of 2025-03-26 … 2025-11-25, and streams that can be resumed.
//! * `legacy_sse` — HTTP+SSE of 2024-11-05.
//! * `origin` — `Host`, `Origin` and CORS.

mod body;
mod classify;
mod config;
mod legacy_sse;
mod log;
mod modern;
mod origin;
mod serve;
mod session;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::headers::{LAST_EVENT_ID, SESSION_ID};
use mcplane_proto::message::write;
use tokio::sync::watch;

pub use body::Body;
pub use config::{Authenticate, BODY_BYTES_MAX, Builder, Denied, IN_FLIGHT_MAX};
pub use serve::{ConnectionLimits, serve};
pub use session::SessionLimits;

use crate::error::Result;
use crate::server::Service;
use classify::{Payload, classify};
use config::Config;
use session::{Opened, Sessions};

/// Where clients reach a [`Service`] over HTTP. Cloning is cheap; every clone is the same endpoint.
///
/// It is a [`tower_service::Service`] for any request body, so that it can be a route of axum.
/// Dropping a response future or body gives the request up: in 2026-07-28 that cancels it, before
/// it goes on and its client may come back for the answer.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    service: Service,
    config: Config,
    sessions: Arc<Sessions>,
    /// Requests that are being answered, open streams included.
    in_flight: Arc<AtomicUsize>,
    /// Becomes true when the endpoint ends: open streams say goodbye.
    end: watch::Sender<bool>,
}

/// One of the requests that are being answered.
pub(super) struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Endpoint {
    /// An endpoint at `/mcp` for clients on this machine, with the default limits.
    #[must_use]
    pub fn new(service: Service) -> Self {
        Self::builder(service).build()
    }

    /// An endpoint with other paths, limits or guests.
    #[must_use]
    pub fn builder(service: Service) -> Builder {
        Builder::new(service)
    }

    /// Ends every open stream and session. New requests are still answered.
    pub fn close(&self) {
        let _ = self.0.end.send(true);
        self.0.sessions.clear();
    }

    /// How many sessions are open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions.count()
    }

    /// One request, from its head to its response.
    ///
    /// Every refusal happens here or in a function that is named here, with the status that
    /// 2026-07-28 transports §Streamable HTTP, or else the practice of the SDKs, wants.
    async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: fmt::Display,
    {
        let config = &self.0.config;
        let cors = match config.origin.check(request.headers(), request.uri()) {
            Ok(cors) => cors,
            Err(refused) => return refused,
        };
        let path = request.uri().path();
        let mut response = if request.method() == Method::OPTIONS {
            origin::preflight()
        } else if let Some(document) = config.metadata_at(path) {
            json(StatusCode::OK, document.clone())
        } else if !config.serves(path) {
            refuse(StatusCode::NOT_FOUND, "there is no MCP endpoint at this path")
        } else {
            let (head, body) = request.into_parts();
            match self.admit(&head).await {
                Ok((permit, principal)) => self.route(head, body, permit, principal).await,
                Err(refused) => refused,
            }
        };
        if let Some(origin) = cors {
            origin::allow(response.headers_mut(), origin);
        }
        response
    }

    /// The rules that hold for every request to the endpoint: room for it, and who sends it.
    async fn admit(&self, head: &Parts) -> Result<(Permit, Option<Arc<str>>), Response<Body>> {
        let in_flight = &self.0.in_flight;
        let permit = Permit(Arc::clone(in_flight));
        if in_flight.fetch_add(1, Ordering::Relaxed) >= self.0.config.in_flight_max {
            return Err(overloaded("too many requests are being answered"));
        }
        match &self.0.config.authenticate {
            None => Ok((permit, None)),
            Some(authenticate) => match authenticate.authenticate(head).await {
                Ok(principal) => Ok((permit, Some(principal))),
                Err(denied) => Err(denied.response()),
            },
        }
    }

    async fn route<B>(
        &self,
        head: Parts,
        body: B,
        permit: Permit,
        principal: Option<Arc<str>>,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: fmt::Display,
    {
        let config = &self.0.config;
        let place = legacy_sse::place(config, head.uri.path());
        match (&head.method, place) {
            (&Method::GET, Some(legacy_sse::Place::Stream)) => {
                legacy_sse::open(self, principal, permit)
            }
            (&Method::POST, place) => {
                if let Err(refused) = check_media(&head.headers, place.is_none()) {
                    return refused;
                }
                let body = match body::collect(body, config.body_bytes_max).await {
                    Ok(body) => body,
                    Err(error) => return error.response(),
                };
                match place {
                    None => self.post(&head.headers, body, permit, principal).await,
                    Some(_) => legacy_sse::post(self, &head.uri, body, principal.as_deref()),
                }
            }
            (&Method::GET, None) => self.listen(&head.headers, permit, principal.as_deref()),
            (&Method::DELETE, None) => self.delete(&head.headers, principal.as_deref()),
            _ => not_allowed("GET, POST, DELETE"),
        }
    }

    /// A message, or a batch, of either era.
    async fn post(
        &self,
        headers: &HeaderMap,
        body: Bytes,
        permit: Permit,
        principal: Option<Arc<str>>,
    ) -> Response<Body> {
        let service = &self.0.service;
        let payload = match classify(headers, body, service) {
            Ok(Payload::Modern(message)) => {
                return modern::answer(self, message, principal, permit).await;
            }
            Ok(payload) => payload,
            Err(refused) => return refused.response(),
        };
        if self.0.config.stateless {
            return modern::answer_stateless(self, headers, payload, principal, permit).await;
        }
        if let Payload::Initialize(message) = payload {
            return match self.0.sessions.open(service, principal) {
                Ok(session) => session::initialize(&self.0.sessions, &session, message),
                Err(error) => overloaded(&error.to_string()),
            };
        }
        let session = match self.session(headers, principal.as_deref()) {
            Ok(session) => session,
            Err(refused) => return refused,
        };
        match session.post(payload) {
            Opened::Nothing => empty(StatusCode::ACCEPTED),
            Opened::Answer(answer) => json(StatusCode::OK, answer),
            Opened::Refused(error) => json(StatusCode::BAD_REQUEST, error),
            Opened::Stream(reader) => reader.respond(permit).await,
        }
    }

    /// The stream of what belongs to no request, or the rest of one that broke.
    fn listen(
        &self,
        headers: &HeaderMap,
        permit: Permit,
        principal: Option<&str>,
    ) -> Response<Body> {
        if classify::names_modern(headers) || self.0.config.stateless {
            return not_allowed("POST");
        }
        if !accepts(headers, "text/event-stream") {
            return refuse(StatusCode::NOT_ACCEPTABLE, "`Accept` must allow text/event-stream");
        }
        let session = match self.session(headers, principal) {
            Ok(session) => session,
            Err(refused) => return refused,
        };
        match session.listen(headers.get(LAST_EVENT_ID).map(HeaderValue::as_bytes)) {
            Some(reader) => reader.stream(permit),
            None => {
                refuse(StatusCode::BAD_REQUEST, "`Last-Event-ID` names no event of this session")
            }
        }
    }

    fn delete(&self, headers: &HeaderMap, principal: Option<&str>) -> Response<Body> {
        if classify::names_modern(headers) || self.0.config.stateless {
            return not_allowed("POST");
        }
        match self.session(headers, principal) {
            Ok(session) => {
                self.0.sessions.remove(session.id());
                empty(StatusCode::NO_CONTENT)
            }
            Err(refused) => refused,
        }
    }

    /// The session that a legacy request belongs to, if it is this client's own.
    fn session(
        &self,
        headers: &HeaderMap,
        principal: Option<&str>,
    ) -> Result<Arc<session::Session>, Response<Body>> {
        let Some(id) = headers.get(SESSION_ID) else {
            let why = "send `initialize` first and then its `Mcp-Session-Id`, or put \
                       `io.modelcontextprotocol/protocolVersion` into `params._meta`";
            return Err(refuse(StatusCode::BAD_REQUEST, why));
        };
        let found = id.to_str().ok().and_then(|id| self.0.sessions.find(id, principal));
        let found = found.filter(|session| !session.is_single());
        let why = "no such session: send `initialize` again, without `Mcp-Session-Id`";
        found.ok_or_else(|| refuse(StatusCode::NOT_FOUND, why))
    }
}

impl<B> tower_service::Service<Request<B>> for Endpoint
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = self.clone().answer(request);
        Box::pin(async move { Ok(answer.await) })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("service", &self.0.service)
            .field("sessions", &self.sessions())
            .finish_non_exhaustive()
    }
}

/// Whether `Content-Type` is JSON and `Accept` allows what may come back.
fn check_media(headers: &HeaderMap, streams: bool) -> Result<(), Response<Body>> {
    let content = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let essence = content.split(|&byte| byte == b';').next().unwrap_or_default();
    if !essence.trim_ascii().eq_ignore_ascii_case(b"application/json") {
        let why = "`Content-Type` must be application/json";
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    if streams && !(accepts(headers, "application/json") && accepts(headers, "text/event-stream")) {
        let why = "`Accept` must allow application/json and text/event-stream";
        return Err(refuse(StatusCode::NOT_ACCEPTABLE, why));
    }
    Ok(())
}

/// Whether a media type may come back; no `Accept` allows everything (RFC 9110 §12.5.1).
fn accepts(headers: &HeaderMap, media: &str) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let family = media.split('/').next().unwrap_or_default();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
        let range = range.split(';').next().unwrap_or_default().trim();
        range.eq_ignore_ascii_case(media)
            || range == "*/*"
            || range.strip_suffix("/*").is_some_and(|range| range.eq_ignore_ascii_case(family))
    })
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A refusal that concerns HTTP and not a request of JSON-RPC: an error without an id.
fn refuse(status: StatusCode, why: &str) -> Response<Body> {
    let mut body = Vec::new();
    write::error(&mut body, None, &ErrorObject::new(Code::INVALID_REQUEST, why.to_owned()));
    json(status, body)
}

fn overloaded(why: &str) -> Response<Body> {
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn not_allowed(allowed: &'static str) -> Response<Body> {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// The answer to a client that did not show who it is, or may not do this.
fn denied(status: StatusCode, challenge: Option<HeaderValue>, why: &str) -> Response<Body> {
    let mut response = refuse(status, why);
    if let Some(challenge) = challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}
