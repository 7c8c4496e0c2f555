//! What workers are told of what their clients want to hear of: subscriptions, and a log level.
//!
//! What is wanted is the gateway's (`desired`). What a worker was told on its connection is noted with
//! the worker, and it hears of the differences: when it is ready, when a client wants something else,
//! and when its server has taken the place of another one.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcplane::proto::method::Method;
use mcplane::proto::session::Peer;
use mcplane::proto::types::ServerCapabilities;
use mcplane::server::relay::Caller;
use serde_json::json;
use tokio::sync::oneshot;

use super::Upstream;
use super::keys::Key;
use super::model::{Command, Pool, Told, Worker};
use super::worker::is_modern;

/// How long an upstream may take to note a subscription.
const PATIENCE: Duration = Duration::from_secs(10);

/// What may be another than a worker was told.
#[derive(Clone, Copy)]
enum Changed<'a> {
    Anything,
    /// The same, and a stream on which changes are told is to be opened in any case.
    Stream,
    Subscription(&'a str),
    Level,
}

impl Pool {
    /// Whether no client of its workers has set a log level, but for those of its own session.
    pub(crate) fn has_no_level(&self) -> bool {
        self.settings.mode.is_keyed() || !self.shared.has_levels.load(Ordering::Relaxed)
    }
}

/// Whose worker it is, in the keyed modes; a spare is nobody's.
pub(super) fn key_of(worker: &Worker) -> Option<Key> {
    worker.lane.get()?.key.clone()
}

impl Upstream {
    /// A worker is ready, or has got a client, or its stream of changes has ended: it is told all that its
    /// clients want.
    pub(super) fn tell_all(&self, worker: &Worker) {
        self.tell(worker, Changed::Stream);
    }

    /// The upstream is shown from now on: what its workers were told before may have changed.
    pub(crate) fn reconcile(&self) {
        for worker in self.pool.all_workers() {
            self.tell(&worker, Changed::Anything);
        }
    }

    /// This client may have subscribed to a resource, or not be subscribed any more.
    pub(crate) fn reconcile_subscription(&self, caller: &Caller, uri: &str) {
        for worker in self.pool.workers_of(caller) {
            self.tell(&worker, Changed::Subscription(uri));
        }
    }

    /// This client may want another log level.
    pub(crate) fn reconcile_level(&self, caller: &Caller) {
        for worker in self.pool.workers_of(caller) {
            self.tell(&worker, Changed::Level);
        }
    }

    fn tell(&self, worker: &Worker, changed: Changed<'_>) {
        // One that is not ready is told all when it is.
        let Some(peer) = worker.peer.load_full().filter(|_| worker.is_ready()) else { return };
        let (key, is_keyed) = (key_of(worker), self.pool.settings.mode.is_keyed());
        let is_its = |caller: &Caller| !is_keyed || key.is_some() && self.pool.key(caller) == key;
        let mut told = worker.told();
        if told.life != worker.life() {
            *told = Told { life: worker.life(), ..Told::default() };
        }
        if is_modern(peer.revision) {
            self.listen(worker, &mut told, changed, is_its);
            return;
        }
        let capabilities = capabilities(&peer);
        if capabilities.resources_subscribe() {
            self.subscribe(worker, &mut told, changed, is_its);
        }
        if capabilities.logging() && !matches!(changed, Changed::Subscription(_)) {
            self.set_level(worker, &mut told, is_its);
        }
    }

    fn subscribe(
        &self,
        worker: &Worker,
        told: &mut Told,
        changed: Changed<'_>,
        is_its: impl Fn(&Caller) -> bool,
    ) {
        let desired = &self.desired;
        let (begun, ended): (Vec<_>, Vec<_>) = match changed {
            Changed::Level => return,
            Changed::Subscription(uri) => {
                let (is_told, is_wanted) =
                    (told.uris.contains(uri), desired.has(&self.name, uri, is_its));
                let of = |is_so: bool| is_so.then(|| uri.to_owned()).into_iter().collect();
                (of(is_wanted && !is_told), of(is_told && !is_wanted))
            }
            Changed::Stream | Changed::Anything => {
                let wanted = desired.uris(&self.name, is_its);
                let of = |these: &BTreeSet<String>, but: &BTreeSet<String>| {
                    these.difference(but).cloned().collect()
                };
                (of(&wanted, &told.uris), of(&told.uris, &wanted))
            }
        };
        for uri in ended {
            told.uris.remove(&uri);
            send(worker, Method::ResourcesUnsubscribe, &json!({"uri": uri}));
        }
        for uri in begun {
            send(worker, Method::ResourcesSubscribe, &json!({"uri": uri}));
            told.uris.insert(uri);
        }
    }

    /// A worker has one level for all of its clients: the most talkative one that is asked for. What a
    /// client did not ask for is not passed on to it.
    fn set_level(&self, worker: &Worker, told: &mut Told, is_its: impl Fn(&Caller) -> bool) {
        let Some(level) = self.desired.level(&self.name, is_its) else { return };
        if told.level.as_ref() != Some(&level) {
            self.pool.shared.has_levels.store(true, Ordering::Relaxed);
            send(worker, Method::SetLevel, &json!({"level": level.as_str()}));
            told.level = Some(level);
        }
    }

    /// An upstream of 2026-07-28 is told with one long request; to change what is listened for is to
    /// send another one.
    fn listen(
        &self,
        worker: &Worker,
        told: &mut Told,
        changed: Changed<'_>,
        is_its: impl Fn(&Caller) -> bool,
    ) {
        let is_news = match changed {
            Changed::Level => false,
            Changed::Stream => true,
            Changed::Anything => self.desired.uris(&self.name, &is_its) != told.uris,
            Changed::Subscription(uri) => {
                self.desired.has(&self.name, uri, &is_its) != told.uris.contains(uri)
            }
        };
        if !is_news {
            return;
        }
        told.uris = self.desired.uris(&self.name, &is_its);
        let mut wanted = json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": true,
        });
        if let (Some(wanted), false) = (wanted.as_object_mut(), told.uris.is_empty()) {
            wanted.insert("resourceSubscriptions".into(), json!(told.uris));
        }
        let params = json!({"notifications": wanted}).to_string();
        let _ = worker.send(Command::Listen(params.into_bytes()));
    }
}

fn capabilities(peer: &Peer) -> ServerCapabilities {
    let declared = peer.capabilities.as_deref();
    declared.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
}

/// Sends a request whose answer changes nothing.
fn send(worker: &Worker, method: Method, params: &serde_json::Value) {
    let (waiting, _) = oneshot::channel();
    let params = params.to_string().into_bytes();
    let _ = worker.send(Command::Ask(method, params, PATIENCE, waiting));
}
