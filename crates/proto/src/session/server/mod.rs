//! What a server remembers of its conversation.
//!
//! The era is a property of each request: one with `_meta["…/protocolVersion"]` is of 2026-07-28,
//! any other belongs to the session that `initialize` opened. Both may share a connection
//! (2026-07-28 basic §Backward compatibility: a server MAY serve both).

mod talk;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use talk::requested_version;

use super::listen::{ListenFilter, Offered};
use super::pending::{Entry, Pending};
use crate::error::{Code, ErrorObject};
use crate::frame::Output;
use crate::id::Id;
use crate::limits::IN_FLIGHT_MAX;
use crate::message::{Kind, Message, Outcome, Part, ScanFailure, write};
use crate::meta::{CLIENT_CAPABILITIES, PROTOCOL_VERSION, SUBSCRIPTION_ID};
use crate::method::{self, Method};
use crate::types::{Cache, Implementation, LogLevel, ServerCapabilities};
use crate::version::{Era, Revision};

/// What a server says of itself and serves.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that a library or a gateway builds")]
pub struct ServerConfig {
    /// Name and version.
    pub info: Implementation,
    /// What the server offers.
    pub capabilities: ServerCapabilities,
    /// What the model should know.
    pub instructions: Option<String>,
    /// The revisions that are served, in any order.
    pub revisions: Vec<Revision>,
    /// Why others are not, where that is not for the server to say: it follows the error's message.
    pub unsupported: Option<String>,
    /// Which methods are answered, as far as they hang on a capability.
    pub features: Features,
    /// Which changes are told.
    pub offered: Offered,
    /// How long a client may keep the answer to `server/discover`, and who may share it.
    pub cache: Cache,
}

/// The capabilities that methods hang on. What is not advertised is not answered: -32601.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    clippy::struct_excessive_bools,
    reason = "one flag per capability"
)]
pub struct Features {
    /// `tools`
    pub tools: bool,
    /// `resources`
    pub resources: bool,
    /// `prompts`
    pub prompts: bool,
    /// `completions`
    pub completions: bool,
    /// `logging`
    pub logging: bool,
}

/// What a message means to the program behind the session.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "a driver must handle every event")]
pub enum ServerEvent<Q, C> {
    /// Answer this request under this revision, or `begin` it and answer later.
    Request(Method, Revision),
    /// Stop this request; nothing may be sent for it any more. The tag is that of `begin`.
    Cancelled(C),
    /// The answer to one of our own requests, or the error that it ended with.
    Answered(Q, Result<Bytes, ErrorObject>),
    /// A notification that the session has no use for: progress, roots changed, and the like.
    Notification(Method),
    /// A listen has begun; its acknowledgement is written.
    Listening(Id),
    /// Nothing to do: answered by the session, or dropped as the revision says.
    Handled,
}

/// The server's side of one connection. `Q` tags our own requests, `C` the client's in flight.
#[derive(Debug)]
pub struct ServerSession<Q, C> {
    config: Arc<ServerConfig>,
    legacy: Option<Legacy>,
    /// A request of 2026-07-28 was understood.
    modern: bool,
    in_flight: HashMap<Id, C>,
    pending: Pending<Q>,
    listens: HashMap<Id, ListenFilter>,
}

/// What `initialize` agreed on.
#[derive(Debug)]
struct Legacy {
    revision: Revision,
    capabilities: Bytes,
    info: Option<Bytes>,
    /// As the client has set it.
    level: Option<LogLevel>,
    subscriptions: HashSet<String>,
}

impl<Q, C> ServerSession<Q, C> {
    /// A session in which nothing has been said.
    #[must_use]
    pub fn new(config: impl Into<Arc<ServerConfig>>) -> Self {
        Self {
            config: config.into(),
            legacy: None,
            modern: false,
            in_flight: HashMap::new(),
            pending: Pending::default(),
            listens: HashMap::new(),
        }
    }

