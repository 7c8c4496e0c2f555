//! What a client remembers of its conversation.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use super::handshake::{EraChoice, Handshake, HandshakeError, Peer, Step};
use super::pending::{Entry, Ids, Pending};
use super::rounds::InputRequired;
use super::server::outcome;
use crate::error::{Code, ErrorObject};
use crate::frame::Output;
use crate::id::Id;
use crate::limits::PROBE_TIMEOUT;
use crate::message::{Kind, Message, Part, ScanError, ScanFailure};
use crate::meta::{self, Envelope};
use crate::method::{self, Method};
use crate::types::{ClientCapabilities, Implementation, InitializeParams, LogLevel};
use crate::version::{Era, Revision};

/// What a client says of itself.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that a library or a gateway builds")]
pub struct ClientConfig {
    /// Name and version.
    pub info: Implementation,
    /// What the client can do for its servers.
    pub capabilities: ClientCapabilities,
    /// What it is willing to speak.
    pub choice: EraChoice,
    /// How long it waits for each answer of the handshake; for the probe never longer than
    /// [`PROBE_TIMEOUT`].
    pub timeout: Duration,
    /// How its requests are numbered.
    pub ids: Ids,
}

/// One request to send.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers build")]
pub struct Call<'a> {
    /// What is asked.
    pub method: Method,
    /// The parameters: a JSON object without `_meta`, or nothing.
    pub params: Option<&'a [u8]>,
    /// More members for the parameters, each with a comma before it (`rounds::retry_members`).
    pub members: &'a [u8],
    /// The caller's own `_meta` members, a JSON object. Reserved keys in it are left out.
    pub meta: Option<&'a RawValue>,
    /// The least severe log level wanted (2026-07-28); `None` is silence.
    pub log_level: Option<&'a LogLevel>,
    /// Whether progress is wanted; the token is the request's id.
    pub progress: bool,
    /// How long to wait; progress extends it. `None` is for ever.
    pub timeout: Option<Duration>,
}

/// What a message means to the program behind the session.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "a driver must handle every event")]
pub enum ClientEvent<T> {
    /// The handshake is done; requests may be sent.
    Ready,
    /// The server ended under the probe. Start it again and call [`ClientSession::respawned`].
    Respawn,
    /// The two sides do not meet.
    Failed(HandshakeError),
    /// A request ended.
    Answered(i64, T, Answer),
    /// A request made progress; the message has the figures.
    Progress(i64),
    /// The server asks (legacy eras): answer with [`Output::result`] or [`Output::error`].
    Asked(Method),
    /// The server takes back a request of its own, or ends a listen of ours (`params.requestId`).
    Withdrawn(Id),
    /// A notification; on a listen if the id of one is given.
    Notification(Method, Option<Id>),
    /// Nothing to do: answered by the session, late, or unknown.
    Handled,
}

/// How a request ended.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "a caller must handle every end")]
pub enum Answer {
    /// The result, as JSON text.
    Complete(Bytes),
    /// The server needs answers first; send the call again with them (2026-07-28).
    InputRequired(InputRequired),
    /// The server answered with an error.
    Error(ErrorObject),
    /// The server's answer breaks the protocol.
    Malformed(String),
    /// No answer in time. The server was told.
    TimedOut,
    /// The connection ended first.
    Closed,
}

/// What a request was that its transport has lost: see [`ClientSession::lost`].
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "a driver must handle both")]
pub enum Lost<T> {
    /// The caller's own.
    Call(T),
    /// One of the handshake, which ends with it: it tells nothing of the server's era.
    Handshake(Method),
}

/// The client's side of one connection. `T` tags the caller's requests.
#[derive(Debug)]
pub struct ClientSession<T> {
    info: Implementation,
    envelope: Envelope,
    timeout: Duration,
    handshake: Handshake,
    peer: Option<Peer>,
    pending: Pending<Tag<T>>,
    expired: VecDeque<(i64, Method, Tag<T>)>,
}

#[derive(Debug)]
enum Tag<T> {
    Handshake(Duration),
    Call(T),
}

