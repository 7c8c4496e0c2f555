//! Sessions of 2025-03-26 … 2025-11-25: what `initialize` opened, and the streams of its requests.
//!
//! A session is a [`Connection`] whose lines are sorted into streams: one for each POST that is not
//! answered at once, and one (number 0) for what belongs to no request. A client that went away
//! does not cancel anything: it comes back with `Last-Event-ID`.

mod absent;
mod reader;
mod streams;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::message::{Message, write};
use mcplane_proto::version::Revision;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::classify::Payload;
use super::keep::{Keep, Kept};
use super::refusal::Refusal;
use super::{Body, SESSION, json};
use crate::budget::{Budget, Charge};
use crate::clock;
use crate::error::Error;
use crate::random;
use crate::server::{Connection, Service, Then};
pub(super) use reader::Reader;
use streams::Streams;

/// Finished streams of one session that are kept to be sent again.
const FINISHED_MAX: usize = 16;

/// Bytes of the finished streams of one session that are kept.
const FINISHED_BYTES_MAX: usize = 1024 * 1024;

/// Up to this length a line is copied out of what was said with it, rather than keep all of that.
const LINE_BYTES_COPIED: usize = 4096;

/// The stream of what belongs to no request.
const ALONE: u64 = 0;

/// Limits of the sessions of one endpoint.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct SessionLimits {
    /// The most sessions; 4096. Beyond them, the session that has been idle for longest is ended;
    /// if none is idle, `initialize` gets 503.
    pub count_max: usize,
    /// How long a session lives without a request or an open stream; 30 minutes.
    pub idle: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { count_max: 4096, idle: Duration::from_secs(30 * 60) }
    }
}

/// The sessions of one endpoint.
pub(super) struct Sessions {
    limits: SessionLimits,
    open: Mutex<HashMap<Box<str>, Arc<Session>>>,
    keep: Keep,
}

impl Sessions {
    pub(super) fn new(limits: SessionLimits, budget: &Budget) -> Self {
        Self { limits, open: Mutex::default(), keep: Keep::new(budget.clone()) }
    }

    /// Makes room for a session and keeps it.
    pub(super) fn open(
        self: &Arc<Self>,
        service: &Service,
        session: &Arc<Session>,
    ) -> Result<(), Refusal> {
        let mut open = self.lock();
        if open.len() >= self.limits.count_max {
            let idle = open.values().filter_map(|session| Some((session.idle_since()?, session)));
            // Those first that nobody has used: opening sessions must not end those of others.
            let order = |(since, session): &(Instant, &Arc<Session>)| (session.is_used(), *since);
            let oldest = idle.min_by_key(order).map(|(_, session)| session.id.clone());
            let evicted = oldest.and_then(|id| open.remove(&id));
            let full = || Refusal::overloaded("every session is taken", 10);
            evicted.ok_or_else(full)?.end();
        }
        open.insert(session.id.clone(), Arc::clone(session));
        drop(open);
        let changes = service.changes();
        tokio::spawn(pump(Arc::clone(session), Arc::downgrade(self), changes));
        Ok(())
    }

    /// A session, if it is this client's own.
    pub(super) fn find(&self, id: &str, principal: Option<&str>) -> Option<Arc<Session>> {
        let session = self.lock().get(id).cloned()?;
        (session.principal.as_deref() == principal).then_some(session)
    }

    pub(super) fn remove(&self, id: &str) {
        let removed = self.lock().remove(id);
        if let Some(session) = removed {
            session.end();
        }
    }

    /// Ends every session as soon as nothing runs in it any more.
    pub(super) fn close(&self) {
        self.lock().retain(|_, session| !session.close());
    }

