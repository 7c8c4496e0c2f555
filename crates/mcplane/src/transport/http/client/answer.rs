//! What comes back for one POST: messages, a stream of them, or a refusal.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, StatusCode, Uri};
use mcplane_proto::frame::sse::{Decoder, Event};
use mcplane_proto::id::Id;
use mcplane_proto::limits::{EVENT_BYTES_MAX, MESSAGE_BYTES_MAX};
use mcplane_proto::message::{self, Kind, Message, Part};
use tokio::time::timeout;

use super::body::{Body, collect};
use super::endpoint::failure_of;
use crate::error::{Failure, Lost};

/// How long a stream may stay open after its answer before its connection is closed.
const REST_TIME_MAX: Duration = Duration::from_secs(1);

/// Longest body of a refusal, in bytes.
const REFUSAL_BYTES_MAX: usize = 1024 * 1024;

/// An answer whose head has come.
pub(super) enum Answer {
    /// The whole body, said to be JSON.
    Json(Bytes),
    Stream(Stream),
    /// Taken, and nothing to say.
    Accepted,
    /// The error that the server gives as a reason, and what the status alone means.
    Refused(Option<Message>, Failure),
}

impl Answer {
    pub(super) async fn of(response: Response<Body>, from: &Uri) -> Result<Self, Failure> {
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let bytes = collect(body, REFUSAL_BYTES_MAX).await.unwrap_or_default();
            let reason = Message::scan(bytes.clone()).ok();
            let reason = reason.filter(|message| message.kind() == Kind::ErrorResponse);
            let said = String::from_utf8_lossy(&bytes);
            let said = if is(&head.headers, "text/html") { "" } else { &said };
            let failure = failure_of(&head, from, said);
            return Ok(Self::Refused(reason, failure));
        }
        if is(&head.headers, "text/event-stream") {
            return Ok(Self::Stream(Stream::new(body)));
        }
        if is(&head.headers, "application/json") {
            return Ok(match collect(body, MESSAGE_BYTES_MAX).await? {
                bytes if bytes.is_empty() => Self::Accepted,
                bytes => Self::Json(bytes),
            });
        }
        let silent = matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
        let bytes = collect(body, REFUSAL_BYTES_MAX).await;
        if silent || bytes.is_ok_and(|bytes| bytes.is_empty()) {
            return Ok(Self::Accepted);
        }
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or("something without a content type");
        Err(nonsense(head.status, format!("{from} answered with {kind}, not with a message")))
    }
}

/// An answer of the right status that is not a message of ours.
pub(super) fn nonsense(status: StatusCode, message: String) -> Failure {
    Failure { status: Some(status.as_u16()), ..Failure::new(Lost::Malformed, message) }
}

/// The messages of a JSON body, a batch of 2025-03-26 included.
pub(super) fn messages(body: Bytes) -> Result<Vec<Message>, Failure> {
    let no_message = |why: &dyn std::fmt::Display| {
        nonsense(StatusCode::OK, format!("a body that is not a message: {why}"))
    };
    let parts = if message::is_batch(&body) {
        message::split_batch(&body).map_err(|failure| no_message(&failure.error))?
    } else {
        vec![body]
    };
    let scanned = parts.into_iter().map(Message::scan);
    scanned.map(|scan| scan.map_err(|failure| no_message(&failure.error))).collect()
}

/// Whether `message` answers the request `id`. An error without an id answers the request that it
/// came back for.
pub(super) fn answers(message: &Message, id: &Id) -> bool {
    match message.kind() {
        Kind::Response => message.id().as_ref() == Some(id),
        Kind::ErrorResponse => message.id().is_none_or(|other| other == *id),
        Kind::Request | Kind::Notification => false,
    }
}

/// The bytes of an answer, with the request's id where it has none.
pub(super) fn with_id(message: &Message, id: &Id) -> Bytes {
    let (None, Some(error)) = (message.id(), message.part(Part::Error)) else {
        return message.bytes().clone();
    };
    let mut out = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    id.write_json(&mut out);
    out.extend_from_slice(b",\"error\":");
    out.extend_from_slice(error);
    out.push(b'}');
    out.into()
}

fn is(headers: &HeaderMap, kind: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

/// An event stream.
pub(super) struct Stream {
    body: Body,
    decoder: Decoder,
    chunk: Bytes,
}

impl Stream {
    fn new(body: Body) -> Self {
        Self { body, decoder: Decoder::new(EVENT_BYTES_MAX), chunk: Bytes::new() }
    }

    /// Reads what is left after the answer, which is most often the end alone: only then can the
    /// connection be used again.
    pub(super) async fn rest(mut self) {
        let end = async { while let Some(Ok(_)) = self.body.next().await {} };
        let _ = timeout(REST_TIME_MAX, end).await;
    }

    /// The next event; `None` when the server ends the stream. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<Event, Failure>> {
        loop {
            let mut rest: &[u8] = &self.chunk;
            let event = self.decoder.next(&mut rest);
            let used = self.chunk.len() - rest.len();
            self.chunk = self.chunk.slice(used..);
            match event {
                Some(Ok(event)) => return Some(Ok(event)),
                Some(Err(error)) => {
                    let why = format!("an event that cannot be taken: {error}");
                    return Some(Err(Failure::new(Lost::Malformed, why)));
                }
                None => {}
            }
            match self.body.next().await? {
                Ok(chunk) => self.chunk = chunk,
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}
