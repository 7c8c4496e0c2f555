//! Why a request ends without a result: what happened, as data.
//!
//! This is the one place that turns it into what the client reads ([`Failure::object`]) and into what
//! is counted and traced ([`Failure::outcome`]), so the two cannot disagree.

use std::time::Duration;

use mcplane::proto::error::{Code, ErrorObject, Fault, shorten};
use mcplane::proto::limits::INPUT_ROUNDS_MAX;
use mcplane::proto::method::Method;
use mcplane::proto::types::ClientCapabilities;
use mcplane::proto::version::{Era, Revision};
use serde_json::{Value, json};
use thiserror::Error;

use crate::outcome::{Outcome, Refusal};

/// What a client is told that comes without a session to a server with a worker for each.
pub(crate) const NO_SESSION: &str = "each client has a worker of its own here, and this request has \
    neither a session nor a principal: begin with `initialize`, authenticate, or set mode = \
    \"shared\" or \"exclusive\" for the server";

/// Why a request ends without a result. Its text is what the client reads.
#[derive(Clone, Debug, Error)]
pub(crate) enum Failure {
    // The request asks for something that is not there, or is malformed.
    #[error("`{0}` is missing or not a string")]
    Parameter(&'static str),
    #[error("`ref.type` must be \"ref/prompt\" or \"ref/resource\"")]
    RefType,
    #[error("`ref` names nothing that is known here")]
    UnknownRef,
    #[error("unknown {what}: {}", shorten(.name))]
    UnknownName { what: &'static str, name: String },
    #[error("{}", ErrorObject::resource_not_found(*.era, .uri).message)]
    UnknownResource { era: Era, uri: String },
    #[error("method not found: {0}")]
    UnknownMethod(Method),
    #[error("unknown cursor, or the list has changed since: list again from the start")]
    Cursor,
    /// No list has it, and one server has not listed anything yet.
    #[error(
        "the server is not available: no server that runs has the {what} {}, and `{upstream}` has \
         not said what it has: {}",
        shorten(.name),
        .cause.as_deref().unwrap_or("it is still starting")
    )]
    NotListed { what: &'static str, name: String, upstream: String, cause: Option<String> },
    #[error("the catalog has no such server")]
    NoServer,

    // A client comes back with a `requestState`.
    /// A parked call ends with the gateway, whatever the key.
    #[error(
        "`requestState` is not one that this gateway gave for this request, or its time is over: \
         send the call again without it"
    )]
    State,
    #[error("the call has been given up")]
    GivenUp,

    // There is no room for it.
    #[error(
        "server `{upstream}` is overloaded: {calls} calls run on each of its {workers} workers and \
         {queue} wait; try again later"
    )]
    QueueFull { upstream: String, calls: u32, workers: usize, queue: usize },
    #[error("{max} calls of this client wait already")]
    ShareFull { max: usize },
    #[error("{max} calls wait for their turn at a tool with a limit of its own")]
    TurnsFull { max: usize },
    #[error("all {max} workers of server `{upstream}` are taken")]
    WorkersTaken { upstream: String, max: usize },
    #[error("the server does not read what it is sent")]
    Backlog,

    // No worker takes it. The causes are in the words for clients.
    #[error("the server is not available: {cause}")]
    NoWorker { cause: String },
    #[error(
        "the server is not available: the call waited too long for a worker{}",
        .cause.as_deref().map(|cause| format!("; {cause}")).unwrap_or_default()
    )]
    WaitedForWorker { cause: Option<String> },
    #[error("the server is not available: the call waited too long for its turn at its tool")]
    WaitedForTurn,
    #[error(
        "the server is not available: its process ended {count} times in a row with this client's \
         `{method}` of {name:?}; one is tried again in {} s",
        .pause.as_secs() + 1
    )]
    Blamed { count: u32, method: Method, name: String, pause: Duration },
    #[error("the server is not available: {0}")]
    Closing(&'static str),
    #[error("server `{upstream}`: {NO_SESSION}")]
    NoSession { upstream: String },
    #[error("the server speaks {revision}, which has no `{method}`")]
    NoMethod { revision: Revision, method: Method },

    // A worker had it.
    #[error("`{0}` was not answered in time by the server")]
    TimedOut(Method),
    #[error("the server is not available: {0}; the call may or may not have had its effect")]
    Lost(String),
    /// What the transport says, without the address of the server.
    #[error("{}", .0.message)]
    Transport(ErrorObject),
    #[error("the server's answer breaks the protocol: {0}")]
    Malformed(String),
    #[error("the server sent {0}")]
    Unreadable(String),
    #[error("there is no room for an answer of the server, while others wait")]
    NoRoom,

    // The server asks for something before it answers.
    #[error("the server still asks for input after {INPUT_ROUNDS_MAX} rounds")]
    Rounds,
    #[error("the server asks {0} questions at once")]
    Questions(usize),
    #[error("bad `inputRequests` of the server: {0}")]
    InputRequests(String),
    #[error("the server's `requestState` is too long to be sealed")]
    StateTooLong,
    /// A question that has no form in the client's revision.
    #[error("{0}")]
    Question(String),
    /// An older client has no code for what it lacks.
    #[error("the server asks for what this client does not declare: {}", json!(.0))]
    Undeclared(ClientCapabilities),
    #[error("the server asks for something that this client does not declare")]
    Capability(Value),
    #[error("the server wants the user to open a URL, which this client does not offer")]
    UrlCapability(ClientCapabilities),
    /// The client's answer to a question, which is an error.
    #[error("{}", .0.message)]
    Declined(ErrorObject),
    #[error("the client is gone")]
    ClientGone,
    #[error("the system gave no random bytes: {0}")]
    NoRandomness(getrandom::Error),
}