    /// Ends the sessions of a principal at once.
    pub(super) fn revoke(&self, principal: &str) {
        let is_theirs = |session: &Session| session.principal.as_deref() == Some(principal);
        let mut open = self.lock();
        let gone: Vec<_> = open.extract_if(|_, session| is_theirs(session)).collect();
        drop(open);
        gone.iter().for_each(|(_, session)| session.end());
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        all.values().for_each(|session| session.end());
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn relieve(&self) {
        self.keep.relieve(|| self.lock().values().cloned().collect());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.clear();
    }
}

/// One session.
pub(super) struct Session {
    id: Box<str>,
    principal: Option<Arc<str>>,
    state: Mutex<State>,
    ended: Notify,
    sessions: Weak<Sessions>,
    kept: Kept,
}

struct State {
    connection: Connection,
    logs: Streams,
    routes: u64,
    readers: u64,
    used: Instant,
    /// For what is kept for a client that went away.
    kept: Charge,
    /// Everything goes to [`ALONE`], and its end is the session's: HTTP+SSE.
    is_single: bool,
    /// The session ends as soon as nothing runs in it any more.
    is_closing: bool,
}

/// What became of a POST.
pub(super) enum Opened {
    /// It was taken in, and there is nothing to answer.
    Nothing,
    Answer(Bytes),
    Refused(Vec<u8>),
    Stream(Reader),
}

impl Session {
    /// A session under an id that nobody can guess.
    pub(super) fn new(
        sessions: &Arc<Sessions>,
        service: &Service,
        principal: Option<Arc<str>>,
    ) -> Result<Arc<Self>, Refusal> {
        let no = |error: Error| Refusal::overloaded(error.to_string(), 1);
        let id = random::name().map_err(no)?.into();
        let connection = Connection::new(service.of(principal.clone())).lasting().routed();
        let state = State {
            connection,
            logs: Streams::new(),
            routes: ALONE,
            readers: 0,
            used: clock::now(),
            kept: Charge::default(),
            is_single: false,
            is_closing: false,
        };
        let (state, ended, kept) = (Mutex::new(state), Notify::new(), Kept::default());
        let sessions = Arc::downgrade(sessions);
        Ok(Arc::new(Self { id, principal, state, ended, sessions, kept }))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    pub(super) const fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Takes in what a POST brought.
    pub(super) fn post(self: &Arc<Self>, payload: Payload) -> Opened {
        let mut state = self.lock();
        state.used = clock::now();
        if matches!(payload, Payload::Batch(_)) && !state.connection.session.takes_batches() {
            let mut body = Vec::new();
            let why = "batches are not part of this session's revision";
            write::error(&mut body, None, &ErrorObject::new(Code::INVALID_REQUEST, why));
            return Opened::Refused(body);
        }
        let route = state.take(payload);
        if let Some(answer) = state.take_answer(route) {
            return if answer.is_empty() { Opened::Nothing } else { Opened::Answer(answer) };
        }
        let (out, cuts) = state.connection.take_cuts();
        let is_answered = cuts.iter().any(|cut| cut.route == Some(route));
        let opens = !state.is_single && (is_answered || state.connection.awaits(route));
        let number = state.attach();
        if opens {
            // With its reader, or what is said already would be forgotten.
            state.forget_finished();
            state.logs.attach(route, number, None);
        }
        state.sort(&out, &cuts);
        drop(state);
        if !opens {
            return Opened::Nothing;
        }
        Opened::Stream(Reader { session: Arc::clone(self), route, number, first: None })
    }

    /// Opens the stream of what belongs to no request, or goes on after an event.
    pub(super) fn listen(self: &Arc<Self>, last_event: Option<&[u8]>) -> Result<Reader, Refusal> {
        let unknown = || {
            let why = "`Last-Event-ID` names no event of this session";
            Refusal::new(StatusCode::BAD_REQUEST, why)
        };
        let (route, last) = match last_event.map(super::log::parse_id) {
            None => (ALONE, None),
            Some(None) => return Err(unknown()),
            Some(Some((route, number))) => (route, Some(number)),
        };
        let mut state = self.lock();
        let number = state.attach();
        let (has_priming, routes) = (state.has_priming(), state.routes);
        if !state.logs.get(route).is_some_and(|log| log.has(last)) {
            let is_known = state.logs.get(route).is_none_or(|log| log.had(last));
            return Err(if route <= routes && is_known { absent::forgotten() } else { unknown() });
        }
        let log = state.logs.attach(route, number, last);
        let first = if last.is_none() { log.begin(route, has_priming) } else { None };
        drop(state);
        self.tend();
        Ok(Reader { session: Arc::clone(self), route, number, first })
    }

    /// Sends everything to the one stream that is about to be opened, from `first` on.
    pub(super) fn single(self: &Arc<Self>, first: Bytes) -> Reader {
        let mut state = self.lock();
        state.is_single = true;
        let number = state.attach();
        state.logs.attach(ALONE, number, None);
        drop(state);
        Reader { session: Arc::clone(self), route: ALONE, number, first: Some(first) }
    }

    pub(super) fn is_single(&self) -> bool {
        self.lock().is_single
    }

    fn is_open(&self) -> bool {
        self.lock().connection.session.legacy_revision().is_some()
    }

    /// Whether anything but `initialize` and `notifications/initialized` came.
    fn is_used(&self) -> bool {
        self.lock().routes > ALONE + 2
    }

    /// Since when nothing runs and nobody listens; `None` if that is not so.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        let idle = state.connection.is_idle() && !state.logs.is_any_read();
        idle.then_some(state.used)
    }

    /// Ends the session as soon as nothing runs in it any more; whether that is now.
    fn close(&self) -> bool {
        let mut state = self.lock();
        state.is_closing = true;
        let idle = state.connection.is_idle();
        if let (false, Some(alone)) = (state.is_single, state.logs.get_mut(ALONE)) {
            alone.end();
        }
        drop(state);
        if idle {
            self.end();
        }
        idle
    }

