//! WebSocket: one message per text frame, subprotocol `mcp`.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream as _;
use futures_sink::Sink as _;
use http::{HeaderName, HeaderValue};
use mcplane_proto::limits::MESSAGE_BYTES_MAX;
use tokio_websockets::{ClientBuilder, Error, Limits, Message, WebSocketStream};

use super::arrival::{Arrival, Broken};
use crate::client::address::{Address, Place};
use crate::client::remote::Headers;
use crate::client::{Stream, dial::Dialer};

/// The subprotocol.
pub(crate) const SUBPROTOCOL: &str = "mcp";

/// An open WebSocket.
pub(super) struct Socket {
    stream: WebSocketStream<Stream>,
    arrived: Option<Arrival>,
    /// What goes out with the next write.
    pub(super) output: VecDeque<Bytes>,
}

impl Socket {
    /// Connects and shakes hands.
    pub(super) async fn open(dialer: &Dialer, headers: &Headers) -> Result<Self, String> {
        let uri = uri(&dialer.address);
        let wrong = |what: &dyn std::fmt::Display| format!("{uri}: {what}");
        let protocol = [("sec-websocket-protocol", SUBPROTOCOL)];
        let mut builder = ClientBuilder::new()
            .uri(&uri)
            .map_err(|error| wrong(&error))?
            .limits(Limits::default().max_payload_len(Some(MESSAGE_BYTES_MAX)));
        for (name, value) in protocol.into_iter().chain(headers.iter()) {
            let name = HeaderName::try_from(name).map_err(|error| wrong(&error))?;
            let value = HeaderValue::try_from(value).map_err(|error| wrong(&error))?;
            builder = builder.add_header(name, value).map_err(|error| wrong(&error))?;
        }
        let stream = dialer.clone().dial().await;
        let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
        let (stream, response) = builder
            .connect_on(stream)
            .await
            .map_err(|error| format!("no WebSocket handshake: {error}"))?;
        match response.headers().get("sec-websocket-protocol") {
            Some(protocol) if protocol == SUBPROTOCOL => {}
            // Some servers name none; what they speak shows in the first answer.
            None => {}
            Some(other) => {
                return Err(format!("it wants the subprotocol {other:?}, not {SUBPROTOCOL}"));
            }
        }
        Ok(Self { stream, arrived: None, output: VecDeque::new() })
    }

    /// Reads one message.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        loop {
            match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                None => return Poll::Ready(Err(Broken::Closed)),
                Some(Err(Error::Io(error))) => return Poll::Ready(Err(Broken::reading(&error))),
                Some(Err(error)) => return Poll::Ready(Err(Broken::Why(error.to_string()))),
                Some(Ok(message)) if message.is_text() => {
                    self.arrived = Some(Arrival::Message(message.into_payload().into()));
                }
                Some(Ok(message)) if message.is_close() => {
                    let (code, reason) = message
                        .as_close()
                        .map_or((1005, ""), |(code, reason)| (u16::from(code), reason));
                    let why = format!("the server closed the WebSocket: {code} {reason}");
                    return Poll::Ready(Err(Broken::Why(why.trim_end().to_owned())));
                }
                Some(Ok(message)) if message.is_binary() => {
                    self.arrived = Some(Arrival::Noise("a binary frame".to_owned()));
                }
                // Pings are answered below us.
                Some(Ok(_)) => continue,
            }
            return Poll::Ready(Ok(()));
        }
    }

    /// Writes what is in `output`; ready when all of it is out.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut stream = Pin::new(&mut self.stream);
        while !self.output.is_empty() {
            ready!(stream.as_mut().poll_ready(cx))?;
            if let Some(message) = self.output.pop_front() {
                stream.as_mut().start_send(Message::text(message))?;
            }
        }
        stream.poll_flush(cx)
    }

    /// What the last read brought.
    pub(super) fn next(&mut self) -> Option<Arrival> {
        self.arrived.take()
    }
}

fn uri(address: &Address) -> String {
    match &address.place {
        Place::Net { authority, path, tls, .. } => {
            format!("{}://{authority}{path}", if *tls { "wss" } else { "ws" })
        }
        Place::Unix(_) => String::new(),
    }
}
