//! How messages travel: one shape for every transport.
//!
//! The load knows three things of a wire: it [`begin`](Wire::begin)s calls whose bytes are ready
//! but for the id, it takes [`Arrival`]s, and it gives up on a call. Whether one stream carries
//! everything or each call has a connection of its own is decided here.
//!
//! * [`Wire`] — what is under way on a connection (this file).
//! * `call`       — requests whose bytes are ready.
//! * `arrival`    — what comes back, or why nothing does.
//! * `lines`      — one message per line over a byte stream.
//! * `socket`     — WebSocket.
//! * `streamable` — Streamable HTTP.
//! * `sse`        — HTTP+SSE.
//! * `http`       — the HTTP/1.1 connections under the two.

mod arrival;
mod call;
mod http;
mod lines;
mod socket;
mod sse;
mod streamable;

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mcplane_proto::error::ErrorObject;
use mcplane_proto::frame::lines as framing;
use mcplane_proto::message::{Kind, Part, write};
use mcplane_proto::{Era, Id, Message, Method, Revision};
use tokio::time::timeout;

use self::http::Exchange;
use super::Stream;
use super::dial::Dialer;
use super::remote::Headers;
use crate::text::shorten;
pub(crate) use arrival::{Arrival, Broken, Lost, Silence};
pub(crate) use call::{Call, UNSTAMPED, stamp, stamps};
pub(crate) use socket::SUBPROTOCOL;

/// How long the end of a session may take.
const GOODBYE: Duration = Duration::from_millis(250);

/// A way to a server, with what is under way on it.
pub(crate) struct Wire {
    link: Link,
    last_id: i64,
    noise: Option<String>,
    revision: Option<Revision>,
}

enum Link {
    Lines(lines::Lines),
    Socket(Box<socket::Socket>),
    Streamable(Box<streamable::Streamable>),
    Sse(Box<sse::Sse>),
}

impl Wire {
    /// Lines over this stream, beginning with `preamble`.
    pub(crate) fn lines(stream: Stream, preamble: &[u8]) -> Self {
        let mut lines = lines::Lines::new(stream);
        lines.output.raw().extend_from_slice(preamble);
        Self::over(Link::Lines(lines))
    }

    /// A WebSocket.
    pub(crate) async fn socket(dialer: &Dialer, headers: &Headers) -> Result<Self, String> {
        let socket = socket::Socket::open(dialer, headers).await?;
        Ok(Self::over(Link::Socket(Box::new(socket))))
    }

    /// Streamable HTTP; nothing is opened yet.
    pub(crate) fn streamable(dialer: Dialer, headers: Headers) -> Self {
        Self::over(Link::Streamable(Box::new(streamable::Streamable::new(dialer, headers))))
    }

    /// HTTP+SSE.
    pub(crate) async fn sse(dialer: Dialer, headers: Headers) -> Result<Self, String> {
        match sse::Sse::open(dialer, headers).await {
            Ok(sse) => Ok(Self::over(Link::Sse(Box::new(sse)))),
            Err(Lost::Connection(why) | Lost::Status(_, why)) => Err(why),
            Err(Lost::Refused(message)) => Err(shorten(message.bytes())),
        }
    }

    fn over(link: Link) -> Self {
        Self { link, last_id: 0, noise: None, revision: None }
    }

    /// Whether a lost connection is an outage, which no other handshake would mend.
    pub(crate) const fn is_http(&self) -> bool {
        matches!(self.link, Link::Streamable(_) | Link::Sse(_))
    }

    /// Whether each call has a connection, and a write, of its own.
    pub(crate) const fn is_per_call(&self) -> bool {
        self.is_http()
    }

    /// From now on this revision is spoken.
    pub(crate) fn agree(&mut self, revision: Revision) {
        self.revision = Some(revision);
        if let Link::Streamable(link) = &mut self.link {
            link.agree(revision);
        }
    }

    /// Makes room for so many calls at once.
    pub(crate) fn widen(&mut self, calls: usize) {
        match &mut self.link {
            Link::Lines(_) | Link::Socket(_) => {}
            Link::Streamable(link) => link.widen(calls),
            Link::Sse(link) => link.widen(calls),
        }
    }

