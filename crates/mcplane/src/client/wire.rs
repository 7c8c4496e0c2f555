//! The two halves of the connection, without waiting: lines in, lines out.

use std::fmt;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use mcplane_proto::frame::Output;
use mcplane_proto::frame::lines::{LineTooLong, Lines};
use mcplane_proto::limits::MESSAGE_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::transport::poll_send;

/// Bytes asked for in one read: as much as a pipe of Linux holds.
const READ_BYTES: usize = 64 * 1024;

/// Most bytes that wait for the server to read them. Beyond it calls are refused as overload.
pub(super) const BACKLOG_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

/// Bytes that wait to be written above which the server is not read: what it says may need answers.
/// Calls alone never come so far, or a server that reads nothing while it writes could wait for ever.
const UNREAD_BYTES_MAX: usize = BACKLOG_BYTES_MAX + 2 * MESSAGE_BYTES_MAX;

pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

pub(super) struct Wire {
    reader: Reader,
    writer: Writer,
    buffer: BytesMut,
    lines: Lines,
    out: Output,
    broken: Option<io::Error>,
}

impl Wire {
    pub(super) fn new(reader: Reader, writer: Writer) -> Self {
        Self {
            reader,
            writer,
            buffer: BytesMut::new(),
            lines: Lines::new(MESSAGE_BYTES_MAX),
            out: Output::new(),
            broken: None,
        }
    }

    /// Where messages go that are to be sent.
    pub(super) const fn out(&mut self) -> &mut Output {
        &mut self.out
    }

    /// Bytes that wait to be written.
    pub(super) const fn backlog(&self) -> usize {
        self.out.backlog()
    }

    /// Whether what the server says may be taken in.
    pub(super) fn reads(&self) -> bool {
        self.backlog() <= UNREAD_BYTES_MAX
    }

    /// Why writing failed, if it did. Nothing more is written then; what the server said before it
    /// went away can still be read.
    pub(super) const fn broken(&self) -> Option<&io::Error> {
        self.broken.as_ref()
    }

    /// Reads once. 0 is the end of the stream.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(READ_BYTES);
        // Cancel safe: a read that is not ready has taken nothing.
        pin!(self.reader.read_buf(&mut self.buffer)).poll(cx)
    }

    /// The next whole line of what was read.
    pub(super) fn next_line(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        self.lines.next(&mut self.buffer)
    }

    /// What the server said last, without a newline.
    pub(super) fn last_line(&mut self) -> Option<Bytes> {
        self.lines.finish(&mut self.buffer)
    }

    /// Writes all that waits, in one piece if the system takes it.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.broken.is_none() && !self.out.is_done() {
            if let Err(error) = ready!(poll_send(&mut self.out, &mut self.writer, cx)) {
                self.broken = Some(error);
            }
        }
        if self.broken.is_some() {
            self.out.clear();
        }
        Poll::Ready(())
    }

    /// Writes the rest and closes the writing half.
    pub(super) async fn close(&mut self) {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await;
        if self.broken.is_none() {
            let _ = self.writer.shutdown().await;
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("backlog", &self.backlog()).finish_non_exhaustive()
    }
}
