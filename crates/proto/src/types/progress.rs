//! Progress and cancellation of a request in flight.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{number, optional_number, setters};
use super::wire::{Wire, params};
use crate::id::Id;
use crate::version::Revision;

/// `notifications/progress`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressParams {
    /// The token of the request.
    pub progress_token: Id,
    /// How far; grows with every notification.
    #[serde(serialize_with = "number")]
    pub progress: f64,
    /// Where it ends, if known.
    #[serde(default, serialize_with = "optional_number", skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is happening; from 2025-03-26.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ProgressParams {
    /// The request with this token got so far.
    pub fn new(progress_token: impl Into<Id>, progress: f64) -> Self {
        Self {
            progress_token: progress_token.into(),
            progress,
            total: None,
            message: None,
            meta: None,
        }
    }

    setters!(total: f64, message: String);
}

impl Wire for ProgressParams {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if self.message.is_none() || revision >= Revision::V2025_03_26 {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { message: None, ..self.clone() })
    }
}
params!(ProgressParams, Progress);

/// `notifications/cancelled`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledParams {
    /// The request. Optional in the schema of 2025-11-25; without it there is nothing to cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Id>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl CancelledParams {
    /// Gives up this request.
    #[must_use]
    pub const fn new(request_id: Id) -> Self {
        Self { request_id: Some(request_id), reason: None, meta: None }
    }

    setters!(reason: String);
}

impl Wire for CancelledParams {}
params!(CancelledParams, Cancelled);
