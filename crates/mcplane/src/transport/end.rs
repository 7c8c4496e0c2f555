//! The sign that a connection should end.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Comes when a connection should end. May be polled again after that.
pub(crate) struct End(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl End {
    pub(crate) fn new(end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(Box::pin(end)))
    }
}

impl Future for End {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(end) = &mut self.0 else { return Poll::Ready(()) };
        std::task::ready!(end.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("End").field(&self.0.is_none()).finish()
    }
}
