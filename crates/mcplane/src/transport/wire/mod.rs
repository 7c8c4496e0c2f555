//! One connection that carries lines, driven in both directions: read, frame, take, write, flush.
//!
//! A server's connection, a client's and a gateway's worker differ in what they do with a line, and
//! drive it alike. Their loops take lines ([`Wire::next_line`]), write answers into an [`Output`], and
//! wait for the next [`Event`]. Nothing here waits for one direction alone: while the peer does not
//! read, what it says is read, and the other way round.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use mcplane_proto::frame::Output;
use mcplane_proto::frame::lines::{LineTooLong, Lines};
use mcplane_proto::limits::{LINES_PER_TURN, MESSAGE_BYTES_MAX, STALL_MAX};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Sleep, sleep_until};

use super::Transport;
use super::loss::{Loss, Losses};
use crate::clock;
use crate::error::Result;

/// Bytes asked for in one read: as much as a pipe of Linux holds.
const READ_BYTES: usize = 64 * 1024;

/// Any stream that is read.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Any stream that is written.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Both halves of a connection, the lines that have come, and the time.
pub struct Wire<R = Reader, W = Writer> {
    reader: R,
    writer: W,
    losses: Losses,
    input: BytesMut,
    lines: Lines,
    /// There may be whole lines in the input.
    has_lines: bool,
    /// Lines that may be taken before everybody else on this thread has a turn.
    turn: usize,
    /// Gives the others theirs.
    rest: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_over: bool,
    is_broken: bool,
    unread_bytes_max: usize,
    /// When a peer that is not read any more is given up.
    stalled: Option<Instant>,
    alarm: Alarm,
}

/// What a loop waits for.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that a loop builds")]
pub struct Wants {
    /// Whether more may be read.
    pub reads: bool,
    /// When it wants to be woken.
    pub wake: Option<Instant>,
    /// Set when the connection is to end.
    pub drain: Option<Drain>,
}

/// The end of a connection that finishes what it has begun.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that a loop builds")]
pub struct Drain {
    /// When it ends at the latest.
    pub by: Instant,
    /// Whether nothing more comes: then it ends when all is sent.
    pub is_idle: bool,
}

/// What has happened.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "a loop must handle every event")]
pub enum Event {
    /// Something was read, or the others had their turn: there may be lines.
    Read,
    /// Something was sent.
    Sent,
    /// The time to wake has come, or is near.
    Woke,
    /// The peer has closed its side, and every whole line was taken; [`Wire::last_line`] has the rest.
    Over,
    /// Nothing more can be read.
    ReadFailed(io::Error),
    /// Nothing more can be written, and what waits is dropped. What the peer said before it went away
    /// can still be read.
    WriteFailed(io::Error),
    /// The peer takes nothing, and so much waits for it that it is not read any more.
    Stalled,
    /// A request was lost on its way.
    Lost(Loss),
    /// The connection has ended as it should: see [`Wants::drain`].
    Drained,
}

impl Wire {
    /// Opens a transport.
    ///
    /// # Errors
    /// As [`Transport::open`].
    pub fn open(transport: impl Transport) -> Result<Self> {
        let (reader, writer, losses) = transport.open_telling()?;
        losses.heard();
        let (reader, writer): (Reader, Writer) = (Box::new(reader), Box::new(writer));
        Ok(Self { losses, ..Self::new(reader, writer) })
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Wire<R, W> {
    /// A connection on which nothing was said.
    #[must_use]
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            reader,
            writer,
            losses: Losses::default(),
            input: BytesMut::with_capacity(READ_BYTES),
            lines: Lines::new(MESSAGE_BYTES_MAX),
            has_lines: false,
            turn: LINES_PER_TURN,
            rest: None,
            is_over: false,
            is_broken: false,
            unread_bytes_max: usize::MAX,
            stalled: None,
            alarm: Alarm::new(),
        }
    }

    /// A peer for which more than `bytes` wait is not read, since what it says may need answers, and
    /// given up ([`Event::Stalled`]) if it takes nothing for [`STALL_MAX`].
    #[must_use]
    pub const fn unread_bytes_max(mut self, bytes: usize) -> Self {
        self.unread_bytes_max = bytes;
        self
    }

    /// The next whole line. `None` if there is none, if too much waits to be sent, or if the turn is
    /// over: the next event tells when to look again.
    pub fn next_line(&mut self, out: &Output) -> Option<Result<Bytes, LineTooLong>> {
        if !self.has_lines || self.turn == 0 || !self.has_room(out) {
            return None;
        }
        let line = self.lines.next(&mut self.input);
        match line {
            Some(_) => {
                self.turn -= 1;
                // Nobody may ask for another before the peer is read again.
                self.has_lines = !self.input.is_empty();
            }
            None => self.has_lines = false,
        }
        line
    }

    /// What the peer said last, without the end of its line.
    pub fn last_line(&mut self) -> Option<Bytes> {
        self.lines.finish(&mut self.input)
    }

    /// The beginning of a line whose rest is still to come, perhaps nothing; `None` while there are
    /// whole lines.
    pub const fn beginning(&mut self) -> Option<&mut BytesMut> {
        if self.has_lines { None } else { Some(&mut self.input) }
    }

