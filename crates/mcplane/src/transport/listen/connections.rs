//! The tasks of a listener's connections, and how they end.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{self, JoinSet};

use super::{Incoming, Listener};
use crate::transport::end::End;

/// Dropping it ends every connection at once.
#[derive(Default)]
pub(crate) struct Connections {
    tasks: JoinSet<()>,
    ends: HashMap<task::Id, oneshot::Sender<()>>,
}

impl Connections {
    /// Starts a task for everything that `listener` accepts until `shutdown` comes, then closes the
    /// listener. A task's [`End`] comes when it should finish what it does.
    pub(crate) async fn accept_until<F>(
        listener: Listener,
        shutdown: impl Future<Output = ()>,
        mut connection: impl FnMut(Incoming, End) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut connections = Self::default();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return connections,
                () = connections.reap() => {}
                incoming = listener.accept() => connections.spawn(|end| connection(incoming, end)),
            }
        }
    }

    fn spawn<F>(&mut self, connection: impl FnOnce(End) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (end, ended) = oneshot::channel();
        let task = self.tasks.spawn(connection(End::new(async {
            // Also when the sender is dropped: that is the signal.
            let _ = ended.await;
        })));
        self.ends.insert(task.id(), end);
    }

    /// Waits until a connection has ended, and forgets it. Cancel safe.
    async fn reap(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            // The panic of one connection is its own affair.
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        self.ends.remove(&id);
    }

    /// Tells every connection to end, and waits for them up to `limit`.
    pub(crate) async fn drain(mut self, limit: Duration) {
        self.ends.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(limit, all).await;
    }
}
