//! A session with workers of its own, and whom a worker speaks for.

use std::sync::{Arc, OnceLock};

use mcplane::proto::types::{ClientCapabilities, Implementation};
use mcplane::proto::version::{Era, Revision};
use mcplane::server::relay::{Caller, Line, Relayed};
use serde_json::{Map, Value};
use tokio::sync::Notify;

/// A session with workers of its own, as it introduced itself.
pub(crate) struct Client {
    pub(crate) info: Implementation,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) revision: Revision,
    pub(crate) caller: Caller,
    /// The way to it for what belongs to none of its calls.
    pub(crate) line: Line,
}

impl Client {
    /// One of `initialize`; others introduce themselves with each request.
    pub(super) fn of(request: &Relayed) -> Option<Self> {
        if request.revision().era() != Era::Legacy || request.caller().connection.is_none() {
            return None;
        }
        // Requests about tasks do not pass.
        let mut capabilities: Map<String, Value> =
            serde_json::from_slice(request.capabilities()).ok()?;
        capabilities.remove("tasks");
        Some(Self {
            info: serde_json::from_slice(request.client_info()?).ok()?,
            capabilities: serde_json::from_value(capabilities.into()).ok()?,
            revision: request.revision(),
            caller: request.caller().clone(),
            line: request.line(),
        })
    }
}

/// Whom a worker speaks for. Decided once, before its first handshake.
#[derive(Default)]
pub(crate) struct Greeting {
    /// `None` inside is the gateway.
    pub(super) of: OnceLock<Option<Arc<Client>>>,
    decided: Notify,
}

impl Greeting {
    /// `false` if it was decided already.
    pub(super) fn decide(&self, client: Option<Arc<Client>>) -> bool {
        let is_new = self.of.set(client).is_ok();
        self.decided.notify_one();
        is_new
    }

    /// Waits until it is decided. Cancel safe.
    pub(super) async fn decided(&self) {
        while self.of.get().is_none() {
            self.decided.notified().await;
        }
    }

    /// The client; the gateway itself if nothing was decided before.
    pub(super) fn settle(&self) -> Option<&Arc<Client>> {
        self.of.get_or_init(|| None).as_ref()
    }

    /// The client, if it speaks for one.
    pub(crate) fn client(&self) -> Option<&Arc<Client>> {
        self.of.get()?.as_ref()
    }

    pub(super) fn is_of_gateway(&self) -> bool {
        matches!(self.of.get(), Some(None))
    }
}
