//! One worker: a connection to an upstream, and the loop that drives it.
//!
//! The loop takes what callers want, reads what the upstream says, and writes all that came of it in
//! one piece. Nothing in it waits for a client.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bytes::{Bytes, BytesMut};
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::frame::lines::{self, Lines};
use mcplane::proto::id::Id;
use mcplane::proto::limits::{MESSAGE_BYTES_MAX, PROBE_TIMEOUT};
use mcplane::proto::message::{Kind, Message, Part, write};
use mcplane::proto::method::Method;
use mcplane::proto::session::client::{Answer, Call as Request};
use mcplane::proto::session::{ClientConfig, ClientEvent, ClientSession, HandshakeError, Peer};
use mcplane::proto::version::{Era, Revision};
use mcplane::server::relay::Caller;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Sleep, sleep_until};

use super::call::Call;
use super::pool::{Heard, LaneOf, Pool};
use super::start::{Reader, Writer};
use crate::clock;
use crate::era;

/// Bytes asked for in one read: as much as a pipe of Linux holds.
const READ_BYTES: usize = 64 * 1024;

/// Unsent bytes above which an upstream counts as not reading: more calls are refused as overload.
const BACKLOG_BYTES_MAX: usize = 32 * 1024 * 1024;

/// An output buffer that has grown beyond this is given back when it is empty, in bytes.
const KEPT_BYTES: usize = 256 * 1024;

/// Lines in a row that are no messages, after which an upstream is not one.
const STRAYS_MAX: u32 = 10_000;

/// What a worker can do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Its process is being started, or the handshake is not done.
    Starting = 0,
    Healthy = 1,
    /// It has let a call time out; others are preferred.
    Degraded = 2,
    /// It let several time out in a row: it gets nothing before it has answered a probe.
    Quarantined = 3,
    /// It takes no more calls and ends when it is idle.
    Leaving = 4,
    Down = 5,
}

/// A worker, as those see it who use it.
pub(crate) struct Worker {
    pub(crate) number: usize,
    inbox: mpsc::UnboundedSender<Command>,
    pub(crate) in_flight: AtomicUsize,
    /// When it was last used, as a place in the order of all uses of its pool.
    pub(crate) used: AtomicU64,
    state: AtomicU8,
    pub(crate) timeouts: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) restarts: AtomicU32,
    /// Answers that came after their call had ended, or to no call at all.
    pub(crate) late: AtomicU64,
    /// Lines on its stdout that were no messages.
    pub(crate) strays: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) peer: ArcSwapOption<Peer>,
    pub(crate) lane: LaneOf,
    /// 1 while a probe is under way.
    pub(crate) probing: AtomicU8,
    life: AtomicU32,
    /// When its last start began.
    began: Mutex<Instant>,
}

/// What is wanted of a worker's connection.
pub(crate) enum Command {
    Call(Arc<Call>),
    /// Nobody waits any more for the call with this id, on this connection.
    Cancel(u32, i64),
    /// A request of the gateway itself: method, parameters, patience, who waits.
    Ask(Method, Vec<u8>, Duration, Waiting),
    /// The answer to a question of the upstream, on the connection on which it was asked.
    Reply(u32, Id, Result<Bytes, ErrorObject>),
    /// The parameters of the one `subscriptions/listen` of a modern upstream.
    Listen(Vec<u8>),
    /// Take no more calls, and end when idle or when the time has come.
    Leave(Instant),
}

pub(crate) type Waiting = oneshot::Sender<Result<Bytes, ErrorObject>>;

