//! Why a handler failed, and what the client is told.

use std::error::Error as StdError;

use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::version::Revision;

use crate::error::Error;

/// Most causes told after the error itself: the chains of HTTP clients and databases have three or
/// four.
const CAUSES_MAX: usize = 8;

/// Most bytes that the causes add to the text; a model reads it, and pays for it.
const CAUSES_BYTES_MAX: usize = 1024;

/// Why a handler failed.
///
/// Every error becomes one with `?`, and so does text: anything that converts into
/// `Box<dyn Error + Send + Sync>`. The message is that of the error, followed by those of its
/// causes (at most eight, each once). For a tool that is a *tool error*: a result with `isError`,
/// which the model reads (tools §Error handling); for anything else it is -32603. An [`Error`] that
/// carries a JSON-RPC error, such as those of [`Context::elicit`](super::Context::elicit), stays
/// one.
///
/// The functions here are more precise, and take an error or text:
///
/// ```
/// use mcplane::{Failure, resource};
///
/// #[resource("tickets://{id}")]
/// fn ticket(id: u64) -> Result<String, Failure> {
///     match id {
///         0 => Err(Failure::invalid("tickets are counted from 1")),
///         1 => Ok("The lift is broken.".into()),
///         _ => Err(Failure::not_found(format!("there is no ticket {id}"))),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// For the model to read.
    Text(String),
    /// What was requested does not exist.
    NotFound(String),
    /// The arguments are wrong.
    Invalid(String),
    /// For the client: a JSON-RPC error.
    Rpc(ErrorObject),
}

/// What errors and text convert into.
type Boxed = Box<dyn StdError + Send + Sync>;

impl Failure {
    /// What was requested does not exist. For a resource this is *resource not found* with the URI
    /// in `data`: -32002 up to 2025-11-25, -32602 in 2026-07-28. For a prompt and for completion it
    /// is -32602, for a tool a tool error.
    #[must_use]
    pub fn not_found(why: impl Into<Boxed>) -> Self {
        Self::NotFound(with_causes(&*why.into()))
    }

    /// The arguments are wrong in a way that no schema expresses: -32602. For a tool, from
    /// 2025-11-25 on, it is a tool error, as for arguments that the schema refuses (SEP-1303).
    #[must_use]
    pub fn invalid(why: impl Into<Boxed>) -> Self {
        Self::Invalid(with_causes(&*why.into()))
    }

    /// The server failed, whatever the arguments: -32603, for a tool as well.
    #[must_use]
    pub fn internal(why: impl Into<Boxed>) -> Self {
        Self::Rpc(ErrorObject::new(Code::INTERNAL_ERROR, with_causes(&*why.into())))
    }

    /// A JSON-RPC error.
    #[must_use]
    pub const fn rpc(error: ErrorObject) -> Self {
        Self::Rpc(error)
    }

    /// The failure of a tool: text for the model, or an error for the client.
    pub(crate) fn into_tool(self, revision: Revision) -> Result<String, ErrorObject> {
        match self {
            Self::Text(text) | Self::NotFound(text) => Ok(text),
            Self::Invalid(text) if revision >= Revision::V2025_11_25 => Ok(text),
            Self::Invalid(text) => Err(ErrorObject::invalid_params(text)),
            Self::Rpc(error) => Err(error),
        }
    }

    /// The failure of anything but a tool: always an error. `uri` is that of the resource that was
    /// to be read.
    pub(crate) fn into_rpc(self, revision: Revision, uri: Option<&str>) -> ErrorObject {
        match (self, uri) {
            (Self::Text(text), _) => ErrorObject::new(Code::INTERNAL_ERROR, text),
            (Self::NotFound(text), Some(uri)) => {
                let error = ErrorObject::resource_not_found(revision.era(), uri);
                ErrorObject { message: text.into(), ..error }
            }
            (Self::NotFound(text) | Self::Invalid(text), _) => ErrorObject::invalid_params(text),
            (Self::Rpc(error), _) => error,
        }
    }
}

