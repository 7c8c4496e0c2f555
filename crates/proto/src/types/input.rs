//! Multi-round trips of 2026-07-28 (SEP-2322): what a server asks for in the middle of a call, and
//! what the client answers.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::elicitation::{ElicitParams, ElicitResult};
use super::json::{Entries, append, raw};
use super::roots::{ListRootsParams, ListRootsResult};
use super::sampling::{CreateMessageParams, CreateMessageResult};
use super::wire::{Params, Wire};
use crate::meta::write_params;
use crate::method::Method;
use crate::version::Revision;

/// `resultType: "input_required"`: ask the user or the model, then send the call again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequired {
    /// The questions, by a key that the answers repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<Entries<InputRequest>>,
    /// To be sent back unchanged; never to be sent when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl InputRequired {
    /// An empty question; add at least one request or a state.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more question.
    #[must_use]
    pub fn ask(mut self, key: impl Into<String>, request: InputRequest) -> Self {
        self.input_requests.get_or_insert_default().push(key, request);
        self
    }

    /// The same with a state to be sent back.
    #[must_use]
    pub fn state(mut self, state: impl Into<String>) -> Self {
        self.request_state = Some(state.into());
        self
    }

    /// Whether there is neither a question nor a state, which the protocol forbids.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.input_requests.is_none() && self.request_state.is_none()
    }
}

impl Wire for InputRequired {}

impl super::WireResult for InputRequired {
    const RESULT_TYPE: &'static str = "input_required";

    fn meta(&self) -> Option<&RawValue> {
        self.meta.as_deref()
    }
}

/// One question: a request without `jsonrpc` and `id`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputRequest {
    /// The method, such as `elicitation/create`. Unknown ones are kept.
    pub method: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}

impl InputRequest {
    /// A question to the user.
    #[must_use]
    pub fn elicit(params: &ElicitParams) -> Self {
        Self::new(params)
    }

    /// A question to the model. Sampling is deprecated in 2026-07-28.
    #[must_use]
    pub fn sample(params: &CreateMessageParams) -> Self {
        Self::new(params)
    }

    /// A question for the roots. Roots are deprecated in 2026-07-28.
    #[must_use]
    pub fn roots() -> Self {
        Self { method: Method::RootsList.as_str().into(), params: None }
    }

    /// The question that stands for these parameters.
    #[must_use]
    pub fn new<P: Params>(params: &P) -> Self {
        let mut json = Vec::new();
        write_params(params, Revision::V2026_07_28, None, &mut json);
        let params = String::from_utf8(json).ok().map(raw);
        Self { method: P::METHOD.as_str().into(), params }
    }

    /// What is asked, typed.
    ///
    /// # Errors
    /// When the parameters of a known method are malformed.
    pub fn parse(&self) -> Result<InputQuestion, serde_json::Error> {
        let params = self.params.as_deref().map_or("{}", RawValue::get);
        Ok(match Method::parse(&self.method) {
            Some(Method::ElicitationCreate) => InputQuestion::Elicit(serde_json::from_str(params)?),
            Some(Method::CreateMessage) => InputQuestion::Sample(serde_json::from_str(params)?),
            Some(Method::RootsList) => InputQuestion::Roots(serde_json::from_str(params)?),
            _ => InputQuestion::Unknown,
        })
    }
}

/// What an [`InputRequest`] asks.
#[derive(Clone, Debug)]
pub enum InputQuestion {
    /// The user.
    Elicit(ElicitParams),
    /// The model.
    Sample(CreateMessageParams),
    /// For the roots.
    Roots(ListRootsParams),
    /// Something that this library does not know.
    Unknown,
}

/// The answers of one round, by the keys of the questions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InputResponses(pub Entries<Box<RawValue>>);

impl InputResponses {
    /// No answers yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Entries::new())
    }

    /// The same with the user's answer.
    #[must_use]
    pub fn elicited(self, key: impl Into<String>, result: &ElicitResult) -> Self {
        self.answer(key, result)
    }

    /// The same with the model's answer.
    #[must_use]
    pub fn sampled(self, key: impl Into<String>, result: &CreateMessageResult) -> Self {
        self.answer(key, result)
    }

    /// The same with the roots.
    #[must_use]
    pub fn roots(self, key: impl Into<String>, result: &ListRootsResult) -> Self {
        self.answer(key, result)
    }

    /// The answer to a question.
    ///
    /// # Errors
    /// When there is an answer of another form.
    pub fn parse<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, serde_json::Error> {
        self.0.get(key).map(|answer| serde_json::from_str(answer.get())).transpose()
    }

    fn answer(mut self, key: impl Into<String>, result: &impl Wire) -> Self {
        let mut json = Vec::new();
        append(&mut json, &*result.at(Revision::V2026_07_28));
        if let Ok(json) = String::from_utf8(json) {
            self.0.push(key, raw(json));
        }
        self
    }
}