impl Worker {
    pub(crate) fn new(number: usize) -> (Arc<Self>, mpsc::UnboundedReceiver<Command>) {
        // Bounded by what is sent: calls by the places of the worker, cancellations by calls.
        let (inbox, commands) = mpsc::unbounded_channel();
        let worker = Self {
            number,
            inbox,
            in_flight: AtomicUsize::new(0),
            used: AtomicU64::new(0),
            state: AtomicU8::new(State::Starting as u8),
            timeouts: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            restarts: AtomicU32::new(0),
            late: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            peer: ArcSwapOption::empty(),
            lane: LaneOf::new(),
            probing: AtomicU8::new(0),
            life: AtomicU32::new(0),
            began: Mutex::new(clock::now()),
        };
        (Arc::new(worker), commands)
    }

    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Starting,
            1 => State::Healthy,
            2 => State::Degraded,
            3 => State::Quarantined,
            4 => State::Leaving,
            _ => State::Down,
        }
    }

    /// How long it has been starting.
    pub(crate) fn waits_for(&self) -> Duration {
        clock::now().duration_since(*self.began.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_state(&self, state: State) {
        if state == State::Starting {
            *self.began.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
        }
        self.state.store(state as u8, Ordering::Release);
    }

    /// Takes a place for one call, if there are fewer than `max`.
    pub(crate) fn reserve(&self, max: usize) -> bool {
        let taken = |count: usize| (count < max).then_some(count + 1);
        self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_ok()
    }

    /// `Err` if the worker is gone for good.
    pub(crate) fn send(&self, command: Command) -> Result<(), Command> {
        self.inbox.send(command).map_err(|error| error.0)
    }

    pub(crate) fn cancel(&self, life: u32, id: i64) {
        // A worker that is gone has nothing to cancel.
        let _ = self.send(Command::Cancel(life, id));
    }

    /// The number of its connection: ids on one mean nothing on the next.
    pub(crate) fn life(&self) -> u32 {
        self.life.load(Ordering::Relaxed)
    }
}

/// Who waits for a request on the connection.
enum Tag {
    Call(Arc<Call>),
    /// A call that nobody waits for any more. What its upstream said before it knew of that is on
    /// its way still, up to the answer to the ping that has this tag.
    Gone(Arc<Call>),
    Own(Waiting),
    Listen,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It was told to leave, and has.
    Left,
    /// The upstream is gone, or cannot be understood.
    Broken(String),
    /// The upstream ended under the probe of 2026-07-28: start it again, and spare it the probe.
    Respawn,
    /// The two sides do not meet.
    Refused(HandshakeError),
}

/// The connection of a worker.
pub(crate) struct Drive<'a> {
    worker: &'a Arc<Worker>,
    pool: &'a Arc<Pool>,
    session: ClientSession<Tag>,
    out: Vec<u8>,
    leave_at: Option<Instant>,
    strays_in_row: u32,
    end: Option<End>,
    /// Held until the handshake is done.
    starting: Option<OwnedSemaphorePermit>,
    /// The subscription to a modern upstream's changes.
    listen: Option<i64>,
}

impl<'a> Drive<'a> {
    pub(crate) fn new(
        worker: &'a Arc<Worker>,
        pool: &'a Arc<Pool>,
        config: ClientConfig,
        starting: Option<OwnedSemaphorePermit>,
    ) -> Self {
        worker.life.fetch_add(1, Ordering::Relaxed);
        let mut out = Vec::new();
        let session = ClientSession::start(clock::now(), config, &mut out);
        lines::end(&mut out, 0);
        Self {
            worker,
            pool,
            session,
            out,
            leave_at: None,
            strays_in_row: 0,
            end: None,
            starting,
            listen: None,
        }
    }

