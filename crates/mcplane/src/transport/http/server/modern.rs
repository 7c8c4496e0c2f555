//! One request of 2026-07-28: a connection that lives as long as its answer takes.
//!
//! JSON if nothing streams, server-sent events if something does: the headers are held back until
//! the handler has said something, so that an early error still gets its status.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::message::{Kind, Message, Outcome};
use mcplane_proto::method::Method;
use mcplane_proto::version::Revision;
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;

use super::body::Source;
use super::classify::{Misfit, Named, Payload, status};
use super::end::{End, Ends};
use super::{Answer, Body, Endpoint, Permit, Reply, empty, log};
use crate::budget::Budget;
use crate::clock;
use crate::server::{Change, Connection, Service};

/// How long the headers wait for a handler that says nothing. Proxies give up after about a minute.
const HOLD: Duration = Duration::from_secs(15);

/// Room for a usual answer, in bytes: growing to it costs more than having it.
const ANSWER_BYTES: usize = 512;

/// Chunks that wait for the client to read them; then the handler's notifications wait, too, up to
/// [`NOTES_BYTES_MAX`](crate::server::NOTES_BYTES_MAX).
const CHUNKS_MAX: usize = 2;

/// Connections that are kept for the requests to come, at most: as many as one client usually has
/// in flight.
const SPARE_MAX: usize = 64;

/// Room for an answer that each of them keeps, in bytes.
const SPARE_BYTES: usize = 8 * 1024;

/// Connections that have answered and remember nothing: to make one costs more than to keep one.
#[derive(Default)]
#[allow(clippy::vec_box, reason = "they move between requests, and are a kilobyte each")]
pub(super) struct Spare(Mutex<Vec<Box<Connection>>>);

impl Spare {
    fn take(
        &self,
        service: &Service,
        principal: Option<Arc<str>>,
        budget: &Budget,
    ) -> Box<Connection> {
        let spare = self.lock().pop();
        let mut connection = match spare {
            Some(mut connection) => {
                connection.serve_for(principal);
                connection
            }
            None => Box::new(Connection::new(service.of(principal))),
        };
        connection.charge_to(budget);
        connection
    }

    fn put(&self, mut connection: Box<Connection>) {
        if !connection.is_blank() {
            return;
        }
        connection.recycle();
        connection.out.raw().shrink_to(SPARE_BYTES);
        let mut spare = self.lock();
        if spare.len() < SPARE_MAX {
            spare.push(connection);
        }
    }

    #[allow(clippy::vec_box, reason = "as above")]
    fn lock(&self) -> MutexGuard<'_, Vec<Box<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a request of 2026-07-28.
pub(super) fn answer(
    endpoint: &Endpoint,
    message: Message,
    principal: Option<Arc<str>>,
    permit: Permit,
    budget: &Budget,
) -> Answer {
    if message.kind() == Kind::Notification {
        // Nothing to cancel by an id that the client chose: closing the stream does that.
        return Answer::Now(empty(StatusCode::ACCEPTED).into());
    }
    let service = &endpoint.0.service;
    let changes = (message.method() == Some(Method::Listen)).then(|| service.changes());
    let mut connection = endpoint.0.spare.take(service, principal, budget);
    connection.out.raw().reserve(ANSWER_BYTES);
    connection.message(clock::now(), message);
    connection.send_notes();
    Exchange { connection, changes, is_modern: true }.respond(endpoint, permit)
}

/// Answers a request of the legacy eras for an endpoint that keeps no sessions. Nobody can be asked
/// anything, and nothing can be resumed.
pub(super) fn answer_stateless(
    endpoint: &Endpoint,
    revision: Revision,
    payload: Payload,
    principal: Option<Arc<str>>,
    permit: Permit,
    budget: &Budget,
) -> Answer {
    let mut connection = Box::new(Connection::new(endpoint.0.service.of(principal)));
    connection.charge_to(budget);
    let now = clock::now();
    match payload {
        Payload::Initialize(message) => connection.message(now, message),
        Payload::Message(message) if message.kind() != Kind::Request => {
            return Answer::Now(empty(StatusCode::ACCEPTED).into());
        }
        Payload::Message(message) | Payload::Modern(message) => {
            connection.session.assume(revision);
            connection.message(now, message);
        }
        Payload::Batch(_) if !revision.has_batches() => {
            let why = "batches are not part of this revision";
            let error = ErrorObject::new(Code::INVALID_REQUEST, why);
            return Answer::Now(Misfit::new(None, error).reply());
        }
        Payload::Batch(batch) => {
            connection.session.assume(revision);
            connection.take(now, batch);
        }
    }
    connection.send_notes();
    // Errors of the legacy eras ride on 200.
    Exchange { connection, changes: None, is_modern: false }.respond(endpoint, permit)
}

/// The revision of a legacy request to an endpoint that keeps no sessions.
pub(super) fn revision(headers: &HeaderMap) -> Revision {
    match Named::of(headers) {
        Named::Legacy(revision) => revision,
        // 2025-03-26 did not name itself (2025-06-18 transports §Protocol version header).
        _ => Revision::V2025_03_26,
    }
}

struct Exchange {
    connection: Box<Connection>,
    changes: Option<broadcast::Receiver<Change>>,
    /// Errors have a status of their own.
    is_modern: bool,
}

impl Exchange {
    /// An inline handler has answered already: it needs neither a future nor a timer.
    fn respond(self, endpoint: &Endpoint, permit: Permit) -> Answer {
        if self.is_silent() {
            return Answer::Later(Box::pin(self.hold(endpoint.clone(), permit)));
        }
        Answer::Now(self.begin(endpoint, permit))
    }

