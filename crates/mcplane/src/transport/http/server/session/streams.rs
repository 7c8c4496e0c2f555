//! The streams of a session by their numbers, and which of them nobody reads: what is done for each
//! request must not grow with the number of those that are open.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::super::log::Log;
use super::ALONE;

/// Those that are open or can be sent again. The one of what belongs to no request is always there.
pub(super) struct Streams {
    all: BTreeMap<u64, Log>,
    unread: BTreeSet<u64>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { all: BTreeMap::from([(ALONE, Log::new())]), unread: BTreeSet::from([ALONE]) }
    }

    pub(super) fn get(&self, route: u64) -> Option<&Log> {
        self.all.get(&route)
    }

    /// Its readers come and go by [`Streams::attach`] and [`Streams::detach`].
    pub(super) fn get_mut(&mut self, route: u64) -> Option<&mut Log> {
        self.all.get_mut(&route)
    }

    /// A reader takes a stream over, from after the event `last`. It is opened if there is none.
    pub(super) fn attach(&mut self, route: u64, reader: u64, last: Option<u64>) -> &mut Log {
        self.unread.remove(&route);
        let log = match self.all.entry(route) {
            Entry::Occupied(log) => log.into_mut(),
            Entry::Vacant(place) => place.insert(Log::new()),
        };
        log.attach(reader, last);
        log
    }

    pub(super) fn detach(&mut self, route: u64, reader: u64) {
        let Some(log) = self.all.get_mut(&route) else { return };
        log.detach(reader);
        if !log.is_watched() {
            self.unread.insert(route);
        }
        self.forget_done(route);
    }

    /// Forgets a stream that is complete and that nobody can want again.
    pub(super) fn forget_done(&mut self, route: u64) {
        if route != ALONE && self.get(route).is_some_and(Log::is_done) {
            self.remove(route);
        }
    }

    /// Takes a stream out; that of what belongs to no request begins anew.
    pub(super) fn remove(&mut self, route: u64) -> Option<Log> {
        if route == ALONE {
            self.unread.insert(ALONE);
            return self.all.insert(ALONE, Log::new());
        }
        self.unread.remove(&route);
        self.all.remove(&route)
    }

    /// Those that nobody reads, the oldest first.
    pub(super) fn unread(&self) -> impl Iterator<Item = (u64, &Log)> {
        self.unread.iter().filter_map(|route| Some((*route, self.all.get(route)?)))
    }

    pub(super) fn is_any_read(&self) -> bool {
        self.unread.len() < self.all.len()
    }

    pub(super) fn end_all(&mut self) {
        self.all.values_mut().for_each(Log::end);
    }
}