    /// Drives the connection until it ends. Whoever waits for it then is told by
    /// [`Drive::abandon`].
    pub(crate) async fn run(
        &mut self,
        reader: &mut Reader,
        writer: &mut Writer,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> End {
        let mut lines = Lines::new(MESSAGE_BYTES_MAX);
        let mut input = BytesMut::new();
        let mut alarm = Alarm::new();
        let mut sent = 0;
        loop {
            if let Some(end) = self.end.take() {
                return end;
            }
            if self.leave_at.is_some_and(|at| at <= clock::now())
                || self.leave_at.is_some() && sent == self.out.len() && self.is_idle()
            {
                return End::Left;
            }
            let wake = [self.session.deadline(), self.leave_at].into_iter().flatten().min();
            let ready = self.session.peer().is_some();
            tokio::select! {
                biased;
                command = commands.recv(), if ready || self.leave_at.is_none() => {
                    let now = clock::now();
                    self.command(now, command);
                    // All that waits goes out in one write.
                    while let Ok(command) = commands.try_recv() {
                        self.command(now, Some(command));
                    }
                }
                wrote = writer.write(self.out.get(sent..).unwrap_or_default()), if sent < self.out.len() => {
                    match wrote {
                        Ok(len) if len > 0 => sent += len,
                        other => return End::Broken(format!("writing failed: {}", why(other))),
                    }
                    if sent == self.out.len() {
                        sent = 0;
                        self.out.clear();
                        self.out.shrink_to(KEPT_BYTES);
                        if let Err(error) = writer.flush().await {
                            return End::Broken(format!("writing failed: {error}"));
                        }
                    }
                }
                read = read_some(reader, &mut input) => {
                    let now = clock::now();
                    while let Some(line) = lines.next(&mut input) {
                        match line {
                            Ok(line) => self.line(now, line),
                            Err(error) => self.too_long(&error.to_string()),
                        }
                    }
                    match read {
                        Ok(len) if len > 0 => {}
                        Ok(_) => {
                            if let Some(line) = lines.finish(&mut input) {
                                self.line(now, line);
                            }
                            self.closed();
                        }
                        Err(error) => return End::Broken(format!("reading failed: {error}")),
                    }
                }
                () = alarm.ring(wake), if wake.is_some() => {
                    self.expire(clock::now());
                }
            }
        }
    }

    /// Tells everybody who waits that the connection is gone. Calls that may be sent a second time,
    /// and those that never were, go to another worker.
    pub(crate) fn abandon(&mut self, why: &str) {
        for event in self.session.closed() {
            let ClientEvent::Answered(_, tag, _) = event else { continue };
            match tag {
                Tag::Call(call) => self.pool.broken(self.worker, &call, why),
                Tag::Gone(call) => self.pool.release(self.worker, &call),
                Tag::Own(waiting) => drop(waiting.send(Err(unavailable(why)))),
                Tag::Listen => {}
            }
        }
    }

    /// Nobody waits for an answer. What is listened for would never end.
    fn is_idle(&self) -> bool {
        self.session.tags().all(|tag| matches!(tag, Tag::Listen))
    }

    fn command(&mut self, now: Instant, command: Option<Command>) {
        let start = self.out.len();
        match command {
            Some(Command::Call(call)) => return self.call(now, call),
            Some(Command::Cancel(life, id)) => {
                if life == self.worker.life() {
                    self.cancel(now, id);
                }
                return;
            }
            Some(Command::Ask(method, params, patience, waiting)) => {
                self.ask(now, method, &params, patience, waiting);
            }
            Some(Command::Reply(life, id, answer)) => {
                if life != self.worker.life() {
                    return;
                }
                let mut id_json = Vec::new();
                id.write_json(&mut id_json);
                match answer {
                    Ok(result) => write::result(&mut self.out, &id_json, &result),
                    Err(error) => write::error(&mut self.out, Some(&id_json), &error),
                }
            }
            Some(Command::Listen(params)) => return self.listen(now, &params),
            Some(Command::Leave(at)) => self.leave_at = Some(at),
            None => self.leave_at = Some(now),
        }
        self.end_line(start);
    }

    /// Sends a call, unless it was cancelled while it waited.
    fn call(&mut self, now: Instant, call: Arc<Call>) {
        if !call.is_wanted() {
            return self.pool.release(self.worker, &call);
        }
        let Some(revision) = self.session.peer().map(|peer| peer.revision) else {
            // Not ready any more: somewhere else it may be.
            return self.pool.again(self.worker, call);
        };
        if self.out.len() > BACKLOG_BYTES_MAX {
            call.fail(&ErrorObject::new(
                Code::OVERLOADED,
                "the server does not read what it is sent",
            ));
            return self.pool.release(self.worker, &call);
        }
        let patience = self.pool.patience();
        let id = match self.session.open(now, call.method, patience, Tag::Call(Arc::clone(&call))) {
            Ok(id) => id,
            Err(_) => {
                let method = call.method;
                call.fail(&ErrorObject::new(
                    Code::METHOD_NOT_FOUND,
                    format!("the server speaks {revision}, which has no `{method}`"),
                ));
                return self.pool.release(self.worker, &call);
            }
        };
        call.id.store(id, Ordering::Release);
        let start = self.out.len();
        let mut seat = call.seat();
        let Some(request) = &seat.request else {
            // It was cancelled a moment ago, when no worker had it.
            drop(seat);
            self.session.forget(id);
            return self.pool.release(self.worker, &call);
        };
        era::write_request(request, &call, revision, id, &seat.retry, &mut self.out);
        seat.worker = Some((Arc::clone(self.worker), self.worker.life()));
        drop(seat);
        call.sent.fetch_add(1, Ordering::Relaxed);
        self.worker.calls.fetch_add(1, Ordering::Relaxed);
        self.end_line(start);
    }

    /// Takes a call back that nobody waits for any more.
    fn cancel(&mut self, now: Instant, id: i64) {
        let start = self.out.len();
        let call = self.session.cancel(id, "the client cancelled it", &mut self.out);
        self.end_line(start);
        if let Some(Tag::Call(call)) = call {
            self.part(now, &call);
        }
    }

    /// A call has ended here, and there as soon as this ping is answered: then its place is free,
    /// and what the upstream says without naming a call is not of this one.
    fn part(&mut self, now: Instant, call: &Arc<Call>) {
        let modern = self.session.peer().is_some_and(|peer| is_modern(peer.revision));
        let method = if modern { Method::Discover } else { Method::Ping };
        let ping = request(method, b"{}", PROBE_TIMEOUT);
        let start = self.out.len();
        let tag = Tag::Gone(Arc::clone(call));
        if self.session.call(now, &ping, tag, &mut self.out).is_err() {
            self.pool.release(self.worker, call);
        }
        self.end_line(start);
    }

    fn ask(
        &mut self,
        now: Instant,
        method: Method,
        params: &[u8],
        patience: Duration,
        waiting: Waiting,
    ) {
        let call = request(method, params, patience);
        if let Err(Tag::Own(waiting)) =
            self.session.call(now, &call, Tag::Own(waiting), &mut self.out)
        {
            let error = ErrorObject::method_not_found(method.as_str());
            let _ = waiting.send(Err(error));
        }
    }

    /// Listens for something else than before.
    fn listen(&mut self, now: Instant, params: &[u8]) {
        let before = self.listen.take();
        let call = request(Method::Listen, params, PROBE_TIMEOUT);
        let start = self.out.len();
        self.listen = self.session.call(now, &call, Tag::Listen, &mut self.out).ok();
        self.end_line(start);
        if let Some(before) = before {
            let start = self.out.len();
            self.session.cancel(before, "another one takes its place", &mut self.out);
            self.end_line(start);
        }
    }

    fn line(&mut self, now: Instant, line: Bytes) {
        let batches = self.session.peer().is_some_and(|peer| peer.revision.has_batches());
        if batches && mcplane::proto::message::is_batch(&line) {
            if let Ok(messages) = mcplane::proto::message::split_batch(&line) {
                return messages.into_iter().for_each(|message| self.message(now, message));
            }
        }
        self.message(now, line);
    }

    fn message(&mut self, now: Instant, line: Bytes) {
        let start = self.out.len();
        let message = match Message::scan(line) {
            Ok(message) => message,
            Err(failure) => {
                ClientSession::<Tag>::refuse(&failure, &mut self.out);
                self.end_line(start);
                return self.stray();
            }
        };
        self.strays_in_row = 0;
        let event = self.session.receive(now, &message, &mut self.out);
        self.end_line(start);
        self.on(event, Some(&message));
    }

    fn on(&mut self, event: ClientEvent<Tag>, message: Option<&Message>) {
        match (event, message) {
            (ClientEvent::Ready, _) => self.ready(),
            (ClientEvent::Respawn, _) => self.end = Some(End::Respawn),
            (ClientEvent::Failed(error), _) => self.end = Some(End::Refused(error)),
            (ClientEvent::Answered(_, Tag::Own(waiting), answer), _) => {
                // Whoever asked may have given up.
                let _ = waiting.send(own(answer));
            }
            (ClientEvent::Answered(_, Tag::Listen, _), _) => self.listen = None,
            (ClientEvent::Answered(_, Tag::Call(call), answer), message) => {
                self.answered(&call, answer, message);
            }
            (ClientEvent::Answered(_, Tag::Gone(call), _), _) => {
                self.pool.release(self.worker, &call);
            }
            (ClientEvent::Progress(id), Some(message)) => {
                if let Some(Tag::Call(call)) = self.session.tag(id) {
                    era::note_progress(call, message);
                }
            }
            (ClientEvent::Asked(method), Some(message)) => self.asked(method, message),
            (ClientEvent::Withdrawn(id), _) => self.pool.questions.withdrawn(self.worker, &id),
            (ClientEvent::Notification(method, _), Some(message)) => self.heard(method, message),
            (ClientEvent::Handled, Some(message))
                if matches!(message.kind(), Kind::Response | Kind::ErrorResponse) =>
            {
                self.worker.late.fetch_add(1, Ordering::Relaxed);
            }
            (ClientEvent::Handled, _) | (_, None) => {}
        }
    }

    fn ready(&mut self) {
        self.starting = None;
        let Some(peer) = self.session.peer() else { return };
        self.worker.peer.store(Some(Arc::new(peer.clone())));
        self.worker.timeouts.store(0, Ordering::Relaxed);
        if self.leave_at.is_none() {
            self.worker.set_state(State::Healthy);
        }
        self.pool.hear(Heard::Ready(Arc::clone(self.worker)));
    }

    fn answered(&mut self, call: &Arc<Call>, answer: Answer, message: Option<&Message>) {
        let Some(peer) = self.session.peer() else { return };
        match (answer, message) {
            (Answer::TimedOut, _) => {
                self.pool.timed_out(self.worker);
                let why = format!("`{}` was not answered in time by the server", call.method);
                call.fail(&ErrorObject::new(Code::HANDLER_TIMEOUT, why));
                return self.part(clock::now(), call);
            }
            (Answer::Closed, _) | (_, None) => {
                return self.pool.broken(self.worker, call, "the connection ended");
            }
            (Answer::Malformed(why), _) => {
                let why = format!("the server's answer breaks the protocol: {why}");
                call.fail(&ErrorObject::new(Code::INTERNAL_ERROR, why));
            }
            (Answer::InputRequired(round), Some(message)) => {
                self.worker.timeouts.store(0, Ordering::Relaxed);
                era::replay::round(call, round, message, peer);
            }
            (Answer::Complete(_) | Answer::Error(_), Some(message)) => {
                self.worker.timeouts.store(0, Ordering::Relaxed);
                if self.worker.state() == State::Degraded {
                    self.worker.set_state(State::Healthy);
                }
                era::answer(call, message, peer);
            }
        }
        self.pool.release(self.worker, call);
    }

    /// A question of a legacy upstream. Nothing says which call it belongs to, so it is passed on
    /// only where there is no doubt.
    fn asked(&mut self, method: Method, message: &Message) {
        let Some(id) = message.id() else { return };
        let revision = self.session.peer().map_or(Revision::LATEST_LEGACY, |peer| peer.revision);
        let start = self.out.len();
        let answer = match self.owner() {
            Owner::Nobody if method == Method::RootsList => Ok(self.pool.roots()),
            Owner::Gone => Err("the call that this belongs to was cancelled".into()),
            Owner::Nobody => Err("nobody has a call in flight that this could belong to".into()),
            Owner::Several(count) => Err(format!(
                "{count} calls are in flight for several clients, and nothing says which of them \
                 this belongs to; mode `exclusive`, `per_session` or `per_principal` can tell"
            )),
            Owner::Call(call) => {
                match self.pool.questions.ask(self.worker, &call, &id, method, message, revision) {
                    None => return,
                    Some(error) => {
                        write::error(&mut self.out, message.part(Part::Id), &error);
                        return self.end_line(start);
                    }
                }
            }
        };
        match answer {
            Ok(result) => {
                write::result(&mut self.out, message.part(Part::Id).unwrap_or(b"null"), &result);
            }
            Err(why) => {
                let error = ErrorObject::new(Code::INVALID_REQUEST, why);
                write::error(&mut self.out, message.part(Part::Id), &error);
            }
        }
        self.end_line(start);
    }

    /// Whose question or log message it is that names no call.
    fn owner(&self) -> Owner {
        let mut caller: Option<&Caller> = None;
        let mut youngest: Option<&Arc<Call>> = None;
        for tag in self.session.tags() {
            let (Tag::Call(call) | Tag::Gone(call)) = tag else { continue };
            if !call.method.takes_input() {
                continue;
            }
            let is_same = |other: &Caller| *other == call.caller && other.connection.is_some();
            if !caller.is_none_or(is_same) {
                return Owner::Several(self.session.tags().count());
            }
            caller = Some(&call.caller);
            let is_younger = youngest.is_none_or(|other| other.id() < call.id());
            if is_younger && matches!(tag, Tag::Call(_)) {
                youngest = Some(call);
            }
        }
        match (youngest, caller) {
            (Some(call), _) => Owner::Call(Arc::clone(call)),
            (None, Some(_)) => Owner::Gone,
            (None, None) => Owner::Nobody,
        }
    }

    fn heard(&mut self, method: Method, message: &Message) {
        match method {
            Method::ListenAcknowledged => {
                if let Some(id) = self.listen {
                    self.session.hold(id);
                }
            }
            Method::LogMessage => match self.owner() {
                Owner::Call(call) => era::note_log(&call, message),
                Owner::Gone => {}
                Owner::Nobody | Owner::Several(_) => {
                    self.pool.unowned.fetch_add(1, Ordering::Relaxed);
                }
            },
            Method::ResourcesUpdated => {
                if let Some(uri) = message.text(Part::Uri) {
                    self.pool.hear(Heard::Updated(uri.into_owned()));
                }
            }
            Method::ToolsListChanged
            | Method::PromptsListChanged
            | Method::ResourcesListChanged => {
                self.pool.hear(Heard::ListsChanged(Arc::clone(self.worker)));
            }
            _ => {}
        }
    }

    /// A message that was too long to be read. Whose it was can only be told if there is one.
    fn too_long(&mut self, error: &str) {
        let mut calls: Vec<Arc<Call>> = Vec::new();
        for tag in self.session.tags() {
            if let Tag::Call(call) = tag {
                calls.push(Arc::clone(call));
            }
        }
        let why = format!("the server sent {error}");
        match calls.as_slice() {
            [] => self.stray(),
            [call] => {
                let start = self.out.len();
                call.fail(&ErrorObject::new(Code::INTERNAL_ERROR, why.clone()));
                if let Some(Tag::Call(call)) = self.session.cancel(call.id(), &why, &mut self.out) {
                    self.pool.release(self.worker, &call);
                }
                self.end_line(start);
            }
            // One of them would wait for ever: better that all of them know.
            _ => self.end = Some(End::Broken(why)),
        }
    }

    fn stray(&mut self) {
        self.worker.strays.fetch_add(1, Ordering::Relaxed);
        self.strays_in_row += 1;
        if self.strays_in_row > STRAYS_MAX {
            let why = format!("{STRAYS_MAX} lines in a row on its stdout are no messages");
            self.end = Some(End::Broken(why));
        }
    }

    fn expire(&mut self, now: Instant) {
        loop {
            let start = self.out.len();
            let Some(event) = self.session.expire(now, &mut self.out) else { break };
            self.end_line(start);
            self.on(event, None);
        }
    }

    /// The upstream has closed its side. During the handshake the session knows what that means.
    fn closed(&mut self) {
        if self.session.peer().is_none() {
            for event in self.session.closed() {
                self.on(event, None);
            }
        }
        self.end.get_or_insert_with(|| End::Broken("it closed the connection".into()));
    }

    fn end_line(&mut self, start: usize) {
        if self.out.len() > start {
            lines::end(&mut self.out, start);
        }
    }
}

/// A timer that is set again only when it would ring too late: that costs more than a call, and
/// most calls end long before theirs.
struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// When it rings; `None` if it has rung, or was never set.
    at: Option<Instant>,
}

