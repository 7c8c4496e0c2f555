//! One request of 2026-07-28: a connection that lives as long as its answer takes.
//!
//! JSON if nothing streams, server-sent events if something does: the headers are held back until
//! the handler has said something, so that an early error still gets its status.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::message::{Kind, Message, Part};
use mcplane_proto::method::Method;
use mcplane_proto::version::Revision;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::timeout;

use super::body::Source;
use super::classify::{Misfit, Named, Payload, status};
use super::{Answer, Body, Endpoint, Permit, empty, json, log, session};
use crate::server::{Change, Connection};

/// How long the headers wait for a handler that says nothing. Proxies give up after about a minute.
const HOLD: Duration = Duration::from_secs(15);

/// Room for a usual answer, in bytes: growing to it costs more than having it.
const ANSWER_BYTES: usize = 512;

/// Chunks that wait for the client to read them; then the handler's notifications wait, too, up to
/// [`NOTES_BYTES_MAX`](crate::server::NOTES_BYTES_MAX).
const CHUNKS_MAX: usize = 2;

/// Answers a request of 2026-07-28.
pub(super) fn answer(
    endpoint: &Endpoint,
    message: Message,
    principal: Option<Arc<str>>,
    permit: Permit,
) -> Answer {
    if message.kind() == Kind::Notification {
        // Nothing to cancel by an id that the client chose: closing the stream does that.
        return Answer::Now(empty(StatusCode::ACCEPTED));
    }
    let service = &endpoint.0.service;
    let changes = (message.method() == Some(Method::Listen)).then(|| service.changes());
    let id = message.share(Part::Id).unwrap_or_default();
    let mut exchange = Exchange { connection: Connection::new(service.of(principal)), changes };
    exchange.connection.out.reserve(ANSWER_BYTES);
    exchange.connection.message(Instant::now(), message);
    exchange.connection.send_notes();
    exchange.respond(endpoint, id, permit)
}

/// Answers a request of the legacy eras for an endpoint that keeps no sessions. Nobody can be asked
/// anything, and nothing can be resumed.
pub(super) fn answer_stateless(
    endpoint: &Endpoint,
    headers: &HeaderMap,
    payload: Payload,
    principal: Option<Arc<str>>,
    permit: Permit,
) -> Answer {
    let mut connection = Connection::new(endpoint.0.service.of(principal));
    // 2025-03-26 did not name itself (2025-06-18 transports §Protocol version header).
    let revision = match Named::of(headers) {
        Named::Legacy(revision) => revision,
        _ => Revision::V2025_03_26,
    };
    let now = Instant::now();
    match payload {
        Payload::Initialize(message) => connection.message(now, message),
        Payload::Message(message) if message.kind() != Kind::Request => {
            return Answer::Now(empty(StatusCode::ACCEPTED));
        }
        Payload::Message(message) | Payload::Modern(message) => {
            connection.session.assume(revision);
            connection.message(now, message);
        }
        Payload::Batch(_) if !revision.has_batches() => {
            let why = "batches are not part of this revision";
            let error = ErrorObject::new(Code::INVALID_REQUEST, why);
            return Answer::Now(Misfit::new(None, error).response());
        }
        Payload::Batch(batch) => {
            connection.session.assume(revision);
            connection.take(now, batch);
        }
    }
    connection.send_notes();
    // Errors of the legacy eras ride on 200: no answer begins like that of no id.
    Exchange { connection, changes: None }.respond(endpoint, Bytes::new(), permit)
}

struct Exchange {
    connection: Connection,
    changes: Option<broadcast::Receiver<Change>>,
}

impl Exchange {
    /// An inline handler has answered already: it needs neither a future nor a timer.
    fn respond(self, endpoint: &Endpoint, id: Bytes, permit: Permit) -> Answer {
        if self.is_silent() {
            return Answer::Later(Box::pin(self.hold(endpoint.clone(), id, permit)));
        }
        Answer::Now(self.begin(endpoint, &id, permit))
    }

    /// Waits until the handler has said something, or for as long as proxies do.
    async fn hold(mut self, endpoint: Endpoint, id: Bytes, permit: Permit) -> Response<Body> {
        let said = async {
            while self.is_silent() {
                let event = self.connection.events.recv().await;
                self.connection.event(event);
                self.connection.send_notes();
            }
        };
        let _ = timeout(HOLD, said).await;
        self.begin(&endpoint, &id, permit)
    }

    /// JSON if that is all there is; events at once if the answer is among them; else a stream.
    fn begin(mut self, endpoint: &Endpoint, id: &[u8], permit: Permit) -> Response<Body> {
        if self.is_over() {
            match one_line(std::mem::take(&mut self.connection.out)) {
                Ok(answer) if answer.is_empty() => return empty(StatusCode::ACCEPTED),
                Ok(answer) => return json(status_of(id, &answer), answer),
                Err(lines) => return session::event_stream(Body::full(events(&lines))),
            }
        }
        let (chunks, body) = mpsc::channel(CHUNKS_MAX);
        tokio::spawn(self.stream(chunks, endpoint.0.end.subscribe()));
        session::event_stream(Body::stream(Source::Task(body), permit))
    }

    fn is_silent(&self) -> bool {
        self.connection.out.is_empty() && !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.connection.is_idle() && self.connection.session.listens() == 0
    }

    /// Sends what comes until the answer is out. A client that goes away takes the body with it;
    /// dropping the connection then cancels the handler.
    async fn stream(mut self, chunks: mpsc::Sender<Bytes>, mut end: watch::Receiver<bool>) {
        let mut ending = false;
        loop {
            if !self.connection.out.is_empty() {
                let events = events(&self.connection.out);
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
                // What still runs may finish.
                _ = end.changed(), if !ending => {
                    ending = true;
                    let out = &mut self.connection.out;
                    self.connection.session.end_listens(out, |out| out.push(b'\n'));
                }
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

/// The only line of an output, without its end; the output itself if it has more.
fn one_line(mut out: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
    let end = memchr::memchr(b'\n', &out);
    if end.is_some_and(|end| end + 1 < out.len()) {
        return Err(out);
    }
    out.pop();
    Ok(out)
}

/// The status of an answer to the request `id`: errors of 2026-07-28 have one.
fn status_of(id: &[u8], answer: &[u8]) -> StatusCode {
    let is_error = answer
        .strip_prefix(br#"{"jsonrpc":"2.0","id":"#.as_slice())
        .and_then(|rest| rest.strip_prefix(id))
        .is_some_and(|rest| rest.starts_with(b",\"error\":"));
    if !is_error || id.is_empty() {
        return StatusCode::OK;
    }
    let message = Message::scan(answer.to_vec()).ok();
    let error = message.as_ref().and_then(|message| message.part(Part::Error));
    let error = error.and_then(|json| serde_json::from_slice::<ErrorObject>(json).ok());
    error.map_or(StatusCode::OK, |error| status(error.code))
}

/// Lines as events, one message each.
fn events(lines: &[u8]) -> Bytes {
    let mut events = Vec::with_capacity(lines.len() + 64);
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        log::event(&mut events, None, line);
    }
    events.into()
}
