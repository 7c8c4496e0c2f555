//! The one loop: a task that owns both halves of the connection and the session.
//!
//! One turn takes every complete line, the requests of the client's handles and the answers of its
//! handlers, and writes all the output in one piece. Nothing in it waits for anything else in it:
//! reading goes on while the server does not read, and while handlers run.
//!
//! * the loop (this file)
//! * `events` — what messages and the end mean for those who wait

mod events;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcplane_proto::error::ErrorObject;
use mcplane_proto::frame::Output;
use mcplane_proto::id::Id;
use mcplane_proto::limits::{LISTENS_MAX, MESSAGE_BYTES_MAX};
use mcplane_proto::message::{self, Message};
use mcplane_proto::method::Method;
use mcplane_proto::session::client::{Call, Lost};
use mcplane_proto::session::{ClientConfig, ClientSession, HandshakeError};
use mcplane_proto::version::Revision;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, AbortHandle, JoinSet};
use tokio::time::timeout;

use super::Progress;
use super::call::{Reply, Spec};
use super::handler::Notification;
use super::listen::Listener;
use super::state::State;
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::transport::Loss;
use crate::transport::process::Running;
use crate::transport::wire::{Event, Wants, Wire};

/// Most bytes that wait for the server to read them. Beyond it calls are refused as overload.
const BACKLOG_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

/// Bytes that wait to be written above which the server is not read: what it says may need answers.
/// Calls alone never come so far, or a server that reads nothing while it writes could wait for ever.
const UNREAD_BYTES_MAX: usize = BACKLOG_BYTES_MAX + 2 * MESSAGE_BYTES_MAX;

/// The most questions of the server that are answered at once.
pub const ASKED_MAX: usize = 64;

/// How long what a server said before it went away may take to arrive after writing has failed.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// How long a process may take to end after it has closed its stdout, to tell how it ended.
pub(super) const EXIT_WAIT: Duration = Duration::from_millis(500);

/// How long the last messages may take to be written when the client is closed.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// What the client's handles want of the connection.
#[derive(Debug)]
pub(super) enum Command {
    Call(Box<Outgoing>),
    /// Local: a server of the legacy eras tells whoever is connected.
    Listen(u64, Listener),
    Notify(Method),
    Close,
}

/// One request to send.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) key: u64,
    pub(super) spec: Spec,
    pub(super) members: Vec<u8>,
    pub(super) tag: Tag,
}

/// Who waits for a request.
#[derive(Debug)]
pub(super) enum Tag {
    Call { answer: oneshot::Sender<Result<Reply>> },
    Listen(Listener),
}

impl From<Listener> for Tag {
    fn from(listener: Listener) -> Self {
        Self::Listen(listener)
    }
}

/// A request in flight, as the session keeps it.
#[derive(Debug)]
struct Pending {
    key: u64,
    method: Method,
    timeout: Duration,
    progress: Option<mpsc::Sender<Progress>>,
    tag: Tag,
}

/// Why the loop stops.
#[derive(Debug)]
pub(super) enum Signal {
    Ready,
    Respawn,
    Failed(HandshakeError),
    /// A request of the handshake was lost on its way.
    Lost(Error),
    End(End),
}

/// How the connection ended.
#[derive(Debug)]
pub(super) enum End {
    ByUs,
    ByServer,
    Io(std::io::Error),
    Flood,
}

pub(super) struct Drive {
    wire: Wire,
    out: Output,
    session: ClientSession<Box<Pending>>,
    state: Arc<State>,
    commands: mpsc::Receiver<Command>,
    /// Requests in flight by the client's key: the id, and whether it is a subscription.
    ids: HashMap<u64, (i64, bool)>,
    listeners: HashMap<u64, Listener>,
    asked: JoinSet<Result<Vec<u8>, ErrorObject>>,
    asks: HashMap<task::Id, (Id, AbortHandle)>,
    notify: Option<mpsc::Sender<Notification>>,
    /// When reading ends, too, where writing has failed.
    ends_at: Option<Instant>,
    signal: Option<Signal>,
}

