//! Elicitation: asking the user, through a form or at a URL.

use std::borrow::Cow;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::capabilities::ClientCapabilities;
use super::json::{Entries, Text, open_enum, raw, setters};
use super::tasks::TaskRequest;
use super::wire::{Wire, params, result};
use crate::error::{Code, ErrorObject};
use crate::version::Revision;

/// `elicitation/create`: a request from 2025-06-18 to 2025-11-25, then an entry of
/// `inputRequests`.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ElicitParams {
    /// Through a form.
    Form(ElicitForm),
    /// At a URL; from 2025-11-25.
    Url(ElicitUrl),
    /// In a mode that this library does not know.
    Other(Box<RawValue>),
}

impl ElicitParams {
    /// Whether a client with these capabilities can be asked so.
    #[must_use]
    pub fn fits(&self, client: &ClientCapabilities) -> bool {
        match self {
            Self::Form(_) => client.elicitation_form(),
            Self::Url(_) => client.elicitation_url(),
            Self::Other(_) => false,
        }
    }
}

impl From<ElicitForm> for ElicitParams {
    fn from(form: ElicitForm) -> Self {
        Self::Form(form)
    }
}

impl From<ElicitUrl> for ElicitParams {
    fn from(url: ElicitUrl) -> Self {
        Self::Url(url)
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Mode<'a> {
            #[serde(borrow)]
            mode: Option<Text<'a>>,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let Mode { mode } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(match mode.as_ref().map_or("form", |Text(mode)| mode) {
            "form" => Self::Form(serde_json::from_str(raw.get()).map_err(D::Error::custom)?),
            "url" => Self::Url(serde_json::from_str(raw.get()).map_err(D::Error::custom)?),
            _ => Self::Other(raw),
        })
    }
}

impl Wire for ElicitParams {
    /// 2025-06-18 has no `mode`; `elicitationId` and `task` are in 2025-11-25 only. A URL cannot be
    /// said before 2025-11-25: ask [`fits`](Self::fits) first.
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if revision == Revision::V2025_11_25 {
            return Cow::Borrowed(self);
        }
        match self {
            Self::Form(form) => {
                let mode = form.mode.clone().filter(|_| revision > Revision::V2025_06_18);
                Cow::Owned(Self::Form(ElicitForm { mode, task: None, ..form.clone() }))
            }
            Self::Url(url) => {
                Cow::Owned(Self::Url(ElicitUrl { elicitation_id: None, task: None, ..url.clone() }))
            }
            Self::Other(_) => Cow::Borrowed(self),
        }
    }
}

impl super::Params for ElicitParams {
    const METHOD: crate::method::Method = crate::method::Method::ElicitationCreate;

    fn meta(&self) -> Option<&RawValue> {
        match self {
            Self::Form(form) => form.meta.as_deref(),
            Self::Url(url) => url.meta.as_deref(),
            Self::Other(_) => None,
        }
    }
}

impl super::Request for ElicitParams {
    type Result = ElicitResult;
}

/// A question with a form.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitForm {
    /// `form`, or absent, which means the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What to tell the user.
    pub message: String,
    /// The fields, as a flat JSON Schema of an object.
    pub requested_schema: Box<RawValue>,
    /// A wish to run as a task (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRequest>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ElicitForm {
    /// A form with these fields. No secrets: those belong behind a URL.
    pub fn new(message: impl Into<String>, requested_schema: Box<RawValue>) -> Self {
        Self { mode: None, message: message.into(), requested_schema, task: None, meta: None }
    }
}

/// A question at a URL. Accepting means the user agreed to open it, not that they are done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitUrl {
    /// Always `url`.
    pub mode: String,
    /// What to tell the user.
    pub message: String,
    /// Where to go.
    pub url: String,
    /// Names this question; required in 2025-11-25, absent later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    /// A wish to run as a task (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRequest>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ElicitUrl {
    /// Sends the user to `url`.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            mode: "url".into(),
            message: message.into(),
            url: url.into(),
            elicitation_id: None,
            task: None,
            meta: None,
        }
    }

    setters!(elicitation_id: String);
}

/// The answer to `elicitation/create`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ElicitResult {
    /// What the user did.
    pub action: ElicitAction,
    /// The fields of an accepted form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Entries<Box<RawValue>>>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ElicitResult {
    /// The user agreed; a form needs [`with`](Self::with) its fields.
    #[must_use]
    pub const fn accept() -> Self {
        Self { action: ElicitAction::Accept, content: None, meta: None }
    }

    /// The user said no.
    #[must_use]
    pub const fn decline() -> Self {
        Self { action: ElicitAction::Decline, content: None, meta: None }
    }

    /// The user went away without an answer.
    #[must_use]
    pub const fn cancel() -> Self {
        Self { action: ElicitAction::Cancel, content: None, meta: None }
    }

    /// The same with one more field: a string, a number, a boolean, or strings.
    #[must_use]
    pub fn with(mut self, field: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        let value = raw(value.into().to_string());
        self.content.get_or_insert_default().push(field, value);
        self
    }

    /// The fields as `T`; `None` when there are none.
    ///
    /// # Errors
    /// When they have another form.
    pub fn data<T: serde::de::DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        let Some(content) = &self.content else { return Ok(None) };
        serde_json::from_str(&serde_json::to_string(content)?).map(Some)
    }
}

impl Wire for ElicitResult {}
result!(ElicitResult);

open_enum! {
    /// What the user did.
    ElicitAction {
        /// Agreed.
        Accept = "accept",
        /// Said no.
        Decline = "decline",
        /// Went away without an answer.
        Cancel = "cancel",
    }
}

/// `notifications/elicitation/complete` (2025-11-25 only).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationCompleteParams {
    /// The question that is done.
    pub elicitation_id: String,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ElicitationCompleteParams {
    /// This question is done.
    pub fn new(elicitation_id: impl Into<String>) -> Self {
        Self { elicitation_id: elicitation_id.into(), meta: None }
    }
}

impl Wire for ElicitationCompleteParams {}
params!(ElicitationCompleteParams, ElicitationComplete);

/// The `data` of error -32042 (2025-11-25 only).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UrlElicitationRequired {
    /// The URLs to open before the call can succeed.
    pub elicitations: Vec<ElicitUrl>,
}

impl UrlElicitationRequired {
    /// The error that carries it.
    #[must_use]
    pub fn error(&self) -> ErrorObject {
        ErrorObject::new(
            Code::URL_ELICITATION_REQUIRED,
            "open the given URL first, then call again",
        )
        .with_data(self)
    }
}