    /// A request, ready but for its id. `name` is what its params name.
    pub(crate) fn call(&self, method: Method, params: &[u8], name: Option<&str>) -> Call {
        let head = self.head(Some(method), name);
        Call::new(head, method, params, matches!(self.link, Link::Lines(_)))
    }

    fn head(&self, method: Option<Method>, name: Option<&str>) -> Vec<u8> {
        let modern = method == Some(Method::Discover) || self.is_modern();
        match &self.link {
            Link::Lines(_) | Link::Socket(_) => Vec::new(),
            Link::Streamable(link) => link.head(method, name, modern),
            Link::Sse(link) => link.head(),
        }
    }

    fn is_modern(&self) -> bool {
        self.revision.is_some_and(|revision| revision.era() == Era::Modern)
    }

    /// Begins a call. It leaves with the next [`Wire::poll_write`], over HTTP at once.
    pub(crate) fn begin(&mut self, call: &Call, id: i64) {
        let exchange = Exchange { id, asks: true };
        match &mut self.link {
            Link::Lines(link) => call.write_body(id, link.output.raw()),
            Link::Socket(link) => link.output.push_back(call.body(id)),
            Link::Streamable(link) => link.send(call, Some(id), exchange),
            Link::Sse(link) => link.send(call, Some(id), exchange),
        }
    }

    /// Sends a message that nothing answers. Returns the number that its exchange has over HTTP.
    fn post(&mut self, message: Vec<u8>) -> i64 {
        let id = self.reserve_ids(1);
        let exchange = Exchange { id, asks: false };
        let call = |head| Call { head, before: message.clone(), ..Call::default() };
        match &mut self.link {
            Link::Lines(link) => framing::write(link.output.raw(), &message),
            Link::Socket(link) => link.output.push_back(message.into()),
            Link::Streamable(link) => {
                let call = call(link.head(None, None, false));
                link.send(&call, None, exchange);
            }
            Link::Sse(link) => {
                let call = call(link.head());
                link.send(&call, None, exchange);
            }
        }
        id
    }

    /// Answers a server's request: `ping` with an empty result, anything else with -32601, since
    /// the lab declares no capability. Other messages need no answer.
    pub(crate) fn answer(&mut self, message: &Message) {
        let (Kind::Request, Some(id)) = (message.kind(), message.part(Part::Id)) else { return };
        let mut out = Vec::new();
        match message.method() {
            Some(Method::Ping) => write::result(&mut out, id, b"{}"),
            _ => {
                let error = ErrorObject::method_not_found(&message.method_name());
                write::error(&mut out, Some(id), &error);
            }
        }
        self.post(out);
    }

    /// Nobody waits for this call any more. Where a closed connection does not say so (or, in the
    /// legacy era, does not mean it), a notification does.
    pub(crate) fn give_up(&mut self, id: i64) {
        match &mut self.link {
            Link::Lines(_) | Link::Socket(_) => {}
            Link::Streamable(link) => link.give_up(id),
            Link::Sse(link) => link.give_up(id),
        }
        if matches!(self.link, Link::Streamable(_)) && self.is_modern() {
            return;
        }
        let params = format!(r#"{{"requestId":{id},"reason":"timeout"}}"#);
        let mut out = Vec::new();
        write::notification(&mut out, Method::Cancelled.as_str(), Some(params.as_bytes()));
        self.post(out);
    }

    /// Reads once: what came is taken with [`Wire::next`].
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        match &mut self.link {
            Link::Lines(link) => link.poll_read(cx),
            Link::Socket(link) => link.poll_read(cx),
            Link::Streamable(link) => link.poll_read(cx).map(Ok),
            Link::Sse(link) => link.poll_read(cx),
        }
    }