    /// What was read and not taken.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input
    }

    /// Gives up the line that has begun: its rest is dropped when it comes.
    pub fn give_up(&mut self) {
        self.lines.give_up(&mut self.input);
    }

    /// Reads nothing more, and drops what was read.
    pub(crate) fn stop_reading(&mut self) {
        self.input.clear();
        self.is_over = true;
        self.has_lines = false;
    }

    /// The next event. What is added to `out` meanwhile is for the next one. Cancel safe: nothing is
    /// lost of what was read or is to be sent.
    pub async fn next(&mut self, out: &mut Output, wants: Wants) -> Event {
        // Whoever was woken by something else has not rested.
        self.rest = None;
        poll_fn(|cx| self.poll(cx, out, wants)).await
    }

    /// As [`Wire::next`], for a loop that waits for several things by itself: it must return when this
    /// is pending.
    pub fn poll(&mut self, cx: &mut Context<'_>, out: &mut Output, wants: Wants) -> Poll<Event> {
        if let Some(Drain { by, is_idle }) = wants.drain
            && (is_idle && (out.is_done() || self.is_broken) || by <= clock::now())
        {
            return Poll::Ready(Event::Drained);
        }
        if let Poll::Ready(event) = self.poll_write(cx, out) {
            return Poll::Ready(event);
        }
        let has_room = self.has_room(out);
        if wants.reads && has_room && self.turn > 0 && !self.has_lines {
            if let Poll::Ready(event) = self.poll_read(cx) {
                return Poll::Ready(event);
            }
            // Behind every line that came before it.
            if let Some(loss) = self.losses.next() {
                return Poll::Ready(Event::Lost(loss));
            }
        }
        if has_room {
            self.stalled = None;
        } else if self.stalled.is_none() {
            self.stalled = Some(clock::now() + STALL_MAX);
        }
        if let Poll::Ready(event) = self.poll_time(cx, wants) {
            return Poll::Ready(event);
        }
        self.poll_rest(cx).map(|()| Event::Read)
    }

    fn has_room(&self, out: &Output) -> bool {
        out.backlog() <= self.unread_bytes_max
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Output) -> Poll<Event> {
        if self.is_broken {
            out.clear();
            return Poll::Pending;
        }
        if out.is_done() {
            return Poll::Pending;
        }
        let before = out.backlog();
        let sent = ready!(poll_send(out, &mut self.writer, cx));
        if out.backlog() < before {
            self.stalled = None;
        }
        Poll::Ready(match sent {
            Ok(()) => Event::Sent,
            Err(error) => {
                self.is_broken = true;
                out.clear();
                Event::WriteFailed(error)
            }
        })
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.is_over {
            return Poll::Pending;
        }
        self.input.reserve(READ_BYTES / 2);
        // Cancel safe: a read that is not ready has taken nothing.
        let read = ready!(pin!(self.reader.read_buf(&mut self.input)).poll(cx));
        self.is_over = !matches!(read, Ok(1..));
        self.has_lines = !self.is_over;
        Poll::Ready(match read {
            Ok(0) => Event::Over,
            Ok(_) => Event::Read,
            Err(error) => Event::ReadFailed(error),
        })
    }

    fn poll_time(&mut self, cx: &mut Context<'_>, wants: Wants) -> Poll<Event> {
        let by = wants.drain.map(|drain| drain.by);
        let wake = [wants.wake, self.stalled, by].into_iter().flatten().min();
        let Some(wake) = wake else { return Poll::Pending };
        ready!(self.alarm.poll(cx, wake));
        Poll::Ready(match self.stalled {
            Some(at) if at <= clock::now() => Event::Stalled,
            _ => Event::Woke,
        })
    }

    /// Whoever waits leaves the others their turn, and so begins a new one. Ready where the turn was
    /// over and the others had theirs.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.turn == 0 {
            let rest = self.rest.get_or_insert_with(|| Box::pin(tokio::task::yield_now()));
            ready!(rest.as_mut().poll(cx));
            self.rest = None;
            self.turn = LINES_PER_TURN;
            return Poll::Ready(());
        }
        self.turn = LINES_PER_TURN;
        Poll::Pending
    }

    /// Writes what waits; nothing if writing has failed.
    pub async fn flush(&mut self, out: &mut Output) {
        while !out.is_done() && !self.is_broken {
            poll_fn(|cx| self.poll_write(cx, out)).await;
        }
    }

    /// Closes the writing half.
    ///
    /// # Errors
    /// As the stream's own.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        if self.is_broken { Ok(()) } else { self.writer.shutdown().await }
    }
}

impl<R, W> fmt::Debug for Wire<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("input", &self.input.len()).finish_non_exhaustive()
    }
}

/// A timer that is set again only when it would ring too late: that costs more than a call, and
/// most calls end long before theirs.
struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When it rings; `None` if it has rung, or was never set.
    at: Option<Instant>,
}

impl Alarm {
    const fn new() -> Self {
        Self { sleep: None, at: None }
    }

    /// Ready at `wake`, or earlier.
    fn poll(&mut self, cx: &mut Context<'_>, wake: Instant) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(wake.into())));
        if self.at.is_none_or(|at| wake < at) {
            sleep.as_mut().reset(wake.into());
            self.at = Some(wake);
        }
        ready!(sleep.as_mut().poll(cx));
        self.at = None;
        Poll::Ready(())
    }
}

/// Sends what waits in `output`, and flushes the stream behind it. `Ready(Ok)` when something was
/// sent and more waits, or when all is done; until then whoever calls it may add more.
///
/// Nothing is lost when it is not polled again: `output` remembers how far it came.
fn poll_send(
    output: &mut Output,
    writer: &mut (impl AsyncWrite + Unpin),
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    if output.backlog() > 0 {
        match ready!(Pin::new(&mut *writer).poll_write(cx, output.unsent()))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            len => output.advance(len),
        }
        if output.backlog() > 0 {
            return Poll::Ready(Ok(()));
        }
    }
    if !output.is_done() {
        ready!(Pin::new(writer).poll_flush(cx))?;
        output.flushed();
    }
    Poll::Ready(Ok(()))
}

#[cfg(test)]
mod tests;
