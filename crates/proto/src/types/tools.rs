//! Tools: listing and calling.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::content::{Content, Icon};
use super::input::InputResponses;
use super::json::{is_object, nullable, open_enum, present, raw, setters};
use super::lifecycle::bare_params;
use super::list::list;
use super::schema;
use super::tasks::TaskRequest;
use super::wire::{Wire, array, params, result};
use crate::version::Revision;

list! {
    /// `tools/list`.
    ListToolsParams, ToolsList =>
    /// The answer to `tools/list`. The order should not change between calls.
    ListToolsResult { tools: Tool }
}

/// A tool as it is listed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Its name for programs: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// Its name for people; from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments; the root has `"type":"object"`.
    pub input_schema: Box<RawValue>,
    /// The JSON Schema of its structured result; from 2025-06-18. Before 2026-07-28 its root must
    /// have `"type":"object"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
    /// Hints about its behaviour; from 2025-03-26.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Whether it runs as a task; 2025-11-25 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolExecution>,
    /// Pictures; from 2025-11-25.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl Tool {
    /// A tool with the schema of its arguments.
    pub fn new(name: impl Into<String>, input_schema: Box<RawValue>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: None,
            execution: None,
            icons: Vec::new(),
            meta: None,
        }
    }

    /// A tool that takes no arguments.
    pub fn without_arguments(name: impl Into<String>) -> Self {
        Self::new(name, raw(r#"{"type":"object","additionalProperties":false}"#.into()))
    }

    setters!(
        title: String,
        description: String,
        output_schema: Box<RawValue>,
        annotations: ToolAnnotations,
        execution: ToolExecution,
        meta: Box<RawValue>,
    );

    /// The same with one more icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// The name to show: `title`, else `annotations.title`, else `name`.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|hints| hints.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }

    /// Whether `revision` cannot name this tool's output schema, so that schema and result are
    /// wrapped as `{"result": …}`; every result must then go through [`CallToolResult::wrapped`].
    #[must_use]
    pub fn wraps_output(&self, revision: Revision) -> bool {
        (Revision::V2025_06_18..=Revision::V2025_11_25).contains(&revision)
            && self.output_schema.as_deref().is_some_and(|s| !schema::describes_object(s.get()))
    }
}

impl Wire for Tool {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        let before = |first| revision < first;
        let unchanged = (self.title.is_none() || !before(Revision::V2025_06_18))
            && (self.output_schema.is_none() || !before(Revision::V2025_06_18))
            && (self.annotations.is_none() || !before(Revision::V2025_03_26))
            && (self.icons.is_empty() || !before(Revision::V2025_11_25))
            && (self.execution.is_none() || revision == Revision::V2025_11_25)
            && !self.wraps_output(revision);
        if unchanged {
            return Cow::Borrowed(self);
        }
        let mut tool = self.clone();
        if before(Revision::V2025_11_25) {
            tool.icons.clear();
        }
        if revision != Revision::V2025_11_25 {
            tool.execution = None;
        }
        if before(Revision::V2025_06_18) {
            tool.output_schema = None;
            if let Some(title) = tool.title.take() {
                // The annotations had a title before the tool itself did.
                tool.annotations.get_or_insert_default().title.get_or_insert(title);
            }
        }
        if before(Revision::V2025_03_26) {
            tool.annotations = None;
        }
        if self.wraps_output(revision) {
            tool.output_schema = tool.output_schema.and_then(|s| schema::wrap(s.get()).map(raw));
        }
        Cow::Owned(tool)
    }
}

/// Hints about a tool's behaviour. Not to be trusted more than the server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Changes nothing; absent means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// May destroy; absent means true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// A second call with the same arguments changes nothing more; absent means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Talks to the world outside; absent means true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl ToolAnnotations {
    /// No hints.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters!(
        title: String,
        read_only_hint: bool,
        destructive_hint: bool,
        idempotent_hint: bool,
        open_world_hint: bool,
    );
}

/// How a tool relates to tasks (2025-11-25 only).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    /// Absent means forbidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
}

open_enum! {
    /// Whether a tool may be called as a task.
    TaskSupport {
        /// Never.
        Forbidden = "forbidden",
        /// If the caller wishes.
        Optional = "optional",
        /// Only so.
        Required = "required",
    }
}

/// `tools/call`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolParams {
    /// The tool.
    pub name: String,
    /// The arguments, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// Answers to the input that the round before asked for (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// The state that came with that question, unchanged (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// A wish to run as a task (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRequest>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl CallToolParams {
    /// A call without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    setters!(arguments: Box<RawValue>, input_responses: InputResponses, request_state: String);
}