    /// Waits until the handler has said something, or for as long as proxies do.
    async fn hold(mut self, endpoint: Endpoint, permit: Permit) -> Reply {
        let said = async {
            while self.is_silent() {
                let event = self.connection.events.recv().await;
                self.connection.event(event);
                self.connection.send_notes();
            }
        };
        let _ = timeout(HOLD, said).await;
        self.begin(&endpoint, permit)
    }

    /// JSON if that is all there is; events at once if the answer is among them; else a stream.
    fn begin(mut self, endpoint: &Endpoint, permit: Permit) -> Reply {
        if self.is_over() {
            let reply = self.reply();
            endpoint.0.spare.put(self.connection);
            return reply;
        }
        let (chunks, body) = mpsc::channel(CHUNKS_MAX);
        tokio::spawn(self.stream(chunks, Ends::of(&endpoint.0.end, &permit)));
        Reply::Events(Body::stream(Source::Task(body), permit))
    }

    /// All that was said, when no more comes.
    fn reply(&mut self) -> Reply {
        let out = &self.connection.out;
        match memchr::memchr(b'\n', out) {
            None => empty(StatusCode::ACCEPTED).into(),
            Some(end) if end + 1 == out.len() => {
                let error = out.outcome().and_then(Outcome::code).filter(|_| self.is_modern);
                let status = error.map_or(StatusCode::OK, status);
                Reply::Json(status, self.connection.take_line())
            }
            Some(_) => Reply::Events(Body::full(self.events())),
        }
    }

    /// What was said, as events.
    fn events(&self) -> Bytes {
        self.connection.budget().hold(events(&self.connection.out))
    }

    fn is_silent(&self) -> bool {
        self.connection.out.is_empty() && !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.connection.is_idle() && self.connection.session.listens() == 0
    }

    /// Sends what comes until the answer is out. A client that goes away takes the body with it;
    /// dropping the connection then cancels the handler.
    async fn stream(mut self, chunks: mpsc::Sender<Bytes>, mut ends: Ends) {
        loop {
            if !self.connection.out.is_empty() {
                let events = self.events();
                self.connection.recycle();
                if chunks.send(events).await.is_err() {
                    return;
                }
            }
            if self.is_over() {
                return;
            }
            tokio::select! {
                biased;
                () = chunks.closed() => return,
                event = self.connection.events.recv() => {
                    self.connection.event(event);
                    self.connection.send_notes();
                }
                change = next(&mut self.changes) => self.connection.change(change),
                end = ends.next() => match end {
                    End::Revoked => return,
                    // What still runs may finish.
                    End::Closed => {
                        let out = &mut self.connection.out;
                        self.connection.session.end_listens(out);
                    }
                },
            }
        }
    }
}

async fn next(
    changes: &mut Option<broadcast::Receiver<Change>>,
) -> Result<Change, broadcast::error::RecvError> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

/// Lines as events, one message each.
fn events(lines: &[u8]) -> Vec<u8> {
    let mut events = Vec::with_capacity(lines.len() + log::EVENT_BYTES);
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        log::event(&mut events, None, line);
    }
    events
}
