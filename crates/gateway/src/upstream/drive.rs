//! The loop of a worker's connection.
//!
//! It takes what callers want, reads what the upstream says, and writes all that came of it in one
//! piece. Nothing in it waits for a client.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcplane::Error;
use mcplane::budget::Charge;
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::frame::Output;
use mcplane::proto::id::Id;
use mcplane::proto::limits::MESSAGE_BYTES_MAX;
use mcplane::proto::message::{Kind, Message, is_batch, split_batch};
use mcplane::proto::method::Method;
use mcplane::proto::session::client::{Answer, Call as Request, Lost};
use mcplane::proto::session::{ClientConfig, ClientEvent, ClientSession, HandshakeError, Peer};
use mcplane::server::relay::Caller;
use mcplane::transport::Loss;
use mcplane::transport::wire::{Drain, Event, Wants, Wire};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::call::{Call, Sent};
use super::cause::{Broken, Notice};
use super::listening::Listening;
use super::loss;
use super::model::{Command, Place, Pool, Waiting, Worker, WorkerEvent};
use super::state::State;
use super::voices::Voices;
use super::worker::unavailable;
use crate::failure::Failure;
use crate::settle::is_traced;
use crate::{clock, era};

/// Unsent bytes above which an upstream counts as not reading: more calls are refused as overload.
pub(super) const BACKLOG_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Unsent bytes above which an upstream is not read: what it says may need answers. Calls alone never
/// come so far. Else one that reads nothing while it writes its own answers, and is not read for that,
/// would wait for ever.
pub(super) const UNREAD_BYTES_MAX: usize = BACKLOG_BYTES_MAX + 2 * MESSAGE_BYTES_MAX;

/// Bytes of a line in which its id is looked for when the rest is given up.
const BEGIN_BYTES: usize = 256;

/// Consecutive lines that are not messages, after which the peer is not taken for an MCP server.
const STRAYS_MAX: u32 = 10_000;

/// Who waits for a request on the connection.
pub(super) enum Tag {
    Call(Arc<Call>),
    /// A call that nobody waits for any more, and what it holds. What its upstream said before it
    /// knew of that is on its way still, up to the answer to the ping that has this tag.
    Gone(Arc<Call>, Box<Sent>),
    /// The same of a call of this client that went to another worker.
    #[allow(dead_code, reason = "the place is free when this is dropped")]
    Moved(Caller, Place),
    Own(Waiting),
    Listen,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It was told to leave, and has.
    Left,
    /// The upstream is gone, or cannot be understood.
    Broken(Broken),
    /// The upstream ended under the probe of 2026-07-28: start it again, and spare it the probe.
    Respawn,
    /// What earlier clients' calls may still say must not reach the next one: start it again.
    Fresh,
    /// The two sides do not meet.
    Refused(HandshakeError),
    /// This request of the handshake was lost on its way.
    Lost(Method, Error),
}

/// The connection of a worker.
pub(crate) struct Drive<'a> {
    pub(super) worker: &'a Arc<Worker>,
    pub(super) pool: &'a Arc<Pool>,
    pub(super) session: ClientSession<Tag>,
    pub(super) out: Output,
    /// For the beginning of a line that is not whole yet.
    coming: Charge,
    leave_at: Option<Instant>,
    /// When the beginning of the line at hand came, if it did not come whole and calls are traced.
    pub(super) began: Option<Instant>,
    strays_in_row: u32,
    pub(super) end: Option<End>,
    /// Held until the handshake is done.
    starting: Option<OwnedSemaphorePermit>,
    pub(super) listening: Listening,
    pub(super) voices: Voices,
    /// Lines say on the stream of which request they came.
    is_attributed: bool,
    /// On which the one at hand did.
    pub(super) of: Option<i64>,
    losses: loss::Told,
}

