//! What a response turned out to be: complete, in need of input, or a task.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::input::InputRequired;
use super::json::Text;
use super::tasks::CreatedTask;
use super::wire::{Wire, result};
use crate::error::shorten;
use crate::method::Method;

/// A result without members of its own: `ping`, `logging/setLevel`, subscriptions, task updates.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EmptyResult {
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl Wire for EmptyResult {}
result!(EmptyResult);

/// A result of type `T`, or what came in its place.
#[derive(Clone, Debug)]
pub enum Resulting<T> {
    /// The result.
    Complete(T),
    /// A question that must be answered first (2026-07-28, SEP-2322).
    InputRequired(Box<InputRequired>),
    /// A task that works on it (the tasks extension of 2026-07-28).
    Task(Box<CreatedTask>),
}

impl<T: DeserializeOwned> Resulting<T> {
    /// Reads the `result` of a response to `method`. `tasks` says whether this client declared the
    /// tasks extension in the request. A missing `resultType` counts as `complete`, since servers
    /// of earlier revisions do not send it.
    ///
    /// # Errors
    /// A `resultType` that this request cannot have, or members that do not fit.
    pub fn parse(method: Method, tasks: bool, json: &[u8]) -> Result<Self, ResultError> {
        let malformed = |source| ResultError::Malformed { method, source };
        let Tag { tag } = serde_json::from_slice(json).map_err(malformed)?;
        let tag = tag.as_ref().map_or("complete", |Text(tag)| tag);
        match tag {
            "complete" => serde_json::from_slice(json).map(Self::Complete).map_err(malformed),
            "input_required" if method.takes_input() => {
                let input: Box<InputRequired> = serde_json::from_slice(json).map_err(malformed)?;
                if input.is_empty() {
                    return Err(ResultError::NothingAsked { method });
                }
                Ok(Self::InputRequired(input))
            }
            "task" if tasks && method == Method::ToolsCall => {
                serde_json::from_slice(json).map(Self::Task).map_err(malformed)
            }
            other => Err(ResultError::Type { method, found: shorten(other).into() }),
        }
    }
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, rename = "resultType")]
    tag: Option<Text<'a>>,
}

/// Why a `result` is not one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The members do not fit the method.
    #[error("malformed result of {method}: {source}")]
    Malformed {
        /// The method of the request.
        method: Method,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// The result is of a type that this request cannot have.
    #[error("the result of {method} has resultType {found:?}, which this request does not allow")]
    Type {
        /// The method of the request.
        method: Method,
        /// The value of `resultType`.
        found: Box<str>,
    },
    /// A question with neither `inputRequests` nor `requestState`.
    #[error(
        "the result of {method} requires input but names neither inputRequests nor requestState"
    )]
    NothingAsked {
        /// The method of the request.
        method: Method,
    },
}
