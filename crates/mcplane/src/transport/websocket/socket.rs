//! A WebSocket as a stream of lines.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use mcplane_proto::frame::Output;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::time::{Sleep, sleep};

use super::frame::{self, Code, Decoder, Event, Masks, Opcode, Role, Violation};
use super::{Config, Protocol};
use crate::budget::{Budget, Charge};
use crate::transport::Transport;
use crate::transport::end::End;

/// Bytes asked for in one read, at least.
const READ_BYTES: usize = 16 * 1024;

/// Bytes of frames that wait to be sent, above which no more lines are taken in.
const OUT_BYTES_MAX: usize = 256 * 1024;

/// Bytes of frames that wait to be sent, above which nothing more is read: a peer that sends pings
/// and never takes the pongs must not fill the memory.
const OUT_BYTES_READING: usize = 64 * 1024;

/// How long the closing handshake may take.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// An open WebSocket: a stream that carries one message per line in both directions.
///
/// As a [`Transport`] it is for one conversation. Shutting down the writing half performs the
/// closing handshake; dropping both halves just closes the connection.
pub struct WebSocket<S = TokioIo<Upgraded>> {
    io: S,
    role: Role,
    protocol: Protocol,
    decoder: Decoder,
    masks: Masks,
    input: BytesMut,
    budget: Option<Budget>,
    /// For what has come of a message.
    held: Charge,
    /// The rest of a message that is being read as a line.
    line: Option<BytesMut>,
    /// How the peer ends what it says, while what came before is being read.
    last: Option<Result<Event, Violation>>,
    /// The beginning of a line that is being written.
    partial: Vec<u8>,
    out: Output,
    state: State,
    end: End,
    is_ending: bool,
    keep_alive: KeepAlive,
    /// Who waits: the halves may belong to different tasks.
    waiting: [Option<Waker>; 2],
}

enum State {
    Open,
    Leaving(Leaving),
    Gone(Outcome),
}

/// The closing handshake.
struct Leaving {
    stage: Stage,
    deadline: Pin<Box<Sleep>>,
    outcome: Outcome,
    /// The peer has said that it closes, or does not deserve to be waited for.
    is_settled: bool,
    /// The peer may still be sending: closing now would make its system drop our last words.
    is_unread: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    Say,
    Listen,
    HangUp,
    Linger,
}

/// What readers get when it is over.
#[derive(Clone)]
enum Outcome {
    End,
    Broken(io::ErrorKind, String),
}

#[derive(Clone, Copy)]
enum Half {
    Reader,
    Writer,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    pub(super) fn new(io: S, role: Role, protocol: Protocol, config: &Config, end: End) -> Self {
        Self {
            io,
            role,
            protocol,
            decoder: Decoder::new(role, config.message_bytes_max),
            masks: Masks::default(),
            input: BytesMut::new(),
            budget: config.budget.clone(),
            held: Charge::default(),
            line: None,
            last: None,
            partial: Vec::new(),
            out: Output::new(),
            state: State::Open,
            end,
            is_ending: false,
            keep_alive: KeepAlive::new(config.keep_alive),
            waiting: [None, None],
        }
    }

    /// The subprotocol that was agreed on.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Hands what there is of the current message, and its newline, to a reader.
    fn hand_over(&mut self, buffer: &mut ReadBuf<'_>) {
        let Some(line) = &mut self.line else { return };
        let piece = line.split_to(line.len().min(buffer.remaining()));
        buffer.put_slice(&piece);
        if line.is_empty() && buffer.remaining() > 0 {
            buffer.put_slice(b"\n");
            self.line = None;
        }
    }

