//! Requests that wait for an answer, and their deadlines.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use crate::id::Id;
use crate::limits::{IN_FLIGHT_MAX, REQUEST_TIMEOUT_MAX};
use crate::method::Method;

/// Our own requests in flight, keyed by the ids that we gave them. The type of an answer is chosen
/// by the request's method, never by the answer's shape, so each entry remembers its method.
#[derive(Debug)]
pub struct Pending<T> {
    entries: HashMap<i64, Entry<T>>,
    ids: Ids,
    /// How many requests there were.
    opened: u64,
    /// No entry is due before this; a removal leaves it as it is, so it may be early, never late.
    earliest: Option<Instant>,
}

/// How requests are numbered. Every id is above 0 and below 2^53, so that it is the same number to a
/// peer that reads numbers as doubles.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Ids {
    /// 1, 2, 3, …
    #[default]
    InOrder,
    /// In an order that only the key tells: where requests of several parties share a connection,
    /// none of them can guess the id of another's.
    Keyed(RandomState),
}

impl Ids {
    /// The id of a request; another one for each `number` below 2^52.
    fn id(&self, number: u64) -> u64 {
        const BITS: u32 = 26;
        const MASK: u64 = (1 << BITS) - 1;
        let Self::Keyed(key) = self else { return number };
        // A Feistel network permutes, whatever its function; after three rounds of a keyed one the
        // images of known numbers tell nothing of the others (Luby and Rackoff, 1988).
        let (mut left, mut right) = (number >> BITS & MASK, number & MASK);
        for round in 0..3_u64 {
            (left, right) = (right, left ^ key.hash_one(round << 32 | right) & MASK);
        }
        left << BITS | right
    }
}

/// One request in flight.
#[derive(Debug)]
#[non_exhaustive]
pub struct Entry<T> {
    /// What was asked.
    pub method: Method,
    /// The caller's own note.
    pub tag: T,
    number: u64,
    timeout: Option<Duration>,
    latest: Instant,
    deadline: Option<Instant>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self::new(Ids::default())
    }
}

impl<T> Pending<T> {
    /// Nothing in flight.
    #[must_use]
    pub fn new(ids: Ids) -> Self {
        Self { entries: HashMap::new(), ids, opened: 0, earliest: None }
    }

    /// Notes a request and gives it an id that no other request of this connection ever had.
    /// `timeout` `None` means that only its end or a cancellation ends it (`subscriptions/listen`).
    ///
    /// # Errors
    /// The tag comes back if [`IN_FLIGHT_MAX`] requests are in flight.
    pub fn open(
        &mut self,
        now: Instant,
        method: Method,
        timeout: Option<Duration>,
        tag: T,
    ) -> Result<i64, T> {
        if self.entries.len() >= IN_FLIGHT_MAX {
            return Err(tag);
        }
        let id = self.next_id();
        // A timeout that no clock reaches never comes.
        let deadline = timeout.and_then(|timeout| now.checked_add(timeout));
        let latest = deadline.unwrap_or(now).max(now + REQUEST_TIMEOUT_MAX);
        self.note(deadline);
        let entry = Entry { method, tag, number: self.opened, timeout, latest, deadline };
        self.entries.insert(id, entry);
        Ok(id)
    }

    fn next_id(&mut self) -> i64 {
        loop {
            self.opened += 1;
            match i64::try_from(self.ids.id(self.opened)) {
                Ok(id) if id > 0 => return id,
                _ => {}
            }
        }
    }

    /// Ends a request: its answer has come, or nobody waits for it any more.
    pub fn close(&mut self, id: &Id) -> Option<Entry<T>> {
        match id {
            Id::Integer(id) => self.entries.remove(id),
            Id::String(_) => None,
        }
    }

    /// A request in flight.
    pub fn entry(&mut self, id: &Id) -> Option<&mut Entry<T>> {
        match id {
            Id::Integer(id) => self.entries.get_mut(id),
            Id::String(_) => None,
        }
    }

    /// Which request of all one in flight is: ids do not tell their age.
    #[must_use]
    pub fn number(&self, id: i64) -> Option<u64> {
        self.entries.get(&id).map(|entry| entry.number)
    }

