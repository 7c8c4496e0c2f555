//! The endpoint of Streamable HTTP: both eras at once, decided for each request.
//!
//! * [`Endpoint`] — a [`tower_service::Service`], to mount anywhere (this file: the request path).
//! * [`serve`] — the same behind a listener of its own.
//! * `classify` — which era a request is of, and whether its headers fit.
//! * `modern` — one request of 2026-07-28.
//! * `session`, `log`, `keep` — sessions of 2025-03-26 to 2025-11-25, resumable streams, and how
//!   much of them is kept.
//! * `legacy_sse` — HTTP+SSE of 2024-11-05.
//! * `end` — what ends early.
//! * `origin` — `Host`, `Origin` and CORS.
//! * `refusal` — requests that get no further; `stalls` — answers that clients do not read.

mod body;
mod classify;
mod config;
mod end;
mod keep;
mod legacy_sse;
mod log;
mod modern;
mod origin;
mod refusal;
mod serve;
mod session;
mod stalls;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use mcplane_proto::headers::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID};
use tokio::sync::watch;

pub use body::Body;
pub use config::{Authenticate, BODY_BYTES_MAX, Builder, Denied, IN_FLIGHT_MAX, Pages};
pub use serve::{ConnectionLimits, Site, serve};
pub use session::SessionLimits;

use crate::budget::Budget;
use crate::error::Result;
use crate::server::Service;
#[cfg(feature = "websocket")]
use crate::transport::websocket;
use classify::{Named, Payload, classify};
use config::Config;
use end::Ended;
#[cfg(feature = "websocket")]
use end::Ends;
use refusal::Refusal;
use session::{Opened, Sessions};

/// Longest body of a request for a page, in bytes: an administrator's question is short.
const PAGE_BYTES_MAX: usize = 64 * 1024;

/// Names of headers, in the form that needs no parsing.
static VERSION: HeaderName = HeaderName::from_static(PROTOCOL_VERSION);
static SESSION: HeaderName = HeaderName::from_static(SESSION_ID);
/// Tells nginx to pass a stream on as it comes.
static BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Where clients reach a [`Service`] over HTTP. Cloning is cheap; every clone is the same endpoint.
///
/// It is a [`tower_service::Service`] for any request body, so that it can be a route of axum.
/// Dropping a response future or body abandons the request. In 2026-07-28 that cancels it; in older
/// revisions it goes on, and its client may come back for the answer.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    service: Service,
    config: Config,
    sessions: Arc<Sessions>,
    spare: modern::Spare,
    /// Requests that are being answered, open streams included.
    in_flight: Arc<AtomicUsize>,
    /// Which open streams should say goodbye.
    end: watch::Sender<Ended>,
}

/// A reply that is there, or one to wait for: a future of its own, so that replies which are there
/// already do not carry its weight.
enum Answer {
    Now(Reply),
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

/// What becomes a response: a JSON text, as nearly always, a stream of events, or another one as it
/// is.
enum Reply {
    Json(StatusCode, Bytes),
    Events(Body),
    Other(Response<Body>),
}

impl Reply {
    /// An answer as the only event of a stream.
    fn into_event(self) -> Self {
        let Self::Json(StatusCode::OK, answer) = self else { return self };
        let mut event = Vec::with_capacity(answer.len() + log::EVENT_BYTES);
        log::event(&mut event, None, &answer);
        Self::Events(Body::full(event.into()))
    }
}

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Self {
        Self::Other(response)
    }
}

/// One of the requests that are being answered.
pub(super) struct Permit {
    count: Arc<AtomicUsize>,
    principal: Option<Arc<str>>,
    /// How often credentials had been taken back when its own were looked at.
    since: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the requests of one connection are charged to: as long as they are of one principal, a share
/// of its own.
#[derive(Default)]
pub(super) struct Account(OnceLock<(Option<Arc<str>>, Budget)>);

impl Account {
    fn of(&self, service: &Service, principal: Option<&Arc<str>>) -> Budget {
        let share = || service.budget().connection(principal);
        let (owner, budget) = self.0.get_or_init(|| (principal.cloned(), share()));
        if owner.as_ref() == principal { budget.clone() } else { share() }
    }
}

impl Endpoint {
    /// An endpoint at `/mcp` for clients on this machine, with the default limits.
    #[must_use]
    pub fn new(service: Service) -> Self {
        Self::builder(service).build()
    }

