//! Resources that clients watch, and the log level that they want: kept once for each upstream, and
//! told to each of its workers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcplane::proto::method::Method;
use mcplane::proto::types::{LogLevel, ServerCapabilities};
use mcplane::server::relay::Caller;
use serde_json::json;
use tokio::sync::oneshot;

use super::pool::Pool;
use super::worker::{Command, Worker, is_modern};

/// How long an upstream may take to note a subscription.
const PATIENCE: Duration = Duration::from_secs(10);

/// What clients want to hear of.
#[derive(Default)]
pub(crate) struct Watched(Mutex<State>);

#[derive(Default)]
struct State {
    /// Who watches which resource, and how often.
    uris: BTreeMap<String, HashMap<Caller, usize>>,
    /// The most talkative level that anybody asked for.
    level: Option<LogLevel>,
}

impl Watched {
    /// Somebody begins to watch a resource.
    pub(crate) fn begin(&self, pool: &Pool, caller: &Caller, uri: &str) {
        let is_first = {
            let mut state = self.state();
            let watchers = state.uris.entry(uri.to_owned()).or_default();
            *watchers.entry(caller.clone()).or_default() += 1;
            watchers.len() == 1 || pool.settings.mode.is_keyed()
        };
        if is_first {
            for worker in pool.workers_of(caller) {
                self.subscribe(&worker, Method::ResourcesSubscribe, uri);
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
            let is_last = watchers.is_empty();
            if is_last {
                state.uris.remove(uri);
            }
            is_last || pool.settings.mode.is_keyed()
        };
        if is_last {
            for worker in pool.workers_of(caller) {
                self.subscribe(&worker, Method::ResourcesUnsubscribe, uri);
            }
        }
    }

    /// Somebody wants log messages of this level. Upstreams have one level for everybody: the most
    /// talkative one that was asked for. What a client did not ask for is not passed on to it.
    pub(crate) fn set_level(&self, pool: &Pool, level: &LogLevel) {
        {
            let mut state = self.state();
            if state.level.as_ref().is_some_and(|known| level.passes(known)) {
                return;
            }
            state.level = Some(level.clone());
        }
        for worker in pool.workers() {
            self.tell_level(&worker);
        }
    }

    /// Tells a worker that is ready all of it.
    pub(crate) fn tell(&self, worker: &Worker) {
        let Some(peer) = worker.peer.load_full() else { return };
        if is_modern(peer.revision) {
            return self.listen(worker);
        }
        self.tell_level(worker);
        let uris: Vec<String> = self.state().uris.keys().cloned().collect();
        for uri in uris {
            self.subscribe(worker, Method::ResourcesSubscribe, &uri);
        }
    }

    fn tell_level(&self, worker: &Worker) {
        let Some(level) = self.state().level.clone() else { return };
        let (_, capabilities, modern) = about(worker);
        if !modern && capabilities.logging() {
            let params = json!({"level": level.as_str()}).to_string();
            send(worker, Method::SetLevel, params);
        }
    }

    fn subscribe(&self, worker: &Worker, method: Method, uri: &str) {
        let (ready, capabilities, modern) = about(worker);
        if modern {
            return self.listen(worker);
        }
        if ready && capabilities.resources_subscribe() {
            send(worker, method, json!({"uri": uri}).to_string());
        }
    }

    /// An upstream of 2026-07-28 is told with one long request; to change what is listened for is to
    /// send another one.
    fn listen(&self, worker: &Worker) {
        let uris: Vec<String> = self.state().uris.keys().cloned().collect();
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
