//! Where an upstream is concerns whoever runs the gateway, and no client: its URL may have a key in it.

use std::borrow::Cow;

use mcplane::Error;
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::message::{Kind, Message, Part};
use serde_json::Value;

use super::pool::Pool;

/// A text for clients, with the upstream's name in the place of every URL if the upstream has one.
pub(crate) fn hidden<'a>(text: &'a str, pool: &Pool) -> Cow<'a, str> {
    if pool.settings.url.is_none() || !text.contains("://") {
        return Cow::Borrowed(text);
    }
    without(text, &pool.shared.name).into()
}

/// What clients hear of an answer that an HTTP server never gave: the library's client answers in its
/// place, and tells what it knows of the way.
pub(crate) fn hidden_in(answer: &Message, pool: &Pool) -> Option<ErrorObject> {
    if answer.kind() != Kind::ErrorResponse || pool.settings.url.is_none() {
        return None;
    }
    let mut error: ErrorObject = serde_json::from_slice(answer.part(Part::Error)?).ok()?;
    // A server may answer with that code, too.
    if error.code != Code::TRANSPORT || Error::from(error.clone()).is_rpc() {
        return None;
    }
    error.message = without(&error.message, &pool.shared.name).into();
    let data = error.data.take().and_then(|data| serde_json::from_str::<Value>(data.get()).ok());
    Some(match data {
        Some(Value::Object(mut data)) => {
            data.retain(|key, _| key != "message" && key != "mark");
            error.with_data(&data)
        }
        _ => error,
    })
}

fn without(text: &str, name: &str) -> String {
    let word = |word: &str| {
        let Some(_) = word.find("://") else { return word.to_owned() };
        let bare = word.trim_end_matches([' ', ',', ';', ':', '.', '\n', '\t', '\'', '"', ')']);
        format!("server `{name}`{}", word.get(bare.len()..).unwrap_or_default())
    };
    text.split_inclusive(' ').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_every_url() {
        let text = "http://u:p@10.0.0.1:8/mcp?key=1: refused; cannot connect to https://h, again";
        let told = "server `a`: refused; cannot connect to server `a`, again";
        assert_eq!(without(text, "a"), told);
    }
}