    /// What the peer said next, if it said it in the right kind of frame.
    fn next(&mut self) -> Result<Option<Event>, Violation> {
        if let Some(last) = self.last.take() {
            return last.map(Some);
        }
        let event = self.decoder.next(&mut self.input)?;
        match (event, self.protocol) {
            (Some(Event::Text(text)), Protocol::Json) => Ok(Some(Event::Text(one_line(text)))),
            (Some(Event::Binary(_)), Protocol::Json) => {
                Err(Violation::new(Code::Unsupported, "`mcp` has text frames"))
            }
            #[cfg(feature = "msgpack")]
            (Some(Event::Binary(binary)), Protocol::MessagePack) => {
                match super::msgpack::to_json(&binary) {
                    Ok(json) => Ok(Some(Event::Text(json))),
                    Err(error) => Err(Violation(Code::Invalid, error.to_string().into())),
                }
            }
            #[cfg(feature = "msgpack")]
            (Some(Event::Text(_)), Protocol::MessagePack) => {
                Err(Violation::new(Code::Unsupported, "`mcp.msgpack` has binary frames"))
            }
            (event, _) => Ok(event),
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Text(line) | Event::Binary(line) => self.line = Some(line),
            Event::Ping(payload) => self.control(Opcode::Pong, &payload),
            Event::Pong => {}
            Event::Close(code, reason) => self.peer_closes(code, &reason),
        }
    }

    fn control(&mut self, opcode: Opcode, payload: &[u8]) {
        let mask = self.mask();
        frame::write(self.out.raw(), opcode, mask, &[payload]);
    }

    fn mask(&mut self) -> Option<[u8; 4]> {
        (self.role == Role::Client).then(|| self.masks.next())
    }

    /// The peer closes: its code goes back (§5.5.1).
    fn peer_closes(&mut self, code: Option<u16>, reason: &str) {
        let outcome = match (self.role, code) {
            (Role::Client, None | Some(1000 | 1001)) => Outcome::End,
            _ => {
                let code = code.map_or_else(|| "no code".into(), |code| code.to_string());
                let why = format!("the peer closed the WebSocket: {code} {reason}");
                Outcome::Broken(io::ErrorKind::ConnectionAborted, why.trim_end().to_owned())
            }
        };
        let mask = self.mask();
        match code {
            Some(code) => frame::write_close(self.out.raw(), mask, code, ""),
            None => frame::write(self.out.raw(), Opcode::Close, mask, &[]),
        }
        self.leave(outcome, true, false);
    }

    /// The peer broke the protocol, or we cannot go on.
    fn fail(&mut self, Violation(code, why): &Violation) {
        let mask = self.mask();
        frame::write_close(self.out.raw(), mask, *code as u16, why);
        self.leave(Outcome::Broken(io::ErrorKind::InvalidData, why.to_string()), true, true);
    }

    /// We close.
    fn close(&mut self) {
        let code = if self.is_ending { Code::GoingAway } else { Code::Normal };
        let mask = self.mask();
        frame::write_close(self.out.raw(), mask, code as u16, "");
        self.leave(Outcome::End, false, false);
    }

    fn leave(&mut self, outcome: Outcome, is_settled: bool, is_unread: bool) {
        let deadline = Box::pin(sleep(LEAVE_TIME));
        let stage = Stage::Say;
        self.state = State::Leaving(Leaving { stage, deadline, outcome, is_settled, is_unread });
    }

