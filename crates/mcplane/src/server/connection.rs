//! The one loop of a connection: bytes in, lines, messages, handlers, bytes out.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::frame::lines::{self, Lines};
use mcplane_proto::id::Id;
use mcplane_proto::limits::MESSAGE_BYTES_MAX;
use mcplane_proto::message::{Message, Part, ScanError, ScanFailure, is_batch, split_batch, write};
use mcplane_proto::method::Method;
use mcplane_proto::session::{ServerEvent, ServerSession};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

use super::catalog::Catalog;
use super::context::{ASK_TIMEOUT, Event, NOTES_MAX, Stop};
use super::{Change, Service};
use crate::error::{Error, Result};

/// Bytes asked for in one read: as much as a pipe of Linux holds.
const READ_BYTES: usize = 64 * 1024;

/// Unsent bytes above which no more messages are taken in: the peer does not read its answers.
const OUT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// An output buffer that grew beyond this is given back to the allocator once it is empty.
const OUT_BYTES_KEPT: usize = 1024 * 1024;

/// How long requests in flight may still run when the peer has closed its side.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves one connection until the peer closes it.
pub(super) async fn serve(
    service: &Service,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
) -> Result<()> {
    let (outlet, events) = mpsc::channel(NOTES_MAX);
    let mut changes = service.0.changes.subscribe();
    let mut connection = Connection::new(service.clone(), outlet, events);
    let mut input = BytesMut::with_capacity(READ_BYTES);
    let mut lines = Lines::new(MESSAGE_BYTES_MAX);
    let mut sent = 0;
    let mut drained_by: Option<Instant> = None;
    loop {
        connection.take_lines(&mut lines, &mut input);
        connection.send_notes();
        let unsent = connection.out.len() - sent;
        if let Some(deadline) = drained_by {
            let idle = connection.session.in_flight() == 0 && connection.events.is_empty();
            if unsent == 0 && idle || deadline <= Instant::now() {
                connection.stop();
                return ended(writer.shutdown().await);
            }
        }
        let reading = drained_by.is_none() && connection.out.len() < OUT_BYTES_MAX;
        let wake = [connection.session.deadline(), drained_by].into_iter().flatten().min();
        tokio::select! {
            biased;
            wrote = writer.write(connection.out.get(sent..).unwrap_or_default()), if unsent > 0 => {
                match wrote {
                    Ok(0) => return ended(Err(io::ErrorKind::WriteZero.into())),
                    Ok(count) => sent += count,
                    Err(error) => return ended(Err(error)),
                }
                if sent == connection.out.len() {
                    sent = 0;
                    connection.recycle();
                    if let Err(error) = writer.flush().await {
                        return ended(Err(error));
                    }
                }
            }
            read = read_some(&mut reader, &mut input), if reading => match read {
                Ok(0) => {
                    drained_by = Some(Instant::now() + DRAIN);
                    if let Some(last) = lines.finish(&mut input) {
                        connection.line(Instant::now(), last);
                    }
                    connection.session.end_listens(&mut connection.out, end_line);
                }
                Ok(_) => {}
                Err(error) => return ended(Err(error)),
            },
            Some(event) = connection.events.recv() => connection.event(event),
            change = changes.recv() => connection.change(change),
            () = sleep_until(wake.unwrap_or_else(Instant::now).into()), if wake.is_some() => {
                connection.expire(Instant::now());
            }
        }
    }
}

/// Reads what there is. Cancel safe: what was read is in `input`.
async fn read_some(
    reader: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
) -> io::Result<usize> {
    input.reserve(READ_BYTES / 2);
    reader.read_buf(input).await
}

/// A peer that goes away ends the connection; it does not break it.
fn ended(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::WriteZero
                    | io::ErrorKind::UnexpectedEof
            ) =>
        {
            Err(Error::io("the connection broke", error))
        }
        _ => Ok(()),
    }
}

/// Ends a line that our own compact writer wrote.
fn end_line(out: &mut Vec<u8>) {
    out.push(b'\n');
}

/// A question of ours: the request that it was asked for, and who waits for the answer.
pub(super) type Asked = (Option<Id>, oneshot::Sender<Result<Bytes, ErrorObject>>);

/// A request that runs beside the connection's task.
pub(super) struct InFlight {
    pub(super) stop: Arc<Stop>,
    pub(super) task: AbortHandle,
    /// The batch that its answer belongs to.
    pub(super) batch: Option<u64>,
}

impl InFlight {
    fn cancel(&self) {
        self.stop.raise();
        self.task.abort();
    }
}

/// What one connection remembers between two reads.
pub(super) struct Connection {
    pub(super) service: Service,
    pub(super) session: ServerSession<Asked, InFlight>,
    catalog: Arc<Catalog>,
    generation: u64,
    pub(super) outlet: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    /// Complete lines that are not sent yet.
    pub(super) out: Vec<u8>,
    batches: Batches,
}

