//! What the clients of a face watch, whichever server has it: a list that names it may come later than
//! the client, and another one may move it to another server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcplane::server::relay::Caller;

use crate::face::View;
use crate::upstream::Upstream;

/// Who watches which resource.
#[derive(Default)]
pub(crate) struct Watches(Mutex<HashMap<(Caller, String), Watch>>);

/// How often, and the server that was told: none while no list has the resource.
#[derive(Default)]
struct Watch {
    times: usize,
    at: Option<Arc<str>>,
}

impl Watches {
    pub(crate) fn begin(&self, view: &View, caller: &Caller, uri: &str) {
        let mut all = self.lock();
        let watch = all.entry((caller.clone(), uri.to_owned())).or_insert_with(|| Watch {
            at: view.owner(uri).map(|owner| Arc::clone(&owner.name)),
            ..Watch::default()
        });
        watch.times += 1;
        if let Some(upstream) = watch.upstream(view) {
            upstream.watched.begin(&upstream.pool, caller, uri);
        }
    }

    pub(crate) fn end(&self, view: &View, caller: &Caller, uri: &str) {
        let mut all = self.lock();
        let key = (caller.clone(), uri.to_owned());
        let Some(watch) = all.get_mut(&key) else { return };
        watch.times -= 1;
        if let Some(upstream) = watch.upstream(view) {
            upstream.watched.end(&upstream.pool, caller, uri);
        }
        if watch.times == 0 {
            all.remove(&key);
        }
    }

    /// Tells the servers that have resources now which they had not, and those that have them no more.
    /// A server of the same name has its watchers already, and one whose list is without a resource for
    /// a while keeps them.
    pub(crate) fn follow(&self, view: &View) {
        for ((caller, uri), watch) in &mut *self.lock() {
            let Some(now) = view.owner(uri) else { continue };
            if watch.at.as_ref() == Some(&now.name) {
                continue;
            }
            let before = watch.upstream(view);
            watch.at = Some(Arc::clone(&now.name));
            for _ in 0..watch.times {
                if let Some(before) = before {
                    before.watched.end(&before.pool, caller, uri);
                }
                now.watched.begin(&now.pool, caller, uri);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Caller, String), Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    fn upstream<'a>(&self, view: &'a View) -> Option<&'a Arc<Upstream>> {
        let name = self.at.as_ref()?;
        view.upstreams.iter().find(|upstream| upstream.name == *name)
    }
}
