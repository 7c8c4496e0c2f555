//! Which lane a key has in the keyed modes, which one makes room for another, and how many spare
//! workers there are to be. It has no clock, and starts nothing: whoever asks does that.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplane::server::relay::Caller;

use crate::config::Mode;

/// The lanes of keys: at most as many as there may be workers.
pub(super) struct Keys<K, L> {
    max: usize,
    lanes: HashMap<K, Held<L>>,
}

struct Held<L> {
    lane: L,
    /// When it last had a call.
    used: Instant,
}

/// As many keys have a lane as may, and every lane is busy.
#[derive(Debug)]
pub(super) struct Full;

impl<K: Clone + Eq + Hash, L> Keys<K, L> {
    pub(super) fn new(max: usize) -> Self {
        Self { max, lanes: HashMap::new() }
    }

    pub(super) fn get(&self, key: &K) -> Option<&L> {
        self.lanes.get(key).map(|held| &held.lane)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &L> {
        self.lanes.values().map(|held| &held.lane)
    }

    /// The lane of a key, for a call.
    pub(super) fn take(&mut self, now: Instant, key: &K) -> Option<&L> {
        let held = self.lanes.get_mut(key)?;
        held.used = now;
        Some(&held.lane)
    }

    /// Makes room for one more. The lane comes back that had to go for it: of those that are idle, the
    /// one that had a call the longest ago.
    pub(super) fn make_room(&mut self, is_idle: impl Fn(&L) -> bool) -> Result<Option<L>, Full> {
        if self.lanes.len() < self.max {
            return Ok(None);
        }
        let idle = self.lanes.iter().filter(|(_, held)| is_idle(&held.lane));
        let oldest = idle.min_by_key(|(_, held)| held.used).map(|(key, _)| key.clone());
        oldest.and_then(|key| self.remove(&key)).map(Some).ok_or(Full)
    }

    /// Gives a key a lane, once there is room.
    pub(super) fn add(&mut self, now: Instant, key: K, lane: L) {
        self.lanes.insert(key, Held { lane, used: now });
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<L> {
        self.lanes.remove(key).map(|held| held.lane)
    }

    /// Takes out the lanes that are idle and had no call for so long.
    pub(super) fn remove_idle(
        &mut self,
        now: Instant,
        after: Duration,
        is_idle: impl Fn(&L) -> bool,
    ) -> Vec<L> {
        let is_meant = |_: &K, held: &mut Held<L>| {
            now.duration_since(held.used) >= after && is_idle(&held.lane)
        };
        self.lanes.extract_if(is_meant).map(|(_, held)| held.lane).collect()
    }

    /// How many spare workers are missing where there are so many: `warm` of them wait for the next
    /// keys, as far as there is room for those, and `more` for other things.
    pub(super) fn spares_missing(&self, there: usize, warm: usize, more: usize) -> usize {
        let room = self.max.saturating_sub(self.lanes.len());
        (room.min(warm) + more).saturating_sub(there)
    }
}

/// Whose worker it is, in the keyed modes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Session(u64),
    Principal(Option<Arc<str>>),
}

impl Key {
    /// Whose workers serve a caller.
    pub(crate) fn of(mode: Mode, caller: &Caller) -> Option<Self> {
        let principal = || Self::Principal(caller.principal.clone());
        match (mode, caller.connection) {
            (Mode::PerSession, Some(connection)) => Some(Self::Session(connection)),
            (Mode::PerSession, None) => caller.principal.is_some().then(principal),
            _ => Some(principal()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::upstream::tests::dice::Dice;

    const KEYS: u64 = 12;

    /// Calls of all keys, lanes that are busy for a while, keys that end, in seeded schedules: there are
    /// never more lanes than may be, a busy one never goes, and the one that was idle for the longest
    /// goes first.
    #[test]
    fn lanes_go_in_order_and_no_busy_one_does() {
        for seed in 0..1_000_u64 {
            let mut dice = Dice(seed);
            let max = 1 + dice.index(6);
            let (mut keys, mut busy) = (Keys::new(max), HashSet::new());
            // Each key that has a lane, its number, and when it was used.
            let mut model: Vec<(u64, u32, Instant)> = Vec::new();
            let mut now = Instant::now();
            for number in 0..200_u32 {
                now += Duration::from_millis(1 + dice.below(50));
                let key = dice.below(KEYS);
                let at = model.iter().position(|(of, ..)| *of == key);
                assert_eq!(keys.get(&key).copied(), at.map(|at| model[at].1), "seed {seed}");
                let oldest = model.iter().filter(|(_, lane, _)| !busy.contains(lane));
                let oldest = oldest.min_by_key(|(.., used)| *used).map(|(_, lane, _)| *lane);
                match (dice.below(8), at) {
                    (0..4, Some(at)) => {
                        assert_eq!(keys.take(now, &key).copied(), Some(model[at].1));
                        model[at].2 = now;
                    }
                    (0..4, None) => {
                        assert_eq!(keys.take(now, &key), None);
                        let is_full = model.len() == max;
                        match keys.make_room(|lane| !busy.contains(lane)) {
                            Ok(gone) => {
                                assert_eq!(gone, oldest.filter(|_| is_full), "seed {seed}");
                                model.retain(|(_, lane, _)| Some(*lane) != gone);
                                keys.add(now, key, number);
                                model.push((key, number, now));
                            }
                            Err(Full) => assert!(is_full && oldest.is_none(), "seed {seed}"),
                        }
                    }
                    (4, _) => {
                        let gone = keys.remove(&key);
                        assert_eq!(gone, at.map(|at| model.swap_remove(at).1));
                    }
                    (5, _) => {
                        let after = Duration::from_millis(dice.below(500));
                        let gone = keys.remove_idle(now, after, |lane| !busy.contains(lane));
                        let gone: HashSet<_> = gone.into_iter().collect();
                        for (_, lane, used) in &model {
                            let is_meant = now - *used >= after && !busy.contains(lane);
                            assert_eq!(gone.contains(lane), is_meant, "seed {seed}");
                        }
                        model.retain(|(_, lane, _)| !gone.contains(lane));
                    }
                    (6, Some(at)) => drop(busy.insert(model[at].1)),
                    _ => busy.retain(|_| dice.coin()),
                }
                assert!(model.len() <= max && keys.all().count() == model.len(), "seed {seed}");
            }
        }
    }

    #[test]
    fn spare_workers_are_for_keys_that_may_come() {
        let (mut keys, now) = (Keys::new(3), Instant::now());
        for (taken, wanted) in [(0, 2), (1, 2), (2, 1), (3, 0)] {
            assert_eq!(keys.spares_missing(0, 2, 0), wanted);
            assert_eq!(keys.spares_missing(0, 2, 1), wanted + 1, "one speaks for the gateway");
            assert_eq!(keys.spares_missing(1, 2, 1), wanted);
            assert_eq!(keys.spares_missing(7, 2, 1), 0);
            keys.add(now, taken, ());
        }
    }
}
