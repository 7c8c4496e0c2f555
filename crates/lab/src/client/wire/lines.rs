//! Lines over a byte stream: stdio, memory, TCP, Unix sockets.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use mcplane_proto::frame::{Output, lines::Lines as Decoder};
use mcplane_proto::limits::MESSAGE_BYTES_MAX;
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::arrival::{Arrival, Broken};
use crate::client::Stream;

/// Bytes that one read may take: a whole pipe of the default size.
const READ_BYTES: usize = 64 * 1024;

/// A stream with its buffers.
pub(super) struct Lines {
    stream: Stream,
    decoder: Decoder,
    input: BytesMut,
    /// What goes out with the next write.
    pub(super) output: Output,
}

impl Lines {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            decoder: Decoder::new(MESSAGE_BYTES_MAX),
            input: BytesMut::new(),
            output: Output::new(),
        }
    }

    /// Reads once.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.input.reserve(READ_BYTES);
        // `read_buf` loses nothing when dropped, so that a fresh future for each poll is fine.
        Poll::Ready(match ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx)) {
            Ok(0) => Err(Broken::Closed),
            Ok(_) => Ok(()),
            Err(error) => Err(Broken::reading(&error)),
        })
    }

    /// Writes what is in `output`; ready when all of it is out.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.output.backlog() > 0 {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, self.output.unsent()))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                len => self.output.advance(len),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next line that has arrived in full.
    pub(super) fn next(&mut self) -> Option<Arrival> {
        self.decoder.next(&mut self.input).map(|line| match line {
            Ok(line) => Arrival::Message(line),
            Err(error) => Arrival::Noise(error.to_string()),
        })
    }
}
