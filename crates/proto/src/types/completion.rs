//! Completion of prompt and template arguments.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{Entries, setters};
use super::wire::{Wire, params, result};
use crate::limits::COMPLETION_VALUES_MAX;
use crate::version::Revision;

/// `completion/complete`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompleteParams {
    /// What the argument belongs to.
    #[serde(rename = "ref")]
    pub reference: CompletionReference,
    /// The argument and what is typed so far.
    pub argument: CompletionArgument,
    /// What is known already; from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CompletionContext>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl CompleteParams {
    /// Completes `value` as the argument `name` of `reference`.
    pub fn new(
        reference: CompletionReference,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        let argument = CompletionArgument { name: name.into(), value: value.into() };
        Self { reference, argument, context: None, meta: None }
    }

    setters!(context: CompletionContext);
}

impl Wire for CompleteParams {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if revision >= Revision::V2025_06_18 {
            return Cow::Borrowed(self);
        }
        let mut old = self.clone();
        old.context = None;
        if let CompletionReference::Prompt { title, .. } = &mut old.reference {
            *title = None;
        }
        Cow::Owned(old)
    }
}
params!(CompleteParams, Complete => CompleteResult);

/// What an argument belongs to. An unknown `type` is an error: nothing could be completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum CompletionReference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// Its name.
        name: String,
        /// Its name for people; from 2025-06-18.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A resource template.
    #[serde(rename = "ref/resource")]
    Resource {
        /// The template, or a URI.
        uri: String,
    },
}

impl CompletionReference {
    /// A prompt.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt { name: name.into(), title: None }
    }

    /// A resource template.
    pub fn resource(uri: impl Into<String>) -> Self {
        Self::Resource { uri: uri.into() }
    }
}

/// An argument and what is typed so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletionArgument {
    /// The argument.
    pub name: String,
    /// What is typed so far.
    pub value: String,
}

/// What is known already.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CompletionContext {
    /// Arguments that have a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Entries<String>>,
}

/// The answer to `completion/complete`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CompleteResult {
    /// The proposals.
    pub completion: Completion,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl CompleteResult {
    /// The best proposals first. At most [`COMPLETION_VALUES_MAX`] are kept; if there are more, the
    /// result says how many.
    pub fn new<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let (total, all) = (values.len() as u64, values.len() <= COMPLETION_VALUES_MAX);
        values.truncate(COMPLETION_VALUES_MAX);
        let completion = Completion {
            values,
            total: (!all).then(|| total.into()),
            has_more: (!all).then_some(true),
        };
        Self { completion, meta: None }
    }
}

impl Wire for CompleteResult {}
result!(CompleteResult);

/// Proposals.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    /// The best first; at most [`COMPLETION_VALUES_MAX`].
    pub values: Vec<String>,
    /// How many there are in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<serde_json::Number>,
    /// Whether there are more than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}
