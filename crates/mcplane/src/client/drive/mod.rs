//! The one loop: a task that owns both halves of the connection and the session.
//!
//! One poll takes the requests of the client's handles, reads once, handles every complete line,
//! and writes all the output in one piece. Nothing in it waits for anything else in it: reading
//! goes on while the server does not read, and while handlers run.
//!
//! * the loop (this file)
//! * `events` — what messages and the end mean for those who wait

mod events;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mcplane_proto::error::ErrorObject;
use mcplane_proto::id::Id;
use mcplane_proto::limits::{LINES_PER_TURN, LISTENS_MAX, STALL_MAX};
use mcplane_proto::message::{self, Message};
use mcplane_proto::method::Method;
use mcplane_proto::session::client::Call;
use mcplane_proto::session::{ClientConfig, ClientSession, HandshakeError};
use mcplane_proto::version::Revision;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, AbortHandle, JoinSet};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::Progress;
use super::call::{Reply, Spec};
use super::handler::Notification;
use super::listen::Listener;
use super::state::State;
use super::wire::{BACKLOG_BYTES_MAX, Wire};
use crate::error::{Error, Kind, Result};
use crate::transport::process::Running;

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
    session: ClientSession<Box<Pending>>,
    state: Arc<State>,
    commands: mpsc::Receiver<Command>,
    /// Requests in flight by the client's key: the id, and whether it is a subscription.
    ids: HashMap<u64, (i64, bool)>,
    listeners: HashMap<u64, Listener>,
    asked: JoinSet<Result<Vec<u8>, ErrorObject>>,
    asks: HashMap<task::Id, (Id, AbortHandle)>,
    notify: Option<mpsc::Sender<Notification>>,
    timer: Pin<Box<Sleep>>,
    broken_at: Option<Instant>,
    /// When a server that is not read any more is given up.
    stalled: Option<Instant>,
    signal: Option<Signal>,
}

impl Drive {
    /// A connection whose first message waits to be written.
    pub(super) fn new(
        mut wire: Wire,
        config: ClientConfig,
        state: Arc<State>,
        commands: mpsc::Receiver<Command>,
        notify: Option<mpsc::Sender<Notification>>,
    ) -> Self {
        let now = Instant::now();
        let session = ClientSession::start(now.into_std(), config, wire.out());
        Self {
            wire,
            session,
            state,
            commands,
            ids: HashMap::new(),
            listeners: HashMap::new(),
            asked: JoinSet::new(),
            asks: HashMap::new(),
            notify,
            timer: Box::pin(sleep_until(now)),
            broken_at: None,
            stalled: None,
            signal: None,
        }
    }

    /// Runs until the handshake is done, one way or another.
    pub(super) async fn handshake(&mut self) -> Signal {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Goes on with a server that was started again.
    pub(super) fn respawned(&mut self, wire: Wire) {
        self.wire = wire;
        self.broken_at = None;
        let now = Instant::now().into_std();
        self.session.respawned(now, self.wire.out());
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
            let _ = timeout(CLOSE_WAIT, self.wire.close()).await;
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
        let mut turn = LINES_PER_TURN;
        loop {
            self.take_given_up(cx);
            let mut busy = self.poll_commands(cx);
            busy |= self.poll_answers(cx);
            busy |= self.poll_read(cx, &mut turn);
            busy |= self.poll_time(cx);
            let (backlog, reads) = (self.wire.backlog(), self.wire.reads());
            let _ = self.wire.poll_flush(cx);
            if self.wire.backlog() < backlog {
                self.stalled = None;
                busy |= !reads;
            }
            if self.wire.backlog() > 2 * BACKLOG_BYTES_MAX {
                self.signal.get_or_insert(Signal::End(End::Flood));
            }
            if let Some(signal) = self.signal.take() {
                return Poll::Ready(signal);
            }
            if turn == 0 {
                cx.waker().wake_by_ref();
            }
            if !busy || turn == 0 {
                return Poll::Pending;
            }
        }
    }

    fn take_given_up(&mut self, cx: &Context<'_>) {
        for (key, reason) in self.state.given_up(cx) {
            self.listeners.remove(&key);
            if let Some((id, _)) = self.ids.remove(&key) {
                self.session.cancel(id, &reason, self.wire.out());
            }
        }
    }

    fn poll_commands(&mut self, cx: &mut Context<'_>) -> bool {
        let mut busy = false;
        while self.signal.is_none() {
            let Poll::Ready(command) = self.commands.poll_recv(cx) else { break };
            busy = true;
            match command {
                Some(Command::Call(call)) => self.call(*call),
                Some(Command::Listen(key, listener)) => self.listen(key, listener),
                Some(Command::Notify(method)) => {
                    self.session.notify(method, None, self.wire.out());
                }
                Some(Command::Close) | None => self.signal = Some(Signal::End(End::ByUs)),
            }
        }
        busy
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
        if full || self.wire.backlog() > BACKLOG_BYTES_MAX {
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
        let now = Instant::now().into_std();
        match self.session.call(now, &call, pending, self.wire.out()) {
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

    fn poll_read(&mut self, cx: &mut Context<'_>, turn: &mut usize) -> bool {
        // What a line asks for is looked at before the loop rests: nothing else would wake it.
        let took = self.take_lines(turn);
        if self.signal.is_some() || !self.wire.reads() || *turn == 0 {
            return took;
        }
        let Poll::Ready(read) = self.wire.poll_fill(cx) else { return took };
        match read {
            Ok(1..) => return true,
            Ok(0) => {
                if let Some(line) = self.wire.last_line() {
                    self.line(line);
                }
                self.ended(End::ByServer);
            }
            Err(error) => self.ended(End::Io(error)),
        }
        true
    }

    /// The whole lines that were read, while their answers find room and `turn`, in lines, lasts.
    /// Whether there were any.
    fn take_lines(&mut self, turn: &mut usize) -> bool {
        let before = *turn;
        while *turn > 0
            && self.wire.reads()
            && let Some(line) = self.wire.next_line()
        {
            *turn -= 1;
            match line {
                Ok(line) => self.line(line),
                Err(error) => self.state.note_stray(error.to_string().as_bytes()),
            }
        }
        *turn < before
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
        let now = Instant::now().into_std();
        let message = match Message::scan(line.clone()) {
            Ok(message) => message,
            Err(failure) => {
                self.state.note_stray(&line);
                let event = self.session.refuse(now, &failure, self.wire.out());
                return self.on(event, None);
            }
        };
        let event = self.session.receive(now, &message, self.wire.out());
        self.on(event, Some(&message));
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> bool {
        if self.wire.broken().is_some() {
            let since = *self.broken_at.get_or_insert_with(Instant::now);
            if since.elapsed() >= LAST_WORDS {
                self.ended(End::ByServer);
                return true;
            }
        }
        if self.wire.reads() {
            self.stalled = None;
        } else if *self.stalled.get_or_insert_with(|| Instant::now() + STALL_MAX) <= Instant::now()
        {
            self.ended(End::Flood);
            return true;
        }
        let session = self.session.deadline().map(Instant::from_std);
        let broken = self.broken_at.map(|since| since + LAST_WORDS);
        let Some(next) = [session, broken, self.stalled].into_iter().flatten().min() else {
            return false;
        };
        if self.timer.deadline() != next {
            self.timer.as_mut().reset(next);
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        let now = Instant::now().into_std();
        while let Some(event) = self.session.expire(now, self.wire.out()) {
            self.on(event, None);
        }
        // The timer has fired: it must be set anew before it can wake anybody again.
        self.timer.as_mut().reset(Instant::now() + LAST_WORDS);
        true
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
