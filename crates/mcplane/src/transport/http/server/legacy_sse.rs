//! HTTP+SSE of 2024-11-05: one stream for everything the server says, and a place to POST to.
//!
//! Deprecated since 2025-03-26. Nothing else needs this file: it goes with its last clients.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, Uri};
use mcplane_proto::frame::sse;
use mcplane_proto::message::{Message, is_batch};

use super::classify::{Payload, Refused};
use super::config::Config;
use super::session::Opened;
use super::{Body, Endpoint, Permit, empty, json, overloaded, refuse};

/// Names the session in the URI that messages are POSTed to.
const SESSION: &str = "sessionId=";

/// Which of the two paths a request is for.
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
) -> Response<Body> {
    let session = match endpoint.0.sessions.open(&endpoint.0.service, principal) {
        Ok(session) => session,
        Err(error) => return overloaded(&error.to_string()),
    };
    let messages = endpoint.0.config.legacy_sse.as_ref().map_or("", |(_, messages)| messages);
    let target = format!("{messages}?{SESSION}{}", session.id());
    let mut first = Vec::new();
    let block = sse::Block {
        event: Some("endpoint"),
        data: Some(target.as_bytes()),
        ..sse::Block::default()
    };
    block.write(&mut first);
    session.single(first.into()).stream(permit)
}

/// Takes a message in; what it is answered with goes to the stream.
pub(super) fn post(
    endpoint: &Endpoint,
    uri: &Uri,
    body: Bytes,
    principal: Option<&str>,
) -> Response<Body> {
    let id = uri.query().into_iter().flat_map(|query| query.split('&'));
    let id = id.filter_map(|pair| pair.strip_prefix(SESSION)).next();
    let session = id.and_then(|id| endpoint.0.sessions.find(id, principal));
    let Some(session) = session.filter(|session| session.is_single()) else {
        return refuse(StatusCode::NOT_FOUND, "no such session: open the event stream again");
    };
    let payload = match is_batch(&body) {
        true => Payload::Batch(body),
        false => match Message::scan(body) {
            Ok(message) => Payload::Message(message),
            Err(failure) => return Refused::new(None, failure.object()).response(),
        },
    };
    match session.post(payload) {
        Opened::Refused(error) => json(StatusCode::BAD_REQUEST, error),
        _ => empty(StatusCode::ACCEPTED),
    }
}