    /// Writes what is to go out; ready when all of it is.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let failed =
            |error: &dyn std::fmt::Display| Broken::Why(format!("writing failed: {error}"));
        match &mut self.link {
            Link::Lines(link) => link.poll_write(cx).map_err(|error| failed(&error)),
            Link::Socket(link) => link.poll_write(cx).map_err(|error| failed(&error)),
            // Written when they began; the rest follows with the reads.
            Link::Streamable(_) | Link::Sse(_) => Poll::Ready(Ok(())),
        }
    }

    /// The next thing that has arrived in full.
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        match &mut self.link {
            Link::Lines(link) => link.next(),
            Link::Socket(link) => link.next(),
            Link::Streamable(link) => link.next(),
            Link::Sse(link) => link.next(),
        }
    }

    /// An id that was not used on this wire before; the `count - 1` after it are taken too.
    pub(crate) const fn reserve_ids(&mut self, count: i64) -> i64 {
        let first = self.last_id + 1;
        self.last_id += count;
        first
    }

    /// The first thing that was not a message, if there was one.
    pub(crate) fn noise(&self) -> Option<&str> {
        self.noise.as_deref()
    }

    /// Sends a notification. Over HTTP it returns when the server has taken it.
    pub(crate) async fn notify(
        &mut self,
        method: Method,
        params: &[u8],
        limit: Duration,
    ) -> Result<(), Silence> {
        let mut out = Vec::new();
        write::notification(&mut out, method.as_str(), Some(params));
        let id = self.post(out);
        if self.is_http() {
            return self.within(limit, id).await.map(drop);
        }
        poll_fn(|cx| self.poll_write(cx)).await.map_err(Silence::from)
    }

    /// Sends a request and waits for its answer; what comes before it is answered or ignored.
    pub(crate) async fn request(
        &mut self,
        method: Method,
        params: &[u8],
        name: Option<&str>,
        limit: Duration,
    ) -> Result<Message, Silence> {
        let id = self.reserve_ids(1);
        let call = self.call(method, params, name);
        self.begin(&call, id);
        match self.within(limit, id).await {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(Silence::Broken("the response held no answer".to_owned())),
            Err(silence) => {
                if matches!(silence, Silence::Timeout) && self.is_http() {
                    self.give_up(id);
                }
                Err(silence)
            }
        }
    }

    async fn within(&mut self, limit: Duration, id: i64) -> Result<Option<Message>, Silence> {
        timeout(limit, poll_fn(|cx| self.poll_reply(cx, id))).await.unwrap_or(Err(Silence::Timeout))
    }

    /// `None` means that the exchange is over without an answer.
    fn poll_reply(
        &mut self,
        cx: &mut Context<'_>,
        id: i64,
    ) -> Poll<Result<Option<Message>, Silence>> {
        loop {
            while let Some(arrival) = self.next() {
                match arrival {
                    Arrival::Message(bytes) => match Message::scan(bytes.clone()) {
                        Ok(reply) if is_reply(&reply) && reply.id() == Some(Id::from(id)) => {
                            return Poll::Ready(Ok(Some(reply)));
                        }
                        Ok(message) => self.answer(&message),
                        Err(_) => _ = self.noise.get_or_insert_with(|| shorten(&bytes)),
                    },
                    Arrival::Over(other) if other == id => return Poll::Ready(Ok(None)),
                    Arrival::Failed(other, lost) if other == id => {
                        return Poll::Ready(match lost {
                            Lost::Connection(why) => Err(Silence::Broken(why)),
                            Lost::Status(status, text) => Err(Silence::Status(status, text)),
                            Lost::Refused(message) => Ok(Some(*message)),
                        });
                    }
                    Arrival::Over(_) | Arrival::Failed(..) => {}
                    Arrival::Noise(what) => _ = self.noise.get_or_insert(what),
                }
            }
            // A full pipe must not keep us from reading what the other end wants to get rid of.
            if let Poll::Ready(Err(broken)) = self.poll_write(cx) {
                return Poll::Ready(Err(broken.into()));
            }
            if let Err(broken) = ready!(self.poll_read(cx)) {
                return Poll::Ready(Err(broken.into()));
            }
        }
    }

    /// Ends a session that the server keeps, if there is one.
    pub(crate) async fn close(mut self) {
        let id = self.reserve_ids(1);
        if let Link::Streamable(link) = &mut self.link
            && link.say_goodbye(Exchange { id, asks: false })
        {
            // A server that does not want to hear it (405) has heard it.
            let _ = self.within(GOODBYE, id).await;
        }
    }
}

fn is_reply(message: &Message) -> bool {
    matches!(message.kind(), Kind::Response | Kind::ErrorResponse)
}