    /// Speaks `revision`, of the legacy eras, without a handshake: for transports that keep nothing
    /// between two requests. The client can be asked nothing.
    pub fn assume(&mut self, revision: Revision) {
        self.legacy = Some(Legacy {
            revision,
            capabilities: Bytes::from_static(b"{}"),
            info: None,
            level: None,
            subscriptions: HashSet::new(),
        });
    }

    /// The revision that `initialize` agreed on.
    #[must_use]
    pub fn legacy_revision(&self) -> Option<Revision> {
        self.legacy.as_ref().map(|legacy| legacy.revision)
    }

    /// The least severe log messages that the legacy session wants; `None` if it has not said.
    #[must_use]
    pub fn legacy_log_level(&self) -> Option<&LogLevel> {
        self.legacy.as_ref().and_then(|legacy| legacy.level.as_ref())
    }

    /// The URIs of the resources whose changes the client wants to hear of; one may come twice.
    pub fn watched(&self) -> impl Iterator<Item = &str> {
        let of_session = self.legacy.iter().flat_map(|legacy| &legacy.subscriptions);
        let of_listens = self.listens.values().flat_map(|filter| &filter.resource_subscriptions);
        of_session.chain(of_listens).map(String::as_str)
    }

    /// Takes one message in. At most one message is appended to `out`.
    pub fn receive(
        &mut self,
        now: Instant,
        message: &Message,
        out: &mut Output,
    ) -> ServerEvent<Q, C> {
        match message.kind() {
            Kind::Request => match self.admit(message) {
                Ok((method, revision)) => {
                    self.modern |= revision.era() == Era::Modern;
                    self.request(method, revision, message, out)
                }
                Err(error) => {
                    out.error(message.part(Part::Id), &error);
                    ServerEvent::Handled
                }
            },
            Kind::Notification => self.notification(now, message),
            Kind::Response | Kind::ErrorResponse => self.answer(message),
        }
    }

    /// Answers bytes that are not a message. Bytes that look like a response are dropped.
    pub fn refuse(&self, failure: &ScanFailure, out: &mut Output) {
        if failure.is_response {
            return;
        }
        let ids_may_be_absent = match &self.legacy {
            Some(legacy) => legacy.revision >= Revision::V2025_11_25,
            None => self.modern,
        };
        match &failure.id {
            Some(id) => {
                let mut id_json = Vec::new();
                id.write_json(&mut id_json);
                out.error(Some(&id_json), &failure.object());
            }
            None if ids_may_be_absent => out.reply(|out| {
                let error = failure.object();
                write::error_without_id(out, &error);
                Outcome::from(&error)
            }),
            None => out.error(None, &failure.object()),
        }
    }

    /// Whether a batch is welcome: only in a session of 2025-03-26.
    #[must_use]
    pub fn takes_batches(&self) -> bool {
        self.legacy.as_ref().is_some_and(|legacy| legacy.revision.has_batches())
    }

    /// Notes that a request will be answered later, so that it can be cancelled.
    pub fn begin(&mut self, id: Id, tag: C) {
        self.in_flight.insert(id, tag);
    }

    /// Ends a request of `begin`. `None` means that it was cancelled: its answer must be dropped.
    pub fn finish(&mut self, id: &Id) -> Option<C> {
        self.in_flight.remove(id)
    }

    /// Whether a request of `begin` is neither finished nor cancelled.
    #[must_use]
    pub fn is_in_flight(&self, id: &Id) -> bool {
        self.in_flight.contains_key(id)
    }

    /// The tag of a request of `begin` that is neither finished nor cancelled.
    #[must_use]
    pub fn running(&self, id: &Id) -> Option<&C> {
        self.in_flight.get(id)
    }

    /// Whether one of the requests in flight has a tag that fits.
    pub fn any_running(&self, fits: impl Fn(&C) -> bool) -> bool {
        self.in_flight.values().any(fits)
    }

    /// How many listens are open.
    #[must_use]
    pub fn listens(&self) -> usize {
        self.listens.len()
    }

    /// Takes out every request of `begin`: the connection is gone.
    pub fn drain(&mut self) -> Vec<C> {
        self.in_flight.drain().map(|(_, tag)| tag).collect()
    }