impl Failure {
    /// What the client is answered.
    pub(crate) fn object(&self) -> ErrorObject {
        match self {
            Self::UnknownResource { era, uri } => ErrorObject::resource_not_found(*era, uri),
            Self::Transport(error) | Self::Declined(error) => error.clone(),
            _ => {
                let error = ErrorObject::new(self.ends().0, self.to_string());
                match self.data() {
                    Some(data) => error.with_data(&data),
                    None => error,
                }
            }
        }
    }

    /// How the request ended.
    pub(crate) fn outcome(&self) -> Outcome {
        self.ends().1
    }

    fn ends(&self) -> (Code, Outcome) {
        let refused = |code, why| (code, Outcome::Refused(why));
        let error = |code, fault| (code, Outcome::Error(code, fault));
        match self {
            Self::Parameter(_)
            | Self::RefType
            | Self::UnknownRef
            | Self::UnknownName { .. }
            | Self::Cursor => refused(Code::INVALID_PARAMS, Refusal::Unknown),
            Self::UnknownResource { .. } => refused(self.object().code, Refusal::Unknown),
            Self::UnknownMethod(_) => refused(Code::METHOD_NOT_FOUND, Refusal::Unknown),
            Self::NotListed { .. } => refused(Code::UNAVAILABLE, Refusal::Unknown),
            Self::NoServer => refused(Code::INTERNAL_ERROR, Refusal::Unknown),
            Self::State | Self::GivenUp => refused(Code::INVALID_PARAMS, Refusal::State),
            Self::QueueFull { .. }
            | Self::TurnsFull { .. }
            | Self::WorkersTaken { .. }
            | Self::Backlog => refused(Code::OVERLOADED, Refusal::Full),
            Self::ShareFull { .. } => refused(Code::OVERLOADED, Refusal::Share),
            Self::NoWorker { .. } => refused(Code::UNAVAILABLE, Refusal::NoWorker),
            Self::WaitedForWorker { .. } | Self::WaitedForTurn => {
                refused(Code::UNAVAILABLE, Refusal::Waited)
            }
            Self::Blamed { .. } => refused(Code::UNAVAILABLE, Refusal::Blamed),
            Self::Closing(_) => refused(Code::UNAVAILABLE, Refusal::Closing),
            Self::NoSession { .. } => refused(Code::INVALID_REQUEST, Refusal::NoSession),
            Self::NoMethod { .. } => refused(Code::METHOD_NOT_FOUND, Refusal::Method),
            Self::TimedOut(_) => (Code::HANDLER_TIMEOUT, Outcome::TimedOut),
            Self::Lost(_) => (Code::UNAVAILABLE, Outcome::Lost),
            Self::Transport(lost) => error(lost.code, Fault::Upstream),
            Self::Malformed(_)
            | Self::Unreadable(_)
            | Self::Rounds
            | Self::Questions(_)
            | Self::InputRequests(_)
            | Self::StateTooLong => error(Code::INTERNAL_ERROR, Fault::Upstream),
            Self::Question(_) => error(Code::INVALID_REQUEST, Fault::Upstream),
            Self::Undeclared(_) => error(Code::INVALID_REQUEST, Fault::Caller),
            Self::Capability(_) | Self::UrlCapability(_) => {
                error(Code::MISSING_CLIENT_CAPABILITY, Fault::Caller)
            }
            Self::Declined(declined) => error(declined.code, Fault::Caller),
            Self::ClientGone => error(Code::INTERNAL_ERROR, Fault::Caller),
            Self::NoRoom => error(Code::OVERLOADED, Fault::Us),
            Self::NoRandomness(_) => error(Code::INTERNAL_ERROR, Fault::Us),
        }
    }

