//! What clients subscribe to: resources, and log messages of a level.
//!
//! The gateway keeps this for each client, whatever happens to its servers. A server may be added to
//! the settings later, replaced or removed; and a list that names a resource may come after the client
//! that subscribes to it, or move it to another server. What workers are told is reconciled with this:
//! see `upstream::subscriptions`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcplane::proto::types::LogLevel;
use mcplane::server::relay::Caller;

/// A client at a frontend: that of one server, or that of all servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client<C = Caller> {
    pub(crate) frontend: Option<Arc<str>>,
    pub(crate) caller: C,
}

/// What all clients of a gateway want. Clients are bounded by connections and tokens, the subscriptions
/// of each by the limits of its session.
pub(crate) struct Desired<C = Caller>(Mutex<State<C>>);

struct State<C> {
    clients: HashMap<Client<C>, Wishes>,
    /// The same by server: who subscribed to which resource of it.
    subscribers: HashMap<Arc<str>, HashMap<String, HashSet<Client<C>>>>,
}

/// What one client wants.
#[derive(Default)]
struct Wishes {
    subscriptions: HashMap<String, Subscription>,
    /// The level that its session set last, for every server.
    level: Option<LogLevel>,
    /// The most verbose level that its requests of 2026-07-28 asked each server for.
    request_levels: HashMap<Arc<str>, LogLevel>,
}

#[derive(Default)]
struct Subscription {
    times: usize,
    /// The server that has the resource; `None` while no list has it.
    server: Option<Arc<str>>,
}

/// A subscription whose resource has moved to another server.
pub(crate) struct Moved<C = Caller> {
    pub(crate) caller: C,
    pub(crate) uri: String,
    pub(crate) from: Option<Arc<str>>,
    pub(crate) to: Arc<str>,
}

impl<C> Default for Desired<C> {
    fn default() -> Self {
        Self(Mutex::new(State { clients: HashMap::new(), subscribers: HashMap::new() }))
    }
}

