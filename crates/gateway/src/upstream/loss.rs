//! What is said of a request that was lost on its way over HTTP.
//!
//! The gateway speaks to the upstream with an address and credentials of its own, and what came
//! instead of an answer may quote them, or whatever else is behind that address. So a client hears one
//! of a few sentences, and whoever runs the gateway the rest.

use std::time::{Duration, Instant};

use mcplane::Error;
use mcplane::proto::error::{Code, ErrorObject};
use mcplane::transport::process::mask_urls;
use serde_json::json;

/// The pause between two requests of one worker that are told to have been lost.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What clients hear. Which status it was, or that the gateway's credentials are refused, is nothing
/// that they could do anything about, and would tell them what is there.
pub(super) fn for_clients(error: &Error) -> &'static str {
    if error.is_unreachable() {
        "the gateway cannot reach it"
    } else if error.is_timeout() {
        "it did not answer in time"
    } else if error.is_closed() {
        "it closed the connection before it answered"
    } else if error.is_unavailable() {
        "it is overloaded"
    } else {
        "it did not answer as it should"
    }
}

/// The answer to a client's request.
pub(super) fn answer(error: &Error, server: &str) -> ErrorObject {
    let may_help =
        error.is_unreachable() || error.is_timeout() || error.is_closed() || error.is_unavailable();
    ErrorObject::new(Code::UNAVAILABLE, format!("server `{server}`: {}", for_clients(error)))
        .with_data(&json!({"retry": may_help}))
}

/// What whoever runs the gateway hears: all of it but for keys.
pub(super) fn for_operators(error: &Error) -> String {
    let word = |word: &str| match word.split_once('?') {
        // A redirect may lead to a path, and take the key along.
        Some((path, query)) if path.starts_with('/') => {
            format!("{path}?…{}", query.get(query.trim_end().len()..).unwrap_or_default())
        }
        _ => word.to_owned(),
    };
    mask_urls(&error.to_string()).split_inclusive(char::is_whitespace).map(word).collect()
}

/// When it was told last that a request of a client's was lost.
#[derive(Default)]
pub(super) struct Told(Option<Instant>);

impl Told {
    /// Whether it is to be told of one more.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.duration_since(last) >= TOLD_EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}