    fn data(&self) -> Option<Value> {
        match self {
            Self::Capability(lacking) => Some(json!({"requiredCapabilities": lacking})),
            Self::UrlCapability(lacking) => Some(json!({"requiredCapabilities": lacking})),
            Self::NoRoom => Some(json!({"retry": true})),
            _ => (self.ends().0 == Code::UNAVAILABLE).then(|| json!({"retry": true})),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_and_what_is_counted_agree() {
        let down = "the server is not available";
        let (what, name) = ("tool", "x".repeat(300));
        let short = format!("{}…", "x".repeat(200));
        let unlisted =
            Failure::NotListed { what, name: "t".into(), upstream: "a".into(), cause: None };
        let blamed = Failure::Blamed {
            count: 3,
            method: Method::ToolsCall,
            name: "t".into(),
            pause: Duration::from_millis(4_900),
        };
        let full = Failure::QueueFull { upstream: "a".into(), calls: 2, workers: 1, queue: 4 };
        let lacking = json!({"sampling": {}});
        for (failure, code, text, data) in [
            (Failure::UnknownName { what, name }, -32602, format!("unknown tool: {short}"), None),
            (
                unlisted,
                -31997,
                format!(
                    "{down}: no server that runs has the tool t, and `a` has not said what it has: \
                     it is still starting"
                ),
                Some(json!({"retry": true})),
            ),
            (
                Failure::WaitedForWorker { cause: Some("it cannot be started".into()) },
                -31997,
                format!("{down}: the call waited too long for a worker; it cannot be started"),
                Some(json!({"retry": true})),
            ),
            (
                blamed,
                -31997,
                format!(
                    "{down}: its process ended 3 times in a row with this client's `tools/call` of \
                     \"t\"; one is tried again in 5 s"
                ),
                Some(json!({"retry": true})),
            ),
            (
                full,
                -31999,
                "server `a` is overloaded: 2 calls run on each of its 1 workers and 4 wait; try \
                 again later"
                    .into(),
                None,
            ),
            (
                Failure::Capability(lacking.clone()),
                -32021,
                "the server asks for something that this client does not declare".into(),
                Some(json!({"requiredCapabilities": lacking})),
            ),
            (
                Failure::UnknownResource { era: Era::Legacy, uri: "x:1".into() },
                -32002,
                "resource not found: x:1".into(),
                Some(json!({"uri": "x:1"})),
            ),
        ] {
            let error = failure.object();
            assert_eq!((error.code.0, &*error.message), (code, &*text));
            let told = error.data.map(|data| serde_json::from_str::<Value>(data.get()).unwrap());
            assert_eq!(told, data, "{text}");
            if let Outcome::Error(counted, _) = failure.outcome() {
                assert_eq!(counted, error.code);
            }
        }
    }
}
