//! Messages of 2025-03-26 to 2025-11-25: a session, its event streams, and how they go on after a
//! break.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, StatusCode};
use mcplane_proto::error::Code;
use mcplane_proto::frame::sse::Event;
use mcplane_proto::headers::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID};
use mcplane_proto::id::Id;
use mcplane_proto::limits::SUBSCRIPTIONS_MAX;
use mcplane_proto::message::{Kind, Message, Part, write};
use mcplane_proto::method::Method;
use mcplane_proto::version::Revision;
use serde::Deserialize;
use tokio::sync::{Notify, RwLock, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answer::{Answer, Stream};
use super::endpoint::Outgoing;
use super::legacy_sse;
use super::modern::{code, is_modern_error};
use super::shared::{Order, Shared, reason};
use super::verdict::Verdict;
use crate::error::{Failure, Lost};

/// The pause before an event stream is opened again, if the server does not say; and its bounds.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Most attempts to resume a stream that bring no event.
const RESUMES_MAX: u32 = 5;

/// How long a request may take to get to the server before a cancellation follows it.
const ARRIVAL_TIME_MAX: Duration = Duration::from_millis(500);

/// How long a new session may take when the server has forgotten the old one.
const RENEW_TIME_MAX: Duration = Duration::from_secs(30);

/// What there is to know of the session.
#[derive(Default)]
pub(super) struct Legacy {
    state: Mutex<State>,
    /// Held for writing until the server knows that the handshake is over.
    gate: RwLock<()>,
    renewing: tokio::sync::Mutex<()>,
    renewed: watch::Sender<u64>,
    coming: Coming,
}

/// Requests that the server may not have seen yet, and since when they are on their way.
#[derive(Default)]
struct Coming {
    requests: Mutex<HashMap<Id, Instant>>,
    arrived: Notify,
}

impl Coming {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Instant>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until a request has arrived, as far as can be told: another connection may be faster.
    async fn arrival(&self, id: &Id) {
        let Some(since) = self.lock().get(id).copied() else { return };
        let arrived = async {
            loop {
                let arrived = self.arrived.notified();
                if !self.lock().contains_key(id) {
                    return;
                }
                arrived.await;
            }
        };
        // A server that has nothing to say but the answer says nothing before.
        let _ = timeout_at(since + ARRIVAL_TIME_MAX, arrived).await;
    }

    fn has_arrived(&self, id: &Id) {
        if self.lock().remove(id).is_some() {
            self.arrived.notify_waiters();
        }
    }
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    /// What a new session has to be told, should the server forget this one.
    initialize: Option<Message>,
    level: Option<Message>,
    subscribed: BTreeMap<String, Message>,
}

/// A session of the server's; never changed, only replaced.
#[derive(Debug, Default)]
pub(super) struct Session {
    number: u64,
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

impl Session {
    fn put(&self, mut headers: HeaderMap) -> HeaderMap {
        let named = [(SESSION_ID, &self.id), (PROTOCOL_VERSION, &self.version)];
        for (name, value) in named {
            if let Some(value) = value {
                headers.insert(HeaderName::from_static(name), value.clone());
            }
        }
        headers
    }
}

/// Where an event stream stands.
struct Resume {
    last: Option<HeaderValue>,
    retry: Duration,
    /// Attempts since the last event.
    idle: u32,
}

impl Default for Resume {
    fn default() -> Self {
        Self { last: None, retry: RETRY, idle: 0 }
    }
}

impl Resume {
    fn saw(&mut self, event: &Event) {
        self.idle = 0;
        if let Some(id) = &event.id {
            self.last = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = retry.clamp(RETRY_MIN, RETRY_MAX);
        }
    }

    async fn pause(&self) {
        sleep((self.retry * (1 << self.idle.min(6))).min(RETRY_MAX)).await;
    }
}

/// What came of a request for an event stream.
#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
enum Opened {
    Stream(Stream),
    /// The server has none to offer.
    No(Failure),
    /// It may have one later.
    Later,
}

/// What came of a request.
#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
enum Asked {
    Answer(Message),
    /// The server does not know the session.
    Forgotten(Failure),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agreed {
    protocol_version: String,
}

impl Legacy {
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.state().session.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a new session has to be told.
    fn note(&self, request: &Message) {
        let mut state = self.state();
        let uri = request.text(Part::Uri).map(std::borrow::Cow::into_owned);
        match (request.method(), uri) {
            (Some(Method::SetLevel), _) => state.level = Some(request.clone()),
            (Some(Method::ResourcesSubscribe), Some(uri))
                if state.subscribed.len() < SUBSCRIPTIONS_MAX =>
            {
                state.subscribed.insert(uri, request.clone());
            }
            (Some(Method::ResourcesUnsubscribe), Some(uri)) => {
                state.subscribed.remove(&uri);
            }
            _ => {}
        }
    }
}

impl Shared {
    /// `initialize`, which may turn out to be for a server of another kind.
    pub(super) async fn initialize(self: Arc<Self>, message: Message, id: Id) {
        let skipped = self.course().skipped;
        let result = if skipped == Some(Verdict::Sse) {
            match legacy_sse::connect(&self).await {
                Ok(()) => self.sse_post(&message, Some(&id)).await,
                Err(_) => return self.say_modern(&id),
            }
        } else {
            self.begin(&message, &id, skipped.is_some()).await
        };
        if let Err(failure) = result {
            self.fail(&id, &failure);
        }
    }

    async fn begin(
        self: &Arc<Self>,
        message: &Message,
        id: &Id,
        skipped: bool,
    ) -> Result<(), Failure> {
        let response = self.post(message, self.endpoint.post_headers(), Some(id)).await?;
        let status = response.status();
        let session = response.headers().get(SESSION_ID).cloned();
        let mut session = Session { id: session, ..Session::default() };
        let answer = match Answer::of(response, &self.endpoint.uri).await? {
            Answer::Refused(error, failure) => {
                let is_modern = error.as_ref().is_some_and(is_modern_error);
                let perhaps_sse = matches!(status.as_u16(), 400 | 404 | 405) && !is_modern;
                if perhaps_sse && legacy_sse::connect(self).await.is_ok() {
                    return self.sse_post(message, Some(id)).await;
                }
                self.endpoint.pool.verdicts().forget(&self.endpoint.url);
                if perhaps_sse && skipped {
                    self.say_modern(id);
                    return Ok(());
                }
                reason(error, failure, id)?
            }
            answer => self.answered(answer, message, id, &session).await?,
        };
        if let Some(version) = agreed(&answer) {
            session.version = version;
            let mut state = self.legacy.state();
            state.session = Some(Arc::new(session));
            state.initialize = Some(message.clone());
            drop(state);
            self.settle(Verdict::Streamable);
        }
        self.give(&answer, id);
        Ok(())
    }

    /// A legacy server is found. One that was not probed may still be modern.
    pub(super) fn settle(&self, verdict: Verdict) {
        let mut course = self.course();
        course.settled = true;
        if course.probed {
            self.endpoint.pool.verdicts().remember(&self.endpoint.url, verdict);
        }
    }

    /// The end of the handshake; then the stream of what the server says unasked.
    pub(super) async fn initialized(self: Arc<Self>, message: Message) {
        let _nothing_else = self.legacy.gate.write().await;
        self.tell(&message).await;
        let listen = Arc::clone(&self).listen();
        self.order(Order::Start(super::tasks::Purpose::Stream, Box::pin(listen)));
        // The stream is asked for first, over the connection that is there: what a server asks
        // unasked before it has the stream, it asks nobody.
        tokio::task::yield_now().await;
    }

    /// A request.
    pub(super) async fn legacy(self: Arc<Self>, message: Message, id: Id) {
        drop(self.legacy.gate.read().await);
        match self.in_session(&message, &id).await {
            Ok(answer) => {
                if answer.kind() == Kind::Response {
                    self.legacy.note(&message);
                }
                self.give(&answer, &id);
            }
            Err(failure) => self.fail(&id, &failure),
        }
    }

    /// A notification or a response.
    pub(super) async fn notice(self: Arc<Self>, message: Message) {
        drop(self.legacy.gate.read().await);
        self.tell(&message).await;
    }

    /// A cancellation: once the server knows of it, nobody waits for its answer any more.
    pub(super) async fn cancel(self: Arc<Self>, message: Message) {
        let id = message.part(Part::RequestId).and_then(Id::from_json);
        if let Some(id) = &id {
            drop(self.legacy.gate.read().await);
            self.legacy.coming.arrival(id).await;
        }
        Arc::clone(&self).notice(message).await;
        if let Some(id) = id {
            self.legacy.coming.has_arrived(&id);
            self.order(Order::Stop(id));
        }
    }

    /// Tells the server that the session is over.
    pub(super) async fn leave(self: Arc<Self>) {
        let Some(session) = self.legacy.session().filter(|session| session.id.is_some()) else {
            return;
        };
        // A server that does not allow it, or is gone, ends the session by itself.
        let headers = session.put(self.endpoint.headers.clone());
        let _ = self.ask_plain(Verb::DELETE, headers).await;
    }

    /// The answer to a request, in a new session if the server has forgotten this one.
    async fn in_session(self: &Arc<Self>, message: &Message, id: &Id) -> Result<Message, Failure> {
        let session = self.legacy.session().unwrap_or_default();
        match self.ask(message, id, &session).await? {
            Asked::Answer(answer) => return Ok(answer),
            Asked::Forgotten(_) => Box::pin(self.renew(&session)).await?,
        }
        let session = self.legacy.session().unwrap_or_default();
        match self.ask(message, id, &session).await? {
            Asked::Answer(answer) => Ok(answer),
            Asked::Forgotten(failure) => Err(failure),
        }
    }

    async fn ask(&self, message: &Message, id: &Id, session: &Session) -> Result<Asked, Failure> {
        let headers = session.put(self.endpoint.post_headers());
        self.legacy.coming.lock().insert(id.clone(), Instant::now());
        let response = self.post(message, headers, Some(id)).await;
        self.legacy.coming.has_arrived(id);
        let response = response?;
        let forgotten = response.status() == StatusCode::NOT_FOUND && session.id.is_some();
        Ok(match Answer::of(response, &self.endpoint.uri).await? {
            Answer::Refused(error, failure) if forgotten && !names_no_session(error.as_ref()) => {
                Asked::Forgotten(failure)
            }
            answer => Asked::Answer(self.answered(answer, message, id, session).await?),
        })
    }

    async fn answered(
        &self,
        answer: Answer,
        message: &Message,
        id: &Id,
        session: &Session,
    ) -> Result<Message, Failure> {
        match answer {
            Answer::Json(body) => self.own(body, id),
            Answer::Stream(stream) => self.follow(stream, message, id, session).await,
            Answer::Refused(error, failure) => reason(error, failure, id),
            Answer::Accepted => {
                let why = format!(
                    "the server has accepted `{}` and does not answer it",
                    message.method_name()
                );
                Err(Failure::new(Lost::Malformed, why))
            }
        }
    }

    /// Reads a stream to its answer, over as many connections as it takes.
    async fn follow(
        &self,
        mut stream: Stream,
        message: &Message,
        id: &Id,
        session: &Session,
    ) -> Result<Message, Failure> {
        let mut resume = Resume::default();
        let broken = |why: &str| {
            let text =
                format!("the stream ended before it answered `{}`{why}", message.method_name());
            Failure::new(Lost::Broken, text)
        };
        loop {
            match self.pump(&mut stream, Some(id), |event| resume.saw(event)).await {
                Ok(Some(answer)) => {
                    self.rest(stream);
                    return Ok(answer);
                }
                Err(failure) if failure.kind == Lost::Malformed => return Err(failure),
                Ok(None) | Err(_) => {}
            }
            if resume.last.is_none() {
                return Err(broken(" and cannot be resumed"));
            }
            stream = loop {
                resume.pause().await;
                resume.idle += 1;
                if resume.idle > RESUMES_MAX {
                    return Err(broken(&format!(
                        "; {RESUMES_MAX} attempts to resume it brought nothing"
                    )));
                }
                match Box::pin(self.open(session, &resume)).await {
                    Opened::Stream(stream) => break stream,
                    Opened::No(failure) => return Err(broken(&format!("; {}", failure.message))),
                    Opened::Later => {}
                }
            };
        }
    }

    /// Opens an event stream, from where it broke if it did.
    async fn open(&self, session: &Session, resume: &Resume) -> Opened {
        let mut headers = session.put(self.endpoint.get_headers());
        if let Some(last) = &resume.last {
            headers.insert(HeaderName::from_static(LAST_EVENT_ID), last.clone());
        }
        match self.ask_plain(Verb::GET, headers).await {
            Ok(Answer::Stream(stream)) => Opened::Stream(stream),
            Ok(Answer::Refused(_, failure)) => match (failure.kind, failure.status) {
                (Lost::Unavailable, _) | (_, Some(408 | 500..)) => Opened::Later,
                _ => Opened::No(failure),
            },
            Ok(Answer::Json(_) | Answer::Accepted) => {
                Opened::No(Failure::new(Lost::Malformed, "the server has no event stream"))
            }
            Err(failure) if matches!(failure.kind, Lost::Broken | Lost::Unreachable) => {
                Opened::Later
            }
            Err(failure) => Opened::No(failure),
        }
    }

    async fn ask_plain(&self, method: Verb, headers: HeaderMap) -> Result<Answer, Failure> {
        let uri = self.endpoint.uri.clone();
        let body = bytes::Bytes::new();
        let outgoing = Outgoing { method, uri, headers, body, asks: None };
        let response = self.endpoint.send(&outgoing, &|| {}).await?;
        Answer::of(response, &self.endpoint.uri).await
    }

    /// What the server says unasked, for as long as it wants to say it.
    async fn listen(self: Arc<Self>) {
        let mut renewed = self.legacy.renewed.subscribe();
        loop {
            let session = self.legacy.session().unwrap_or_default();
            tokio::select! {
                biased;
                changed = renewed.changed() => if changed.is_err() { return },
                () = self.listen_in(&session) => {}
            }
        }
    }

    async fn listen_in(&self, session: &Session) {
        let mut resume = Resume::default();
        loop {
            match self.open(session, &resume).await {
                Opened::Stream(mut stream) => {
                    resume.idle += 1;
                    // An event that cannot be taken is one message less.
                    while let Err(Failure { kind: Lost::Malformed, .. }) =
                        self.pump(&mut stream, None, |event| resume.saw(event)).await
                    {
                    }
                }
                // Until there is another session.
                Opened::No(_) => pending().await,
                Opened::Later => resume.idle += 1,
            }
            resume.pause().await;
        }
    }

    /// Opens a new session in the place of one that the server has forgotten.
    async fn renew(self: &Arc<Self>, old: &Session) -> Result<(), Failure> {
        let _once = self.legacy.renewing.lock().await;
        if self.legacy.session().is_some_and(|session| session.number != old.number) {
            return Ok(());
        }
        let late =
            |_| Failure::new(Lost::Late, format!("no new session within {RENEW_TIME_MAX:?}"));
        timeout(RENEW_TIME_MAX, self.start_again(old.number + 1)).await.map_err(late)?
    }

    async fn start_again(self: &Arc<Self>, number: u64) -> Result<(), Failure> {
        let (initialize, told) = {
            let state = self.legacy.state();
            let told = state.level.iter().chain(state.subscribed.values()).cloned();
            (state.initialize.clone(), told.collect::<Vec<_>>())
        };
        let failed = || {
            Failure::new(Lost::Broken, "the server has forgotten the session and opens no other")
        };
        let initialize = initialize.ok_or_else(failed)?;
        let id = Id::from("mcplane-renew");
        let initialize = renamed(&initialize, &id).ok_or_else(failed)?;
        let response = self.post(&initialize, self.endpoint.post_headers(), None).await?;
        let session_id = response.headers().get(SESSION_ID).cloned();
        let mut session = Session { number, id: session_id, version: None };
        let answer = Answer::of(response, &self.endpoint.uri).await?;
        let answer = self.answered(answer, &initialize, &id, &session).await?;
        session.version = agreed(&answer).ok_or_else(failed)?;
        let mut initialized = Vec::new();
        write::notification(&mut initialized, Method::Initialized.as_str(), None);
        let initialized = Message::scan(initialized).map_err(|_| failed())?;
        let _ = self.post(&initialized, session.put(self.endpoint.post_headers()), None).await?;
        for request in told {
            // What the server does not take any more is no reason to give up the rest.
            if let Some(request) = renamed(&request, &id) {
                let _ = self.ask(&request, &id, &session).await;
            }
        }
        self.legacy.state().session = Some(Arc::new(session));
        self.legacy.renewed.send_replace(number);
        Ok(())
    }

    /// POSTs what is not answered. Nobody waits to hear that it failed; the next request shows.
    async fn tell(&self, message: &Message) {
        let session = self.legacy.session().unwrap_or_default();
        let headers = session.put(self.endpoint.post_headers());
        if let Ok(response) = self.post(message, headers, None).await {
            let _ = Answer::of(response, &self.endpoint.uri).await;
        }
    }
}

/// The header for the revision that an `initialize` was answered with; `None` for an error.
#[allow(clippy::option_option, reason = "agreed or not, and with a header or without")]
fn agreed(answer: &Message) -> Option<Option<HeaderValue>> {
    let agreed: Agreed = serde_json::from_slice(answer.part(Part::Result)?).ok()?;
    let revision = Revision::parse(&agreed.protocol_version);
    let has_header = revision.is_some_and(|revision| revision >= Revision::V2025_06_18);
    Some(has_header.then(|| HeaderValue::from_str(&agreed.protocol_version).ok()).flatten())
}

/// Whether the error that comes with a 404 is about what was asked for, not about the session.
fn names_no_session(error: Option<&Message>) -> bool {
    let asked = [Code::METHOD_NOT_FOUND, Code::INVALID_PARAMS, Code::RESOURCE_NOT_FOUND];
    error.and_then(code).is_some_and(|code| asked.contains(&code))
}

/// The request under an id of its own.
fn renamed(request: &Message, id: &Id) -> Option<Message> {
    let mut id_json = Vec::new();
    id.write_json(&mut id_json);
    Message::scan(request.splice(&[(Part::Id, &id_json)])).ok()
}