    fn end(&self) {
        let mut state = self.lock();
        state.connection.stop();
        state.logs.end_all();
        drop(state);
        self.ended.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Hands a payload to the connection, on an exchange of its own.
    fn take(&mut self, payload: Payload) -> u64 {
        self.routes += 1;
        let now = clock::now();
        self.connection.on(self.routes, |connection| match payload {
            Payload::Batch(batch) => {
                connection.take(now, batch);
            }
            Payload::Initialize(message) | Payload::Message(message) | Payload::Modern(message) => {
                connection.message(now, message);
            }
        });
        self.routes
    }

    /// The answer to what was just taken in, if it is complete and all that was said.
    fn take_answer(&mut self, route: u64) -> Option<Bytes> {
        if self.is_single { None } else { self.connection.take_answer(route) }
    }

    /// Sorts lines into the streams that they belong to.
    fn sort(&mut self, out: &Bytes, cuts: &[crate::server::Cut]) {
        let can_come_back = !self.is_single && self.has_priming();
        let mut start = 0;
        for cut in cuts {
            let mut line = out.slice(start..cut.end.saturating_sub(1).max(start));
            if line.len() <= LINE_BYTES_COPIED && cuts.len() > 1 {
                line = Bytes::copy_from_slice(&line);
            }
            start = cut.end;
            let (route, ends) = match self.is_single {
                true => (ALONE, false),
                false => (cut.route.unwrap_or(ALONE), cut.then == Then::End),
            };
            // Without one, the client has given up the answer that this belongs to.
            let Some(log) = self.logs.get_mut(route) else { continue };
            // Somebody waits for an answer, and for a question.
            log.push(line, matches!(cut.then, Then::End | Then::Answer));
            if ends {
                log.end();
            }
            if cut.then == Then::ComeBack && can_come_back {
                log.send_away();
            }
            if ends {
                self.logs.forget_done(route);
            }
        }
    }

    fn sort_all(&mut self) {
        self.connection.send_notes();
        let (out, cuts) = self.connection.take_cuts();
        self.sort(&out, &cuts);
    }

    fn attach(&mut self) -> u64 {
        self.used = clock::now();
        self.readers += 1;
        self.readers
    }

    /// Whether the client takes an event without a message for what it is.
    fn has_priming(&self) -> bool {
        self.connection.session.legacy_revision() >= Some(Revision::V2025_11_25)
    }

    /// Makes room for another finished stream.
    fn forget_finished(&mut self) {
        let finished = self.logs.unread().filter(|(route, log)| *route != ALONE && log.ended);
        let all: Vec<_> = finished.map(|(route, log)| (route, log.bytes())).collect();
        let mut bytes: usize = all.iter().map(|(_, bytes)| bytes).sum();
        // The oldest first: their numbers are the lowest.
        for (left, (route, its)) in (1..=all.len()).rev().zip(&all) {
            if left <= FINISHED_MAX && bytes <= FINISHED_BYTES_MAX {
                return;
            }
            bytes -= its;
            self.logs.remove(*route);
        }
    }
}

/// Answers the POST that opened a session.
pub(super) fn initialize(
    sessions: &Arc<Sessions>,
    service: &Service,
    principal: Option<Arc<str>>,
    message: Message,
) -> Result<Response<Body>, Refusal> {
    let session = Session::new(sessions, service, principal)?;
    let Opened::Answer(answer) = session.post(Payload::Initialize(message)) else {
        return Ok(json(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()));
    };
    let mut response = json(StatusCode::OK, answer);
    // One that is refused takes no place: another would have to go for it.
    if let (true, Ok(id)) = (session.is_open(), HeaderValue::from_str(&session.id)) {
        sessions.open(service, &session)?;
        response.headers_mut().insert(&SESSION, id);
    }
    Ok(response)
}

/// Takes over what handlers send and what the server tells, until the session ends.
async fn pump(
    session: Arc<Session>,
    sessions: Weak<Sessions>,
    mut changes: tokio::sync::broadcast::Receiver<crate::server::Change>,
) {
    let idle = sessions.upgrade().map_or(Duration::ZERO, |sessions| sessions.limits.idle);
    let mut looked = clock::now();
    loop {
        let (ask, unused) = {
            let state = session.lock();
            if state.is_closing && state.connection.is_idle() {
                break;
            }
            (state.connection.session.deadline(), state.used + idle)
        };
        // Changes that come all the time do not put it off.
        let wake = ask.map_or(unused, |ask| ask.min(unused)).max(looked + TICK);
        tokio::select! {
            biased;
            () = session.ended.notified() => break,
            event = std::future::poll_fn(|cx| session.lock().connection.poll_event(cx)) => {
                let mut state = session.lock();
                state.connection.event(event);
                state.sort_all();
                drop(state);
                session.tend();
            }
            change = changes.recv() => {
                let mut state = session.lock();
                state.connection.change(change);
                state.sort_all();
                drop(state);
                session.tend();
            }
            () = sleep_until(wake.into()) => {
                looked = clock::now();
                let mut state = session.lock();
                state.connection.expire(clock::now());
                state.sort_all();
                drop(state);
                match session.idle_since() {
                    Some(since) if clock::now() >= since + idle => break,
                    Some(_) => {}
                    None => session.lock().used = clock::now(),
                }
            }
        }
    }
    session.end();
    if let Some(sessions) = sessions.upgrade() {
        sessions.remove(&session.id);
    }
}

/// The pump looks after deadlines no more often than this.
const TICK: Duration = Duration::from_millis(10);

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id is a secret of its client.
        f.debug_struct("Session").field("principal", &self.principal).finish_non_exhaustive()
    }
}