impl<E: Into<Boxed>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let carried = error.downcast_ref::<Error>().and_then(Error::rpc);
        match carried.or_else(|| error.downcast_ref::<ErrorObject>()) {
            Some(rpc) => Self::Rpc(rpc.clone()),
            None => Self::Text(with_causes(&*error)),
        }
    }
}

/// The error and its causes, each once: many an error quotes its cause, and many a one does not.
fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let bytes_max = text.len() + CAUSES_BYTES_MAX;
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    for cause in causes.take(CAUSES_MAX).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt::{self, Display};

    use super::*;

    /// An error with a cause.
    #[derive(Debug)]
    struct Link(String, Option<Box<Self>>);

    impl Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl StdError for Link {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    fn chain<S: Into<String>>(texts: impl DoubleEndedIterator<Item = S>) -> Link {
        let linked = |cause, text: S| Some(Box::new(Link(text.into(), cause)));
        *texts.rev().fold(None, linked).unwrap()
    }

    fn text(failure: Failure) -> String {
        match failure {
            Failure::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_cause_is_told_once() {
        let texts = ["sending (https://x)", "connect error: refused", "refused", "os error 111"];
        let told = text(chain(texts.into_iter()).into());
        assert_eq!(told, "sending (https://x): connect error: refused: os error 111");
        let boxed: Boxed = chain(["a", "b"].into_iter()).into();
        assert_eq!(text(boxed.into()), "a: b");
        assert_eq!(text("plain".into()), "plain");
        let context = anyhow::Error::from(chain(["a", "b"].into_iter())).context("doing");
        assert_eq!(text(context.into()), "doing: a: b");
        let Failure::NotFound(why) = Failure::not_found(chain(["a", "b"].into_iter())) else {
            panic!()
        };
        assert_eq!(why, "a: b");
    }

    #[test]
    fn causes_are_bounded_in_number_and_length() {
        let told = text(chain((0..100).map(|n| format!("<{n}>"))).into());
        assert_eq!(told, "<0>: <1>: <2>: <3>: <4>: <5>: <6>: <7>: <8>");
        let long = "é".repeat(CAUSES_BYTES_MAX);
        let told = text(chain(["short", &long].into_iter()).into());
        assert!(told.len() <= "short".len() + CAUSES_BYTES_MAX + '…'.len_utf8(), "{}", told.len());
        assert!(told.starts_with("short: é") && told.ends_with("é…"));
    }

    #[test]
    fn the_code_is_that_of_the_item_and_the_revision() {
        let codes = |failure: fn() -> Failure, revision| {
            let tool = failure().into_tool(revision).map_err(|error| error.code.0);
            let resource = failure().into_rpc(revision, Some("x://y"));
            let uri = resource.data.map(|data| data.get().to_owned());
            let prompt = failure().into_rpc(revision, None).code.0;
            (tool.map(drop), resource.code.0, uri, prompt)
        };
        let uri = || Some(r#"{"uri":"x://y"}"#.to_owned());
        let gone = || Failure::not_found("gone");
        assert_eq!(codes(gone, Revision::V2025_11_25), (Ok(()), -32002, uri(), -32602));
        assert_eq!(codes(gone, Revision::V2026_07_28), (Ok(()), -32602, uri(), -32602));
        let wrong = || Failure::invalid("wrong");
        assert_eq!(codes(wrong, Revision::V2025_06_18), (Err(-32602), -32602, None, -32602));
        assert_eq!(codes(wrong, Revision::V2025_11_25), (Ok(()), -32602, None, -32602));
        let broken = || Failure::internal("broken");
        let internal = (Err(-32603), -32603, None, -32603);
        assert_eq!(codes(broken, Revision::V2026_07_28), internal);
        let plain = || Failure::from("plain");
        assert_eq!(codes(plain, Revision::V2026_07_28), (Ok(()), -32603, None, -32603));
    }
}
