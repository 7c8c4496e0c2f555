//! Answers to what the server asks, whichever way it asks: as a request of its own (up to
//! 2025-11-25) or inside `input_required` (2026-07-28). A handler is written once.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::method::Method;
use mcplane_proto::types::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitForm, ElicitParams,
    ElicitResult, ElicitUrl, ListRootsResult, Params, ResultContext, Root, WireResult,
    parse_params,
};
use mcplane_proto::version::{Era, Revision};
use tokio::time::timeout;

/// How long a handler may take: people need time to fill in a form. After that, a form or a URL
/// counts as cancelled, and sampling as failed.
pub const HANDLER_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// The future of a handler.
type Answering<R> = Pin<Box<dyn Future<Output = R> + Send>>;
type Handler<P, R> = Box<dyn Fn(P) -> Answering<R> + Send + Sync>;

/// Boxes a handler, so that the client has one type whatever its handlers are.
pub(super) fn boxed<P, R, F, A>(handler: F) -> Handler<P, R>
where
    F: Fn(P) -> A + Send + Sync + 'static,
    A: Future<Output = R> + Send + 'static,
{
    Box::new(move |params| Box::pin(handler(params)))
}

/// What this client answers. What is not set is not declared, and refused if it is asked.
#[derive(Default)]
pub(super) struct Handlers {
    pub(super) form: Option<Handler<ElicitForm, ElicitResult>>,
    pub(super) url: Option<Handler<ElicitUrl, ElicitResult>>,
    pub(super) sample:
        Option<Handler<CreateMessageParams, Result<CreateMessageResult, ErrorObject>>>,
    pub(super) sampling_tools: bool,
    pub(super) roots: Mutex<Option<Vec<Root>>>,
}

impl Handlers {
    /// The capabilities that follow from what is set.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::new();
        if self.form.is_some() {
            capabilities = capabilities.with_elicitation_form();
        }
        if self.url.is_some() {
            capabilities = capabilities.with_elicitation_url();
        }
        if self.sample.is_some() {
            capabilities = capabilities.with_sampling();
        }
        if self.sample.is_some() && self.sampling_tools {
            capabilities = capabilities.with_sampling_tools();
        }
        if self.roots().is_some() {
            capabilities = capabilities.with_roots(true);
        }
        capabilities
    }

    pub(super) fn set_roots(&self, roots: Vec<Root>) {
        *self.roots.lock().unwrap_or_else(PoisonError::into_inner) = Some(roots);
    }

    /// The result of what the server asks, as JSON text.
    ///
    /// # Errors
    /// What to answer instead, or what the call fails with.
    pub(super) async fn answer(
        &self,
        revision: Revision,
        method: Method,
        params: Option<&[u8]>,
    ) -> Result<Vec<u8>, ErrorObject> {
        match method {
            Method::ElicitationCreate => {
                let result = match parse_params(params)? {
                    ElicitParams::Form(form) => ask(self.form.as_ref(), form, "forms").await?,
                    ElicitParams::Url(url) => ask(self.url.as_ref(), url, "URLs").await?,
                    _ => {
                        let why = "this client knows the modes `form` and `url` only";
                        return Err(ErrorObject::invalid_params(why));
                    }
                };
                // A person who went away does not answer.
                write(revision, &result.unwrap_or_else(|_| ElicitResult::cancel()))
            }
            Method::CreateMessage => {
                let result = ask(self.sample.as_ref(), parse_params(params)?, "sampling").await?;
                write(revision, &result??)
            }
            Method::RootsList => match self.roots() {
                Some(roots) => write(revision, &ListRootsResult::new(roots)),
                None => Err(undeclared("roots")),
            },
            other => Err(ErrorObject::method_not_found(other.as_str())),
        }
    }

    fn roots(&self) -> Option<Vec<Root>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handlers").field(&self.capabilities()).finish()
    }
}

/// Runs a handler: what it answers, or that it took too long.
///
/// # Errors
/// There is no handler.
async fn ask<P, R>(
    handler: Option<&Handler<P, R>>,
    params: P,
    what: &str,
) -> Result<Result<R, ErrorObject>, ErrorObject> {
    let Some(handler) = handler else { return Err(undeclared(what)) };
    let late = |_| ErrorObject::new(Code::HANDLER_TIMEOUT, "the client did not answer in time");
    Ok(timeout(HANDLER_TIME_MAX, handler(params)).await.map_err(late))
}

fn undeclared(what: &str) -> ErrorObject {
    let message = format!("this client does not handle {what}, and did not say that it does");
    ErrorObject::new(Code::METHOD_NOT_FOUND, message)
}

/// A result of ours. Inside `inputResponses` it stands bare, without `resultType`.
fn write<R: WireResult>(revision: Revision, result: &R) -> Result<Vec<u8>, ErrorObject> {
    let mut out = Vec::new();
    match revision.era() {
        Era::Legacy => result.write(&ResultContext::new(revision), &mut out),
        Era::Modern => {
            serde_json::to_writer(&mut out, &*result.at(revision)).map_err(|error| {
                ErrorObject::new(Code::INTERNAL_ERROR, format!("cannot write the answer: {error}"))
            })?;
        }
    }
    Ok(out)
}

/// A notification from the server.
#[derive(Clone, Debug)]
pub struct Notification {
    method: Method,
    params: Option<Bytes>,
}

impl Notification {
    pub(super) const fn new(method: Method, params: Option<Bytes>) -> Self {
        Self { method, params }
    }

    /// Its method.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.method
    }

    /// Its parameters, as JSON text.
    #[must_use]
    pub fn params(&self) -> Option<&[u8]> {
        self.params.as_deref()
    }

    /// Its parameters, typed; `None` for those of another method.
    ///
    /// # Errors
    /// [`Error::is_malformed`](crate::error::Error::is_malformed).
    pub fn parse<P: Params>(&self) -> crate::error::Result<Option<P>> {
        if self.method != P::METHOD {
            return Ok(None);
        }
        let parsed = parse_params(self.params());
        parsed.map(Some).map_err(|error| crate::error::Error::malformed(error.message))
    }
}
