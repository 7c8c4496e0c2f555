//! Notifications of changes: `subscriptions/listen` of 2026-07-28, and its equivalents in older
//! revisions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcplane_proto::id::Id;
use mcplane_proto::message::{Message, Part};
use mcplane_proto::method::Method;
use mcplane_proto::session::ListenFilter;
use mcplane_proto::types::{SubscribeParams, UnsubscribeParams};
use mcplane_proto::version::Era;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};

use super::Client;
use super::call::{Guard, Spec};
use super::drive::Command;
use crate::error::{Error, Result};

/// The most changes that wait to be received. When more come, they are merged into one
/// [`Change::Missed`].
pub const CHANGES_MAX: usize = 256;

/// Something on the server has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources or of their templates.
    Resources,
    /// The resource at this URI, which may be part of the one that was subscribed to.
    Resource(String),
    /// More changes than could be kept: fetch everything again.
    Missed,
}

impl Change {
    /// The change that a notification tells of.
    pub(super) fn of(method: Method, message: &Message) -> Option<Self> {
        Some(match method {
            Method::ToolsListChanged => Self::Tools,
            Method::PromptsListChanged => Self::Prompts,
            Method::ResourcesListChanged => Self::Resources,
            Method::ResourcesUpdated => Self::Resource(message.text(Part::Uri)?.into_owned()),
            _ => return None,
        })
    }

    /// Whether it belongs to a filter; for servers that tell of everything.
    pub(super) fn is_wanted(&self, filter: &ListenFilter) -> bool {
        match self {
            Self::Tools => filter.tools_list_changed,
            Self::Prompts => filter.prompts_list_changed,
            Self::Resources => filter.resources_list_changed,
            Self::Resource(uri) => filter.resource_subscriptions.contains(uri),
            Self::Missed => true,
        }
    }
}

/// An open subscription. Dropping it ends it.
#[derive(Debug)]
pub struct Listen {
    filter: ListenFilter,
    changes: mpsc::Receiver<Change>,
    missed: Arc<AtomicBool>,
    end: oneshot::Receiver<Error>,
    _guard: Guard,
}

impl Listen {
    /// What the server agreed to report, which may be less than was requested.
    #[must_use]
    pub const fn filter(&self) -> &ListenFilter {
        &self.filter
    }

    /// The next change; `None` when the server has ended the subscription properly. A subscription
    /// is not resumed: listen again and fetch again.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// Once, when the connection breaks or the server ends the subscription with an error; then
    /// `None`.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        if self.missed.swap(false, Ordering::AcqRel) {
            // What still waits is older than what was missed, and is covered by it.
            while self.changes.try_recv().is_ok() {}
            return Ok(Some(Change::Missed));
        }
        match self.changes.recv().await {
            Some(change) => Ok(Some(change)),
            None => self.end.try_recv().map_or(Ok(None), Err),
        }
    }
}

/// The connection's end of a [`Listen`].
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) filter: ListenFilter,
    ready: Option<oneshot::Sender<Result<ListenFilter>>>,
    changes: mpsc::Sender<Change>,
    missed: Arc<AtomicBool>,
    end: oneshot::Sender<Error>,
}

impl Listener {
    /// The server's `notifications/subscriptions/acknowledged`.
    pub(super) fn acknowledged(&mut self, message: &Message) {
        #[derive(Deserialize)]
        struct Acknowledged {
            notifications: ListenFilter,
        }
        let params = message.part(Part::Params).unwrap_or(b"{}");
        let parsed =
            serde_json::from_slice(params).map(|Acknowledged { notifications }| notifications);
        self.answer(parsed.map_err(|error| {
            Error::malformed(format!("bad acknowledgement of a subscription: {error}"))
        }));
    }

    /// Whether nobody listens any longer.
    pub(super) fn is_closed(&self) -> bool {
        self.changes.is_closed()
    }

    /// Ends the wait of whoever opened it.
    pub(super) fn answer(&mut self, answer: Result<ListenFilter>) {
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(answer);
        }
    }

    pub(super) fn push(&self, change: Change) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.changes.try_send(change) {
            self.missed.store(true, Ordering::Release);
        }
    }

    /// The end: in good order (`None`), or with an error.
    pub(super) fn end(mut self, error: Option<Error>) {
        match (self.ready.take(), error) {
            (Some(ready), error) => {
                let early = || Error::malformed("the subscription ended before it began");
                let _ = ready.send(Err(error.unwrap_or_else(early)));
            }
            (None, Some(error)) => {
                let _ = self.end.send(error);
            }
            (None, None) => {}
        }
    }
}