impl<T> ClientSession<T> {
    /// A session whose first message, a probe or `initialize`, is appended to `out`.
    #[must_use]
    pub fn start(now: Instant, config: ClientConfig, out: &mut Output) -> Self {
        let (handshake, step) = Handshake::start(config.choice);
        let mut envelope = Envelope::new(Revision::LATEST, config.capabilities);
        envelope.client_info = Some(config.info.clone());
        let mut session = Self {
            info: config.info,
            envelope,
            timeout: config.timeout,
            handshake,
            peer: None,
            pending: Pending::new(config.ids),
            expired: VecDeque::new(),
        };
        session.take(now, step, out);
        session
    }

    /// The server runs again after [`ClientEvent::Respawn`]: `initialize` is appended to `out`.
    pub fn respawned(&mut self, now: Instant, out: &mut Output) {
        let step = Step::Initialize(Revision::LATEST_LEGACY);
        self.take(now, step, out);
    }

    /// Who the server is; `None` before [`ClientEvent::Ready`].
    #[must_use]
    pub const fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Takes one message in. At most one message is appended to `out`.
    pub fn receive(&mut self, now: Instant, message: &Message, out: &mut Output) -> ClientEvent<T> {
        match message.kind() {
            Kind::Response | Kind::ErrorResponse => self.answer(now, message, out),
            Kind::Notification => self.notification(now, message),
            Kind::Request => self.asked(message, out),
        }
    }

    /// Takes bytes in that are not a message. What looks like a request is answered with an error; the
    /// request that a response was for ends as [`Answer::Malformed`]. At most one message is
    /// appended to `out`.
    pub fn refuse(
        &mut self,
        now: Instant,
        failure: &ScanFailure,
        out: &mut Output,
    ) -> ClientEvent<T> {
        let Some(id) = &failure.id else { return ClientEvent::Handled };
        // An answer without an outcome looks like no response.
        let may_answer = failure.is_response || failure.error == ScanError::BadShape;
        let Some((id, entry)) = may_answer.then(|| self.close(id)).flatten() else {
            if !failure.is_response {
                let mut id_json = Vec::new();
                id.write_json(&mut id_json);
                out.error(Some(&id_json), &failure.object());
            }
            return ClientEvent::Handled;
        };
        let why = failure.to_string();
        let step = match (entry.tag, entry.method) {
            (Tag::Call(tag), _) => return ClientEvent::Answered(id, tag, Answer::Malformed(why)),
            (Tag::Handshake(_), Method::Discover) => {
                self.handshake.probe_answered(Err(failure.object()))
            }
            (Tag::Handshake(_), method) => Step::Failed(HandshakeError::Malformed { method, why }),
        };
        self.take(now, step, out)
    }

    /// Sends a request; its id comes back.
    ///
    /// # Errors
    /// The tag comes back before [`ClientEvent::Ready`], for a method that the agreed revision does
    /// not have, and when too many requests are in flight.
    pub fn call(
        &mut self,
        now: Instant,
        call: &Call<'_>,
        tag: T,
        out: &mut Output,
    ) -> Result<i64, T> {
        let id = self.open(now, call.method, call.timeout, tag)?;
        let revision = self.peer.as_ref().map_or(Revision::LATEST, |peer| peer.revision);
        let params = self.params(revision, call, id);
        out.request(&Id::from(id), call.method, params.as_deref());
        Ok(id)
    }

    /// Notes a request that the caller writes itself, under the id that comes back.
    ///
    /// # Errors
    /// As [`ClientSession::call`].
    pub fn open(
        &mut self,
        now: Instant,
        method: Method,
        timeout: Option<Duration>,
        tag: T,
    ) -> Result<i64, T> {
        if !self.peer.as_ref().is_some_and(|peer| method.exists_in(peer.revision)) {
            return Err(tag);
        }
        match self.pending.open(now, method, timeout, Tag::Call(tag)) {
            Ok(id) => Ok(id),
            Err(Tag::Call(tag)) => Err(tag),
            Err(Tag::Handshake(_)) => Ok(0), // a call was handed in, so a call comes back
        }
    }

