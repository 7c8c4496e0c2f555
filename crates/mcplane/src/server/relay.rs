//! Requests that are passed on instead of answered here: what a gateway builds on.
//!
//! The connection still does what belongs to the hop (the handshake, `ping`, subscriptions, the
//! era of each request, cancellation); everything else goes to a [`Relay`], as bytes.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::frame::Output;
use mcplane_proto::headers::ParamHeader;
use mcplane_proto::id::Id;
use mcplane_proto::message::{Message, Outcome, Part};
use mcplane_proto::method::Method;
use mcplane_proto::session::ServerConfig;
use mcplane_proto::types::LogLevel;
use mcplane_proto::version::{Era, Revision};
use tokio::sync::oneshot;

use super::connection::{Connection, Work};
use super::context::{Event, Reply};
use super::outlet::Outlet;
pub use super::seal::Seal;
use crate::error::{Error, Result};

/// Answers requests of clients, mostly by asking an upstream. Nothing here may block or wait: it is
/// called in the connection's task.
pub trait Relay: Send + Sync + 'static {
    /// What a connection that begins now is told of the server.
    fn config(&self, caller: &Caller) -> Arc<ServerConfig>;

    /// The arguments of a tool that clients mirror in headers (2026-07-28, SEP-2243).
    fn mirrored(&self, tool: &str) -> Option<Arc<[ParamHeader]>>;

    /// Takes a request over. Either the whole answer is appended to `out`, and `None` comes back;
    /// or it comes later through [`Relayed::answer`], and until then the client can cancel.
    fn request(&self, request: Relayed, out: &mut Output) -> Option<Arc<dyn Cancel>>;

    /// A client begins to watch a resource. Each one that began also ends.
    fn watch(&self, caller: &Caller, uri: &str);

    /// A client no longer watches a resource.
    fn unwatch(&self, caller: &Caller, uri: &str);

    /// A session wants log messages of this level (up to 2025-11-25).
    fn set_log_level(&self, caller: &Caller, level: &LogLevel);

    /// A client says something that is for whoever asks it questions: that its roots are others, or how
    /// far it is with one (up to 2025-11-25).
    fn noted(&self, caller: &Caller, note: &Message) {
        let _ = (caller, note);
    }

    /// A connection that lasts longer than one request has ended.
    fn ended(&self, caller: &Caller);
}

/// A request in flight at an upstream.
pub trait Cancel: Send + Sync {
    /// Nobody waits for the answer any longer.
    fn cancel(&self);
}

/// Who sent the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Caller {
    /// The connection, if it lasts longer than one request: a unique number.
    pub connection: Option<u64>,
    /// Who the client is, if the transport knows.
    pub principal: Option<Arc<str>>,
}

/// A request to be passed on. It is answered exactly once: if dropped without an answer, it answers
/// -32603 itself.
pub struct Relayed {
    message: Message,
    method: Method,
    revision: Revision,
    capabilities: Option<Bytes>,
    client_info: Option<Bytes>,
    level: Option<LogLevel>,
    is_level_set: bool,
    caller: Caller,
    outlet: Outlet,
    /// `None` once it is answered.
    id: Option<Id>,
}

impl Relayed {
    /// The request as it came.
    #[must_use]
    pub const fn message(&self) -> &Message {
        &self.message
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.method
    }

    /// The revision of the request.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Who sent the request.
    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What the client can do, as JSON text.
    #[must_use]
    pub fn capabilities(&self) -> &[u8] {
        self.capabilities.as_deref().unwrap_or(b"{}")
    }

    /// The client's `Implementation`, as JSON text. Display only.
    #[must_use]
    pub fn client_info(&self) -> Option<&[u8]> {
        self.client_info.as_deref()
    }

    /// The least severe log messages that the client wants; `None` for none.
    #[must_use]
    pub const fn log_level(&self) -> Option<&LogLevel> {
        self.level.as_ref()
    }

