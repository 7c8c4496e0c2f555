//! Requests of 2026-07-28: one POST each, with its envelope mirrored in headers.

use std::sync::Arc;
use std::time::Duration;

use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::id::Id;
use mcplane_proto::message::{Kind, Message, Part};
use mcplane_proto::method::Method;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::answer::Answer;
use super::shared::{Shared, reason};
use crate::error::{Failure, Lost};

/// Most pages of `tools/list` that are read to learn what a tool wants mirrored.
const PAGES_MAX: usize = 100;

/// How long learning may take.
const LEARN_TIME_MAX: Duration = Duration::from_secs(30);

/// Why a request has no answer of the server.
enum Miss {
    Lost(Failure),
    /// It cannot even be sent.
    Refused(ErrorObject),
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

impl Shared {
    /// The request that tells the era.
    pub(super) async fn probe(self: Arc<Self>, message: Message, id: Id) {
        match self.exchange(&message, &id).await {
            Ok(answer) => {
                let modern = answer.kind() == Kind::Response || is_modern_error(&answer);
                let mut course = self.course();
                course.settled |= modern;
                course.probed |= !modern;
                drop(course);
                self.give(&answer, &id);
            }
            Err(Miss::Refused(error)) => self.refuse(&id, &error),
            Err(Miss::Lost(failure)) if is_of_a_legacy_server(&failure) => {
                self.say_legacy(&id, failure.message);
            }
            Err(Miss::Lost(failure)) => self.fail(&id, &failure),
        }
    }

    /// Any other request.
    pub(super) async fn modern(self: Arc<Self>, message: Message, id: Id) {
        match self.exchange(&message, &id).await {
            Ok(answer) => {
                self.course().settled = true;
                let listed = message.method() == Some(Method::ToolsList);
                match listed.then(|| self.tools.learn(&answer)).flatten() {
                    Some(shown) => self.inbox.push(shown),
                    None => self.give(&answer, &id),
                }
            }
            Err(Miss::Refused(error)) => self.refuse(&id, &error),
            Err(Miss::Lost(failure)) => self.fail(&id, &failure),
        }
    }

    async fn exchange(&self, message: &Message, id: &Id) -> Result<Message, Miss> {
        let answer = self.once(message, id).await?;
        let is_call = message.method() == Some(Method::ToolsCall);
        if !is_call || code(&answer) != Some(Code::HEADER_MISMATCH) {
            return Ok(answer);
        }
        // The tool wants more mirrored than is known here: look again, and try once more.
        let learnt = timeout(LEARN_TIME_MAX, self.list_tools(message)).await;
        if !matches!(learnt, Ok(Ok(()))) {
            return Ok(answer);
        }
        self.once(message, id).await
    }

    async fn once(&self, message: &Message, id: &Id) -> Result<Message, Miss> {
        let mut headers = self.endpoint.post_headers();
        self.tools.mirror(message, &mut headers).map_err(Miss::Refused)?;
        let response = self.post(message, headers, Some(id)).await?;
        match Answer::of(response, &self.endpoint.uri).await? {
            Answer::Json(body) => Ok(self.own(body, id)?),
            Answer::Stream(mut stream) => {
                let answer = self.pump(&mut stream, Some(id), |_| {}).await?;
                self.rest(stream);
                let why =
                    || format!("the stream ended before it answered `{}`", message.method_name());
                Ok(answer.ok_or_else(|| Failure::new(Lost::Broken, why()))?)
            }
            Answer::Accepted => Err(Failure::new(
                Lost::Malformed,
                format!(
                    "the server has accepted `{}` and does not answer it",
                    message.method_name()
                ),
            )
            .into()),
            Answer::Refused(_, failure)
                if message.method() == Some(Method::Discover) && failure.status >= Some(500) =>
            {
                Err(failure.into())
            }
            Answer::Refused(error, failure) => Ok(reason(error, failure, id)?),
        }
    }

    /// Reads every page of `tools/list`, with the envelope of `call`, to learn from them.
    async fn list_tools(&self, call: &Message) -> Result<(), Miss> {
        let meta = call.part(Part::Meta).unwrap_or(b"{}");
        let meta: &RawValue = serde_json::from_slice(meta).unwrap_or(RawValue::NULL);
        let id = Id::from("mcplane-tools");
        let mut cursor: Option<Box<str>> = None;
        for _ in 0..PAGES_MAX {
            let mut params = serde_json::json!({"_meta": meta});
            if let (Some(cursor), Some(params)) = (cursor.take(), params.as_object_mut()) {
                params.insert("cursor".into(), (*cursor).into());
            }
            let list = serde_json::json!({"jsonrpc": "2.0", "id": &id,
                "method": Method::ToolsList.as_str(), "params": params});
            let Ok(list) = Message::scan(list.to_string()) else { return Ok(()) };
            let page = Box::pin(self.once(&list, &id)).await?;
            self.tools.learn(&page);
            cursor = page.text(Part::NextCursor).map(Into::into);
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }
}

pub(super) fn code(message: &Message) -> Option<Code> {
    serde_json::from_slice(message.part(Part::ErrorCode)?).ok()
}

/// Codes that only a server of 2026-07-28 has.
pub(super) fn is_modern_error(message: &Message) -> bool {
    let codes = [Code::HEADER_MISMATCH, Code::MISSING_CLIENT_CAPABILITY, Code::UNSUPPORTED_VERSION];
    code(message).is_some_and(|code| codes.contains(&code))
}

/// Whether the lost probe is evidence: a refusal of the request itself, or a body of the right
/// status that no modern server sends.
fn is_of_a_legacy_server(failure: &Failure) -> bool {
    match (failure.kind, failure.status) {
        (Lost::Status, Some(status)) => (400..500).contains(&status) && status != 408,
        (Lost::Malformed, Some(_)) => true,
        _ => false,
    }
}