    /// An endpoint with other paths, limits or authentication.
    pub fn builder(service: Service) -> Builder {
        Builder::new(service)
    }

    /// Ends every open stream and session; requests in them may still finish. New requests are
    /// answered as before.
    pub fn close(&self) {
        self.0.end.send_modify(Ended::close);
        self.0.sessions.close();
    }

    /// Ends every session at once, with what still runs in it.
    fn cancel(&self) {
        self.0.sessions.clear();
    }

    /// Ends at once what a principal has open: sessions, streams, WebSockets. Call it when
    /// credentials are revoked; from then on the endpoint's [`Authenticate`] must refuse them.
    pub fn revoke(&self, principal: &str) {
        self.0.end.send_modify(|ended| ended.revoke(principal));
        self.0.sessions.revoke(principal);
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
    async fn answer<B>(&self, request: Request<B>, account: &Account) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: fmt::Display,
    {
        let (mut head, body) = request.into_parts();
        let cors = match self.0.config.origin.check(&head.headers, &head.uri) {
            Ok(cors) => cors,
            // Probes know a machine by whatever name they have for it.
            Err(refusal) if refusal.is_misdirected() && self.0.config.is_open(head.uri.path()) => {
                None
            }
            Err(refusal) => {
                self.0.config.note_foreign_host(&refusal, &head);
                return refusal.response();
            }
        };
        let mut response = match self.admit(&mut head, body, account).await {
            Ok(Reply::Json(status, body)) => json_in(head.headers, status, body),
            Ok(Reply::Events(body)) => events_in(head.headers, body),
            Ok(Reply::Other(response)) => response,
            Err(refusal) => refusal.response(),
        };
        if let Some(origin) = cors {
            origin::allow(response.headers_mut(), origin);
        }
        response
    }

    /// The rules that hold for every request: its path, room for it, and who sends it.
    async fn admit<B>(&self, head: &mut Parts, body: B, account: &Account) -> Result<Reply, Refusal>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: fmt::Display,
    {
        let config = &self.0.config;
        let path = head.uri.path();
        if head.method == Method::OPTIONS {
            return Ok(origin::preflight().into());
        }
        if let Some(document) = config.metadata_at(path) {
            return Ok(Reply::Json(StatusCode::OK, document.clone()));
        }
        if !config.serves(path) {
            return match &config.pages {
                // On the heap: most requests are for MCP.
                Some(pages) if pages.has(path) => {
                    Box::pin(self.page(pages.as_ref(), head, body)).await
                }
                _ => Err(Refusal::nothing_here()),
            };
        }
        let mut permit = self.permit()?;
        let principal = match &config.authenticate {
            None => None,
            Some(authenticate) => {
                permit.since = self.0.end.borrow().count();
                Some(authenticate.authenticate(head).await?)
            }
        };
        if let Some(newcomer) = head.extensions.remove::<serve::Newcomer>() {
            newcomer.settle();
        }
        permit.principal.clone_from(&principal);
        #[cfg(feature = "websocket")]
        if let Some(config) = &config.websocket
            && websocket::server::is_upgrade(head)
        {
            return Ok(self.upgrade(head, config, permit, principal).into());
        }
        let place = legacy_sse::place(config, head.uri.path());
        match (&head.method, place) {
            (&Method::POST, None | Some(legacy_sse::Place::Messages)) => {
                check_media(&head.headers, place.is_none())?;
                let budget = account.of(&self.0.service, principal.as_ref());
                let body = body::collect(body, config.body_bytes_max, &budget).await?;
                if principal.is_some() && self.0.end.borrow().has(&permit) {
                    let challenge = HeaderValue::from_static("Bearer");
                    return Err(Refusal::denied(StatusCode::UNAUTHORIZED, challenge));
                }
                if place.is_some() {
                    let principal = principal.as_deref();
                    return legacy_sse::post(self, &head.uri, body, principal);
                }
                let reply = match self.post(&head.headers, body, permit, principal, &budget)? {
                    Answer::Now(reply) => reply,
                    Answer::Later(reply) => reply.await,
                };
                Ok(if config.events { reply.into_event() } else { reply })
            }
            (&Method::GET, Some(legacy_sse::Place::Stream)) if origin::is_blind(&head.headers) => {
                Err(Refusal::new(StatusCode::FORBIDDEN, "a page of another site opens no stream"))
            }
            (&Method::GET, Some(legacy_sse::Place::Stream)) => {
                legacy_sse::open(self, principal, permit)
            }
            (&Method::GET, None) => self.listen(&head.headers, permit, principal.as_deref()),
            (&Method::DELETE, None) => self.delete(&head.headers, principal.as_deref()),
            _ => Err(Refusal::not_allowed("GET, POST, DELETE")),
        }
    }

    /// Whether a page at this path is for everybody.
    fn is_open(&self, path: &str) -> bool {
        self.0.config.pages.as_ref().is_some_and(|pages| pages.has(path) && pages.is_open(path))
    }

    /// The right to be answered, which comes before the first byte of a body.
    fn permit(&self) -> Result<Permit, Refusal> {
        let count = Arc::clone(&self.0.in_flight);
        let permit = Permit { count, principal: None, since: 0 };
        if self.0.in_flight.fetch_add(1, Ordering::Relaxed) >= self.0.config.in_flight_max {
            return Err(Refusal::overloaded("too many requests are being answered", 1));
        }
        Ok(permit)
    }

    /// Something else than MCP, for the same guests. A page for everybody costs next to nothing: it
    /// needs no permit, so that probes are answered when all else is refused, and reads no body.
    async fn page<B>(&self, pages: &dyn Pages, head: &Parts, body: B) -> Result<Reply, Refusal>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: fmt::Display,
    {
        if pages.is_open(head.uri.path()) {
            return Ok(pages.page(head, Bytes::new()).map(Body::full).into());
        }
        let _permit = self.permit()?;
        if let Some(authenticate) = &self.0.config.authenticate {
            authenticate.authenticate(head).await?;
        }
        let budget = self.0.service.budget();
        let body = body::collect(body, PAGE_BYTES_MAX, budget).await?;
        Ok(pages.page(head, body).map(Body::full).into())
    }

    /// A message, or a batch, of either era.
    fn post(
        &self,
        headers: &HeaderMap,
        body: Bytes,
        permit: Permit,
        principal: Option<Arc<str>>,
        budget: &Budget,
    ) -> Result<Answer, Refusal> {
        let service = &self.0.service;
        let payload = match classify(headers, body, service) {
            Ok(Payload::Modern(message)) => {
                return Ok(modern::answer(self, message, principal, permit, budget));
            }
            Ok(payload) => payload,
            Err(misfit) => return Ok(Answer::Now(misfit.reply())),
        };
        if self.0.config.stateless {
            let revision = modern::revision(headers);
            return Ok(modern::answer_stateless(
                self, revision, payload, principal, permit, budget,
            ));
        }
        if let Payload::Initialize(message) = payload {
            let sessions = &self.0.sessions;
            let opened = session::initialize(sessions, service, principal, message)?;
            return Ok(Answer::Now(opened.into()));
        }
        let session = self.session(headers, principal.as_deref())?;
        Ok(Answer::Now(match session.post(payload) {
            Opened::Nothing => empty(StatusCode::ACCEPTED).into(),
            Opened::Answer(answer) => Reply::Json(StatusCode::OK, answer),
            Opened::Refused(error) => Reply::Json(StatusCode::BAD_REQUEST, error.into()),
            Opened::Stream(reader) => return Ok(reader.respond(permit)),
        }))
    }

    /// The stream of what belongs to no request, or the rest of one that broke.
    fn listen(
        &self,
        headers: &HeaderMap,
        permit: Permit,
        principal: Option<&str>,
    ) -> Result<Reply, Refusal> {
        self.refuse_modern(headers)?;
        if !accepts(headers, ["text/event-stream"]) {
            let why = "`Accept` must allow text/event-stream";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, why));
        }
        let session = self.session(headers, principal)?;
        let last_event = headers.get(LAST_EVENT_ID).map(HeaderValue::as_bytes);
        Ok(session.listen(last_event)?.stream(permit))
    }