    /// Whether the client has said so: in the revisions up to 2025-11-25 it may leave that to the server
    /// (2025-11-25 logging §Setting log level).
    #[must_use]
    pub const fn is_log_level_set(&self) -> bool {
        self.is_level_set
    }

    /// The request's id, as JSON text.
    #[must_use]
    pub fn id_json(&self) -> &[u8] {
        self.message.part(Part::Id).unwrap_or(b"null")
    }

    /// Answers with a whole response, which ends the request so.
    pub fn answer(mut self, message: Vec<u8>, outcome: Outcome) {
        self.finish(Reply { message, outcome });
    }

    /// Answers with an error; an overload error may be delayed.
    pub fn fail(mut self, error: &ErrorObject) {
        let reply = self.error(error);
        if error.code != Code::OVERLOADED {
            return self.finish(reply);
        }
        if let Some(id) = self.id.take() {
            self.outlet.refuse(id, reply);
        }
    }

    /// Answers into the output of [`Relay::request`].
    pub fn answer_now(
        mut self,
        out: &mut Output,
        write: impl FnOnce(&Self, &mut Vec<u8>) -> Outcome,
    ) {
        self.id = None;
        out.reply(|out| write(&self, out));
    }

    /// Answers with an error into the output of [`Relay::request`].
    pub fn fail_now(mut self, out: &mut Output, error: &ErrorObject) {
        self.id = None;
        out.error(Some(self.id_json()), error);
    }

    /// Leaves a request unanswered that was cancelled: its client may use the id again.
    pub fn forget(mut self) {
        self.id = None;
    }

    /// Sends a whole notification that belongs to the request. Lossy like
    /// [`Context::progress`](super::Context::progress).
    pub fn note(&self, notification: Vec<u8>) {
        self.outlet.note(Event::Note(self.id.clone(), notification));
    }

    /// The way to the client for messages that belong to no request, as long as its connection
    /// lasts.
    #[must_use]
    pub fn line(&self) -> Line {
        Line(self.outlet.clone())
    }

    /// Asks the client something in the middle of the request (up to 2025-11-25). `params` is JSON
    /// text; the result comes back as JSON text once the receiver is awaited.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn ask(&self, method: Method, params: Vec<u8>) -> Result<Asking> {
        ask(&self.outlet, self.id.clone(), method, params)
    }

    /// Withdraws the questions of this request that no longer have a receiver: every [`Asking`]
    /// that was dropped. The client is told why.
    pub fn take_back(&self, reason: &str) {
        if self.id.is_some() {
            self.outlet.send(Event::TakeBack(self.id.clone(), reason.to_owned()));
        }
    }

    fn error(&self, error: &ErrorObject) -> Reply {
        Reply::error(self.message.part(Part::Id), error)
    }

    fn finish(&mut self, reply: Reply) {
        if let Some(id) = self.id.take() {
            // The connection is gone: nobody waits for the answer.
            self.outlet.send(Event::Done(id, reply));
        }
    }
}

/// The way to a client, beside its requests.
#[derive(Clone)]
pub struct Line(Outlet);

impl Line {
    /// Sends a whole notification. Lossy like [`Context::progress`](super::Context::progress), and lost
    /// when the connection has ended.
    pub fn note(&self, notification: Vec<u8>) {
        self.0.note(Event::Note(None, notification));
    }

    /// Asks the client something outside of any request, as [`Relayed::ask`] does inside of one.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn ask(&self, method: Method, params: Vec<u8>) -> Result<Asking> {
        ask(&self.0, None, method, params)
    }

    /// Withdraws questions that were asked here, as [`Relayed::take_back`] does.
    pub fn take_back(&self, reason: &str) {
        self.0.send(Event::TakeBack(None, reason.to_owned()));
    }
}

