//! What a handler knows of its request, and how it talks to the client during the request.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::id::Id;
use mcplane_proto::message::{Message, Outcome, Part, write};
use mcplane_proto::method::Method;
use mcplane_proto::types::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult,
    Implementation, InputRequest, ListRootsResult, LogLevel, LogMessageParams, Params,
    ProgressParams, Root,
};
use mcplane_proto::version::{Era, Revision};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use super::Service;
use super::outlet::Outlet;
use super::pool;
use super::rounds::Rounds;
use super::state::State;
use crate::error::{Error, Result};
use crate::random;

/// A handler's view of its request.
#[derive(Clone)]
pub struct Context {
    pub(crate) message: Message,
    pub(crate) revision: Revision,
    pub(crate) client: Option<Bytes>,
    pub(crate) client_info: Option<Bytes>,
    pub(crate) level: Option<LogLevel>,
    pub(crate) outlet: Outlet,
    pub(crate) service: Service,
    /// Set for requests that run beside the connection's task and can be cancelled.
    pub(crate) stop: Option<Arc<Stop>>,
    /// Set for requests of 2026-07-28 that may ask for input.
    pub(crate) rounds: Option<Arc<Rounds>>,
}

/// What a handler sends to its connection.
pub(crate) enum Event {
    /// A notification that belongs to a request; dropped if that is cancelled meanwhile.
    Note(Option<Id>, Vec<u8>),
    /// A request of ours to the client (legacy eras).
    Ask {
        /// The request that it is asked for.
        id: Option<Id>,
        method: Method,
        params: Vec<u8>,
        answer: oneshot::Sender<Result<Bytes, ErrorObject>>,
    },
    /// Questions of this request that nobody waits for any more, and why.
    TakeBack(Option<Id>, String),
    /// The client should come back for the rest of this request's stream (Streamable HTTP).
    ComeBack(Id),
    /// The answer to a request that ran beside the connection's task.
    Done(Id, Reply),
}

/// An answer that is written: a whole message, and how it ends its request.
pub(crate) struct Reply {
    pub(crate) message: Vec<u8>,
    pub(crate) outcome: Outcome,
}

impl Reply {
    pub(crate) fn error(id_json: Option<&[u8]>, error: &ErrorObject) -> Self {
        let mut message = Vec::new();
        write::error(&mut message, id_json, error);
        Self { message, outcome: error.into() }
    }
}

/// The flag that a cancelled request sees.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    pub(crate) raised: AtomicBool,
    pub(crate) changed: Notify,
}

impl Stop {
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}

impl Context {
    /// The revision of this request.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The server, to change what it offers or to report a changed resource.
    #[must_use]
    pub const fn service(&self) -> &Service {
        &self.service
    }

