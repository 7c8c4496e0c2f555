//! The user's code, and how it runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::context::Context;
use super::pool::{Pool, Pools};

/// A boxed future, for handlers that wait.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A handler from an input to an output, and where it runs.
pub(crate) enum Handler<I, O> {
    /// In the connection's own task, without a channel or a spawn between the read and the write:
    /// for work that neither blocks nor waits.
    Inline(Direct<I, O>),
    /// On a thread, one of the server's workers.
    Blocking(Direct<I, O>),
    /// As a task of its own, one of the server's tasks.
    Waiting(Deferred<I, O>),
}

type Direct<I, O> = Arc<dyn Fn(&Context, I) -> O + Send + Sync>;
type Deferred<I, O> = Arc<dyn Fn(Context, I) -> Boxed<O> + Send + Sync>;

impl<I, O> Handler<I, O> {
    pub(crate) fn waiting<F, Fut>(handler: F) -> Self
    where
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = O> + Send + 'static,
    {
        Self::Waiting(Arc::new(move |context, input| Box::pin(handler(context, input))))
    }

    /// Where it has a place; an inline one needs none.
    pub(super) const fn pool<'a>(&self, pools: &'a Pools) -> &'a Pool {
        match self {
            Self::Inline(_) | Self::Blocking(_) => &pools.blocking,
            Self::Waiting(_) => &pools.waiting,
        }
    }
}

impl<I, O> Clone for Handler<I, O> {
    fn clone(&self) -> Self {
        match self {
            Self::Inline(handler) => Self::Inline(Arc::clone(handler)),
            Self::Blocking(handler) => Self::Blocking(Arc::clone(handler)),
            Self::Waiting(handler) => Self::Waiting(Arc::clone(handler)),
        }
    }
}
