//! Roots: the places a client lets a server work in. Deprecated in 2026-07-28 (SEP-2577).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::lifecycle::bare_params;
use super::wire::{Wire, result};

bare_params! {
    /// `roots/list`: a request up to 2025-11-25, then an entry of `inputRequests`.
    ListRootsParams, RootsList => ListRootsResult;
    /// `notifications/roots/list_changed`, up to 2025-11-25.
    RootsListChangedParams, RootsListChanged;
}

/// The answer to `roots/list`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The places.
    pub roots: Vec<Root>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ListRootsResult {
    /// These places.
    #[must_use]
    pub const fn new(roots: Vec<Root>) -> Self {
        Self { roots, meta: None }
    }
}

impl Wire for ListRootsResult {}
result!(ListRootsResult);

/// A place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl Root {
    /// A place.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None, meta: None }
    }

    super::json::setters!(name: String);
}
