//! The configuration of an endpoint.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use tokio::sync::watch;

use super::modern::Spare;
use super::origin::Origins;
use super::refusal::Refusal;
use super::session::{SessionLimits, Sessions};
use super::{Endpoint, Inner};
use crate::server::Service;
use crate::transport::http::Work;
#[cfg(feature = "websocket")]
use crate::transport::websocket;

/// The longest request body, in bytes: what the official SDKs accept.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most requests in flight, open streams included.
pub const IN_FLIGHT_MAX: usize = 16 * 1024;

/// Where protected resources describe themselves (RFC 9728 §3).
const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// Identifies the sender of a request, by its head.
pub trait Authenticate: Send + Sync + 'static {
    /// The principal: what sessions and the state of calls are bound to, and what
    /// [`Context::principal`](crate::Context::principal) says.
    ///
    /// # Errors
    /// The refusal to send.
    fn authenticate<'a>(&'a self, head: &'a Parts) -> Work<'a, Result<Arc<str>, Denied>>;
}

/// What an endpoint serves beside MCP: health, figures, administration.
pub trait Pages: Send + Sync + 'static {
    /// Whether there is something at this path.
    fn has(&self, path: &str) -> bool;

    /// Whether it is for everybody, where others must say who they are. It is answered without a
    /// look at the request's body, even when everything else is refused.
    fn is_open(&self, path: &str) -> bool;

    /// The answer. The body is empty for a page that is open, and 64 KiB at most for the others.
    /// Nothing here may block.
    fn page(&self, head: &Parts, body: Bytes) -> Response<Bytes>;
}

/// Why a request was not admitted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Denied {
    status: StatusCode,
    challenge: HeaderValue,
}

impl Denied {
    /// 401: the token is missing or invalid. `challenge` is the value of `WWW-Authenticate`, such
    /// as `Bearer resource_metadata="…"`.
    #[must_use]
    pub const fn unauthorized(challenge: HeaderValue) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, challenge }
    }

    /// 403: the token is valid, but does not suffice. `challenge` names the scopes that are needed,
    /// as in `Bearer error="insufficient_scope", scope="…"`.
    #[must_use]
    pub const fn forbidden(challenge: HeaderValue) -> Self {
        Self { status: StatusCode::FORBIDDEN, challenge }
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::denied(denied.status, denied.challenge)
    }
}

/// Is told a text.
type Note = Box<dyn Fn(&str) + Send + Sync>;

pub(super) struct Config {
    path: Option<String>,
    pub(super) legacy_sse: Option<(String, String)>,
    #[cfg(feature = "websocket")]
    pub(super) websocket: Option<websocket::Config>,
    pub(super) origin: Origins,
    pub(super) body_bytes_max: usize,
    pub(super) in_flight_max: usize,
    pub(super) stateless: bool,
    pub(super) events: bool,
    pub(super) authenticate: Option<Arc<dyn Authenticate>>,
    metadata: Option<Bytes>,
    pub(super) pages: Option<Arc<dyn Pages>>,
    foreign_host: Option<Note>,
}

impl Config {
    pub(super) fn serves(&self, path: &str) -> bool {
        let here = |served: &String| served == path;
        self.path.as_ref().is_none_or(here)
            || self.legacy_sse.as_ref().is_some_and(|(stream, post)| here(stream) || here(post))
    }

    /// Whether a page is for everybody.
    pub(super) fn is_open(&self, path: &str) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.is_open(path))
    }

    /// Tells whoever wants to know it that a request was for somebody else.
    pub(super) fn note_foreign_host(&self, refusal: &Refusal, head: &Parts) {
        if let (Some(note), true) = (&self.foreign_host, refusal.is_misdirected()) {
            let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
            note(host.or_else(|| Some(head.uri.authority()?.as_str())).unwrap_or_default());
        }
    }

    /// The document about who may be asked for tokens; open to everybody.
    pub(super) fn metadata_at(&self, path: &str) -> Option<&Bytes> {
        let metadata = self.metadata.as_ref()?;
        let rest = path.strip_prefix(METADATA_PATH)?;
        let here = rest.is_empty() || self.path.as_deref().is_none_or(|served| served == rest);
        here.then_some(metadata)
    }
}

/// An [`Endpoint`] under construction.
#[must_use = "nothing happens before build"]
pub struct Builder {
    service: Service,
    config: Config,
    sessions: SessionLimits,
}

