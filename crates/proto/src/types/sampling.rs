//! Sampling: a server asks the client's model. Deprecated in 2026-07-28 (SEP-2577).

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::de::{Deserializer, Error as _};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::capabilities::ClientCapabilities;
use super::content::{Content, Role};
use super::json::{nullable, open_enum, optional_number, setters};
use super::tasks::TaskRequest;
use super::wire::{Wire, params, result};
use crate::version::Revision;

/// `sampling/createMessage`: a request up to 2025-11-25, then an entry of `inputRequests`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageParams {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Most tokens to produce.
    pub max_tokens: u64,
    /// Which model would be best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// The system prompt. The client may change or ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Which servers' context to add. The other values than `none` are deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// How freely to choose.
    #[serde(default, serialize_with = "optional_number", skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Where to stop.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// For the model's provider; an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// Tools the model may use, an array of tools; from 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Box<RawValue>>,
    /// Whether it must use them; from 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// A wish to run as a task (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRequest>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl CreateMessageParams {
    /// Asks the model to go on from `messages`.
    #[must_use]
    pub const fn new(messages: Vec<SamplingMessage>, max_tokens: u64) -> Self {
        Self {
            messages,
            max_tokens,
            model_preferences: None,
            system_prompt: None,
            include_context: None,
            temperature: None,
            stop_sequences: Vec::new(),
            metadata: None,
            tools: None,
            tool_choice: None,
            task: None,
            meta: None,
        }
    }

    setters!(
        model_preferences: ModelPreferences,
        system_prompt: String,
        include_context: IncludeContext,
        temperature: f64,
        metadata: Box<RawValue>,
        tools: Box<RawValue>,
        tool_choice: ToolChoice,
    );

    /// Whether the client must have declared `sampling.tools`: there are tools, or tool blocks.
    #[must_use]
    pub fn needs_tools(&self) -> bool {
        self.tools.is_some()
            || self.tool_choice.is_some()
            || self.messages.iter().any(SamplingMessage::needs_tools)
    }

    /// Whether a client with these capabilities can be asked so.
    #[must_use]
    pub fn fits(&self, client: &ClientCapabilities) -> bool {
        client.sampling() && (client.sampling_tools() || !self.needs_tools())
    }

    /// Whether every `tool_use` is answered by the message after it, and messages with results
    /// hold nothing else.
    #[must_use]
    pub fn tools_are_answered(&self) -> bool {
        let mut open = BTreeSet::new();
        for SamplingMessage { content, .. } in &self.messages {
            let results: BTreeSet<_> = content.iter().filter_map(tool_result).collect();
            let mixed = content.iter().any(|block| tool_result(block).is_none());
            if results != open || (mixed && !results.is_empty()) {
                return false;
            }
            open = content.iter().filter_map(tool_use).collect();
        }
        open.is_empty()
    }
}

fn tool_use(block: &Content) -> Option<&str> {
    match block {
        Content::ToolUse(tool) => Some(&tool.id),
        _ => None,
    }
}

fn tool_result(block: &Content) -> Option<&str> {
    match block {
        Content::ToolResult(result) => Some(&result.tool_use_id),
        _ => None,
    }
}

impl Wire for CreateMessageParams {
    /// Tools are left out before 2025-11-25 and messages of several blocks become one message
    /// each; ask [`fits`](Self::fits) first.
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if revision == Revision::V2025_11_25
            || (revision > Revision::V2025_11_25 && self.task.is_none())
        {
            return Cow::Borrowed(self);
        }
        let mut old = Self { task: None, ..self.clone() };
        if revision < Revision::V2025_11_25 {
            old.tools = None;
            old.tool_choice = None;
            old.messages = self.messages.iter().flat_map(|m| m.apart(revision)).collect();
        }
        Cow::Owned(old)
    }
}
params!(CreateMessageParams, CreateMessage => CreateMessageResult);