    /// The ids of our own requests whose tag fits.
    pub fn asked_by(&self, fits: impl Fn(&Q) -> bool) -> Vec<i64> {
        self.pending.ids(fits)
    }

    /// Whether nothing is open: no session, no request of either side, no listen.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.legacy.is_none()
            && self.in_flight.is_empty()
            && self.pending.is_empty()
            && self.listens.is_empty()
    }

    /// How many requests of the client are being answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Sends a request to the client (legacy eras only). `params` is JSON text.
    ///
    /// # Errors
    /// The tag comes back if no session is open, the revision has no such method, or too many
    /// requests are in flight.
    pub fn ask(
        &mut self,
        now: Instant,
        method: Method,
        params: Option<&[u8]>,
        timeout: Duration,
        tag: Q,
        out: &mut Output,
    ) -> Result<i64, Q> {
        if !self.legacy.as_ref().is_some_and(|legacy| method.exists_in(legacy.revision)) {
            return Err(tag);
        }
        let id = self.pending.open(now, method, Some(timeout), tag)?;
        out.request(&Id::from(id), method, params);
        Ok(id)
    }

    /// Gives up one of our own requests and tells the client.
    pub fn withdraw(&mut self, id: i64, reason: &str, out: &mut Output) -> Option<Q> {
        let entry = self.pending.close(&Id::from(id))?;
        let params = json!({"requestId": id, "reason": reason}).to_string();
        out.notification(Method::Cancelled, Some(params.as_bytes()));
        Some(entry.tag)
    }

    /// Takes out our own requests that the client did not answer in time.
    pub fn expire(&mut self, now: Instant) -> Vec<(i64, Entry<Q>)> {
        self.pending.expire(now)
    }

    /// When to call [`ServerSession::expire`] next.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.pending.deadline()
    }

    /// The client's capabilities, as JSON text, for a request.
    #[must_use]
    pub fn client_capabilities(&self, message: &Message) -> Option<Bytes> {
        let of_session = || self.legacy.as_ref().map(|legacy| legacy.capabilities.clone());
        message.share(Part::ClientCapabilities).or_else(of_session)
    }

    /// The client's `Implementation`, as JSON text, for a request. Display only.
    #[must_use]
    pub fn client_info(&self, message: &Message) -> Option<Bytes> {
        let of_session = || self.legacy.as_ref().and_then(|legacy| legacy.info.clone());
        message.share(Part::ClientInfo).or_else(of_session)
    }

    /// The least severe level that a request's log messages may have; `None` means silence.
    #[must_use]
    pub fn log_level(&self, revision: Revision, message: &Message) -> Option<LogLevel> {
        match revision.era() {
            Era::Modern => known_level(&message.text(Part::LogLevel)?),
            Era::Legacy => {
                let legacy = self.legacy.as_ref()?;
                Some(legacy.level.clone().unwrap_or(LogLevel::Info))
            }
        }
    }

    /// Writes a change notification once for the legacy session and once for each listen that
    /// wants it. `uri` is that of an updated resource.
    pub fn notify(&self, method: Method, uri: Option<&str>, out: &mut Output) {
        let wanted = |legacy: &Legacy| uri.is_none_or(|uri| legacy.subscriptions.contains(uri));
        if self.legacy.as_ref().is_some_and(wanted) {
            let params = uri.map(|uri| json!({"uri": uri}).to_string());
            out.notification(method, params.as_deref().map(str::as_bytes));
        }
        for (id, filter) in &self.listens {
            if filter.wants(method, uri) {
                let mut params = listen_meta(id);
                if let Some(uri) = uri {
                    params.extend_from_slice(b",\"uri\":");
                    write::string(&mut params, uri);
                }
                params.push(b'}');
                out.notification(method, Some(&params));
            }
        }
    }

    /// Ends every listen gracefully, with its result (subscriptions §Ending).
    pub fn end_listens(&mut self, out: &mut Output) {
        for (id, _) in self.listens.drain() {
            let mut id_json = Vec::new();
            id.write_json(&mut id_json);
            let mut result = listen_meta(&id);
            result.extend_from_slice(b",\"resultType\":\"complete\"}");
            out.result(&id_json, &result);
        }
    }

    /// The rules that every request meets first.
    fn admit(&self, message: &Message) -> Result<(Method, Revision), ErrorObject> {
        let revision = self.revision(message)?;
        let unknown = || ErrorObject::method_not_found(&message.method_name());
        let method = message.method().filter(|method| {
            method.kind() == method::Kind::Request
                && method.exists_in(revision)
                && method.direction() != method::Direction::ToClient
                && self.serves(*method)
        });
        let method = method.ok_or_else(unknown)?;
        let taken = |id: &Id| self.in_flight.contains_key(id) || self.listens.contains_key(id);
        let open = self.in_flight.len() + self.listens.len() > 0;
        if let Some(id) = open.then(|| message.id()).flatten().filter(taken) {
            let why = format!("id {id} belongs to a request that is still in flight");
            return Err(ErrorObject::new(Code::INVALID_REQUEST, why));
        }
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            let why = format!("{IN_FLIGHT_MAX} requests are in flight; wait for some to end");
            return Err(ErrorObject::new(Code::OVERLOADED, why));
        }
        Ok((method, revision))
    }

    /// The revision that a request is made under.
    fn revision(&self, message: &Message) -> Result<Revision, ErrorObject> {
        let is_enveloped = message.part(Part::ProtocolVersion).is_some();
        // A client that speaks 2026-07-28 to a server that does not is told so, to begin in the other way.
        let is_lost = self.legacy.is_none() && message.method() != Some(Method::Initialize);
        if is_enveloped && (self.serves_modern() || is_lost) {
            return self.envelope(message);
        }
        match (&self.legacy, message.method()) {
            (None, Some(Method::Initialize)) if self.newest_legacy().is_some() => {
                Ok(Revision::LATEST_LEGACY)
            }
            (None, Some(Method::Initialize)) => {
                let requested = requested_version(message).unwrap_or_default();
                Err(self.unsupported(&requested))
            }
            (Some(_), Some(Method::Initialize)) => {
                Err(ErrorObject::new(Code::INVALID_REQUEST, "this session is initialized already"))
            }
            (Some(legacy), _) => Ok(legacy.revision),
            // Before the handshake a ping is all that the legacy revisions allow.
            (None, Some(Method::Ping)) => Ok(Revision::LATEST_LEGACY),
            (None, _) => Err(ErrorObject::invalid_params(format!(
                "send `initialize` first, or put `{PROTOCOL_VERSION}` and `{CLIENT_CAPABILITIES}` into \
                 `params._meta`"
            ))),
        }
    }

    /// Validates the envelope of 2026-07-28 (basic §Request metadata).
    fn envelope(&self, message: &Message) -> Result<Revision, ErrorObject> {
        let Some(version) = message.text(Part::ProtocolVersion) else {
            let why = format!("`_meta[\"{PROTOCOL_VERSION}\"]` must be a string");
            return Err(ErrorObject::invalid_params(why));
        };
        let revision = Revision::parse(&version)
            .filter(|revision| revision.era() == Era::Modern)
            .filter(|revision| self.config.revisions.contains(revision));
        let Some(revision) = revision else { return Err(self.unsupported(&version)) };
        match message.part(Part::ClientCapabilities).map(<[u8]>::first) {
            Some(Some(b'{')) => {}
            found => {
                let state = if found.is_some() { "must be an object" } else { "is missing" };
                let why = format!("`_meta[\"{CLIENT_CAPABILITIES}\"]` {state}");
                return Err(ErrorObject::invalid_params(why));
            }
        }
        if message.part(Part::LogLevel).is_some() {
            let level = message.text(Part::LogLevel);
            if level.is_none_or(|level| known_level(&level).is_none()) {
                return Err(ErrorObject::invalid_params("unknown log level in `_meta`"));
            }
        }
        Ok(revision)
    }

    /// Whether the method's capability is advertised.
    fn serves(&self, method: Method) -> bool {
        let features = self.config.features;
        match method {
            Method::ToolsList | Method::ToolsCall => features.tools,
            Method::ResourcesList | Method::ResourceTemplatesList | Method::ResourcesRead => {
                features.resources
            }
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                self.config.offered.resource_subscriptions
            }
            Method::PromptsList | Method::PromptsGet => features.prompts,
            Method::Complete => features.completions,
            Method::SetLevel => features.logging,
            Method::TasksGet
            | Method::TasksCancel
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksUpdate => false,
            _ => true,
        }
    }

    fn notification(&mut self, now: Instant, message: &Message) -> ServerEvent<Q, C> {
        match message.method() {
            Some(Method::Cancelled) => {
                let id = message.part(Part::RequestId).and_then(Id::from_json);
                let Some(id) = id else { return ServerEvent::Handled };
                self.listens.remove(&id);
                self.in_flight.remove(&id).map_or(ServerEvent::Handled, ServerEvent::Cancelled)
            }
            Some(Method::Progress) => {
                // Our own requests carry their id as progress token.
                let token = message.part(Part::ProgressOf).and_then(Id::from_json);
                let _ = token.and_then(|token| self.pending.extend(now, &token));
                ServerEvent::Notification(Method::Progress)
            }
            Some(Method::Initialized) | None => ServerEvent::Handled,
            Some(method) if method.kind() == method::Kind::Notification => {
                ServerEvent::Notification(method)
            }
            // A request without an id: nobody waits for an answer.
            Some(_) => ServerEvent::Handled,
        }
    }

    fn answer(&mut self, message: &Message) -> ServerEvent<Q, C> {
        let entry = message.id().and_then(|id| self.pending.close(&id));
        match entry {
            Some(entry) => ServerEvent::Answered(entry.tag, outcome(message)),
            // Late, twice, or never asked.
            None => ServerEvent::Handled,
        }
    }

    fn serves_modern(&self) -> bool {
        self.config.revisions.iter().any(|revision| revision.era() == Era::Modern)
    }

    fn newest_legacy(&self) -> Option<Revision> {
        self.config.revisions.iter().copied().filter(|r| r.era() == Era::Legacy).max()
    }

    /// The revisions that are served, newest first.
    fn served(&self) -> impl Iterator<Item = Revision> {
        let mut served = self.config.revisions.clone();
        served.sort_unstable_by_key(|&revision| std::cmp::Reverse(revision));
        served.into_iter()
    }

    /// -32022 with the revisions that are served, whichever handshake they need.
    fn unsupported(&self, requested: &str) -> ErrorObject {
        let supported: Vec<_> = self.served().map(Revision::as_str).collect();
        let data = json!({"supported": supported, "requested": requested});
        let why = self.config.unsupported.as_deref();
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let message = format!("unsupported protocol version{why}");
        ErrorObject::new(Code::UNSUPPORTED_VERSION, message).with_data(&data)
    }
}

/// The outcome that a response carries.
pub(super) fn outcome(message: &Message) -> Result<Bytes, ErrorObject> {
    match message.share(Part::Result) {
        Some(result) => Ok(result),
        None => {
            let error = message.part(Part::Error).unwrap_or(b"{}");
            Err(serde_json::from_slice(error).unwrap_or_else(|_| {
                ErrorObject::new(Code::INTERNAL_ERROR, "the peer answered with a malformed error")
            }))
        }
    }
}

/// A log level that some revision defines.
fn known_level(text: &str) -> Option<LogLevel> {
    Some(LogLevel::from(text)).filter(|level| level.severity().is_some())
}

/// An open object whose `_meta` tags a message as belonging to a listen, the id's type kept.
fn listen_meta(id: &Id) -> Vec<u8> {
    let mut out = format!("{{\"_meta\":{{\"{SUBSCRIPTION_ID}\":").into_bytes();
    id.write_json(&mut out);
    out.push(b'}');
    out
}