impl Drive {
    /// A connection whose first message waits to be written.
    pub(super) fn new(
        wire: Wire,
        config: ClientConfig,
        state: Arc<State>,
        commands: mpsc::Receiver<Command>,
        notify: Option<mpsc::Sender<Notification>>,
    ) -> Self {
        let mut out = Output::new();
        let session = ClientSession::start(clock::now(), config, &mut out);
        Self {
            wire: wire.unread_bytes_max(UNREAD_BYTES_MAX),
            out,
            session,
            state,
            commands,
            ids: HashMap::new(),
            listeners: HashMap::new(),
            asked: JoinSet::new(),
            asks: HashMap::new(),
            notify,
            ends_at: None,
            signal: None,
        }
    }

    /// Runs until the handshake is done, one way or another.
    pub(super) async fn handshake(&mut self) -> Signal {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Goes on with a server that was started again.
    pub(super) fn respawned(&mut self, wire: Wire) {
        self.wire = wire.unread_bytes_max(UNREAD_BYTES_MAX);
        self.out.clear();
        self.ends_at = None;
        self.session.respawned(clock::now(), &mut self.out);
    }

    /// Who the server is.
    pub(super) fn peer(&self) -> Option<super::Peer> {
        self.session.peer().map(super::Peer::new)
    }

    /// Runs until the connection ends, tells everybody, and stops the server's process.
    pub(super) async fn run(mut self, mut running: Option<Running>) {
        let signal = poll_fn(|cx| self.poll(cx)).await;
        let end = if let Signal::End(end) = signal { end } else { End::ByServer };
        let by_us = matches!(end, End::ByUs);
        let how = match &mut running {
            Some(running) if !by_us => {
                running.ended_within(EXIT_WAIT).await;
                format!("{end}: {}", running.report())
            }
            _ => end.to_string(),
        };
        self.state.set_end(how);
        self.asked.abort_all();
        self.fail_all();
        if by_us {
            // A server that does not read gets no more time than this.
            let close = async {
                self.wire.flush(&mut self.out).await;
                let _ = self.wire.shutdown().await;
            };
            let _ = timeout(CLOSE_WAIT, close).await;
        }
        drop(self.wire);
        if let Some(running) = &mut running {
            running.stop().await;
            self.state.set_exit(running.report());
        }
        // Only now: whoever waits for the end waits for this receiver to go.
        drop(self.commands);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        loop {
            self.take_lines();
            self.take_given_up(cx);
            self.poll_commands(cx);
            self.poll_answers(cx);
            if self.out.backlog() > 2 * BACKLOG_BYTES_MAX {
                self.signal.get_or_insert(Signal::End(End::Flood));
            }
            if let Some(signal) = self.signal.take() {
                return Poll::Ready(signal);
            }
            let wake = [self.session.deadline(), self.ends_at].into_iter().flatten().min();
            let wants = Wants { reads: true, wake, drain: None };
            match ready!(self.wire.poll(cx, &mut self.out, wants)) {
                Event::Read | Event::Sent | Event::Drained => {}
                Event::Over => {
                    if let Some(line) = self.wire.last_line() {
                        self.line(line);
                    }
                    self.ended(End::ByServer);
                }
                Event::ReadFailed(error) => self.ended(End::Io(error)),
                // What the server said before it went away is still to come.
                Event::WriteFailed(_) => self.ends_at = Some(clock::now() + LAST_WORDS),
                Event::Woke => self.expire(),
                Event::Stalled => self.ended(End::Flood),
                Event::Lost(loss) => self.lost(loss),
            }
        }
    }

    fn take_given_up(&mut self, cx: &Context<'_>) {
        for (key, reason) in self.state.given_up(cx) {
            self.listeners.remove(&key);
            if let Some((id, _)) = self.ids.remove(&key) {
                self.session.cancel(id, &reason, &mut self.out);
            }
        }
    }

    fn poll_commands(&mut self, cx: &mut Context<'_>) {
        while self.signal.is_none() {
            let Poll::Ready(command) = self.commands.poll_recv(cx) else { break };
            match command {
                Some(Command::Call(call)) => self.call(*call),
                Some(Command::Listen(key, listener)) => self.listen(key, listener),
                Some(Command::Notify(method)) => {
                    self.session.notify(method, None, &mut self.out);
                }
                Some(Command::Close) | None => self.signal = Some(Signal::End(End::ByUs)),
            }
        }
    }

    /// Sends a request, unless it was given up while it waited.
    fn call(&mut self, Outgoing { key, spec, members, tag }: Outgoing) {
        let (given_up, is_listen) = match &tag {
            Tag::Call { answer } => (answer.is_closed(), false),
            Tag::Listen(listener) => (listener.is_closed(), true),
        };
        if given_up {
            return;
        }
        let full = is_listen
            && self.ids.values().filter(|(_, is_listen)| *is_listen).count() >= LISTENS_MAX;
        let progress = spec.progress.clone();
        let Spec { method, timeout, .. } = spec;
        let pending = Box::new(Pending { key, method, timeout, progress, tag });
        if full || self.out.backlog() > BACKLOG_BYTES_MAX {
            return pending.tag.end(Err(Error::new(Kind::Overloaded)));
        }
        let call = Call {
            method,
            params: Some(&spec.params),
            members: &members,
            meta: spec.meta.as_deref(),
            log_level: spec.log_level.as_ref(),
            progress: spec.progress.is_some(),
            timeout: Some(timeout),
        };
        let now = clock::now();
        match self.session.call(now, &call, pending, &mut self.out) {
            Ok(id) => {
                self.ids.insert(key, (id, is_listen));
            }
            Err(pending) => pending.tag.end(Err(Error::new(Kind::Overloaded))),
        }
    }

    fn listen(&mut self, key: u64, mut listener: Listener) {
        if self.listeners.len() >= LISTENS_MAX {
            return listener.end(Some(Error::new(Kind::Overloaded)));
        }
        let filter = listener.filter.clone();
        listener.answer(Ok(filter));
        self.listeners.insert(key, listener);
    }

    /// The whole lines that were read.
    fn take_lines(&mut self) {
        while self.signal.is_none()
            && let Some(line) = self.wire.next_line(&self.out)
        {
            match line {
                Ok(line) => self.line(line),
                Err(error) => self.state.note_stray(error.to_string().as_bytes()),
            }
        }
    }

    fn line(&mut self, line: Bytes) {
        let revision = self.session.peer().map(|peer| peer.revision);
        if !message::is_batch(&line) || !revision.is_some_and(Revision::has_batches) {
            return self.message(line);
        }
        match message::split_batch(&line) {
            Ok(messages) => messages.into_iter().for_each(|message| self.message(message)),
            Err(_) => self.state.note_stray(&line),
        }
    }

    fn message(&mut self, line: Bytes) {
        let now = clock::now();
        let message = match Message::scan(line.clone()) {
            Ok(message) => message,
            Err(failure) => {
                self.state.note_stray(&line);
                let event = self.session.refuse(now, &failure, &mut self.out);
                return self.on(event, None);
            }
        };
        let event = self.session.receive(now, &message, &mut self.out);
        self.on(event, Some(&message));
    }

    fn expire(&mut self) {
        let now = clock::now();
        if self.ends_at.is_some_and(|at| at <= now) {
            return self.ended(End::ByServer);
        }
        while let Some(event) = self.session.expire(now, &mut self.out) {
            self.on(event, None);
        }
    }

    /// Whoever waits for it learns how a request was lost.
    fn lost(&mut self, loss: Loss) {
        match self.session.lost(loss.id()) {
            Some(Lost::Call(pending)) => {
                self.ids.remove(&pending.key);
                pending.tag.end(Err(loss.into()));
            }
            Some(Lost::Handshake(_)) => self.signal = Some(Signal::Lost(loss.into())),
            None => {}
        }
    }

    /// The stream is over. During the handshake the session knows what that means.
    fn ended(&mut self, end: End) {
        if self.session.peer().is_some() {
            self.signal.get_or_insert(Signal::End(end));
            return;
        }
        for event in self.session.closed() {
            self.on(event, None);
        }
        self.signal.get_or_insert(Signal::End(end));
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ByUs => f.write_str("this side closed it"),
            Self::ByServer => f.write_str("the server closed it"),
            Self::Io(error) => write!(f, "reading failed ({error})"),
            Self::Flood => f.write_str("the server does not read what it is sent"),
        }
    }
}
