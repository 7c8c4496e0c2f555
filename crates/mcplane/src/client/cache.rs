//! Results that the server said may be reused for a while (2026-07-28, SEP-2549).
//!
//! A client has one authorization context, so `cacheScope` makes no difference here. A result that
//! was requested before a change was reported may be older than the change, and is not kept.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcplane_proto::limits::CACHE_TTL_MAX;
use mcplane_proto::method::Method;
use tokio::time::Instant;

/// The most results that are kept.
pub const CACHE_ENTRIES_MAX: usize = 256;

/// The most memory that kept results take, in bytes, keys included.
pub const CACHE_BYTES_MAX: usize = 16 * 1024 * 1024;

type Key = (Method, Bytes);

/// Fresh results by method and parameters.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    kept: HashMap<Key, Entry>,
    bytes: usize,
    /// How many changes have been told; each may outdate a result that is on its way.
    changes: u64,
}

#[derive(Debug)]
struct Entry {
    result: Bytes,
    until: Instant,
}

impl Cache {
    /// The kept result, if it is still fresh.
    pub(super) fn find(&self, method: Method, params: &Bytes) -> Option<Bytes> {
        let key = (method, params.clone());
        let mut entries = self.lock();
        let entry = entries.kept.get(&key)?;
        if Instant::now() < entry.until {
            return Some(entry.result.clone());
        }
        entries.remove(&key);
        None
    }

    /// How many changes have been told so far; to be given to [`Cache::keep`].
    pub(super) fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Keeps a result for `ttl_ms` milliseconds, unless a change came after `changes` were counted.
    pub(super) fn keep(
        &self,
        method: Method,
        params: &Bytes,
        result: &Bytes,
        ttl_ms: u64,
        changes: u64,
    ) {
        let ttl = Duration::from_millis(ttl_ms).min(CACHE_TTL_MAX);
        let size = params.len() + result.len();
        let mut entries = self.lock();
        if ttl.is_zero() || size > CACHE_BYTES_MAX || entries.changes != changes {
            return;
        }
        // Copies: a slice would keep the whole buffer of the connection alive.
        let key = (method, Bytes::copy_from_slice(params));
        entries.remove(&key);
        entries.make_room(size);
        let result = Bytes::copy_from_slice(result);
        entries.kept.insert(key, Entry { result, until: Instant::now() + ttl });
        entries.bytes += size;
    }

    /// Drops what a notification outdates. An update names the resource or a part of what was read,
    /// so every kept reading goes.
    pub(super) fn outdated_by(&self, notification: Method) {
        let outdated: &[Method] = match notification {
            Method::ToolsListChanged => &[Method::ToolsList],
            Method::PromptsListChanged => &[Method::PromptsList],
            Method::ResourcesListChanged => &[Method::ResourcesList, Method::ResourceTemplatesList],
            Method::ResourcesUpdated => &[Method::ResourcesRead],
            _ => return,
        };
        let mut entries = self.lock();
        entries.changes += 1;
        let keys = entries.kept.keys().filter(|(method, _)| outdated.contains(method));
        for key in keys.cloned().collect::<Vec<_>>() {
            entries.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.kept.remove(key) {
            self.bytes -= key.1.len() + entry.result.len();
        }
    }

    /// Drops what goes stale first until one more result of `size` bytes fits.
    fn make_room(&mut self, size: usize) {
        while self.kept.len() >= CACHE_ENTRIES_MAX || self.bytes + size > CACHE_BYTES_MAX {
            let first = self.kept.iter().min_by_key(|(_, entry)| entry.until);
            let Some(key) = first.map(|(key, _)| key.clone()) else { return };
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_fresh_for_its_time() {
        let cache = Cache::default();
        let (params, result) = (bytes("{}"), bytes("[1]"));
        cache.keep(Method::ToolsList, &params, &result, 0, 0);
        assert_eq!(cache.find(Method::ToolsList, &params), None);
        cache.keep(Method::ToolsList, &params, &result, 500, 0);
        assert_eq!(cache.find(Method::ToolsList, &params), Some(result.clone()));
        assert_eq!(cache.find(Method::PromptsList, &params), None);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(cache.find(Method::ToolsList, &params), None);
        cache.keep(Method::ToolsList, &params, &result, u64::MAX, 0);
        tokio::time::advance(CACHE_TTL_MAX).await;
        assert_eq!(cache.find(Method::ToolsList, &params), None);
        assert_eq!(cache.lock().bytes, 0);
    }

    #[tokio::test]
    async fn a_change_outdates_what_is_kept_and_what_is_on_its_way() {
        let cache = Cache::default();
        let (params, result) = (bytes("{}"), bytes("[1]"));
        cache.keep(Method::ToolsList, &params, &result, 60_000, 0);
        cache.keep(Method::PromptsList, &params, &result, 60_000, 0);
        let before = cache.changes();
        cache.outdated_by(Method::ToolsListChanged);
        assert_eq!(cache.find(Method::ToolsList, &params), None);
        assert!(cache.find(Method::PromptsList, &params).is_some());
        cache.keep(Method::ToolsList, &params, &result, 60_000, before);
        assert_eq!(cache.find(Method::ToolsList, &params), None);
    }

    #[tokio::test]
    async fn entries_and_bytes_are_bounded() {
        let cache = Cache::default();
        for at in 0..CACHE_ENTRIES_MAX as u64 + 10 {
            let params = bytes(&at.to_string());
            cache.keep(Method::ResourcesRead, &params, &bytes("x"), 60_000 + at, 0);
        }
        assert_eq!(cache.lock().kept.len(), CACHE_ENTRIES_MAX);
        assert_eq!(cache.find(Method::ResourcesRead, &bytes("0")), None);
        let huge = Bytes::from(vec![b'x'; CACHE_BYTES_MAX / 2]);
        for at in 0..3 {
            let params = bytes(&format!("huge {at}"));
            cache.keep(Method::ResourcesRead, &params, &huge, 90_000, 0);
        }
        assert!(cache.lock().bytes <= CACHE_BYTES_MAX);
        let too_big = Bytes::from(vec![b'x'; CACHE_BYTES_MAX + 1]);
        cache.keep(Method::ResourcesRead, &bytes("big"), &too_big, 90_000, 0);
        assert_eq!(cache.find(Method::ResourcesRead, &bytes("big")), None);
    }
}