impl Builder {
    pub(super) fn new(service: Service) -> Self {
        let config = Config {
            path: Some("/mcp".into()),
            legacy_sse: None,
            #[cfg(feature = "websocket")]
            websocket: None,
            origin: Origins::default(),
            body_bytes_max: BODY_BYTES_MAX,
            in_flight_max: IN_FLIGHT_MAX,
            stateless: false,
            events: false,
            authenticate: None,
            metadata: None,
            pages: None,
            foreign_host: None,
        };
        Self { service, config, sessions: SessionLimits::default() }
    }

    /// The path; `/mcp` if this is not called.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.config.path = Some(path.into());
        self
    }

    /// Answers on every path, for a framework that has routed the request already.
    pub fn any_path(mut self) -> Self {
        self.config.path = None;
        self
    }

    /// Serves HTTP+SSE of 2024-11-05, too: GET `stream`, POST `messages`.
    pub fn legacy_sse(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        self.config.legacy_sse = Some((stream.into(), messages.into()));
        self
    }

    /// Takes WebSocket upgrades on the endpoint's path, too.
    #[cfg(feature = "websocket")]
    pub fn websocket(mut self, config: websocket::Config) -> Self {
        self.config.websocket = Some(config);
        self
    }

    /// Host names to answer to, beside those of this machine itself (`localhost`, 127.0.0.0/8,
    /// `::1`).
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.origin.hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Answers to every name. Use it only behind something that checks `Host` itself: a web page
    /// could otherwise reach the endpoint through DNS rebinding.
    pub const fn any_host(mut self) -> Self {
        self.config.origin.is_any_host = true;
        self
    }

    /// Calls `note` with the `Host` of each request that was refused because the endpoint does not
    /// answer to it, for a log that says which name is missing. It must not block, or trust the
    /// name.
    pub fn on_foreign_host(mut self, note: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.config.foreign_host = Some(Box::new(note));
        self
    }

    /// Origins that may use the endpoint, beside those of this machine itself, such as
    /// `https://app.example.com`.
    pub fn origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.origin.origins.extend(origins.into_iter().map(Into::into));
        self
    }

    /// The longest request body, in bytes; [`BODY_BYTES_MAX`] if this is not called.
    pub const fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.config.body_bytes_max = bytes;
        self
    }

    /// The most requests in flight, open streams included; beyond it, clients get 503.
    /// [`IN_FLIGHT_MAX`] if this is not called.
    pub const fn in_flight_max(mut self, requests: usize) -> Self {
        self.config.in_flight_max = requests;
        self
    }

    /// Limits of sessions (2025-03-26 … 2025-11-25).
    pub const fn sessions(mut self, limits: SessionLimits) -> Self {
        self.sessions = limits;
        self
    }

    /// Keeps no sessions for the legacy revisions: any process can answer any request, but clients
    /// cannot be asked, subscribe, or resume.
    pub const fn stateless(mut self) -> Self {
        self.config.stateless = true;
        self
    }

    /// Answers with an event stream even if it holds nothing but the answer, for clients that do
    /// not accept JSON.
    pub const fn events(mut self) -> Self {
        self.config.events = true;
        self
    }

    /// Authenticates clients, and refuses the others.
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.config.authenticate = Some(Arc::new(authenticate));
        self
    }

    /// Publishes the protected resource metadata (RFC 9728 §2): a JSON object with `resource` and
    /// `authorization_servers`.
    pub fn resource_metadata(mut self, document: &serde_json::Value) -> Self {
        self.config.metadata = Some(document.to_string().into());
        self
    }

    /// Serves these pages beside MCP, with the same checks of `Host`, `Origin` and credentials; a
    /// public page is public under every `Host`.
    pub fn pages(mut self, pages: Arc<dyn Pages>) -> Self {
        self.config.pages = Some(pages);
        self
    }

    /// The endpoint.
    #[must_use]
    pub fn build(self) -> Endpoint {
        Endpoint(Arc::new(Inner {
            sessions: Arc::new(Sessions::new(self.sessions, self.service.budget())),
            service: self.service,
            config: self.config,
            spare: Spare::default(),
            in_flight: Arc::new(AtomicUsize::new(0)),
            end: watch::Sender::default(),
        }))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("service", &self.service).finish_non_exhaustive()
    }
}
