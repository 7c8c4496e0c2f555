//! A call in flight: its rounds, its progress, its cancellation.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mcplane_proto::limits::INPUT_ROUNDS_MAX;
use mcplane_proto::method::Method;
use mcplane_proto::session::rounds::{self, InputRequired};
use mcplane_proto::types::{
    CallToolResult, Entries, InputRequest, LogLevel, ProgressParams as Progress,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::Client;
use super::drive::{Command, Outgoing, Tag};
use super::state::State;
use crate::error::{Error, Kind, Result};

/// The most progress notifications that wait to be watched; further ones are dropped.
pub const PROGRESS_MAX: usize = 64;

/// The most questions in one round.
pub const QUESTIONS_MAX: usize = 64;

/// The pauses before a round without questions: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

/// What to ask, in every round alike.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) method: Method,
    pub(super) params: Bytes,
    pub(super) meta: Option<Box<RawValue>>,
    pub(super) log_level: Option<LogLevel>,
    pub(super) timeout: Duration,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
    /// What to tell the server should the call be given up.
    pub(super) reason: Arc<OnceLock<String>>,
}

impl Spec {
    pub(super) fn new(method: Method, params: Bytes, timeout: Duration) -> Self {
        let reason = Arc::default();
        Self { method, params, meta: None, log_level: None, timeout, progress: None, reason }
    }

    pub(super) fn outgoing(self, key: u64, members: Vec<u8>, tag: Tag) -> Box<Outgoing> {
        Box::new(Outgoing { key, spec: self, members, tag })
    }
}

/// How one request ended well.
#[derive(Debug)]
pub(super) enum Reply {
    Complete(Bytes),
    InputRequired(InputRequired),
}

/// One request in flight. Dropping it cancels it on the wire.
#[derive(Debug)]
pub(super) struct Leg {
    // Dropped in this order: the connection must find the receiver gone when it hears of the key.
    answer: oneshot::Receiver<Result<Reply>>,
    guard: Guard,
    _slot: OwnedSemaphorePermit,
}

/// Gives up what is in flight under its key when it is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    state: Arc<State>,
    key: u64,
    reason: Arc<OnceLock<String>>,
    armed: bool,
}

impl Guard {
    pub(super) const fn new(state: Arc<State>, key: u64, reason: Arc<OnceLock<String>>) -> Self {
        Self { state, key, reason, armed: true }
    }

    pub(super) const fn key(&self) -> u64 {
        self.key
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.state.give_up(self.key, self.reason.get().map_or("no longer needed", |r| r));
        }
    }
}

impl Leg {
    async fn answer(mut self) -> Result<Reply> {
        let answer = (&mut self.answer).await;
        self.guard.armed = false;
        answer.unwrap_or_else(|_| {
            let gone = || Error::closed("its task has ended");
            Err(self.guard.state.end().unwrap_or_else(gone))
        })
    }
}

impl Client {
    /// Sends one request. Waits only for a free slot among those in flight.
    pub(super) async fn send(&self, spec: &Spec, members: Vec<u8>) -> Result<Leg> {
        let slot = timeout(spec.timeout, self.slots().acquire_owned()).await;
        let Ok(Ok(slot)) = slot else { return Err(Error::new(Kind::Overloaded)) };
        let (answer_in, answer) = oneshot::channel();
        let state = Arc::clone(self.state());
        let guard = Guard::new(state, self.next_key(), Arc::clone(&spec.reason));
        let tag = Tag::Call { answer: answer_in };
        let leg = Leg { answer, guard, _slot: slot };
        self.command(Command::Call(spec.clone().outgoing(leg.guard.key, members, tag))).await?;
        Ok(leg)
    }

    /// A request and all its rounds: the result, and whether it took more than one round.
    pub(super) async fn request(&self, spec: Spec) -> Result<(Bytes, bool)> {
        let leg = self.send(&spec, Vec::new()).await?;
        self.rounds(spec, leg).await
    }