/// One message of a conversation with a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What is said. One block is written as itself, several as an array (from 2025-11-25).
    #[serde(serialize_with = "one_or_many", deserialize_with = "many_or_one")]
    pub content: Vec<Content>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl SamplingMessage {
    /// The user says this.
    #[must_use]
    pub fn user(content: Content) -> Self {
        Self { role: Role::User, content: vec![content], meta: None }
    }

    /// The model says this.
    #[must_use]
    pub fn assistant(content: Content) -> Self {
        Self { role: Role::Assistant, content: vec![content], meta: None }
    }

    fn needs_tools(&self) -> bool {
        let tool = |block: &Content| matches!(block, Content::ToolUse(_) | Content::ToolResult(_));
        self.content.iter().any(tool)
    }

    fn apart(&self, revision: Revision) -> impl Iterator<Item = Self> {
        self.content.iter().map(move |block| Self {
            role: self.role.clone(),
            content: vec![block.at(revision).into_owned()],
            meta: self.meta.clone(),
        })
    }
}

fn one_or_many<S: Serializer>(blocks: &[Content], serializer: S) -> Result<S::Ok, S::Error> {
    match blocks {
        [block] => block.serialize(serializer),
        blocks => blocks.serialize(serializer),
    }
}

fn many_or_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Content>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    let parsed = if raw.get().starts_with('[') {
        serde_json::from_str(raw.get())
    } else {
        serde_json::from_str(raw.get()).map(|block| vec![block])
    };
    parsed.map_err(D::Error::custom)
}

/// The answer to `sampling/createMessage`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageResult {
    /// Who says it: the model.
    pub role: Role,
    /// What is said. One block is written as itself, several as an array (from 2025-11-25).
    #[serde(serialize_with = "one_or_many", deserialize_with = "many_or_one")]
    pub content: Vec<Content>,
    /// The model that said it.
    pub model: String,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl CreateMessageResult {
    /// `model` says this.
    pub fn new(model: impl Into<String>, content: Content) -> Self {
        Self {
            role: Role::Assistant,
            content: vec![content],
            model: model.into(),
            stop_reason: None,
            meta: None,
        }
    }

    setters!(stop_reason: StopReason);
}

impl Wire for CreateMessageResult {
    /// Before 2025-11-25 there is one block: the texts of several are joined, other blocks after
    /// the first are left out.
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if revision >= Revision::V2025_11_25 {
            return Cow::Borrowed(self);
        }
        let blocks: Vec<_> = self.content.iter().map(|b| b.at(revision).into_owned()).collect();
        let texts: Vec<_> = blocks.iter().filter_map(Content::as_text).collect();
        let block = match (blocks.len(), texts.is_empty()) {
            (1, _) | (_, true) => blocks.into_iter().next().unwrap_or_else(|| Content::text("")),
            _ => Content::text(texts.join("\n")),
        };
        Cow::Owned(Self { content: vec![block], ..self.clone() })
    }
}
result!(CreateMessageResult);

open_enum! {
    /// Which servers' context to add to a conversation.
    IncludeContext {
        /// None.
        None = "none",
        /// The asking server's.
        ThisServer = "thisServer",
        /// Every server's.
        AllServers = "allServers",
    }
}

open_enum! {
    /// Why a model stopped.
    StopReason {
        /// It was done.
        EndTurn = "endTurn",
        /// It met a stop sequence.
        StopSequence = "stopSequence",
        /// It reached the limit.
        MaxTokens = "maxTokens",
        /// It wants to use a tool.
        ToolUse = "toolUse",
    }
}

/// Which model would be best. Priorities go from 0 to 1.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreferences {
    /// Names or parts of names, the best first.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How much cost matters.
    #[serde(default, serialize_with = "optional_number", skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much speed matters.
    #[serde(default, serialize_with = "optional_number", skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much intelligence matters.
    #[serde(default, serialize_with = "optional_number", skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// A name or a part of the name of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelHint {
    /// Such as `sonnet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Whether the model must use tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChoice {
    /// Absent means auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

open_enum! {
    /// Whether the model must use tools.
    ToolChoiceMode {
        /// As it likes.
        Auto = "auto",
        /// At least one.
        Required = "required",
        /// None.
        None = "none",
    }
}