impl Connection {
    fn new(service: Service, outlet: mpsc::Sender<Event>, events: mpsc::Receiver<Event>) -> Self {
        Self {
            session: ServerSession::new(service.0.config.clone()),
            generation: service.0.generation.load(Ordering::Acquire),
            catalog: service.catalog(),
            outlet,
            events,
            out: Vec::new(),
            batches: Batches::default(),
            service,
        }
    }

    /// Every complete line of the input, while its answers find room.
    fn take_lines(&mut self, lines: &mut Lines, input: &mut BytesMut) {
        if input.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.out.len() < OUT_BYTES_MAX {
            match lines.next(input) {
                Some(Ok(line)) => self.line(now, line),
                Some(Err(error)) => {
                    let error = ScanError::TooLong { len: error.len, max: error.max };
                    self.refuse(&error.into());
                }
                None => break,
            }
        }
    }

    /// The catalog as it is now: an earlier message of the same read may have changed it.
    pub(super) fn fresh_catalog(&mut self) -> Arc<Catalog> {
        let generation = self.service.0.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            self.catalog = self.service.catalog();
        }
        Arc::clone(&self.catalog)
    }

    fn line(&mut self, now: Instant, line: Bytes) {
        if is_batch(&line) {
            return self.batch(now, &line);
        }
        match Message::scan(line) {
            Ok(message) => self.message(now, message),
            Err(failure) => self.refuse(&failure),
        }
    }

    fn message(&mut self, now: Instant, message: Message) {
        let start = self.out.len();
        match self.session.receive(now, &message, &mut self.out) {
            ServerEvent::Request(method, revision) => self.dispatch(method, revision, message),
            ServerEvent::Cancelled(running) => {
                running.cancel();
                // The handler is dropped in a later turn, so its questions are found by its id.
                let id = message.part(Part::RequestId).and_then(Id::from_json);
                self.withdraw(|(of, _)| *of == id);
                if let Some(batch) = running.batch {
                    self.batches.skip(batch, &mut self.out);
                }
            }
            ServerEvent::Answered((_, asked), outcome) => {
                // A handler that was dropped meanwhile does not want it any more.
                let _ = asked.send(outcome);
            }
            ServerEvent::Notification(_) | ServerEvent::Listening(_) | ServerEvent::Handled => {
                self.end_reply(start);
            }
        }
    }

    fn refuse(&mut self, failure: &ScanFailure) {
        let start = self.out.len();
        self.session.refuse(failure, &mut self.out);
        self.end_reply(start);
    }

    /// A batch of 2025-03-26: its answers come back as one array.
    fn batch(&mut self, now: Instant, line: &Bytes) {
        let elements = match split_batch(line) {
            Ok(elements) if self.session.takes_batches() => elements,
            Ok(_) => {
                return self
                    .refuse(&ScanError::BadBatch("batches are not part of this revision").into());
            }
            Err(failure) => return self.refuse(&failure),
        };
        self.batches.begin();
        for element in elements {
            self.line_of_batch(now, element);
        }
        self.batches.end(&mut self.out);
    }

    fn line_of_batch(&mut self, now: Instant, element: Bytes) {
        match Message::scan(element) {
            Ok(message) if message.method() == Some(Method::Initialize) => {
                let start = self.out.len();
                let why = "`initialize` must not be part of a batch";
                let error = ErrorObject::new(Code::INVALID_REQUEST, why);
                write::error(&mut self.out, message.part(Part::Id), &error);
                self.end_reply(start);
            }
            Ok(message) => self.message(now, message),
            Err(failure) => self.refuse(&failure),
        }
    }

    /// Ends an answer that was written into the output from `start` on: as a line of its own, or
    /// as an element of the batch that is being read.
    pub(super) fn end_reply(&mut self, start: usize) {
        if self.out.len() == start {
            return;
        }
        match self.batches.current() {
            Some(batch) => {
                let reply = self.out.split_off(start);
                self.batches.reply(batch, reply);
            }
            None => lines::end(&mut self.out, start),
        }
    }

    /// The batch that is being read.
    pub(super) fn current_batch(&mut self) -> Option<u64> {
        let batch = self.batches.current();
        if let Some(batch) = batch {
            self.batches.expect(batch);
        }
        batch
    }

    /// What handlers have sent so far: before an inline handler's answer, and in every turn.
    pub(super) fn send_notes(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        let start = self.out.len();
        match event {
            Event::Note(id, note) => {
                if id.is_none_or(|id| self.session.is_in_flight(&id)) {
                    lines::write(&mut self.out, &note);
                }
            }
            Event::Done(id, reply) => {
                match self.session.finish(&id) {
                    Some(InFlight { batch: Some(batch), .. }) => {
                        self.batches.late_reply(batch, reply, &mut self.out);
                    }
                    Some(_) => lines::write(&mut self.out, &reply),
                    // Cancelled while the answer was on its way: nothing may be sent for it.
                    None => {}
                }
                // A handler that gave up, or ran out of time, leaves its questions behind.
                self.withdraw(|(_, asked)| asked.is_closed());
            }
            // Asked for a request that was cancelled meanwhile.
            Event::Ask { id: Some(id), .. } if !self.session.is_in_flight(&id) => {}
            Event::Ask { id, method, params, answer } => {
                let asked = self.session.ask(
                    Instant::now(),
                    method,
                    Some(&params),
                    ASK_TIMEOUT,
                    (id, answer),
                    &mut self.out,
                );
                match asked {
                    Ok(_) => lines::end(&mut self.out, start),
                    Err((_, answer)) => {
                        let why = format!("this client cannot be asked `{method}`");
                        let _ = answer.send(Err(ErrorObject::new(Code::INVALID_REQUEST, why)));
                    }
                }
            }
        }
    }

    fn change(&mut self, change: Result<Change, broadcast::error::RecvError>) {
        let changes = match change {
            Ok(change) => vec![change],
            // Too many to keep: everything may have changed.
            Err(broadcast::error::RecvError::Lagged(_)) => {
                vec![Change::Tools, Change::Prompts, Change::Resources]
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
        for change in changes {
            let (method, uri) = match &change {
                Change::Tools => (Method::ToolsListChanged, None),
                Change::Prompts => (Method::PromptsListChanged, None),
                Change::Resources => (Method::ResourcesListChanged, None),
                Change::Resource(uri) => (Method::ResourcesUpdated, Some(uri.as_str())),
            };
            self.session.notify(method, uri, &mut self.out, end_line);
        }
    }

    /// Questions of ours that the client did not answer in time.
    fn expire(&mut self, now: Instant) {
        for (id, entry) in self.session.expire(now) {
            let params = json!({"requestId": id, "reason": "timeout"}).to_string();
            let start = self.out.len();
            let cancelled = Method::Cancelled.as_str();
            write::notification(&mut self.out, cancelled, Some(params.as_bytes()));
            lines::end(&mut self.out, start);
            let why = format!("the client did not answer `{}` in time", entry.method);
            let _ = entry.tag.1.send(Err(ErrorObject::new(Code::INTERNAL_ERROR, why)));
        }
    }

    /// Takes back the questions that nobody waits for any more.
    fn withdraw(&mut self, is_orphan: impl Fn(&Asked) -> bool) {
        for id in self.session.asked_by(is_orphan) {
            let start = self.out.len();
            self.session.withdraw(id, "the request was cancelled", &mut self.out);
            lines::end(&mut self.out, start);
        }
    }

    fn recycle(&mut self) {
        if self.out.capacity() > OUT_BYTES_KEPT {
            self.out = Vec::new();
        }
        self.out.clear();
    }

    /// Stops whatever still runs: nobody is there to hear of it.
    fn stop(&mut self) {
        for running in self.session.drain() {
            running.cancel();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Batches whose answers are not complete. Only 2025-03-26 has them.
#[derive(Default)]
struct Batches {
    last: u64,
    reading: Option<u64>,
    open: HashMap<u64, Batch>,
}

#[derive(Default)]
struct Batch {
    replies: Vec<u8>,
    /// Requests that run beside the connection's task.
    awaited: usize,
}

impl Batches {
    fn begin(&mut self) {
        self.last += 1;
        self.reading = Some(self.last);
        self.open.insert(self.last, Batch::default());
    }

    const fn current(&self) -> Option<u64> {
        self.reading
    }

    fn expect(&mut self, batch: u64) {
        if let Some(batch) = self.open.get_mut(&batch) {
            batch.awaited += 1;
        }
    }

    fn reply(&mut self, batch: u64, reply: Vec<u8>) {
        if let Some(batch) = self.open.get_mut(&batch) {
            batch.replies.push(if batch.replies.is_empty() { b'[' } else { b',' });
            batch.replies.extend_from_slice(&reply);
        }
    }

    fn late_reply(&mut self, batch: u64, reply: Vec<u8>, out: &mut Vec<u8>) {
        self.reply(batch, reply);
        self.skip(batch, out);
    }

    /// One awaited request has ended.
    fn skip(&mut self, batch: u64, out: &mut Vec<u8>) {
        if let Some(batch) = self.open.get_mut(&batch) {
            batch.awaited = batch.awaited.saturating_sub(1);
        }
        self.send(batch, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(batch) = self.reading.take() {
            self.send(batch, out);
        }
    }

    /// Sends a batch whose answers are complete. One of notifications has none at all.
    fn send(&mut self, id: u64, out: &mut Vec<u8>) {
        let complete =
            self.reading != Some(id) && self.open.get(&id).is_some_and(|batch| batch.awaited == 0);
        let Some(batch) = complete.then(|| self.open.remove(&id)).flatten() else { return };
        if !batch.replies.is_empty() {
            let start = out.len();
            out.extend_from_slice(&batch.replies);
            out.push(b']');
            lines::end(out, start);
        }
    }
}