impl Client {
    /// Subscribes to changes.
    ///
    /// In 2026-07-28 this opens a `subscriptions/listen` and waits until the server acknowledges
    /// it. In older revisions a server notifies every client: its notifications are filtered, and
    /// [`Client::subscribe`] asks for single resources.
    ///
    /// Cancel safe: dropping the future drops the subscription.
    ///
    /// # Errors
    /// The server refuses, does not answer in time, or the connection has ended.
    pub async fn listen(&self, filter: ListenFilter) -> Result<Listen> {
        // First, so that it is dropped last: by then nobody receives any more.
        let guard = self.guard();
        let (changes_in, changes) = mpsc::channel(CHANGES_MAX);
        let (end_in, end) = oneshot::channel();
        let (ready_in, ready) = oneshot::channel();
        let missed = Arc::new(AtomicBool::new(false));
        let listener = Listener {
            filter: filter.clone(),
            ready: Some(ready_in),
            changes: changes_in,
            missed: Arc::clone(&missed),
            end: end_in,
        };
        match self.peer().era() {
            Era::Legacy => self.command(Command::Listen(guard.key(), listener)).await?,
            Era::Modern => {
                let params = serde_json::json!({ "notifications": filter }).to_string();
                let spec = Spec::new(Method::Listen, params.into(), self.timeout());
                self.command(Command::Call(spec.outgoing(
                    guard.key(),
                    Vec::new(),
                    listener.into(),
                )))
                .await?;
            }
        }
        let filter = ready.await.unwrap_or_else(|_| Err(self.closed()))?;
        Ok(Listen { filter, changes, missed, end, _guard: guard })
    }

    /// Subscribes to changes of the resource at `uri`. They arrive through
    /// [`ClientBuilder::on_notification`](super::ClientBuilder::on_notification) and through every
    /// matching [`Client::listen`] of the legacy era. In 2026-07-28 the client keeps one
    /// subscription of its own for all resources.
    ///
    /// Not cancel safe: the server may or may not have received the request.
    ///
    /// # Errors
    /// The server refuses, does not answer in time, or the connection has ended.
    pub async fn subscribe(&self, uri: &str) -> Result<()> {
        match self.peer().era() {
            Era::Legacy => self.fetch(&SubscribeParams::new(uri)).await.map(drop),
            Era::Modern => {
                let mut own = self.subscriptions().lock().await;
                let mut uris = own.uris.clone();
                if !uris.insert(uri.to_owned()) {
                    return Ok(());
                }
                let listen = self.listen_to(&uris).await?;
                if !listen.filter().resource_subscriptions.contains(uri) {
                    let why = format!("the server does not tell of changes of {uri}");
                    return Err(Error::misuse(why));
                }
                *own = Subscriptions { uris, listen: Some(listen) };
                Ok(())
            }
        }
    }

    /// Ends a [`Client::subscribe`].
    ///
    /// Not cancel safe: the server may or may not have received the request.
    ///
    /// # Errors
    /// The server refuses, does not answer in time, or the connection has ended.
    pub async fn unsubscribe(&self, uri: &str) -> Result<()> {
        match self.peer().era() {
            Era::Legacy => self.fetch(&UnsubscribeParams::new(uri)).await.map(drop),
            Era::Modern => {
                let mut own = self.subscriptions().lock().await;
                let mut uris = own.uris.clone();
                if !uris.remove(uri) {
                    return Ok(());
                }
                let listen = match uris.is_empty() {
                    true => None,
                    false => Some(self.listen_to(&uris).await?),
                };
                *own = Subscriptions { uris, listen };
                Ok(())
            }
        }
    }

    /// A subscription cannot be amended: the new one opens before the old one is dropped.
    async fn listen_to(&self, uris: &BTreeSet<String>) -> Result<Listen> {
        let filter =
            ListenFilter { resource_subscriptions: uris.clone(), ..ListenFilter::default() };
        self.listen(filter).await
    }
}

/// The resources that [`Client::subscribe`] asked for, and the listen that they ride on.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    uris: BTreeSet<String>,
    #[allow(dead_code, reason = "held: dropping it ends the subscription")]
    listen: Option<Listen>,
}

/// The id of one of our own requests.
pub(super) const fn own(id: &Id) -> Option<i64> {
    match id {
        Id::Integer(id) => Some(*id),
        _ => None,
    }
}