    /// Sends a notification. `params` is JSON text.
    pub fn notify(&self, method: Method, params: Option<&[u8]>, out: &mut Output) {
        out.notification(method, params);
    }

    /// Gives up a request and tells the server. Whatever it still answers is dropped.
    pub fn cancel(&mut self, id: i64, reason: &str, out: &mut Output) -> Option<T> {
        match self.pending.close(&Id::from(id))?.tag {
            Tag::Call(tag) => {
                let params = json!({"requestId": id, "reason": reason}).to_string();
                out.notification(Method::Cancelled, Some(params.as_bytes()));
                Some(tag)
            }
            Tag::Handshake(_) => None,
        }
    }

    /// Drops a request that the server has ended on its own. Nothing is sent.
    pub fn forget(&mut self, id: i64) -> Option<T> {
        match self.pending.close(&Id::from(id))?.tag {
            Tag::Call(tag) => Some(tag),
            Tag::Handshake(_) => None,
        }
    }

    /// Ends a request that its transport has lost. `None` for one that is not in flight.
    pub fn lost(&mut self, id: i64) -> Option<Lost<T>> {
        let entry = self.pending.close(&Id::from(id))?;
        Some(match entry.tag {
            Tag::Call(tag) => Lost::Call(tag),
            Tag::Handshake(_) => Lost::Handshake(entry.method),
        })
    }

    /// The tag of a request in flight.
    pub fn tag(&mut self, id: i64) -> Option<&mut T> {
        match &mut self.pending.entry(&Id::from(id))?.tag {
            Tag::Call(tag) => Some(tag),
            Tag::Handshake(_) => None,
        }
    }

    /// Which request of all one in flight is: ids do not tell their age.
    #[must_use]
    pub fn number(&self, id: i64) -> Option<u64> {
        self.pending.number(id)
    }

    /// The tags of the requests in flight, in no order.
    pub fn tags(&self) -> impl Iterator<Item = &T> {
        self.pending.tags().filter_map(|tag| match tag {
            Tag::Call(tag) => Some(tag),
            Tag::Handshake(_) => None,
        })
    }

    /// A request has begun to stream (a listen was acknowledged): it has no deadline any more.
    pub fn hold(&mut self, id: i64) {
        self.pending.hold(&Id::from(id));
    }

    /// One request whose time is over, or a step of the handshake that one causes. Call it until
    /// it gives `None`; at most one message is appended to `out` each time.
    pub fn expire(&mut self, now: Instant, out: &mut Output) -> Option<ClientEvent<T>> {
        let due = self.pending.expire(now);
        self.expired.extend(due.into_iter().map(|(id, entry)| (id, entry.method, entry.tag)));
        let (id, method, tag) = self.expired.pop_front()?;
        Some(match tag {
            Tag::Call(tag) => {
                let params = json!({"requestId": id, "reason": "timeout"}).to_string();
                out.notification(Method::Cancelled, Some(params.as_bytes()));
                ClientEvent::Answered(id, tag, Answer::TimedOut)
            }
            Tag::Handshake(_) if method == Method::Discover => {
                let step = self.handshake.probe_timed_out();
                self.take(now, step, out)
            }
            Tag::Handshake(after) => {
                ClientEvent::Failed(HandshakeError::TimedOut { method, after })
            }
        })
    }

