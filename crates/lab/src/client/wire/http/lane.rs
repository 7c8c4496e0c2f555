//! One HTTP/1.1 connection that carries one request at a time, and is opened again when it is
//! needed and gone.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use mcplane_proto::frame::sse::{Decoder, Event};
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::response::{BODY_BYTES_MAX, Head, Kind, Part, Responses};
use crate::client::Stream;
use crate::client::dial::Dialer;

/// Bytes that one read may take.
const READ_BYTES: usize = 16 * 1024;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The id of the call, or a number that stands for it.
    pub(crate) id: i64,
    /// Whether an answer to it is expected: a request, not a notification.
    pub(crate) asks: bool,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Came {
    /// One event of its stream; there may be more.
    Event(Event),
    /// A block of its stream that is not an event.
    Noise(String),
    /// The response is over. The body of an event stream is empty here.
    Response(Head, Bytes),
    /// The connection failed before that.
    Lost(String),
}

/// One connection.
pub(super) struct Lane {
    dialer: Dialer,
    state: State,
    input: BytesMut,
    responses: Responses,
    decoder: Decoder,
    head: Option<Head>,
    /// What has arrived of a body that is not an event stream.
    body: Bytes,
    /// Body bytes of an event stream that the decoder has not seen.
    undecoded: Bytes,
    /// The request that is on its way, or whose response is.
    pub(super) exchange: Option<Exchange>,
    /// What is to be sent, and how much of it was.
    pub(super) output: Vec<u8>,
    written: usize,
}

enum State {
    Closed,
    Dialing(Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>),
    Open(Stream),
}

impl Lane {
    pub(super) fn new(dialer: Dialer) -> Self {
        Self {
            dialer,
            state: State::Closed,
            input: BytesMut::new(),
            responses: Responses::default(),
            decoder: Decoder::default(),
            head: None,
            body: Bytes::new(),
            undecoded: Bytes::new(),
            exchange: None,
            output: Vec::new(),
            written: 0,
        }
    }

    /// Closes the connection and forgets the request.
    pub(super) fn reset(&mut self) {
        let dialer = self.dialer.clone();
        *self = Self::new(dialer);
    }

    /// Connects if need be, writes and reads, until something has come. The exchange is gone when a
    /// response is over or lost. Pending also means that there is nothing to do.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Came> {
        loop {
            if let Poll::Ready(came) = self.take() {
                return Poll::Ready(came);
            }
            match &mut self.state {
                State::Closed if self.exchange.is_none() => return Poll::Pending,
                State::Closed => {
                    self.state = State::Dialing(Box::pin(self.dialer.clone().dial()));
                }
                State::Dialing(dialing) => match ready!(dialing.as_mut().poll(cx)) {
                    Ok(stream) => self.state = State::Open(stream),
                    Err(error) => return self.lose(format!("cannot connect: {error}")),
                },
                State::Open(_) => {
                    if let Err(error) = self.write(cx) {
                        return self.lose(format!("writing failed: {error}"));
                    }
                    match ready!(self.read(cx)) {
                        Ok(0) => return self.close(),
                        Ok(_) => {}
                        Err(error) => return self.lose(format!("reading failed: {error}")),
                    }
                }
            }
        }
    }

    /// Writes what the connection takes now; it has to be open. A full one is not a failure.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let State::Open(stream) = &mut self.state else { return Ok(()) };
        while let Some(rest) = self.output.get(self.written..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut *stream).poll_write(cx, rest)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(len) => self.written += len,
                Poll::Pending => return Ok(()),
            }
        }
        if self.written > 0 {
            self.output.clear();
            self.written = 0;
            // TLS keeps records back; what it cannot write now it writes with the next read.
            let _ = Pin::new(stream).poll_flush(cx)?;
        }
        Ok(())
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let State::Open(stream) = &mut self.state else { return Poll::Ready(Ok(0)) };
        self.input.reserve(READ_BYTES);
        // `read_buf` loses nothing when dropped, so that a fresh future for each poll is fine.
        pin!(stream.read_buf(&mut self.input)).poll(cx)
    }

    /// The next thing in the bytes that have come.
    fn take(&mut self) -> Poll<Came> {
        loop {
            if !self.undecoded.is_empty() {
                let mut rest = &self.undecoded[..];
                let event = self.decoder.next(&mut rest);
                let used = self.undecoded.len() - rest.len();
                let _ = self.undecoded.split_to(used);
                match event {
                    Some(Ok(event)) => return Poll::Ready(Came::Event(event)),
                    Some(Err(error)) => return Poll::Ready(Came::Noise(error.to_string())),
                    None => {}
                }
            }
            if self.input.is_empty() && !self.responses.is_inside() {
                return Poll::Pending;
            }
            if self.exchange.is_none() {
                return self.lose("it sent an answer that nothing asked for".to_owned());
            }
            match self.responses.next(&mut self.input) {
                Ok(None) => return Poll::Pending,
                Ok(Some(Part::Head(head))) => {
                    self.decoder = Decoder::default();
                    self.head = Some(head);
                }
                Ok(Some(Part::Body(piece))) => {
                    if self.head.as_ref().is_some_and(|head| head.kind == Kind::Events) {
                        self.undecoded = piece;
                    } else if self.body.len() + piece.len() > BODY_BYTES_MAX {
                        return self.lose(format!("a body of more than {BODY_BYTES_MAX} bytes"));
                    } else if self.body.is_empty() {
                        self.body = piece;
                    } else {
                        let mut body = BytesMut::from(std::mem::take(&mut self.body));
                        body.extend_from_slice(&piece);
                        self.body = body.freeze();
                    }
                }
                Ok(Some(Part::End)) => return Poll::Ready(self.end()),
                Err(what) => return self.lose(what),
            }
        }
    }

    fn end(&mut self) -> Came {
        let head = self.head.take().unwrap_or_default();
        if !head.keep {
            self.state = State::Closed;
            self.input.clear();
        }
        self.exchange = None;
        if self.decoder.is_inside_event() {
            self.decoder = Decoder::default();
            return Came::Lost("the stream ended inside an event".to_owned());
        }
        Came::Response(head, std::mem::take(&mut self.body))
    }

    /// The server has closed the connection.
    fn close(&mut self) -> Poll<Came> {
        if self.responses.close() {
            let came = self.end();
            self.reset();
            return Poll::Ready(came);
        }
        let when = if self.head.is_some() { "in the middle of" } else { "before" };
        self.lose(format!("the server closed the connection {when} its response"))
    }

    /// The connection is of no use any longer. Without a request on it nobody needs to know.
    fn lose(&mut self, why: String) -> Poll<Came> {
        let had = self.exchange.is_some();
        self.reset();
        if had { Poll::Ready(Came::Lost(why)) } else { Poll::Pending }
    }
}