    fn delete(&self, headers: &HeaderMap, principal: Option<&str>) -> Result<Reply, Refusal> {
        self.refuse_modern(headers)?;
        self.0.sessions.remove(self.session(headers, principal)?.id());
        Ok(empty(StatusCode::NO_CONTENT).into())
    }

    /// 2026-07-28, and an endpoint without sessions, know POST only.
    fn refuse_modern(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match Named::of(headers) {
            Named::Nothing | Named::Legacy(_) if !self.0.config.stateless => Ok(()),
            Named::Unknown(_) => {
                Err(Refusal::new(StatusCode::BAD_REQUEST, "unknown protocol version"))
            }
            _ => Err(Refusal::not_allowed("POST")),
        }
    }

    /// The session that a legacy request belongs to, if it is this client's own.
    fn session(
        &self,
        headers: &HeaderMap,
        principal: Option<&str>,
    ) -> Result<Arc<session::Session>, Refusal> {
        let Some(id) = headers.get(&SESSION) else {
            let why = "send `initialize` first and then its `Mcp-Session-Id`, or put \
                       `io.modelcontextprotocol/protocolVersion` into `params._meta`";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, why));
        };
        let id = std::str::from_utf8(id.as_bytes()).ok();
        let found = id.and_then(|id| self.0.sessions.find(id, principal));
        let found = found.filter(|session| !session.is_single());
        let why = "no such session: send `initialize` again, without `Mcp-Session-Id`";
        found.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, why))
    }

    /// A WebSocket goes on in the task of its connection, or in one of its own where the endpoint
    /// is a guest.
    #[cfg(feature = "websocket")]
    fn upgrade(
        &self,
        head: &mut Parts,
        config: &websocket::Config,
        permit: Permit,
        principal: Option<Arc<str>>,
    ) -> Response<Body> {
        let host = head.extensions.get::<serve::Upgraded>().cloned();
        let (nothing, ()) = Request::new(()).into_parts();
        let mut request = Request::from_parts(std::mem::replace(head, nothing), ());
        let budget = self.0.service.budget().connection(principal.as_ref());
        let config = config.clone().charged_to(budget);
        let (response, conversation) = websocket::server::accept(&mut request, &config);
        if let Some(conversation) = conversation {
            let mut ends = Ends::of(&self.0.end, &permit);
            let service = self.0.service.of(principal);
            let end = async move {
                ends.next().await;
            };
            let work = async move {
                // How a connection breaks concerns nobody but its client.
                let _ = conversation.serve(&service, end).await;
                drop(permit);
            };
            match host {
                Some(host) => host.put(Box::pin(work)),
                None => drop(tokio::spawn(work)),
            }
        }
        response.map(Body::full)
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
        let endpoint = self.clone();
        Box::pin(async move { Ok(endpoint.answer(request, &Account::default()).await) })
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
fn check_media(headers: &HeaderMap, streams: bool) -> Result<(), Refusal> {
    let content = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if !is_json(content) {
        let why = "`Content-Type` must be application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let usual = headers.get(ACCEPT).is_some_and(|accept| accept == USUAL_ACCEPT);
    if streams && !usual && !accepts(headers, ["application/json", "text/event-stream"]) {
        let why = "`Accept` must allow application/json and text/event-stream";
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, why));
    }
    Ok(())
}