    /// When to call [`ClientSession::expire`] next.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.pending.deadline()
    }

    /// The connection ended: what that means for the handshake, and for each request.
    pub fn closed(&mut self) -> Vec<ClientEvent<T>> {
        let drained = self.pending.drain().into_iter();
        let all = drained.map(|(id, entry)| (id, entry.method, entry.tag));
        let all: Vec<_> = self.expired.drain(..).chain(all).collect();
        all.into_iter()
            .map(|(id, method, tag)| match tag {
                Tag::Call(tag) => ClientEvent::Answered(id, tag, Answer::Closed),
                Tag::Handshake(_) if method == Method::Discover => {
                    match self.handshake.probe_closed() {
                        Step::Respawn(_) => ClientEvent::Respawn,
                        _ => ClientEvent::Failed(HandshakeError::Closed { method }),
                    }
                }
                Tag::Handshake(_) => ClientEvent::Failed(HandshakeError::Closed { method }),
            })
            .collect()
    }

    fn answer(&mut self, now: Instant, message: &Message, out: &mut Output) -> ClientEvent<T> {
        // Late, twice, or never asked: dropped.
        let Some((id, entry)) = message.id().and_then(|id| self.close(&id)) else {
            return ClientEvent::Handled;
        };
        let outcome = outcome(message);
        let step = match (entry.tag, entry.method) {
            (Tag::Call(tag), method) => {
                let answer = match outcome {
                    Ok(result) => self.judge(method, message, result),
                    Err(error) => Answer::Error(error),
                };
                return ClientEvent::Answered(id, tag, answer);
            }
            (Tag::Handshake(_), Method::Discover) => {
                self.handshake.probe_answered(outcome.as_deref().map_err(Clone::clone))
            }
            (Tag::Handshake(_), _) => {
                self.handshake.initialize_answered(outcome.as_deref().map_err(Clone::clone))
            }
        };
        self.take(now, step, out)
    }

    /// Ends the request of ours that has this id.
    fn close(&mut self, id: &Id) -> Option<(i64, Entry<Tag<T>>)> {
        match (id, self.pending.close(id)) {
            (Id::Integer(id), Some(entry)) => Some((*id, entry)),
            _ => None,
        }
    }

    /// What a result is, told by the method and the era, with `resultType` as the only clue inside.
    fn judge(&self, method: Method, message: &Message, result: Bytes) -> Answer {
        let era = self.peer.as_ref().map(Peer::era);
        if era != Some(Era::Modern) {
            return Answer::Complete(result);
        }
        match message.text(Part::ResultType).as_deref() {
            None if message.part(Part::ResultType).is_some() => {
                Answer::Malformed("`resultType` is not a string".into())
            }
            // A server that forgets it is understood all the same.
            None | Some("complete") => Answer::Complete(result),
            Some("input_required") if method.takes_input() => match InputRequired::parse(&result) {
                Ok(round) => Answer::InputRequired(round),
                Err(why) => Answer::Malformed(format!("bad `input_required` result: {why}")),
            },
            Some(other) => Answer::Malformed(format!(
                "`resultType` {other:?} is not one that `{method}` may have here"
            )),
        }
    }

    fn notification(&mut self, now: Instant, message: &Message) -> ClientEvent<T> {
        match message.method() {
            Some(Method::Progress) => {
                let token = message.part(Part::ProgressOf).and_then(Id::from_json);
                match token {
                    Some(Id::Integer(id)) if self.pending.extend(now, &Id::from(id)).is_some() => {
                        ClientEvent::Progress(id)
                    }
                    _ => ClientEvent::Handled,
                }
            }
            Some(Method::Cancelled) => {
                let id = message.part(Part::RequestId).and_then(Id::from_json);
                id.map_or(ClientEvent::Handled, ClientEvent::Withdrawn)
            }
            Some(method) if method.kind() == method::Kind::Notification => {
                let listen = message.part(Part::SubscriptionId).and_then(Id::from_json);
                ClientEvent::Notification(method, listen)
            }
            _ => ClientEvent::Handled,
        }
    }

    fn asked(&self, message: &Message, out: &mut Output) -> ClientEvent<T> {
        let id = message.part(Part::Id);
        let revision = self.peer.as_ref().map_or(Revision::LATEST_LEGACY, |peer| peer.revision);
        match message.method() {
            // Before the handshake is done a server may ping already.
            Some(Method::Ping) if revision.era() == Era::Legacy => {
                out.result(id.unwrap_or(b"null"), b"{}");
            }
            Some(method)
                if self.peer.is_some()
                    && method.exists_in(revision)
                    && method.direction() != method::Direction::ToServer =>
            {
                return ClientEvent::Asked(method);
            }
            _ => {
                let error = ErrorObject::method_not_found(&message.method_name());
                out.error(id, &error);
            }
        }
        ClientEvent::Handled
    }

    /// Carries out a step of the handshake.
    fn take(&mut self, now: Instant, step: Step, out: &mut Output) -> ClientEvent<T> {
        let (method, revision) = match step {
            Step::Discover(revision) => (Method::Discover, revision),
            Step::Initialize(revision) => (Method::Initialize, revision),
            Step::Respawn(_) => return ClientEvent::Respawn,
            Step::Failed(error) => return ClientEvent::Failed(error),
            Step::Ready(peer) => {
                if peer.era() == Era::Legacy {
                    out.notification(Method::Initialized, None);
                }
                self.peer = Some(peer);
                return ClientEvent::Ready;
            }
        };
        let timeout = match method {
            Method::Discover => self.timeout.min(PROBE_TIMEOUT),
            _ => self.timeout,
        };
        let Ok(id) = self.pending.open(now, method, Some(timeout), Tag::Handshake(timeout)) else {
            return ClientEvent::Failed(HandshakeError::Closed { method });
        };
        let call = Call {
            method,
            params: None,
            members: &[],
            meta: None,
            log_level: None,
            progress: false,
            timeout: Some(timeout),
        };
        let params = match revision.era() {
            Era::Modern => self.params(revision, &call, id),
            Era::Legacy => Some(self.initialize_params(revision)),
        };
        out.request(&Id::from(id), method, params.as_deref());
        ClientEvent::Handled
    }

    fn initialize_params(&self, revision: Revision) -> Vec<u8> {
        let (info, capabilities) = (self.info.clone(), self.envelope.client_capabilities.clone());
        let mut out = Vec::new();
        meta::write_params(
            &InitializeParams::new(revision, capabilities, info),
            revision,
            None,
            &mut out,
        );
        out
    }

    /// The parameters of a request with the `_meta` that the revision wants. `None` if there is
    /// nothing to say.
    fn params(&mut self, revision: Revision, call: &Call<'_>, id: i64) -> Option<Vec<u8>> {
        let mut out = b"{\"_meta\":".to_vec();
        self.envelope.protocol_version = revision.as_str().into();
        self.envelope.progress_token = call.progress.then(|| Id::from(id));
        self.envelope.log_level = call.log_level.cloned();
        if !self.envelope.write(revision, call.meta, &mut out) {
            out.truncate(1);
        }
        let given = call.params.map_or(&b""[..], |params| {
            let params = params.trim_ascii();
            params.get(1..params.len().saturating_sub(1)).unwrap_or_default().trim_ascii()
        });
        if !given.is_empty() {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(given);
        }
        let members =
            if out.len() > 1 { call.members } else { call.members.get(1..).unwrap_or(&[]) };
        out.extend_from_slice(members);
        out.push(b'}');
        (out.len() > 2).then_some(out)
    }
}

impl Answer {
    /// An answer that a caller gives up on, as an error object for reports.
    #[must_use]
    pub fn into_error(self) -> Option<ErrorObject> {
        match self {
            Self::Error(error) => Some(error),
            Self::Malformed(why) => Some(ErrorObject::new(Code::INTERNAL_ERROR, why)),
            Self::Complete(_) | Self::InputRequired(_) | Self::TimedOut | Self::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_short_and_the_handshake_as_long_as_was_asked_for() {
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let config = ClientConfig {
            info: Implementation::new("client", "1"),
            capabilities: ClientCapabilities::default(),
            choice: EraChoice::Auto,
            timeout: 5 * minute,
            ids: Ids::default(),
        };
        let mut out = Output::new();
        let mut session = ClientSession::<()>::start(now, config, &mut out);
        let probed = now + PROBE_TIMEOUT;
        assert!(session.expire(probed, &mut out).is_some() && session.deadline().is_some());
        assert!(session.expire(probed + 4 * minute, &mut out).is_none());
        let end = session.expire(probed + 5 * minute, &mut out);
        assert!(matches!(end, Some(ClientEvent::Failed(HandshakeError::TimedOut { .. }))));
    }
}