impl Wire for CallToolParams {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if self.task.is_none() || revision == Revision::V2025_11_25 {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { task: None, ..self.clone() })
    }
}
params!(CallToolParams, ToolsCall => CallToolResult);

/// The answer to `tools/call`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// What the tool says. May be empty.
    pub content: Vec<Content>,
    /// The same as data, for programs; from 2025-06-18. `null` is a value (2026-07-28).
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Box<RawValue>>,
    /// Whether the tool failed. The model sees why in `content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl CallToolResult {
    /// A result of these blocks.
    #[must_use]
    pub fn new(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }

    /// A result of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![Content::text(text)])
    }

    /// A result of data, and the same data as JSON text for clients that do not read data.
    ///
    /// # Errors
    /// When `value` cannot be JSON.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let json = to_raw_value(value)?;
        Ok(Self { structured_content: Some(json.clone()), ..Self::text(Box::<str>::from(json)) })
    }

    /// The same as a failure of the tool.
    #[must_use]
    pub const fn error(mut self) -> Self {
        self.is_error = Some(true);
        self
    }

    /// Whether the tool failed.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self.is_error, Some(true))
    }

    setters!(structured_content: Box<RawValue>, meta: Box<RawValue>);

    /// The same with one more block.
    #[must_use]
    pub fn and(mut self, block: Content) -> Self {
        self.content.push(block);
        self
    }

    /// The structured content as `T`; `None` when there is none.
    ///
    /// # Errors
    /// When it has another form.
    pub fn data<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.structured_content.as_deref().map(|raw| serde_json::from_str(raw.get())).transpose()
    }

    /// The same with its structured content as `{"result": …}`, for a tool that
    /// [`wraps_output`](Tool::wraps_output).
    #[must_use]
    pub fn wrapped(mut self) -> Self {
        self.structured_content = self.structured_content.map(|json| wrap_result(&json));
        self
    }

    /// Whether a client that reads only `content` learns what is in `json`.
    fn says(&self, json: &RawValue) -> bool {
        let Ok(value) = serde_json::from_str::<serde_json::Value>(json.get()) else { return false };
        let texts = self.content.iter().filter_map(Content::as_text);
        texts.map(str::trim).any(|text| {
            text == json.get()
                || serde_json::from_str(text).is_ok_and(|other: serde_json::Value| other == value)
        })
    }
}

impl Wire for CallToolResult {
    /// Before 2025-06-18 structured content becomes a text block, unless one already says the same.
    /// Before 2026-07-28 it must be an object; anything else becomes `{"result": …}`.
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        let structured = self.structured_content.as_deref();
        let dropped = structured.filter(|_| revision < Revision::V2025_06_18);
        let wrapped = structured
            .filter(|json| revision < Revision::V2026_07_28 && !is_object(json.get()))
            .filter(|_| dropped.is_none());
        let content = self.content.iter().any(|b| matches!(b.at(revision), Cow::Owned(_)));
        if dropped.is_none() && wrapped.is_none() && !content {
            return Cow::Borrowed(self);
        }
        let mut content: Vec<_> =
            self.content.iter().map(|block| block.at(revision).into_owned()).collect();
        content
            .extend(dropped.filter(|json| !self.says(json)).map(|json| Content::text(json.get())));
        let structured_content = match (dropped, wrapped) {
            (Some(_), _) => None,
            (None, Some(json)) => Some(wrap_result(json)),
            (None, None) => self.structured_content.clone(),
        };
        Cow::Owned(Self { content, structured_content, is_error: self.is_error, meta: None })
    }
}
result!(CallToolResult, {
    fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"content\":");
        array(out, &self.content, Content::write);
        if let Some(json) = &self.structured_content {
            out.extend_from_slice(b",\"structuredContent\":");
            out.extend_from_slice(json.get().as_bytes());
        }
        if let Some(is_error) = self.is_error {
            out.extend_from_slice(b",\"isError\":");
            out.extend_from_slice(if is_error { b"true" } else { b"false" });
        }
        out.push(b'}');
    }

    fn len_hint(&self) -> usize {
        let content = self.content.iter().map(Content::len_hint).sum::<usize>();
        content + self.structured_content.as_ref().map_or(0, |json| json.get().len())
    }
});

fn wrap_result(json: &RawValue) -> Box<RawValue> {
    raw(format!("{{\"result\":{}}}", json.get()))
}

bare_params! {
    /// `notifications/tools/list_changed`; on a subscription `_meta` names it.
    ToolsListChangedParams, ToolsListChanged;
}