impl<'a> Drive<'a> {
    pub(crate) fn new(
        worker: &'a Arc<Worker>,
        pool: &'a Arc<Pool>,
        config: ClientConfig,
        is_attributed: bool,
        starting: Option<OwnedSemaphorePermit>,
    ) -> Self {
        worker.life.fetch_add(1, Ordering::Relaxed);
        worker.is_told.store(false, Ordering::Relaxed);
        let mut out = Output::new();
        let session = ClientSession::start(clock::now(), config, &mut out);
        Self {
            worker,
            pool,
            session,
            out,
            coming: Charge::default(),
            leave_at: None,
            began: None,
            strays_in_row: 0,
            end: None,
            starting,
            listening: Listening::default(),
            voices: Voices::new(pool.settings.mode),
            is_attributed,
            of: None,
            losses: loss::Told::default(),
        }
    }

    /// Drives the connection until it ends. Whoever waits for it then is told by
    /// [`Drive::abandon`].
    pub(crate) async fn run(
        &mut self,
        wire: &mut Wire,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> End {
        loop {
            self.take_lines(wire);
            if let Some(end) = self.end.take() {
                return end;
            }
            let drain = self.leave_at.map(|by| Drain { by, is_idle: self.is_idle() });
            let wants = Wants { reads: true, wake: self.session.deadline(), drain };
            let ready = self.session.peer().is_some();
            tokio::select! {
                biased;
                command = commands.recv(), if ready || self.leave_at.is_none() => {
                    self.command(clock::now(), command);
                    // Other clients whose requests have come may have something for the same write.
                    if self.worker.in_flight.load(Ordering::Acquire) > 1 {
                        tokio::task::yield_now().await;
                    }
                    let now = clock::now();
                    while let Ok(command) = commands.try_recv() {
                        self.command(now, Some(command));
                    }
                }
                event = wire.next(&mut self.out, wants) => {
                    if let Some(end) = self.event(event, wire) {
                        return end;
                    }
                }
            }
        }
    }

    fn event(&mut self, event: Event, wire: &mut Wire) -> Option<End> {
        match event {
            Event::Read | Event::Sent => {}
            Event::Woke => self.expire(clock::now()),
            Event::Lost(loss) => self.lost(loss),
            Event::Over => {
                if let Some(line) = wire.last_line() {
                    self.line(clock::now(), line);
                }
                self.closed();
            }
            Event::ReadFailed(error) => return Some(End::Broken(Broken::Read(error))),
            Event::WriteFailed(error) => return Some(End::Broken(Broken::Write(error))),
            Event::Stalled => return Some(End::Broken(Broken::Stalled)),
            Event::Drained => return Some(End::Left),
        }
        None
    }

    /// Tells everybody who waits that the connection is gone. Calls that may be sent a second time,
    /// and those that never were, go to another worker.
    pub(crate) fn abandon(&mut self, why: &str) {
        for event in self.session.closed() {
            let ClientEvent::Answered(_, tag, _) = event else { continue };
            match tag {
                Tag::Call(call) => self.pool.broken(&call, why),
                Tag::Own(waiting) => drop(waiting.send(Err(unavailable(why)))),
                Tag::Gone(..) | Tag::Moved(..) | Tag::Listen => {}
            }
        }
    }

    /// The whole lines that have come.
    fn take_lines(&mut self, wire: &mut Wire) {
        let mut now = None;
        while let Some(line) = wire.next_line(&self.out) {
            let now = *now.get_or_insert_with(clock::now);
            match line {
                Ok(line) => self.line(now, line),
                Err(error) => self.unread(Broken::TooLong(error)),
            }
            self.began = None;
        }
        // What has come of a line is charged. One for which there is no room is given up.
        let Some(input) = wire.beginning() else { return };
        self.coming.shrink(input.len());
        if !input.is_empty() && self.began.is_none() && is_traced() {
            self.began = Some(clock::now());
        }
        if !input.is_empty() && !self.pool.shared.questions.cover(&mut self.coming, input.len()) {
            let begin = input.split_to(input.len().min(BEGIN_BYTES));
            wire.give_up();
            self.began = None;
            self.coming.shrink(0);
            self.no_room(&begin);
        }
    }

    /// Nobody waits for an answer. What is listened for would never end.
    fn is_idle(&self) -> bool {
        self.session.tags().all(|tag| matches!(tag, Tag::Listen))
    }

    fn command(&mut self, now: Instant, command: Option<Command>) {
        match command {
            Some(Command::Call(call, place)) => self.call(now, call, place),
            Some(Command::Cancel(sent)) => self.cancel(now, sent),
            Some(Command::Ask(method, params, patience, waiting)) => {
                self.ask(now, method, &params, patience, waiting);
            }
            Some(Command::Asked(life, caller, method, question)) => {
                if life == self.worker.life() {
                    self.of = None;
                    self.asked(method, &question, Some(&caller));
                }
            }
            Some(Command::Reply(life, id, answer)) => {
                if life != self.worker.life() {
                    return;
                }
                let mut id_json = Vec::new();
                id.write_json(&mut id_json);
                match answer {
                    Ok(result) => self.out.result(&id_json, &result),
                    Err(error) => self.out.error(Some(&id_json), &error),
                }
            }
            Some(Command::Note(life, note)) => {
                if life == self.worker.life() && self.out.backlog() <= BACKLOG_BYTES_MAX {
                    self.out.line(|out| out.extend_from_slice(&note));
                }
            }
            Some(Command::Listen(params)) => self.listen(now, &params),
            Some(Command::Leave(at)) => self.leave_at = Some(at),
            None => self.leave_at = Some(now),
        }
    }

    /// It takes no more calls.
    pub(super) const fn leaves(&self) -> bool {
        self.leave_at.is_some()
    }

    fn ask(
        &mut self,
        now: Instant,
        method: Method,
        params: &[u8],
        patience: Duration,
        waiting: Waiting,
    ) {
        if self.out.backlog() > BACKLOG_BYTES_MAX {
            let _ = waiting.send(Err(unavailable("it does not read what it is sent")));
            return;
        }
        let call = request(method, params, patience);
        if let Err(Tag::Own(waiting)) =
            self.session.call(now, &call, Tag::Own(waiting), &mut self.out)
        {
            // A list that its revision does not have is empty; of a worker that is not ready nothing is known.
            let lacks = |peer: &Peer| !method.exists_in(peer.revision);
            let error = match self.session.peer().is_some_and(lacks) {
                true => ErrorObject::method_not_found(method.as_str()),
                false => unavailable("it is not ready, or has too much to do"),
            };
            let _ = waiting.send(Err(error));
        }
    }

    fn line(&mut self, now: Instant, mut line: Bytes) {
        if self.is_attributed {
            self.of = attribution(&mut line);
        }
        let batches = self.session.peer().is_some_and(|peer| peer.revision.has_batches());
        if batches
            && is_batch(&line)
            && let Ok(messages) = split_batch(&line)
        {
            return messages.into_iter().for_each(|message| self.message(now, message));
        }
        self.message(now, line);
    }

    fn message(&mut self, now: Instant, line: Bytes) {
        let message = match Message::scan(line) {
            Ok(message) => message,
            Err(failure) => {
                let event = self.session.refuse(now, &failure, &mut self.out);
                self.on(now, event, None);
                return self.stray();
            }
        };
        self.strays_in_row = 0;
        let event = self.session.receive(now, &message, &mut self.out);
        self.on(now, event, Some(&message));
    }

    fn on(&mut self, now: Instant, event: ClientEvent<Tag>, message: Option<&Message>) {
        match (event, message) {
            (ClientEvent::Ready, _) => self.ready(),
            (ClientEvent::Respawn, _) => self.end = Some(End::Respawn),
            (ClientEvent::Failed(error), _) => self.end = Some(End::Refused(error)),
            (ClientEvent::Answered(_, Tag::Own(waiting), answer), _) => {
                // Whoever asked may have given up.
                let _ = waiting.send(own(answer));
            }
            (ClientEvent::Answered(id, Tag::Listen, answer), _) => {
                let is_unknown = |error: &ErrorObject| error.code == Code::METHOD_NOT_FOUND;
                let refuses = matches!(answer, Answer::Error(error) if is_unknown(&error));
                self.listen_ended(id, refuses);
            }
            (ClientEvent::Answered(id, Tag::Call(call), answer), message) => {
                self.answered(now, id, &call, (answer, message));
            }
            // What it held is free now.
            (ClientEvent::Answered(_, Tag::Gone(..) | Tag::Moved(..), _), _) => {}
            (ClientEvent::Progress(id), Some(message)) => {
                let began = self.began;
                if let Some(Tag::Call(call)) = self.session.tag(id) {
                    call.hears(began);
                    era::note_progress(call, message);
                }
            }
            (ClientEvent::Asked(method), Some(message)) => self.asked(method, message, None),
            (ClientEvent::Withdrawn(id), Some(message)) => {
                self.pool.shared.questions.withdrawn(self.worker, &id, message);
            }
            (ClientEvent::Notification(method, _), Some(message)) => self.heard(method, message),
            (ClientEvent::Handled, Some(message))
                if matches!(message.kind(), Kind::Response | Kind::ErrorResponse) =>
            {
                self.worker.late.fetch_add(1, Ordering::Relaxed);
                if let Some(Id::Integer(id)) = message.id() {
                    self.voices.answered_late(now, id);
                }
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
        self.pool.hear(WorkerEvent::Ready(Arc::clone(self.worker)));
    }

    /// A request was lost on its way over HTTP.
    fn lost(&mut self, loss: Loss) {
        let (id, now) = (loss.id(), clock::now());
        let lost = self.session.lost(id);
        let error = Error::from(loss);
        match lost {
            Some(Lost::Call(Tag::Call(call))) => {
                if call.method.takes_input() {
                    self.voices.ended(now, &call.caller);
                }
                self.was_well(&call);
                if self.losses.is_due(now) {
                    let notice = Notice::Lost(call.method, loss::for_operators(&error));
                    self.pool.hear(WorkerEvent::Notice(notice));
                }
                let error = loss::answer(&error, &self.pool.shared.name);
                call.fail(&Failure::Transport(error));
            }
            Some(Lost::Call(Tag::Own(waiting))) => {
                let error = ErrorObject::new(Code::UNAVAILABLE, loss::for_operators(&error));
                drop(waiting.send(Err(error)));
            }
            Some(Lost::Call(Tag::Listen)) => self.listen_ended(id, false),
            // What it held is free now.
            Some(Lost::Call(Tag::Gone(..) | Tag::Moved(..))) | None => {}
            Some(Lost::Handshake(method)) => self.end = Some(End::Lost(method, error)),
        }
    }

    pub(super) fn stray(&mut self) {
        self.worker.strays.fetch_add(1, Ordering::Relaxed);
        self.strays_in_row += 1;
        if self.strays_in_row > STRAYS_MAX {
            self.end = Some(End::Broken(Broken::Strays));
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(event) = self.session.expire(now, &mut self.out) {
            self.on(now, event, None);
        }
    }

    /// The upstream has closed its side. During the handshake the session knows what that means.
    fn closed(&mut self) {
        if self.session.peer().is_none() {
            let now = clock::now();
            for event in self.session.closed() {
                self.on(now, event, None);
            }
        }
        self.end.get_or_insert_with(|| End::Broken(Broken::Closed));
    }
}

/// A request of the gateway itself.
pub(super) fn request(method: Method, params: &[u8], patience: Duration) -> Request<'_> {
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

/// Takes the request off a line on whose stream it came, if it was one.
fn attribution(line: &mut Bytes) -> Option<i64> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    let of = line.split_to(end + 1);
    std::str::from_utf8(of.get(..end)?).ok()?.parse().ok()
}
