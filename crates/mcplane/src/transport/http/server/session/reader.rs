//! One HTTP response of a session, while it is open.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::time::timeout;

use super::super::body::Source;
use super::super::log::Taken;
use super::super::{Answer, Body, Permit, Reply};
use super::{Session, State};
use crate::clock;

/// How long the headers of an answer wait for a handler that says nothing. Then the client gets a
/// stream that it can resume.
const HOLD: Duration = Duration::from_millis(500);

/// One open HTTP response of a session's stream.
pub(in super::super) struct Reader {
    pub(super) session: Arc<Session>,
    pub(super) route: u64,
    pub(super) number: u64,
    pub(super) first: Option<Bytes>,
}

impl Reader {
    /// The answer to a POST. What an inline handler has said is here already: it needs no timer.
    pub(in super::super) fn respond(self, permit: Permit) -> Answer {
        match self.poll_news(&Context::from_waker(Waker::noop())) {
            Poll::Ready(()) => Answer::Now(self.begin(permit)),
            Poll::Pending => Answer::Later(Box::pin(self.hold(permit))),
        }
    }

    async fn hold(self, permit: Permit) -> Reply {
        let _ = timeout(HOLD, std::future::poll_fn(|cx| self.poll_news(cx))).await;
        self.begin(permit)
    }

    /// JSON if that is all there is; events at once if the last one is among them; else a stream.
    fn begin(mut self, permit: Permit) -> Reply {
        let mut state = self.session.lock();
        let has_priming = state.has_priming();
        let State { logs, connection, .. } = &mut *state;
        let Some(log) = logs.get_mut(self.route) else {
            drop(state);
            return self.stream(permit);
        };
        if let Some(answer) = log.take_answer() {
            drop(state);
            // Without one, the request was cancelled.
            return if answer.is_empty() {
                self.stream(permit)
            } else {
                Reply::Json(StatusCode::OK, answer)
            };
        }
        self.first = log.begin(self.route, has_priming);
        if log.ended
            && log.is_short()
            && let Taken::Events(events) =
                log.take(self.route, self.number, Waker::noop(), connection.budget())
        {
            drop(state);
            let first = self.first.as_deref().unwrap_or_default();
            return Reply::Events(Body::full([first, &*events].concat().into()));
        }
        drop(state);
        self.stream(permit)
    }

    pub(in super::super) fn stream(self, permit: Permit) -> Reply {
        Reply::Events(Body::stream(Source::Session(self), permit))
    }

    pub(in super::super) fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let mut state = self.session.lock();
        let State { logs, connection, .. } = &mut *state;
        let Some(log) = logs.get_mut(self.route) else { return Poll::Ready(None) };
        match log.take(self.route, self.number, cx.waker(), connection.budget()) {
            Taken::Events(events) => Poll::Ready(Some(events)),
            Taken::End => Poll::Ready(None),
            Taken::NotYet => Poll::Pending,
        }
    }

    fn poll_news(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.session.lock();
        let Some(log) = state.logs.get_mut(self.route) else { return Poll::Ready(()) };
        match log.wait(self.number, cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.session.lock();
        state.used = clock::now();
        state.logs.detach(self.route, self.number);
        let is_single = state.is_single;
        drop(state);
        if is_single {
            // The stream was all that the client had.
            self.session.end();
        }
        self.session.tend();
    }
}