impl Alarm {
    fn new() -> Self {
        Self { sleep: Box::pin(sleep_until(clock::now().into())), at: None }
    }

    /// Waits until `wake`, or less. Cancel safe.
    async fn ring(&mut self, wake: Option<Instant>) {
        let Some(wake) = wake else { return };
        if self.at.is_none_or(|at| wake < at) {
            self.sleep.as_mut().reset(wake.into());
            self.at = Some(wake);
        }
        self.sleep.as_mut().await;
        self.at = None;
    }
}

/// A request of the gateway itself.
fn request(method: Method, params: &[u8], patience: Duration) -> Request<'_> {
    Request {
        method,
        params: Some(params),
        members: &[],
        meta: None,
        log_level: None,
        progress: false,
        timeout: Some(patience),
    }
}

enum Owner {
    Nobody,
    /// A call that has ended here.
    Gone,
    Call(Arc<Call>),
    Several(usize),
}

/// The answer to a request of the gateway itself.
fn own(answer: Answer) -> Result<Bytes, ErrorObject> {
    match answer {
        Answer::Complete(result) => Ok(result),
        Answer::Error(error) => Err(error),
        Answer::Malformed(why) => Err(ErrorObject::new(Code::INTERNAL_ERROR, why)),
        Answer::InputRequired(_) => {
            Err(ErrorObject::new(Code::INTERNAL_ERROR, "the server asks for input here"))
        }
        Answer::TimedOut => {
            Err(ErrorObject::new(Code::HANDLER_TIMEOUT, "the server did not answer in time"))
        }
        Answer::Closed => Err(unavailable("the connection ended")),
    }
}

pub(crate) fn unavailable(why: &str) -> ErrorObject {
    ErrorObject::new(Code::TRANSPORT, format!("the server is not available: {why}"))
        .with_data(&json!({"retry": true}))
}

fn why(wrote: io::Result<usize>) -> String {
    wrote.map_or_else(|error| error.to_string(), |_| "nothing was taken".into())
}

/// Reads what there is. Cancel safe: what was read is in `input`.
async fn read_some(reader: &mut Reader, input: &mut BytesMut) -> io::Result<usize> {
    input.reserve(READ_BYTES / 2);
    reader.read_buf(input).await
}

/// Whether a peer must be told of capabilities with every request.
pub(crate) const fn is_modern(revision: Revision) -> bool {
    matches!(revision.era(), Era::Modern)
}