    /// Answers what the server asks until it gives the result.
    async fn rounds(&self, spec: Spec, mut leg: Leg) -> Result<(Bytes, bool)> {
        let mut pause = BACKOFF.0;
        for round in 0..=INPUT_ROUNDS_MAX {
            let asked = match leg.answer().await? {
                Reply::Complete(result) => return Ok((result, round > 0)),
                Reply::InputRequired(asked) => asked,
            };
            if round == INPUT_ROUNDS_MAX {
                break;
            }
            let answers = self.answers(spec.method, &asked).await?;
            if answers.is_empty() {
                sleep(pause).await;
                pause = (pause * 2).min(BACKOFF.1);
            }
            let members = rounds::retry_members(&answers, asked.request_state.as_deref());
            leg = self.send(&spec, members).await?;
        }
        Err(Error::malformed(format!(
            "`{}` still needs input after {INPUT_ROUNDS_MAX} rounds",
            spec.method
        )))
    }

    /// The answers of one round, in the order of the questions.
    async fn answers(
        &self,
        method: Method,
        asked: &InputRequired,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let questions = asked.input_requests.as_deref().map_or("{}", RawValue::get);
        let questions: Entries<InputRequest> = serde_json::from_str(questions)
            .map_err(|error| Error::malformed(format!("bad `inputRequests`: {error}")))?;
        if questions.len() > QUESTIONS_MAX {
            let len = questions.len();
            let why = format!("{len} questions in one round; {QUESTIONS_MAX} are accepted");
            return Err(Error::malformed(why));
        }
        let mut answers = Vec::with_capacity(questions.len());
        for (key, question) in questions {
            let asks = question.method;
            let Some(known) = Method::parse(&asks) else {
                let why =
                    format!("`{method}` asks `{asks}`, which is not a question of the protocol");
                return Err(Error::malformed(why));
            };
            let params = question.params.as_deref().map(|params| params.get().as_bytes());
            // The protocol has no place for a refusal here: the call simply ends.
            let answer = self.state().handlers.answer(self.peer().revision, known, params).await;
            let answer = answer.map_err(|error| {
                Error::misuse(format!("`{method}` needs an answer to `{asks}`: {}", error.message))
            })?;
            answers.push((key, answer));
        }
        Ok(answers)
    }
}

/// A call of a tool that is not sent yet. `await` it, or [`CallBuilder::start`] it.
#[must_use = "nothing is sent before this is awaited or started"]
pub struct CallBuilder {
    client: Client,
    spec: Result<Spec>,
    watch: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl CallBuilder {
    pub(super) fn new(client: Client, spec: Result<Spec>) -> Self {
        Self { client, spec, watch: None }
    }

    /// How long to wait for the answer. Progress restarts the wait, up to
    /// [`REQUEST_TIMEOUT_MAX`](mcplane_proto::limits::REQUEST_TIMEOUT_MAX); each round of input has
    /// its own.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|spec| spec.timeout = timeout)
    }

    /// The least severe log messages wanted for this call (2026-07-28; before, see
    /// [`Client::set_log_level`]).
    pub fn log_level(self, level: LogLevel) -> Self {
        self.with(|spec| spec.log_level = Some(level))
    }

    /// Further members for `_meta`: an object. Those that the protocol reserves are left out.
    pub fn meta(mut self, meta: &impl Serialize) -> Self {
        match object(meta, "`_meta`") {
            Ok(meta) => self.with(|spec| spec.meta = meta),
            Err(error) => {
                self.spec = self.spec.and(Err(error));
                self
            }
        }
    }