/// What clients send: known without a look at its parts.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";

fn is_json(content: &[u8]) -> bool {
    let essence = || content.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    content == b"application/json" || essence().eq_ignore_ascii_case(b"application/json")
}

/// Whether every one of these media types may come back; no `Accept` allows everything (RFC 9110
/// §12.5.1).
fn accepts<const N: usize>(headers: &HeaderMap, media: [&str; N]) -> bool {
    let mut accepted = [false; N];
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    for range in values.flat_map(|value| value.as_bytes().split(|&byte| byte == b',')) {
        let range = range.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        for (accepted, media) in accepted.iter_mut().zip(media) {
            *accepted |= is_in(media.as_bytes(), range);
        }
    }
    accepted == [true; N]
}

/// Whether a media type is in a range: itself, `type/*` or `*/*`.
fn is_in(media: &[u8], range: &[u8]) -> bool {
    match range.strip_suffix(b"*") {
        None => range.eq_ignore_ascii_case(media),
        Some(b"*/") => true,
        Some(family) => media
            .get(..family.len())
            .is_some_and(|own| family.ends_with(b"/") && own.eq_ignore_ascii_case(family)),
    }
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    json_in(HeaderMap::new(), status, body.into())
}

/// JSON with its headers in the map of the request's: it has the room, and hyper keeps it for the
/// head of the next request.
fn json_in(mut headers: HeaderMap, status: StatusCode, body: Bytes) -> Response<Body> {
    headers.clear();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A stream of events, its headers where those of the request were.
fn events_in(mut headers: HeaderMap, body: Body) -> Response<Body> {
    headers.clear();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(&BUFFERING, HeaderValue::from_static("no"));
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