fn ask(outlet: &Outlet, id: Option<Id>, method: Method, params: Vec<u8>) -> Result<Asking> {
    let (answer, answered) = oneshot::channel();
    if !outlet.send(Event::Ask { id, method, params, answer }) {
        return Err(Error::closed("the client is gone"));
    }
    Ok(Asking(answered))
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        if self.id.is_some() {
            let error = ErrorObject::new(Code::INTERNAL_ERROR, "the request was lost");
            let reply = self.error(&error);
            self.finish(reply);
        }
    }
}

impl fmt::Debug for Relayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relayed")
            .field("message", &self.message)
            .field("revision", &self.revision)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}

/// A question that the client has not answered yet.
#[derive(Debug)]
pub struct Asking(oneshot::Receiver<Result<Bytes, ErrorObject>>);

impl Asking {
    /// The answer, as JSON text. Dropping the future does not withdraw the question;
    /// [`Relayed::take_back`] and the end of the request do.
    ///
    /// # Errors
    /// The client's error, or that the client did not answer in time or is gone.
    pub async fn answer(self) -> Result<Bytes, ErrorObject> {
        let gone = |_| ErrorObject::new(Code::INTERNAL_ERROR, "the client is gone");
        self.0.await.unwrap_or_else(|error| Err(gone(error)))
    }
}

/// What a connection keeps for its relay.
pub(super) struct Hop {
    pub(super) relay: Arc<dyn Relay>,
    pub(super) caller: Caller,
    watched: HashSet<String>,
}

impl Hop {
    pub(super) fn new(relay: Arc<dyn Relay>, principal: Option<Arc<str>>) -> Self {
        let caller = Caller { connection: None, principal };
        Self { relay, caller, watched: HashSet::new() }
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.relay.config(&self.caller)
    }

    /// The connection lasts.
    pub(super) fn number(&mut self) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        self.caller.connection = Some(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// Tells the relay what is watched now and was not, and the other way round.
    fn watch(&mut self, wanted: HashSet<String>) {
        for uri in wanted.difference(&self.watched) {
            self.relay.watch(&self.caller, uri);
        }
        for uri in self.watched.difference(&wanted) {
            self.relay.unwatch(&self.caller, uri);
        }
        self.watched = wanted;
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        self.watch(HashSet::new());
        if self.caller.connection.is_some() {
            self.relay.ended(&self.caller);
        }
    }
}

impl Connection {
    /// Passes a request on.
    pub(super) fn relay(&mut self, method: Method, revision: Revision, message: Message) {
        let (Some(hop), Some(id)) = (&self.hop, message.id()) else { return };
        let request = Relayed {
            capabilities: self.session.client_capabilities(&message),
            client_info: self.session.client_info(&message),
            level: self.session.log_level(revision, &message),
            is_level_set: revision.era() == Era::Modern
                || self.session.legacy_log_level().is_some(),
            caller: hop.caller.clone(),
            outlet: self.events.outlet(),
            id: Some(id.clone()),
            message,
            method,
            revision,
        };
        let start = self.out.len();
        match hop.relay.request(request, &mut self.out) {
            None => self.end_reply(start),
            Some(elsewhere) => self.begin(id, Work::Elsewhere(elsewhere)),
        }
    }

    /// What the session has answered itself and the relay must know of.
    pub(super) fn tell_relay(&mut self, message: &Message) {
        let Some(hop) = &mut self.hop else { return };
        match message.method() {
            Some(
                Method::ResourcesSubscribe
                | Method::ResourcesUnsubscribe
                | Method::Listen
                | Method::Cancelled,
            ) => hop.watch(self.session.watched().map(str::to_owned).collect()),
            Some(Method::SetLevel) => {
                if let Some(level) = self.session.legacy_log_level() {
                    hop.relay.set_log_level(&hop.caller, level);
                }
            }
            Some(Method::RootsListChanged | Method::Progress) => {
                hop.relay.noted(&hop.caller, message);
            }
            _ => {}
        }
    }
}
