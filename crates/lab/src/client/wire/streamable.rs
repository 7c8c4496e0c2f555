//! Streamable HTTP, both eras: each message is a POST, answered with JSON or with events.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use mcplane_proto::headers::{self, Body};
use mcplane_proto::message::Kind as MessageKind;
use mcplane_proto::{Era, Message, Method, Revision};

use super::arrival::{Arrival, Lost};
use super::call::Call;
use super::http::{self, Came, Exchange, Head, Kind, Pool};
use crate::client::dial::Dialer;
use crate::client::remote::Headers;
use crate::text::shorten;

/// A session over Streamable HTTP.
pub(super) struct Streamable {
    dialer: Dialer,
    headers: Headers,
    pool: Pool,
    arrived: VecDeque<Arrival>,
    /// What the server called the session; the legacy era only.
    session: Option<Box<str>>,
    /// The revision agreed upon.
    revision: Option<Revision>,
}

impl Streamable {
    pub(super) fn new(dialer: Dialer, headers: Headers) -> Self {
        let pool = Pool::new(dialer.clone());
        let arrived = VecDeque::new();
        Self { dialer, headers, pool, arrived, session: None, revision: None }
    }

    pub(super) const fn agree(&mut self, revision: Revision) {
        self.revision = Some(revision);
    }

    /// Allows so many calls at once, and one message in between.
    pub(super) fn widen(&mut self, calls: usize) {
        self.pool.widen(calls + 1);
    }

    /// Everything of a request up to its length.
    pub(super) fn head(&self, method: Option<Method>, name: Option<&str>, modern: bool) -> Vec<u8> {
        let mut out = http::head("POST", &self.dialer.address, None);
        http::header(&mut out, "Content-Type", "application/json");
        http::header(&mut out, "Accept", "application/json, text/event-stream");
        for (name, value) in self.headers.iter() {
            http::header(&mut out, name, value);
        }
        match (method, modern) {
            (Some(method), true) => {
                let (version, method) = (Revision::LATEST.as_str(), method.as_str());
                let body = Body { version, method, name, arguments: None };
                for (name, value) in headers::standard(&body) {
                    http::header(&mut out, name, &value);
                }
            }
            _ => self.legacy(&mut out),
        }
        out
    }

    /// The headers that follow a legacy handshake.
    fn legacy(&self, out: &mut Vec<u8>) {
        let named = |revision: &Revision| {
            revision.era() == Era::Legacy && *revision >= Revision::V2025_06_18
        };
        if let Some(revision) = self.revision.filter(named) {
            http::header(out, headers::PROTOCOL_VERSION, revision.as_str());
        }
        if let Some(session) = &self.session {
            http::header(out, headers::SESSION_ID, session);
        }
    }

    pub(super) fn send(&mut self, call: &Call, id: Option<i64>, exchange: Exchange) {
        self.pool.send(exchange, |out| http::post(out, call, id));
    }

    pub(super) fn give_up(&mut self, id: i64) {
        self.pool.give_up(id);
    }

    /// Ends the session, if the server keeps one. The answer does not matter.
    pub(super) fn say_goodbye(&mut self, exchange: Exchange) -> bool {
        let Some(session) = &self.session else { return false };
        let mut out = http::head("DELETE", &self.dialer.address, None);
        self.headers.iter().for_each(|(name, value)| http::header(&mut out, name, value));
        http::header(&mut out, headers::SESSION_ID, session);
        out.extend_from_slice(b"\r\n");
        self.pool.send(exchange, |to| to.extend_from_slice(&out));
        true
    }

    /// Waits until something has come on one connection.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (exchange, came) = ready!(self.pool.poll(cx));
        match came {
            Came::Event(event) if event.is_message() => {
                self.arrived.push_back(Arrival::Message(event.data));
            }
            // Endpoints, priming events and the like say nothing here.
            Came::Event(_) => {}
            Came::Noise(what) => self.arrived.push_back(Arrival::Noise(what)),
            Came::Lost(why) => {
                self.arrived.push_back(Arrival::Failed(exchange.id, Lost::Connection(why)));
            }
            Came::Response(head, body) => self.response(exchange, &head, body),
        }
        Poll::Ready(())
    }

    fn response(&mut self, exchange: Exchange, head: &Head, body: Bytes) {
        let modern = self.revision.is_some_and(|revision| revision.era() == Era::Modern);
        if head.session.is_some() && self.session.is_none() && !modern {
            self.session.clone_from(&head.session);
        }
        let id = exchange.id;
        match (head.status, head.kind) {
            (200, Kind::Json) if !body.is_empty() => self.arrived.push_back(Arrival::Message(body)),
            (200, Kind::Events) => {}
            (200..300, _) if !exchange.asks => {}
            _ => return self.arrived.push_back(refusal(id, head, body)),
        }
        self.arrived.push_back(Arrival::Over(id));
    }

    pub(super) fn next(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }
}

/// Statuses of a server that is too busy to read the call: what else it says is not the answer.
const BUSY: [u16; 2] = [429, 503];

/// What a response says that is not a plain answer: a JSON-RPC error, or only its status.
pub(super) fn refusal(id: i64, head: &Head, body: Bytes) -> Arrival {
    if !BUSY.contains(&head.status)
        && let Ok(message) = Message::scan(body.clone())
        && message.kind() == MessageKind::ErrorResponse
    {
        return Arrival::Failed(id, Lost::Refused(Box::new(message)));
    }
    let mut text = head.to_string();
    if head.status < 300 {
        text.push_str(" without an answer");
    }
    if !body.is_empty() {
        text.push_str(": ");
        text.push_str(&shorten(&body));
    }
    Arrival::Failed(id, Lost::Status(head.status, text))
}
