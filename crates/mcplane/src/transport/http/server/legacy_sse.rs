//! HTTP+SSE of 2024-11-05: one stream for everything the server says, and a place to POST to.
//!
//! Deprecated since 2025-03-26. Nothing else needs this file: it goes with its last clients.

use std::sync::Arc;

use bytes::Bytes;
use http::{StatusCode, Uri};
use mcplane_proto::frame::sse;
use mcplane_proto::message::{Message, is_batch};

use super::classify::{Misfit, Payload};
use super::config::Config;
use super::refusal::Refusal;
use super::session::{Opened, Session};
use super::{Endpoint, Permit, Reply, empty};

/// Names the session in the URI that messages are POSTed to.
const SESSION: &str = "sessionId=";

/// Which of the two paths a request is for.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Stream,
    Messages,
}

pub(super) fn place(config: &Config, path: &str) -> Option<Place> {
    let (stream, messages) = config.legacy_sse.as_ref()?;
    match path {
        path if path == stream => Some(Place::Stream),
        path if path == messages => Some(Place::Messages),
        _ => None,
    }
}

/// Opens a session, whose first event says where to POST.
pub(super) fn open(
    endpoint: &Endpoint,
    principal: Option<Arc<str>>,
    permit: Permit,
) -> Result<Reply, Refusal> {
    let session = Session::new(&endpoint.0.sessions, &endpoint.0.service, principal)?;
    endpoint.0.sessions.open(&endpoint.0.service, &session)?;
    let messages = endpoint.0.config.legacy_sse.as_ref().map_or("", |(_, messages)| messages);
    let target = format!("{messages}?{SESSION}{}", session.id());
    let mut first = Vec::new();
    let block = sse::Block {
        event: Some("endpoint"),
        data: Some(target.as_bytes()),
        ..sse::Block::default()
    };
    block.write(&mut first);
    Ok(session.single(first.into()).stream(permit))
}

/// Takes a message in; what it is answered with goes to the stream.
pub(super) fn post(
    endpoint: &Endpoint,
    uri: &Uri,
    body: Bytes,
    principal: Option<&str>,
) -> Result<Reply, Refusal> {
    let id = uri.query().into_iter().flat_map(|query| query.split('&'));
    let id = id.filter_map(|pair| pair.strip_prefix(SESSION)).next();
    let session = id.and_then(|id| endpoint.0.sessions.find(id, principal));
    let Some(session) = session.filter(|session| session.is_single()) else {
        let why = "no such session: open the event stream again";
        return Err(Refusal::new(StatusCode::NOT_FOUND, why));
    };
    let payload = match is_batch(&body) {
        true => Payload::Batch(body),
        false => match Message::scan(body) {
            Ok(message) => Payload::Message(message),
            Err(failure) => return Ok(Misfit::new(None, failure.object()).reply()),
        },
    };
    Ok(match session.post(payload) {
        Opened::Refused(error) => Reply::Json(StatusCode::BAD_REQUEST, error.into()),
        _ => empty(StatusCode::ACCEPTED).into(),
    })
}
