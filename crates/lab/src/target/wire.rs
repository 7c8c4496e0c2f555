//! Lines in and out of a stream, and one request at a time.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcplane_proto::error::ErrorObject;
use mcplane_proto::frame::lines::{self, LineTooLong, Lines};
use mcplane_proto::limits::MESSAGE_BYTES_MAX;
use mcplane_proto::message::{Kind, Part, write};
use mcplane_proto::{Id, Message, Method};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use super::Stream;
use crate::error::shorten;

/// Bytes that one read may take: a whole pipe of the default size.
const READ_BYTES: usize = 64 * 1024;

/// A stream with its buffers.
pub(crate) struct Wire {
    stream: Stream,
    lines: Lines,
    input: BytesMut,
    /// What goes out with the next write.
    pub(crate) output: Vec<u8>,
    written: usize,
    last_id: i64,
    noise: Option<String>,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Silence {
    /// The other end closed the stream.
    Closed(Option<io::Error>),
    /// The time limit passed.
    Timeout,
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            lines: Lines::new(MESSAGE_BYTES_MAX),
            input: BytesMut::new(),
            output: Vec::new(),
            written: 0,
            last_id: 0,
            noise: None,
        }
    }

    /// Reads once. `Ok(0)` is the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.input.reserve(READ_BYTES);
        // `read_buf` loses nothing when dropped, so that a fresh future for each poll is fine.
        pin!(self.stream.reader.read_buf(&mut self.input)).poll(cx)
    }

    /// Writes what is in `output`; ready when all of it is out.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.output.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream.writer).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                len => self.written += len,
            }
        }
        self.output.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// The next line that has arrived in full.
    pub(crate) fn next_line(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        self.lines.next(&mut self.input)
    }

    /// An id that was not used on this stream before; the `count - 1` after it are taken too.
    pub(crate) fn reserve_ids(&mut self, count: i64) -> i64 {
        let first = self.last_id + 1;
        self.last_id += count;
        first
    }

    /// The first line that was no message, if there was one.
    pub(crate) fn noise(&self) -> Option<&str> {
        self.noise.as_deref()
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, method: Method, params: &[u8]) -> Result<(), Silence> {
        let start = self.output.len();
        write::notification(&mut self.output, method.as_str(), Some(params));
        lines::end(&mut self.output, start);
        poll_fn(|cx| self.poll_write(cx)).await.map_err(|error| Silence::Closed(Some(error)))
    }

    /// Sends a request and waits for its answer; what comes before it is answered or ignored.
    pub(crate) async fn request(
        &mut self,
        method: Method,
        params: &[u8],
        limit: Duration,
    ) -> Result<Message, Silence> {
        let id = Id::from(self.reserve_ids(1));
        let start = self.output.len();
        write::request(&mut self.output, &id, method.as_str(), Some(params));
        lines::end(&mut self.output, start);
        match timeout(limit, poll_fn(|cx| self.poll_reply(cx, &id))).await {
            Ok(reply) => reply.map_err(Silence::Closed),
            Err(_) => Err(Silence::Timeout),
        }
    }

    fn poll_reply(
        &mut self,
        cx: &mut Context<'_>,
        id: &Id,
    ) -> Poll<Result<Message, Option<io::Error>>> {
        loop {
            while let Some(line) = self.next_line() {
                let Ok(line) = line else { continue };
                match Message::scan(line.clone()) {
                    Ok(reply) if is_reply(&reply) && reply.id().as_ref() == Some(id) => {
                        return Poll::Ready(Ok(reply));
                    }
                    Ok(message) => answer(&message, &mut self.output),
                    Err(_) => _ = self.noise.get_or_insert_with(|| shorten(&line)),
                }
            }
            // A full pipe must not keep us from reading what the other end wants to get rid of.
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                return Poll::Ready(Err(Some(error)));
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) => return Poll::Ready(Err(None)),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(Some(error))),
            }
        }
    }
}

fn is_reply(message: &Message) -> bool {
    matches!(message.kind(), Kind::Response | Kind::ErrorResponse)
}

/// Answers a server's request: `ping` with an empty result, anything else with -32601, since the
/// lab declares no capability. Other messages need no answer.
pub(crate) fn answer(message: &Message, out: &mut Vec<u8>) {
    let (Kind::Request, Some(id)) = (message.kind(), message.part(Part::Id)) else { return };
    let start = out.len();
    match message.method() {
        Some(Method::Ping) => write::result(out, id, b"{}"),
        _ => write::error(out, Some(id), &ErrorObject::method_not_found(&message.method_name())),
    }
    lines::end(out, start);
}
