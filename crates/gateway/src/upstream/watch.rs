//! Resources that clients watch, and the log level that they want: kept once for each server, however
//! often it is replaced, and told to the workers of those clients.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcplane::proto::method::Method;
use mcplane::proto::types::{LogLevel, ServerCapabilities};
use mcplane::server::relay::Caller;
use serde_json::json;
use tokio::sync::oneshot;

use super::keyed::Key;
use super::pool::Pool;
use super::worker::{Command, Worker, is_modern};

/// How long an upstream may take to note a subscription.
const PATIENCE: Duration = Duration::from_secs(10);

impl Pool {
    /// Whether no client of its workers has set a log level, but for those of its own session.
    pub(crate) fn has_no_level(&self) -> bool {
        self.settings.mode.is_keyed() || !self.shared.has_levels.load(Ordering::Relaxed)
    }

    /// Whether both clients have the same workers.
    fn is_mate(&self, one: &Caller, other: &Caller) -> bool {
        !self.settings.mode.is_keyed() || self.key(one) == self.key(other)
    }
}

/// Whose worker it is, in the keyed modes; a spare is nobody's.
pub(super) fn key_of(worker: &Worker) -> Option<Key> {
    worker.lane.get()?.key.clone()
}

/// What clients want to hear of.
#[derive(Default)]
pub(crate) struct Watched(Mutex<State>);

#[derive(Default)]
struct State {
    /// Who watches which resource, and how often.
    uris: BTreeMap<String, HashMap<Caller, usize>>,
    /// The most talkative level that anybody asked for: in the keyed modes of each key, else of all.
    /// There are no more of them than sessions and tokens.
    levels: HashMap<Option<Key>, LogLevel>,
}

impl Watched {
    /// Somebody begins to watch a resource.
    pub(crate) fn begin(&self, pool: &Pool, caller: &Caller, uri: &str) {
        let is_first = {
            let mut state = self.state();
            let watchers = state.uris.entry(uri.to_owned()).or_default();
            *watchers.entry(caller.clone()).or_default() += 1;
            let is_known = |other: &&Caller| *other != caller && pool.is_mate(other, caller);
            watchers.keys().find(is_known).is_none()
        };
        if is_first {
            for worker in pool.workers_of(caller) {
                self.subscribe(pool, &worker, Method::ResourcesSubscribe, uri);
            }
        }
    }

    /// Somebody does not watch it any more.
    pub(crate) fn end(&self, pool: &Pool, caller: &Caller, uri: &str) {
        let is_last = {
            let mut state = self.state();
            let Some(watchers) = state.uris.get_mut(uri) else { return };
            if let Some(times) = watchers.get_mut(caller) {
                *times -= 1;
                if *times == 0 {
                    watchers.remove(caller);
                }
            }
            let is_last = !watchers.keys().any(|other| pool.is_mate(other, caller));
            if watchers.is_empty() {
                state.uris.remove(uri);
            }
            is_last
        };
        if is_last {
            for worker in pool.workers_of(caller) {
                self.subscribe(pool, &worker, Method::ResourcesUnsubscribe, uri);
            }
        }
    }

    /// Somebody wants log messages of this level. A worker has one level for all of its clients: the
    /// most talkative one that was asked for. What a client did not ask for is not passed on to it.
    pub(crate) fn set_level(&self, pool: &Pool, caller: &Caller, level: &LogLevel) {
        let key = pool.key(caller).filter(|_| pool.settings.mode.is_keyed());
        if key.is_none() && pool.settings.mode.is_keyed() {
            return;
        }
        {
            let mut state = self.state();
            // A session with a worker of its own has the level that it asked for last.
            let is_own = matches!(key, Some(Key::Session(_)));
            if !is_own && state.levels.get(&key).is_some_and(|known| level.passes(known)) {
                return;
            }
            state.levels.insert(key, level.clone());
        }
        for worker in pool.workers_of(caller) {
            self.tell_level(pool, &worker);
        }
    }

    /// A connection that lasted has ended.
    pub(crate) fn ended(&self, caller: &Caller) {
        if let Some(connection) = caller.connection {
            self.state().levels.remove(&Some(Key::Session(connection)));
        }
    }

    /// Tells a worker that is ready all that its clients want.
    pub(crate) fn tell(&self, pool: &Pool, worker: &Worker) {
        let Some(peer) = worker.peer.load_full() else { return };
        if is_modern(peer.revision) {
            return self.listen(pool, worker);
        }
        self.tell_level(pool, worker);
        for uri in self.uris(pool, worker) {
            self.subscribe(pool, worker, Method::ResourcesSubscribe, &uri);
        }
    }

    /// What the clients of a worker watch.
    fn uris(&self, pool: &Pool, worker: &Worker) -> Vec<String> {
        let (key, is_keyed) = (key_of(worker), pool.settings.mode.is_keyed());
        let is_its = |caller: &Caller| !is_keyed || key.is_some() && pool.key(caller) == key;
        let state = self.state();
        let its = state.uris.iter().filter(|(_, watchers)| watchers.keys().any(is_its));
        its.map(|(uri, _)| uri.clone()).collect()
    }

    fn tell_level(&self, pool: &Pool, worker: &Worker) {
        let key = key_of(worker);
        if key.is_none() && pool.settings.mode.is_keyed() {
            return;
        }
        let Some(level) = self.state().levels.get(&key).cloned() else { return };
        pool.shared.has_levels.store(true, Ordering::Relaxed);
        let (_, capabilities, modern) = about(worker);
        if !modern && capabilities.logging() {
            let params = json!({"level": level.as_str()}).to_string();
            send(worker, Method::SetLevel, params);
        }
    }

    fn subscribe(&self, pool: &Pool, worker: &Worker, method: Method, uri: &str) {
        let (ready, capabilities, modern) = about(worker);
        if modern {
            return self.listen(pool, worker);
        }
        if ready && capabilities.resources_subscribe() {
            send(worker, method, json!({"uri": uri}).to_string());
        }
    }

    /// An upstream of 2026-07-28 is told with one long request; to change what is listened for is to
    /// send another one.
    fn listen(&self, pool: &Pool, worker: &Worker) {
        let uris = self.uris(pool, worker);
        let mut wanted = json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": true,
        });
        if let (Some(wanted), false) = (wanted.as_object_mut(), uris.is_empty()) {
            wanted.insert("resourceSubscriptions".into(), json!(uris));
        }
        let params = json!({"notifications": wanted}).to_string();
        let _ = worker.send(Command::Listen(params.into_bytes()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn about(worker: &Worker) -> (bool, ServerCapabilities, bool) {
    let Some(peer) = worker.peer.load_full() else {
        return (false, ServerCapabilities::default(), false);
    };
    let capabilities = peer.capabilities.as_deref();
    let capabilities = capabilities.and_then(|json| serde_json::from_str(json.get()).ok());
    (true, capabilities.unwrap_or_default(), is_modern(peer.revision))
}

/// Sends a request whose answer changes nothing.
fn send(worker: &Worker, method: Method, params: String) {
    let (waiting, _) = oneshot::channel();
    let _ = worker.send(Command::Ask(method, params.into_bytes(), PATIENCE, waiting));
}
