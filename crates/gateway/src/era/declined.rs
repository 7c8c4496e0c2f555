//! Why a question of an upstream is not answered: what happened, as data, and what the upstream reads.

use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::version::Revision;
use serde_json::{Value, json};
use thiserror::Error;

/// Why a question of an upstream is not answered. Its text is what the upstream reads.
#[derive(Debug, Error)]
pub(crate) enum Declined {
    // The client cannot be asked this.
    #[error("the client of this call ({client}) does not declare {lacking}")]
    Undeclared { client: Revision, lacking: Value },
    /// It has no form in the client's revision.
    #[error("{0}")]
    Params(String),
    /// The same, in the words of the translation.
    #[error("{}", .0.message)]
    Untranslatable(ErrorObject),
    #[error("the client is gone")]
    ClientGone,
    #[error("the system gave no random bytes: {0}")]
    NoRandomness(getrandom::Error),

    // Too many wait.
    #[error("{max} questions wait for an answer already")]
    Full { max: usize },
    #[error("{max} calls of this client wait for an answer of it already")]
    Share { max: usize },
    #[error("there is no room for {what} of {bytes} bytes of the server, while others wait")]
    NoRoom { what: &'static str, bytes: usize },
    #[error("the client did not answer, and others wait")]
    TimedOut,

    // It names no call, and belongs to none.
    #[error("nobody has a call in flight that this could belong to")]
    NoCall,
    #[error("the call that this belongs to has ended")]
    Ended,
    #[error("the call that this belongs to was cancelled")]
    Cancelled,
    #[error("it may be another client's, whose call has ended: try again")]
    MaybeAnothers,
    #[error("its call is made again, where it is known whose it is")]
    Repeated,
    #[error(
        "{calls} calls are in flight for several clients, and nothing says which of them this \
         belongs to; a call that is made again has a worker to itself, unless `ask_workers` is 0"
    )]
    Ambiguous { calls: usize },
}

impl Declined {
    fn code(&self) -> Code {
        match self {
            Self::Undeclared { .. } => Code::METHOD_NOT_FOUND,
            Self::Params(_) => Code::INVALID_PARAMS,
            Self::Untranslatable(error) => error.code,
            Self::ClientGone | Self::NoRandomness(_) => Code::INTERNAL_ERROR,
            Self::Full { .. } | Self::Share { .. } | Self::NoRoom { .. } => Code::OVERLOADED,
            Self::TimedOut => Code::HANDLER_TIMEOUT,
            Self::NoCall
            | Self::Ended
            | Self::Cancelled
            | Self::MaybeAnothers
            | Self::Repeated
            | Self::Ambiguous { .. } => Code::INVALID_REQUEST,
        }
    }
}

impl From<Declined> for ErrorObject {
    fn from(declined: Declined) -> Self {
        let error = Self::new(declined.code(), declined.to_string());
        match declined {
            Declined::Untranslatable(error) => error,
            Declined::Undeclared { lacking, .. } => {
                error.with_data(&json!({"requiredCapabilities": lacking}))
            }
            Declined::NoRoom { .. } => error.with_data(&json!({"retry": true})),
            _ => error,
        }
    }
}