    /// Calls `watch` with each progress, in the task that awaits the result.
    pub fn on_progress(mut self, watch: impl FnMut(Progress) + Send + 'static) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Sends the call and comes back when it is in flight. Waits only if
    /// [`IN_FLIGHT_MAX`](mcplane_proto::limits::IN_FLIGHT_MAX) requests are in flight already.
    ///
    /// Cancel safe: if dropped, nothing is left behind.
    ///
    /// # Errors
    /// Arguments that are not an object, no free slot in time, or a connection that has ended.
    pub async fn start(self) -> Result<InFlight> {
        let mut spec = self.spec?;
        let (progress_in, progress) = mpsc::channel(PROGRESS_MAX);
        spec.progress = Some(progress_in);
        let reason = Arc::clone(&spec.reason);
        let leg = self.client.send(&spec, Vec::new()).await?;
        let client = self.client;
        let rounds = Box::pin(async move { Ok(client.rounds(spec, leg).await?.0) });
        Ok(InFlight { rounds, answer: None, progress, watch: self.watch, reason })
    }

    fn with(mut self, set: impl FnOnce(&mut Spec)) -> Self {
        if let Ok(spec) = &mut self.spec {
            set(spec);
        }
        self
    }
}

impl IntoFuture for CallBuilder {
    type Output = Result<CallToolResult>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Sends the call and waits for its result. Dropping the future cancels the call.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            if self.watch.is_some() {
                return self.start().await?.await;
            }
            typed(&self.client.request(self.spec?).await?.0)
        })
    }
}

impl fmt::Debug for CallBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallBuilder").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// A call in flight. `await` it for the result; dropping it cancels the call.
#[must_use = "dropping a call in flight cancels it"]
pub struct InFlight {
    rounds: Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>,
    answer: Option<Result<Bytes>>,
    progress: mpsc::Receiver<Progress>,
    watch: Option<Box<dyn FnMut(Progress) + Send>>,
    reason: Arc<OnceLock<String>>,
}

impl InFlight {
    /// The next progress; `None` when the answer has come and [`InFlight::result`] has it at once.
    ///
    /// Cancel safe.
    pub async fn progress(&mut self) -> Option<Progress> {
        poll_fn(|cx| self.poll_progress(cx)).await
    }

    /// Cancels the call and tells the server why. A late answer is dropped.
    pub fn cancel(self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
    }

    /// The result.
    ///
    /// Cancel safe in that nothing is left behind: dropping the future cancels the call.
    ///
    /// # Errors
    /// The server answered with an error ([`Error::is_rpc`]), not in time, or not at all. A tool
    /// that failed is not an error here: see [`CallToolResult::is_error`].
    pub async fn result(mut self) -> Result<CallToolResult> {
        while let Some(progress) = self.progress().await {
            if let Some(watch) = &mut self.watch {
                watch(progress);
            }
        }
        match self.answer {
            Some(answer) => typed(&answer?),
            None => Err(Error::closed("the call has no answer")),
        }
    }

    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Option<Progress>> {
        if self.answer.is_none()
            && let Poll::Ready(answer) = self.rounds.as_mut().poll(cx)
        {
            self.answer = Some(answer);
        }
        // Progress that came before the answer is told before it.
        match self.progress.poll_recv(cx) {
            Poll::Pending if self.answer.is_some() => Poll::Ready(None),
            other => other,
        }
    }
}

impl IntoFuture for InFlight {
    type Output = Result<CallToolResult>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.result())
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("answer", &self.answer).finish_non_exhaustive()
    }
}

/// A result as its type.
pub(super) fn typed<T: serde::de::DeserializeOwned>(result: &[u8]) -> Result<T> {
    serde_json::from_slice(result).map_err(|error| Error::malformed(format!("bad result: {error}")))
}

/// A JSON object; `None` for what serialises as `null`.
///
/// # Errors
/// It is something else.
pub(super) fn object(value: &impl Serialize, what: &str) -> Result<Option<Box<RawValue>>> {
    let raw = to_raw_value(value)
        .map_err(|error| Error::misuse(format!("{what} cannot be JSON: {error}")))?;
    match raw.get().trim_start().as_bytes().first() {
        Some(b'{') => Ok(Some(raw)),
        Some(b'n') => Ok(None),
        _ => Err(Error::misuse(format!("{what} must be a JSON object"))),
    }
}
