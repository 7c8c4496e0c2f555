//! What ends before its time: all of it when the endpoint closes, and what a principal has when its
//! credentials are taken back.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;

use super::Permit;

/// What has ended so far.
#[derive(Default)]
pub(super) struct Ended {
    /// How often the endpoint was closed.
    closed: u64,
    /// How often credentials were taken back.
    count: u64,
    /// The count at which they were taken from a principal last. As many as whoever runs the endpoint
    /// has ever taken back.
    revoked: HashMap<Arc<str>, u64>,
}

impl Ended {
    pub(super) const fn close(&mut self) {
        self.closed += 1;
    }

    pub(super) fn revoke(&mut self, principal: &str) {
        self.count += 1;
        self.revoked.insert(principal.into(), self.count);
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Whether the credentials that a request came with have been taken back since.
    pub(super) fn has(&self, permit: &Permit) -> bool {
        self.revokes(permit.principal.as_ref(), permit.since)
    }

    fn revokes(&self, principal: Option<&Arc<str>>, since: u64) -> bool {
        principal.and_then(|name| self.revoked.get(name)).is_some_and(|count| *count > since)
    }
}

/// Which end has come.
pub(super) enum End {
    /// The endpoint closes: what still runs may finish.
    Closed,
    /// Nothing more of this may be sent.
    Revoked,
}

/// The ends that may come to what a request has opened.
pub(super) struct Ends {
    ended: watch::Receiver<Ended>,
    principal: Option<Arc<str>>,
    since: u64,
    /// How often the endpoint was closed, as far as it was told.
    closed: u64,
}

impl Ends {
    pub(super) fn of(ended: &watch::Sender<Ended>, permit: &Permit) -> Self {
        let (ended, principal) = (ended.subscribe(), permit.principal.clone());
        // What begins when the endpoint has closed is let alone.
        let closed = ended.borrow().closed;
        Self { ended, principal, since: permit.since, closed }
    }

    /// The next one. Cancel safe.
    pub(super) async fn next(&mut self) -> End {
        loop {
            let (is_revoked, closed) = {
                let ended = self.ended.borrow_and_update();
                (ended.revokes(self.principal.as_ref(), self.since), ended.closed)
            };
            if is_revoked {
                return End::Revoked;
            }
            if closed > self.closed {
                self.closed = closed;
                return End::Closed;
            }
            if self.ended.changed().await.is_err() {
                // Nobody has the endpoint any more.
                if self.closed == u64::MAX {
                    pending::<()>().await;
                }
                self.closed = u64::MAX;
                return End::Closed;
            }
        }
    }
}