impl<C: Clone + Eq + Hash> Desired<C> {
    /// A client subscribes to a resource, perhaps again. Returns the server that has it, if known.
    pub(crate) fn subscribe(
        &self,
        client: &Client<C>,
        uri: &str,
        server: impl FnOnce() -> Option<Arc<str>>,
    ) -> Option<Arc<str>> {
        let mut state = self.lock();
        let wishes = state.clients.entry(client.clone()).or_default();
        let subscription = match wishes.subscriptions.entry(uri.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Subscription { times: 0, server: server() }),
        };
        subscription.times += 1;
        let server = subscription.server.clone()?;
        state.insert(&server, uri, client);
        Some(server)
    }

    /// It ends one of its subscriptions to the resource.
    pub(crate) fn unsubscribe(&self, client: &Client<C>, uri: &str) -> Option<Arc<str>> {
        let mut state = self.lock();
        let wishes = state.clients.get_mut(client)?;
        let subscription = wishes.subscriptions.get_mut(uri)?;
        subscription.times -= 1;
        if subscription.times > 0 {
            return None;
        }
        let server = wishes.subscriptions.remove(uri)?.server;
        state.tidy(client);
        let server = server?;
        state.remove(&server, uri, client);
        Some(server)
    }

    /// A session wants log messages of this level. Returns whether that is a change.
    pub(crate) fn set_level(&self, client: &Client<C>, level: &LogLevel) -> bool {
        let mut state = self.lock();
        let wishes = state.clients.entry(client.clone()).or_default();
        wishes.level.replace(level.clone()).as_ref() != Some(level)
    }

    /// A request to a server wants log messages of this level; other requests of its client may want
    /// more. Returns whether that is a change.
    pub(crate) fn raise_level(
        &self,
        client: &Client<C>,
        server: &Arc<str>,
        level: &LogLevel,
    ) -> bool {
        let mut state = self.lock();
        if !state.clients.contains_key(client) {
            state.clients.insert(client.clone(), Wishes::default());
        }
        let Some(wishes) = state.clients.get_mut(client) else { return false };
        let known = wishes.request_levels.get(server);
        let is_news = known.is_none_or(|known| !level.passes(known));
        if is_news {
            wishes.request_levels.insert(Arc::clone(server), level.clone());
        }
        is_news
    }

    /// A connection has ended; its subscriptions ended before it. Returns whether it had a level.
    pub(crate) fn ended(&self, client: &Client<C>) -> bool {
        let gone = self.lock().clients.remove(client);
        gone.is_some_and(|gone| gone.level.is_some() || !gone.request_levels.is_empty())
    }

    /// The lists of this frontend have changed. Returns the subscriptions whose resources are another
    /// server's now; one whose resource is in no list stays where it is.
    pub(crate) fn follow(
        &self,
        frontend: Option<&Arc<str>>,
        server: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Vec<Moved<C>> {
        let mut state = self.lock();
        let mut moved = Vec::new();
        let here = |client: &Client<C>| client.frontend.as_ref() == frontend;
        for (client, wishes) in state.clients.iter_mut().filter(|(client, _)| here(client)) {
            for (uri, subscription) in &mut wishes.subscriptions {
                let Some(to) = server(uri) else { continue };
                if subscription.server.as_ref() != Some(&to) {
                    let from = subscription.server.replace(Arc::clone(&to));
                    moved.push((client.clone(), uri.clone(), from, to));
                }
            }
        }
        let moved = moved.into_iter().map(|(client, uri, from, to)| {
            if let Some(from) = &from {
                state.remove(from, &uri, &client);
            }
            state.insert(&to, &uri, &client);
            Moved { caller: client.caller, uri, from, to }
        });
        moved.collect()
    }

    /// Whether one of these clients subscribed to a resource of a server.
    pub(crate) fn has(&self, server: &str, uri: &str, is_its: impl Fn(&C) -> bool) -> bool {
        let state = self.lock();
        let clients = state.subscribers.get(server).and_then(|uris| uris.get(uri));
        clients.is_some_and(|clients| clients.iter().any(|client| is_its(&client.caller)))
    }

    /// What these clients subscribed to of a server.
    pub(crate) fn uris(&self, server: &str, is_its: impl Fn(&C) -> bool) -> BTreeSet<String> {
        let state = self.lock();
        let uris = state.subscribers.get(server).into_iter().flatten();
        let its = uris.filter(|(_, clients)| clients.iter().any(|client| is_its(&client.caller)));
        its.map(|(uri, _)| uri.clone()).collect()
    }

    /// The most verbose level that one of these clients wants of a server.
    pub(crate) fn level(&self, server: &str, is_its: impl Fn(&C) -> bool) -> Option<LogLevel> {
        let state = self.lock();
        let is_meant = |client: &Client<C>| {
            client.frontend.as_deref().is_none_or(|frontend| frontend == server)
                && is_its(&client.caller)
        };
        let levels = state.clients.iter().filter(|(client, _)| is_meant(client));
        let levels = levels
            .flat_map(|(_, wishes)| wishes.level.iter().chain(wishes.request_levels.get(server)));
        let most = levels.reduce(|most, level| if level.passes(most) { most } else { level });
        most.cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clone + Eq + Hash> State<C> {
    fn insert(&mut self, server: &Arc<str>, uri: &str, client: &Client<C>) {
        let uris = self.subscribers.entry(Arc::clone(server)).or_default();
        uris.entry(uri.to_owned()).or_default().insert(client.clone());
    }

    fn remove(&mut self, server: &Arc<str>, uri: &str, client: &Client<C>) {
        let Some(uris) = self.subscribers.get_mut(server) else { return };
        if let Some(clients) = uris.get_mut(uri) {
            clients.remove(client);
            if clients.is_empty() {
                uris.remove(uri);
            }
        }
        if uris.is_empty() {
            self.subscribers.remove(server);
        }
    }

    /// Forgets a client that has neither a subscription nor a level.
    fn tidy(&mut self, client: &Client<C>) {
        let is_empty = |wishes: &Wishes| {
            wishes.subscriptions.is_empty()
                && wishes.level.is_none()
                && wishes.request_levels.is_empty()
        };
        if self.clients.get(client).is_some_and(is_empty) {
            self.clients.remove(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(caller: u8) -> Client<u8> {
        Client { frontend: None, caller }
    }

    fn all(_: &u8) -> bool {
        true
    }

    #[test]
    fn a_subscription_is_where_its_resource_turns_out_to_be() {
        let (desired, alice) = (Desired::default(), client(1));
        assert_eq!(desired.subscribe(&alice, "x:1", || None), None);
        let moved = desired.follow(None, |_| Some("one".into()));
        assert_eq!((moved.len(), moved[0].from.as_deref(), &*moved[0].to), (1, None, "one"));
        assert!(desired.has("one", "x:1", all));
        assert!(desired.follow(Some(&"one".into()), |_| Some("two".into())).is_empty());
        assert!(desired.follow(None, |_| None).is_empty());
        assert_eq!(desired.follow(None, |_| Some("two".into())).len(), 1);
        assert!(desired.uris("one", all).is_empty());
        assert_eq!(desired.uris("two", all).len(), 1);
        assert_eq!(desired.unsubscribe(&alice, "x:1").as_deref(), Some("two"));
        assert!(desired.lock().clients.is_empty() && desired.lock().subscribers.is_empty());
    }

    #[test]
    fn what_was_subscribed_to_twice_ends_twice() {
        let (desired, alice, bob) = (Desired::default(), client(1), client(2));
        let one = || Some("one".into());
        for client in [&alice, &alice, &bob] {
            assert_eq!(desired.subscribe(client, "x:1", one).as_deref(), Some("one"));
        }
        assert_eq!(desired.unsubscribe(&alice, "x:1"), None);
        assert!(desired.has("one", "x:1", |caller| *caller == alice.caller));
        assert!(desired.unsubscribe(&alice, "x:1").is_some());
        assert!(!desired.has("one", "x:1", |caller| *caller == alice.caller));
        assert!(desired.has("one", "x:1", all));
        assert_eq!(desired.unsubscribe(&alice, "x:1"), None);
    }

    #[test]
    fn the_most_talkative_level_counts() {
        let (desired, alice, bob) = (Desired::default(), client(1), client(2));
        assert_eq!(desired.level("one", all), None);
        assert!(desired.set_level(&alice, &LogLevel::Error));
        assert!(!desired.set_level(&alice, &LogLevel::Error));
        assert!(desired.raise_level(&bob, &"one".into(), &LogLevel::Debug));
        assert!(!desired.raise_level(&bob, &"one".into(), &LogLevel::Error));
        assert_eq!(desired.level("one", all), Some(LogLevel::Debug));
        assert_eq!(desired.level("two", all), Some(LogLevel::Error));
        // A session that has lowered its level gets less.
        assert!(desired.set_level(&alice, &LogLevel::Critical));
        assert!(desired.ended(&bob) && !desired.ended(&bob));
        assert_eq!(desired.level("one", all), Some(LogLevel::Critical));
    }
}
