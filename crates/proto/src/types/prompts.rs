//! Prompts: listing and filling in.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content::{Content, Icon, Role};
use super::input::InputResponses;
use super::json::{Entries, nullable, setters};
use super::lifecycle::bare_params;
use super::list::list;
use super::wire::{Wire, params, result};
use crate::version::Revision;

list! {
    /// `prompts/list`.
    ListPromptsParams, PromptsList =>
    /// The answer to `prompts/list`.
    ListPromptsResult { prompts: Prompt }
}

/// A prompt as it is listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Prompt {
    /// Its name for programs.
    pub name: String,
    /// Its name for people; from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// Pictures; from 2025-11-25.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl Prompt {
    /// A prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    setters!(title: String, description: String, meta: Box<RawValue>);

    /// The same with one more argument.
    #[must_use]
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }

    /// The same with one more icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }
}

impl Wire for Prompt {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        let titled = self.title.is_some() || self.arguments.iter().any(|a| a.title.is_some());
        let untitled = titled && revision < Revision::V2025_06_18;
        let bare = !self.icons.is_empty() && revision < Revision::V2025_11_25;
        if !untitled && !bare {
            return Cow::Borrowed(self);
        }
        let mut prompt = self.clone();
        if bare {
            prompt.icons.clear();
        }
        if untitled {
            prompt.title = None;
            prompt.arguments.iter_mut().for_each(|argument| argument.title = None);
        }
        Cow::Owned(prompt)
    }
}

/// One argument of a prompt.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Its name for programs.
    pub name: String,
    /// Its name for people; from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt needs it; absent means no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl PromptArgument {
    /// An argument that may be left out.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// An argument that the prompt needs.
    pub fn required(name: impl Into<String>) -> Self {
        Self { required: Some(true), ..Self::new(name) }
    }

    setters!(title: String, description: String);
}

/// `prompts/get`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPromptParams {
    /// The prompt.
    pub name: String,
    /// The arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Entries<String>>,
    /// Answers to the input that the round before asked for (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// The state that came with that question, unchanged (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl GetPromptParams {
    /// A prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The same with one more argument.
    #[must_use]
    pub fn argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.get_or_insert_default().push(name, value.into());
        self
    }

    setters!(input_responses: InputResponses, request_state: String);
}

impl Wire for GetPromptParams {}
params!(GetPromptParams, PromptsGet => GetPromptResult);

/// The answer to `prompts/get`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GetPromptResult {
    /// What the prompt is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The prompt.
    pub messages: Vec<PromptMessage>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl GetPromptResult {
    /// A prompt of these messages.
    #[must_use]
    pub fn new(messages: Vec<PromptMessage>) -> Self {
        Self { messages, ..Self::default() }
    }

    setters!(description: String, meta: Box<RawValue>);
}

impl Wire for GetPromptResult {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        let known =
            |message: &PromptMessage| matches!(message.content.at(revision), Cow::Borrowed(_));
        if self.messages.iter().all(known) {
            return Cow::Borrowed(self);
        }
        let messages = self.messages.iter().map(|message| PromptMessage {
            role: message.role.clone(),
            content: message.content.at(revision).into_owned(),
        });
        let messages = messages.collect();
        Cow::Owned(Self { description: self.description.clone(), messages, meta: None })
    }
}
result!(GetPromptResult);

/// One message of a prompt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said: one block.
    pub content: Content,
}

impl PromptMessage {
    /// The user says this.
    #[must_use]
    pub const fn user(content: Content) -> Self {
        Self { role: Role::User, content }
    }

    /// The model says this.
    #[must_use]
    pub const fn assistant(content: Content) -> Self {
        Self { role: Role::Assistant, content }
    }
}

bare_params! {
    /// `notifications/prompts/list_changed`; on a subscription `_meta` names it.
    PromptsListChangedParams, PromptsListChanged;
}
