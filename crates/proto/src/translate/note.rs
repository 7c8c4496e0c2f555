//! Notifications of an upstream for a client; each is appended as one line, without its line feed.

use super::text::{New, Object, members, one_line, splice};
use crate::message::{Message, Part};
use crate::meta::SUBSCRIPTION_ID;

/// Appends a `notifications/progress` with the client's own token.
pub fn progress(note: &Message, token_json: &[u8], out: &mut Vec<u8>) {
    let token = note.part(Part::ProgressOf).map(|old| (old, New::Json(token_json)));
    let start = out.len();
    splice(note.bytes(), [token], out);
    one_line(out, start);
}

/// Appends a `notifications/message`, which every revision says alike. Whether the client asked for
/// messages of this level is for the caller to see to.
pub fn log(note: &Message, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(note.bytes());
    one_line(out, start);
}

/// Appends a notification of a change (a list, a resource) with the id of the client's own
/// subscription as JSON, or for a legacy client without any.
pub fn change(note: &Message, subscription: Option<&[u8]>, out: &mut Vec<u8>) {
    let start = out.len();
    match (note.part(Part::SubscriptionId), subscription) {
        (None, None) => out.extend_from_slice(note.bytes()),
        (Some(old), Some(new)) => splice(note.bytes(), [Some((old, New::Json(new)))], out),
        _ => {
            let mut envelope = Object::open(out);
            envelope.member("jsonrpc", b"\"2.0\"");
            envelope.member("method", note.part(Part::Method).unwrap_or_default());
            envelope.object("params", |params| resubscribe(note, subscription, params));
            envelope.close();
        }
    }
    one_line(out, start);
}

fn resubscribe(note: &Message, subscription: Option<&[u8]>, params: &mut Object<'_>) {
    let own = note.part(Part::Meta).unwrap_or_default();
    params.object("_meta", |meta| {
        if let Some(id) = subscription {
            meta.member(SUBSCRIPTION_ID, id);
        }
        members(own).filter(|found| found.name() != SUBSCRIPTION_ID).for_each(|f| meta.copy(&f));
    });
    let params_before = note.part(Part::Params).unwrap_or_default();
    members(params_before).filter(|found| found.name() != "_meta").for_each(|f| params.copy(&f));
}