    /// What was passed to [`Server::state`](super::Server::state), for handlers without macros;
    /// with a macro, take a `&State<T>` as a parameter.
    ///
    /// # Errors
    /// If the server has no state of this type. With `needs_state` on the tool, the prompt or the
    /// resource, the server reports this when it starts.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&State<T>> {
        self.service.shared.states.get()
    }

    /// The client's name and version. For display only: do not base a decision on it.
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        serde_json::from_slice(self.client_info.as_deref()?).ok()
    }

    /// Who the client is, if the transport knows: the result of authentication at an HTTP endpoint.
    /// Unlike [`Context::client_info`], decisions can be based on it.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.service.principal.as_deref()
    }

    /// What the client can do.
    #[must_use]
    pub fn client_capabilities(&self) -> ClientCapabilities {
        let json = self.client.as_deref().unwrap_or(b"{}");
        serde_json::from_slice(json).unwrap_or_default()
    }

    /// The request's `_meta` object, as JSON text.
    #[must_use]
    pub fn meta(&self) -> Option<&[u8]> {
        self.message.part(Part::Meta)
    }

    /// Reports progress, if the client asked for it. `progress` must grow from call to call. Lossy
    /// on purpose: while [`NOTES_MAX`](super::NOTES_MAX) notes or
    /// [`NOTES_BYTES_MAX`](super::NOTES_BYTES_MAX) bytes wait to be sent, more are dropped.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let token = self.message.part(Part::ProgressToken).and_then(Id::from_json);
        let Some(token) = token else { return };
        let mut params = ProgressParams::new(token, progress);
        params.total = total;
        params.message = message.map(Into::into);
        self.note(&params);
    }

    /// Sends a log message, if the client wants messages of this level. `data` is any JSON. Lossy
    /// like [`Context::progress`].
    pub fn log(&self, level: LogLevel, data: &(impl Serialize + ?Sized)) {
        let least = match self.revision.era() {
            Era::Modern => self.message.text(Part::LogLevel).map(|text| LogLevel::from(&*text)),
            Era::Legacy => self.level.clone(),
        };
        if !least.is_some_and(|least| level.passes(&least)) {
            return;
        }
        if let Ok(params) = LogMessageParams::new(level, data) {
            self.note(&params);
        }
    }

    /// Ends the HTTP stream of this request before its answer, so that a long wait holds no
    /// connection: the client comes back for the rest. Does nothing where streams cannot be resumed
    /// (every transport but Streamable HTTP of 2025-11-25, SEP-1699).
    pub fn close_stream(&self) {
        if let (Some(_), Some(id)) = (&self.stop, self.message.id()) {
            self.outlet.note(Event::ComeBack(id));
        }
    }

    /// Whether the client has cancelled this request, so that its result will be dropped. Handlers
    /// that wait are dropped automatically; handlers that block should check now and then.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.raised.load(Ordering::Acquire))
    }

    /// Waits until the client cancels this request; forever in an inline handler.
    ///
    /// Cancel safe.
    pub async fn cancelled(&self) {
        let Some(stop) = &self.stop else { return std::future::pending().await };
        loop {
            let changed = stop.changed.notified();
            if self.is_cancelled() {
                return;
            }
            changed.await;
        }
    }

    /// Asks the user: a form ([`mcplane_proto::types::ElicitForm`]) or a URL to open.
    ///
    /// Up to 2025-11-25 this sends `elicitation/create` and waits. In 2026-07-28 the call ends here
    /// with `input_required` and **the handler runs again from its start** when the client comes
    /// back with the answer, so do what must happen only once after the last question. Questions
    /// asked together (`join!`) go out in one round. Only handlers that wait can ask.
    ///
    /// Not cancel safe: dropping the future withdraws the question.
    ///
    /// # Errors
    /// A JSON-RPC error (-32021) if the client did not declare the mode, which `?` turns into
    /// the answer; a timeout; a closed connection. Declining is not an error: see the result's
    /// `action`.
    pub async fn elicit(&self, question: impl Into<ElicitParams>) -> Result<ElicitResult> {
        self.elicit_as("elicitation", question).await
    }

    /// Like [`Context::elicit`], with the question's key in `inputRequests` (2026-07-28).
    ///
    /// # Errors
    /// As [`Context::elicit`].
    pub async fn elicit_as(
        &self,
        key: &str,
        question: impl Into<ElicitParams>,
    ) -> Result<ElicitResult> {
        let mut question = question.into();
        if let (ElicitParams::Url(url), Revision::V2025_11_25) = (&mut question, self.revision)
            && url.elicitation_id.is_none()
        {
            // 2025-11-25 requires one that nobody can guess.
            url.elicitation_id = Some(random::name()?);
        }
        let needed = match &question {
            ElicitParams::Url(_) => json!({"elicitation": {"url": {}}}),
            _ => json!({"elicitation": {"form": {}}}),
        };
        self.ask(key, &question, question.fits(&self.client_capabilities()), &needed).await
    }

    /// Asks the client's model. Deprecated by 2026-07-28, which still carries it.
    ///
    /// # Errors
    /// As [`Context::elicit`].
    pub async fn sample(&self, request: CreateMessageParams) -> Result<CreateMessageResult> {
        self.sample_as("sampling", request).await
    }

    /// Like [`Context::sample`], with the question's key in `inputRequests` (2026-07-28).
    ///
    /// # Errors
    /// As [`Context::elicit`].
    pub async fn sample_as(
        &self,
        key: &str,
        request: CreateMessageParams,
    ) -> Result<CreateMessageResult> {
        let declared = self.client_capabilities().sampling();
        self.ask(key, &request, declared, &json!({"sampling": {}})).await
    }

    /// The client's roots. Deprecated by 2026-07-28, which still carries them.
    ///
    /// # Errors
    /// As [`Context::elicit`].
    pub async fn roots(&self) -> Result<Vec<Root>> {
        self.roots_as("roots").await
    }

    /// Like [`Context::roots`], with the question's key in `inputRequests` (2026-07-28).
    ///
    /// # Errors
    /// As [`Context::elicit`].
    pub async fn roots_as(&self, key: &str) -> Result<Vec<Root>> {
        let declared = self.client_capabilities().roots();
        let params = mcplane_proto::types::ListRootsParams::default();
        let found: ListRootsResult =
            self.ask(key, &params, declared, &json!({"roots": {}})).await?;
        Ok(found.roots)
    }

    async fn ask<P: Params, R: DeserializeOwned>(
        &self,
        key: &str,
        params: &P,
        declared: bool,
        needed: &serde_json::Value,
    ) -> Result<R> {
        if !declared {
            return Err(self.undeclared(needed).into());
        }
        let answer = match (&self.rounds, self.revision.era()) {
            (Some(rounds), Era::Modern) => rounds.answer(key, &InputRequest::new(params)).await?,
            (None, Era::Modern) => {
                let why = format!("a handler of `{}` cannot ask", self.message.method_name());
                return Err(Error::misuse(why));
            }
            (_, Era::Legacy) => self.ask_now(params).await?,
        };
        serde_json::from_slice(&answer).map_err(|error| self.misread(P::METHOD, &error))
    }

    /// The error for an answer of the client that cannot be read.
    pub(super) fn misread(&self, method: Method, error: &serde_json::Error) -> Error {
        let why = format!("answer to `{method}`: {error}");
        match self.revision.era() {
            Era::Legacy => Error::malformed(why),
            // It came with the call, so the call is wrong.
            Era::Modern => ErrorObject::invalid_params(why).into(),
        }
    }

    /// A request of ours, answered by the client on this connection.
    async fn ask_now<P: Params>(&self, params: &P) -> Result<Bytes> {
        if self.stop.is_none() {
            return Err(Error::misuse("an inline handler cannot ask: make it async"));
        }
        let mut json = Vec::new();
        mcplane_proto::meta::write_params(params, self.revision, None, &mut json);
        let (answer, answered) = oneshot::channel();
        let id = self.message.id();
        let event = Event::Ask { id, method: P::METHOD, params: json, answer };
        let gone = || Error::closed("the client is gone");
        if !self.outlet.send(event) {
            return Err(gone());
        }
        pool::idly(answered).await.map_err(|_| gone())?.map_err(Error::from)
    }

    fn undeclared(&self, needed: &serde_json::Value) -> ErrorObject {
        let code = match self.revision.era() {
            Era::Modern => Code::MISSING_CLIENT_CAPABILITY,
            Era::Legacy => Code::INVALID_REQUEST,
        };
        ErrorObject::new(code, format!("the client does not declare the capability {needed}"))
            .with_data(&json!({"requiredCapabilities": needed}))
    }

    fn note<P: Params>(&self, params: &P) {
        let mut json = Vec::new();
        mcplane_proto::meta::write_params(params, self.revision, None, &mut json);
        let mut out = Vec::with_capacity(json.len() + 64);
        write::notification(&mut out, P::METHOD.as_str(), Some(&json));
        let id = self.stop.as_ref().and_then(|_| self.message.id());
        self.outlet.note(Event::Note(id, out));
    }
}

/// How long a client may take to answer a question of ours: a person may have to think.
pub(crate) const ASK_TIMEOUT: Duration = Duration::from_secs(10 * 60);

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("message", &self.message)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}