    /// Drives the closing handshake to its end, or to its deadline.
    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let State::Leaving(leaving) = &mut self.state else { return Poll::Ready(()) };
            let (settled, unread) = (leaving.is_settled, leaving.is_unread);
            let next = match (leaving.deadline.as_mut().poll(cx), leaving.stage) {
                (Poll::Ready(()), _) => None,
                (_, Stage::Say) => match ready!(self.poll_out(cx)) {
                    Ok(()) if settled => Some(Stage::HangUp),
                    Ok(()) => Some(Stage::Listen),
                    Err(_) => None,
                },
                (_, Stage::Listen) => match self.decoder.next(&mut self.input) {
                    Ok(Some(Event::Close(..))) | Err(_) => Some(Stage::HangUp),
                    Ok(Some(_)) => continue,
                    Ok(None) => match ready!(self.poll_fill(cx)) {
                        Ok(1..) => continue,
                        _ => Some(Stage::HangUp),
                    },
                },
                (_, Stage::HangUp) => match ready!(Pin::new(&mut self.io).poll_shutdown(cx)) {
                    Ok(()) if unread => Some(Stage::Linger),
                    _ => None,
                },
                (_, Stage::Linger) => {
                    self.input.clear();
                    match ready!(self.poll_fill(cx)) {
                        Ok(1..) => continue,
                        _ => None,
                    }
                }
            };
            match (next, &mut self.state) {
                (Some(next), State::Leaving(leaving)) => leaving.stage = next,
                (None, State::Leaving(leaving)) => {
                    self.state = State::Gone(leaving.outcome.clone());
                    self.wake_others(cx);
                }
                _ => {}
            }
        }
    }

    /// Reads once. 0 is the end of the stream. Cancel safe: what was read is in `input`.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.input.reserve(READ_BYTES);
        pin!(self.io.read_buf(&mut self.input)).poll(cx)
    }

    /// Sends all frames that wait.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.out.backlog() > 0 {
            match ready!(Pin::new(&mut self.io).poll_write(cx, self.out.unsent()))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.out.advance(count),
            }
            if self.out.backlog() == 0 {
                self.wake_others(cx);
            }
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Whatever there is to do for a reader that waits: pongs to send, bytes to read, silence to
    /// look into. Ready when there is something new.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_ending && Pin::new(&mut self.end).poll(cx).is_ready() {
            self.is_ending = true;
            return Poll::Ready(());
        }
        if self.out.backlog() > 0 {
            match self.poll_out(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return self.gone(&error),
                Poll::Pending if self.out.backlog() > OUT_BYTES_READING => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        match self.poll_fill(cx) {
            Poll::Ready(Ok(0)) => {
                let why = "the connection ended without a closing handshake";
                return self.gone(&io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
            Poll::Ready(Ok(_)) => {
                self.keep_alive.is_heard = true;
                if !self.has_room() {
                    let why = "there is no memory for this message: try again later";
                    self.fail(&Violation::new(Code::TryLater, why));
                }
                return Poll::Ready(());
            }
            Poll::Ready(Err(error)) => return self.gone(&error),
            Poll::Pending => {}
        }
        if ready!(self.keep_alive.poll(cx)) {
            self.control(Opcode::Ping, b"");
            return Poll::Ready(());
        }
        let why = "the peer does not answer a ping";
        self.gone(&io::Error::new(io::ErrorKind::TimedOut, why))
    }

    /// Whether there is room for what has come of a message.
    fn has_room(&mut self) -> bool {
        let Some(budget) = &self.budget else { return true };
        let len = self.input.len() + self.decoder.held();
        self.held.shrink(len);
        self.held.cover(budget, len)
    }

    fn gone(&mut self, error: &io::Error) -> Poll<()> {
        self.state = State::Gone(Outcome::Broken(error.kind(), error.to_string()));
        Poll::Ready(())
    }

    /// A complete line becomes a frame.
    fn message(&mut self, line: &[u8]) -> io::Result<()> {
        let (partial, mask) = (std::mem::take(&mut self.partial), self.mask());
        if partial.is_empty() && line.is_empty() {
            return Ok(());
        }
        match self.protocol {
            Protocol::Json => {
                frame::write(self.out.raw(), Opcode::Text, mask, &[&partial, line]);
                Ok(())
            }
            #[cfg(feature = "msgpack")]
            Protocol::MessagePack => {
                let packed = super::msgpack::from_json(&[&partial, line].concat());
                let packed = packed.inspect_err(|error| {
                    self.fail(&Violation(Code::Internal, error.to_string().into()));
                })?;
                frame::write(self.out.raw(), Opcode::Binary, mask, &[&packed]);
                Ok(())
            }
        }
    }

    fn write_lines(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        while self.out.backlog() < OUT_BYTES_MAX {
            let rest = bytes.get(taken..).unwrap_or_default();
            let Some(end) = memchr::memchr(b'\n', rest) else {
                self.partial.extend_from_slice(rest);
                return Ok(bytes.len());
            };
            self.message(rest.get(..end).unwrap_or_default())?;
            taken += end + 1;
        }
        Ok(taken)
    }

    /// Notes who waits.
    fn wait<T>(&mut self, half: Half, cx: &Context<'_>, outcome: Poll<T>) -> Poll<T> {
        let [reader, writer] = &mut self.waiting;
        let place = match half {
            Half::Reader => reader,
            Half::Writer => writer,
        };
        if outcome.is_pending() && !place.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
            *place = Some(cx.waker().clone());
        }
        outcome
    }

    /// The state changed, or there is room again: a half that waits in another task should look.
    fn wake_others(&mut self, cx: &Context<'_>) {
        for waker in self.waiting.iter().flatten() {
            if !waker.will_wake(cx.waker()) {
                waker.wake_by_ref();
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        loop {
            this.hand_over(buffer);
            let has_read = buffer.filled().len() > before;
            if buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            match &this.state {
                State::Open if this.is_ending => return Poll::Ready(Ok(())),
                State::Open => {}
                _ if has_read => return Poll::Ready(Ok(())),
                State::Leaving(_) => {
                    let left = this.poll_leave(cx);
                    ready!(this.wait(Half::Reader, cx, left));
                    continue;
                }
                State::Gone(Outcome::End) => return Poll::Ready(Ok(())),
                State::Gone(Outcome::Broken(kind, why)) => {
                    return Poll::Ready(Err(io::Error::new(*kind, why.clone())));
                }
            }
            match this.next() {
                // What came before is answered before it ends.
                Ok(Some(end @ Event::Close(..))) if has_read => this.last = Some(Ok(end)),
                Err(violation) if has_read => this.last = Some(Err(violation)),
                Ok(None) if has_read => {}
                Ok(Some(event)) => {
                    this.event(event);
                    continue;
                }
                Err(violation) => {
                    this.fail(&violation);
                    continue;
                }
                Ok(None) => {
                    let waited = this.poll_wait(cx);
                    ready!(this.wait(Half::Reader, cx, waited));
                    continue;
                }
            }
            return Poll::Ready(Ok(()));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match this.state {
            State::Open => {}
            // Nothing may follow a close frame. The reader has the rest of the handshake to make.
            State::Leaving(_) => return Poll::Ready(Ok(bytes.len())),
            State::Gone(_) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
        if this.out.backlog() >= OUT_BYTES_MAX {
            let flushed = this.poll_out(cx);
            ready!(this.wait(Half::Writer, cx, flushed))?;
        }
        Poll::Ready(this.write_lines(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = this.poll_out(cx);
        this.wait(Half::Writer, cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if matches!(this.state, State::Open) {
            this.message(b"")?;
            this.close();
        }
        let left = this.poll_leave(cx);
        this.wait(Half::Writer, cx, left).map(Ok)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for WebSocket<S> {
    type Reader = ReadHalf<Self>;
    type Writer = WriteHalf<Self>;

    fn open(self) -> crate::Result<(Self::Reader, Self::Writer)> {
        Ok(tokio::io::split(self))
    }
}

impl<S> fmt::Debug for WebSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("role", &self.role)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// A raw newline in JSON is white space between tokens: it becomes a carriage return, which is, too.
fn one_line(mut text: BytesMut) -> BytesMut {
    let mut rest = &mut *text;
    while let Some(at) = memchr::memchr(b'\n', rest) {
        let Some((newline, after)) = rest.get_mut(at..).and_then(<[u8]>::split_first_mut) else {
            break;
        };
        *newline = b'\r';
        rest = after;
    }
    text
}

/// Looks into silence, one tick at a time, so that no message has to move a timer.
struct KeepAlive {
    tick: Pin<Box<Sleep>>,
    every: Duration,
    is_heard: bool,
    is_asked: bool,
}

impl KeepAlive {
    fn new(every: Duration) -> Self {
        Self { tick: Box::pin(sleep(every)), every, is_heard: false, is_asked: false }
    }

    /// Ready when it is time for a ping (`true`), or to give the peer up (`false`).
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            ready!(self.tick.as_mut().poll(cx));
            let next = tokio::time::Instant::now() + self.every;
            self.tick.as_mut().reset(next);
            if std::mem::take(&mut self.is_heard) {
                self.is_asked = false;
            } else if std::mem::replace(&mut self.is_asked, true) {
                return Poll::Ready(false);
            } else {
                return Poll::Ready(true);
            }
        }
    }
}
