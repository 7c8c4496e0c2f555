//! Tasks, twice: the extension `io.modelcontextprotocol/tasks` of 2026-07-28 (SEP-2663), and the
//! experimental core tasks of 2025-11-25, whose types begin with `Legacy`. The two are not
//! compatible on the wire: there the state is nested under `task` and its times are `ttl` and
//! `pollInterval`; here it is flat and they are `ttlMs` and `pollIntervalMs`.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::input::{InputRequest, InputResponses};
use super::json::{Entries, open_enum, setters};
use super::list::list;
use super::result::EmptyResult;
use super::wire::{Wire, WireResult, params, result};
use crate::error::ErrorObject;

/// The name of the extension in `extensions`.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

open_enum! {
    /// Where a task stands.
    TaskStatus {
        /// It works.
        Working = "working",
        /// It waits for answers.
        InputRequired = "input_required",
        /// It has a result. In the extension a result with `isError` counts as completed.
        Completed = "completed",
        /// It ended in an error.
        Failed = "failed",
        /// It was given up.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Whether it will not change any more.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The state of a task of the extension: the answer to `tasks/get`, and `notifications/tasks`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its name. Not a permission.
    pub task_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// More about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When it began, in ISO 8601.
    pub created_at: String,
    /// When it last changed, in ISO 8601.
    pub last_updated_at: String,
    /// Milliseconds from its beginning until it may be forgotten; `None` (`null`) for never.
    #[serde(default, deserialize_with = "optional_ms")]
    pub ttl_ms: Option<u64>,
    /// Milliseconds to wait between two looks.
    #[serde(default, deserialize_with = "optional_ms", skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
    /// The open questions of `input_required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<Entries<InputRequest>>,
    /// The result of `completed`: that of the original request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The error of `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl Task {
    /// A task that works, begun at this time (ISO 8601).
    pub fn new(task_id: impl Into<String>, created_at: impl Into<String>) -> Self {
        let created_at = created_at.into();
        Self {
            task_id: task_id.into(),
            status: TaskStatus::Working,
            status_message: None,
            last_updated_at: created_at.clone(),
            created_at,
            ttl_ms: None,
            poll_interval_ms: None,
            input_requests: None,
            result: None,
            error: None,
            meta: None,
        }
    }

    setters!(status_message: String, ttl_ms: u64, poll_interval_ms: u64);
}

impl Wire for Task {}
params!(Task, TasksNotification);
result!(Task);

/// `resultType: "task"`: the answer to a call that goes on as a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CreatedTask(pub Task);

impl Wire for CreatedTask {}

impl WireResult for CreatedTask {
    const RESULT_TYPE: &'static str = "task";

    fn meta(&self) -> Option<&RawValue> {
        self.0.meta.as_deref()
    }
}

/// Declares parameters that are a task's name.
macro_rules! task_params {
    ($(#[$doc:meta])* $name:ident, $method:ident $(=> $result:ty)?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// The task.
            pub task_id: String,
            /// `_meta`.
            #[serde(rename = "_meta", default, skip_serializing)]
            pub meta: Option<Box<RawValue>>,
        }

        impl $name {
            /// For this task.
            pub fn new(task_id: impl Into<String>) -> Self {
                Self { task_id: task_id.into(), meta: None }
            }
        }

        impl Wire for $name {}
        params!($name, $method $(=> $result)?);
    };
}

task_params! {
    /// `tasks/get` of the extension.
    GetTaskParams, TasksGet => Task
}

task_params! {
    /// `tasks/cancel` of the extension.
    CancelTaskParams, TasksCancel => EmptyResult
}

/// `tasks/update` of the extension: answers to open questions, all or some.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateTaskParams {
    /// The task.
    pub task_id: String,
    /// The answers.
    pub input_responses: InputResponses,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl UpdateTaskParams {
    /// Answers for this task.
    pub fn new(task_id: impl Into<String>, input_responses: InputResponses) -> Self {
        Self { task_id: task_id.into(), input_responses, meta: None }
    }
}

impl Wire for UpdateTaskParams {}
params!(UpdateTaskParams, TasksUpdate => EmptyResult);

/// The `task` member of a request of 2025-11-25: a wish to run as a task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TaskRequest {
    /// Milliseconds to keep the result.
    #[serde(default, deserialize_with = "optional_ms", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
}

/// The state of a task of 2025-11-25: the answer to `tasks/get` and `tasks/cancel`, and
/// `notifications/tasks/status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyTask {
    /// Its name. Not a permission.
    pub task_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// More about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When it began, in ISO 8601.
    pub created_at: String,
    /// When it last changed, in ISO 8601.
    pub last_updated_at: String,
    /// Milliseconds from its beginning until it may be forgotten; `None` (`null`) for never.
    #[serde(default, deserialize_with = "optional_ms")]
    pub ttl: Option<u64>,
    /// Milliseconds to wait between two looks.
    #[serde(default, deserialize_with = "optional_ms", skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<u64>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl LegacyTask {
    /// A task that works, begun at this time (ISO 8601).
    pub fn new(task_id: impl Into<String>, created_at: impl Into<String>) -> Self {
        let created_at = created_at.into();
        Self {
            task_id: task_id.into(),
            status: TaskStatus::Working,
            status_message: None,
            last_updated_at: created_at.clone(),
            created_at,
            ttl: None,
            poll_interval: None,
            meta: None,
        }
    }

    setters!(status_message: String, ttl: u64, poll_interval: u64);
}

impl Wire for LegacyTask {}
params!(LegacyTask, TasksStatus);
result!(LegacyTask);

/// The answer of 2025-11-25 to a request with a `task` member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LegacyCreatedTask {
    /// The task.
    pub task: LegacyTask,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl Wire for LegacyCreatedTask {}
result!(LegacyCreatedTask);

task_params! {
    /// `tasks/get` of 2025-11-25.
    LegacyGetTaskParams, TasksGet => LegacyTask
}

task_params! {
    /// `tasks/cancel` of 2025-11-25.
    LegacyCancelTaskParams, TasksCancel => LegacyTask
}

task_params! {
    /// `tasks/result` of 2025-11-25. It waits for the end of the task; the result is that of the
    /// original request.
    LegacyTaskResultParams, TasksResult
}

list! {
    /// `tasks/list` of 2025-11-25.
    LegacyListTasksParams, TasksList =>
    /// The answer to `tasks/list`.
    LegacyListTasksResult { tasks: LegacyTask }
}

/// Milliseconds, `null` or absent: fractions are cut, what is not a number counts as absent.
fn optional_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Ok(raw.get().parse::<f64>().ok().map(|number| number as u64))
}