    /// The tags of the requests in flight, in no order.
    pub fn tags(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|entry| &entry.tag)
    }

    /// A sign of life: the deadline starts again, up to [`REQUEST_TIMEOUT_MAX`] from the start of
    /// the request (basic §Timeouts: progress may reset the clock, a maximum must hold).
    pub fn extend(&mut self, now: Instant, id: &Id) -> Option<&mut Entry<T>> {
        let entry = self.entry(id)?;
        let again = entry.timeout.and_then(|timeout| now.checked_add(timeout));
        entry.deadline = again.map(|deadline| deadline.min(entry.latest));
        Some(entry)
    }

    /// From now on only an end or a cancellation ends the request.
    pub fn hold(&mut self, id: &Id) {
        if let Some(entry) = self.entry(id) {
            entry.timeout = None;
            entry.deadline = None;
        }
    }

    /// Takes out every request whose deadline has come.
    pub fn expire(&mut self, now: Instant) -> Vec<(i64, Entry<T>)> {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return Vec::new();
        }
        let due = |entry: &mut Entry<T>| entry.deadline.is_some_and(|deadline| deadline <= now);
        let mut expired: Vec<_> = self.entries.extract_if(|_, entry| due(entry)).collect();
        expired.sort_unstable_by_key(|(_, entry)| entry.number);
        self.earliest = self.entries.values().filter_map(|entry| entry.deadline).min();
        expired
    }

    /// When to call [`Pending::expire`] next; it may be earlier than the first deadline.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// Takes out everything: the connection is gone.
    pub fn drain(&mut self) -> Vec<(i64, Entry<T>)> {
        let mut all: Vec<_> = self.entries.drain().collect();
        all.sort_unstable_by_key(|(_, entry)| entry.number);
        all
    }

    /// The ids of the requests whose tag fits, oldest first.
    pub fn ids(&self, fits: impl Fn(&T) -> bool) -> Vec<i64> {
        let fitting = self.entries.iter().filter(|(_, entry)| fits(&entry.tag));
        let mut ids: Vec<_> = fitting.map(|(id, entry)| (entry.number, *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// How many requests are in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn note(&mut self, deadline: Option<Instant>) {
        if let Some(deadline) = deadline {
            self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn progress_extends_up_to_the_cap() {
        let start = Instant::now();
        let mut pending = Pending::default();
        let id = Id::from(pending.open(start, Method::ToolsCall, Some(60 * SECOND), ()).unwrap());
        let mut now = start;
        while now < start + REQUEST_TIMEOUT_MAX - 30 * SECOND {
            now += 30 * SECOND;
            assert!(pending.expire(now).is_empty());
            assert!(pending.extend(now, &id).is_some());
        }
        assert_eq!(pending.expire(start + REQUEST_TIMEOUT_MAX).len(), 1);
        assert!(pending.is_empty());
    }

    #[test]
    fn expire_takes_only_what_is_due() {
        let start = Instant::now();
        let mut pending = Pending::default();
        let first = pending.open(start, Method::Ping, Some(SECOND), 'a').unwrap();
        pending.open(start, Method::Ping, Some(3 * SECOND), 'b').unwrap();
        let listen = pending.open(start, Method::Listen, None, 'c').unwrap();
        assert_eq!(pending.deadline(), Some(start + SECOND));
        let due: Vec<_> = pending.expire(start + 2 * SECOND).into_iter().map(|e| e.0).collect();
        assert_eq!(due, [first]);
        assert_eq!(pending.deadline(), Some(start + 3 * SECOND));
        assert_eq!(pending.expire(start + 9 * SECOND).len(), 1);
        assert_eq!(pending.drain().first().map(|(id, e)| (*id, e.tag)), Some((listen, 'c')));
    }

    #[test]
    fn a_timeout_that_no_clock_reaches_is_none() {
        let now = Instant::now();
        let mut pending = Pending::default();
        let id = pending.open(now, Method::Ping, Some(Duration::MAX), ()).unwrap();
        assert!(pending.extend(now, &Id::from(id)).is_some());
        assert!(pending.expire(now + 2 * REQUEST_TIMEOUT_MAX).is_empty());
    }

    #[test]
    fn ids_keep_their_type_and_the_number_is_bounded() {
        let now = Instant::now();
        let mut pending = Pending::default();
        let id = pending.open(now, Method::Ping, None, ()).unwrap();
        assert!(pending.close(&Id::from(id.to_string())).is_none());
        assert!(pending.close(&Id::from(id)).is_some());
        for _ in 0..IN_FLIGHT_MAX {
            pending.open(now, Method::Ping, None, ()).unwrap();
        }
        assert!(pending.open(now, Method::Ping, None, ()).is_err());
    }

    #[test]
    fn keyed_ids_are_never_the_same_and_stand_in_no_order() {
        let now = Instant::now();
        let open = |pending: &mut Pending<()>| {
            let id = pending.open(now, Method::Ping, Some(SECOND), ()).unwrap();
            pending.close(&Id::from(id)).unwrap();
            id
        };
        let mut pending = Pending::new(Ids::Keyed(RandomState::new()));
        let ids: Vec<_> = (0..4096).map(|_| open(&mut pending)).collect();
        let distinct: HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert!(ids.iter().all(|id| (1..1 << 52).contains(id)));
        // No two of 64 in order by chance alone: 1 in 64!.
        assert!(!ids[..64].is_sorted());
        let mut other = Pending::new(Ids::Keyed(RandomState::new()));
        assert_ne!(ids[..3], [0; 3].map(|_| open(&mut other)));
    }

    #[test]
    fn keyed_requests_keep_their_age() {
        let now = Instant::now();
        let mut pending = Pending::new(Ids::Keyed(RandomState::new()));
        let ids: Vec<_> = (0..64)
            .map(|tag| pending.open(now, Method::Ping, Some(SECOND), tag).unwrap())
            .collect();
        assert_eq!(pending.ids(|_| true), ids);
        let due: Vec<_> = pending.expire(now + SECOND).into_iter().map(|(id, _)| id).collect();
        assert_eq!(due, ids);
    }
}
