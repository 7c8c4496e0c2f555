//! The calls in flight of one session: which ids are out, and since when.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Most ids of timed-out calls that are remembered, so that a late answer is told from a stray one.
const LATE_MAX: usize = 65_536;

/// One slot per call that may be in flight. Ids rise by the number of slots each time a slot is
/// used again, so that an id leads to its slot by a division and is never used twice.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    first_id: i64,
    late: HashSet<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    next_id: i64,
    out: Option<Out>,
}

/// A call in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Out {
    /// When it was meant to begin: in a closed loop, when it did.
    pub(super) intended: Instant,
    /// When its bytes were handed to the write.
    pub(super) sent: Instant,
}

/// Whose answer it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A call in flight until now.
    InFlight(Out),
    /// A call that was given up; it is counted already.
    TimedOut,
    /// Nobody: an id never used, or answered before.
    Nobody,
}

impl Slots {
    /// Slots for `count` calls whose ids start at `first_id`.
    pub(super) fn new(count: usize, first_id: i64) -> Self {
        let ids = (first_id..).take(count);
        let slots = ids.map(|next_id| Slot { next_id, out: None }).collect();
        Self { slots, free: (0..count).rev().collect(), first_id, late: HashSet::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes a free slot for a call; returns its id.
    pub(super) fn begin(&mut self, out: Out) -> Option<i64> {
        let slot = self.slots.get_mut(self.free.pop()?)?;
        slot.out = Some(out);
        Some(slot.next_id)
    }

    /// An answer with this id has come.
    pub(super) fn end(&mut self, id: i64) -> Owner {
        let index = self.index(id);
        let slot = index.and_then(|index| self.slots.get_mut(index));
        match slot {
            Some(slot) if slot.next_id == id => match slot.out.take() {
                Some(out) => {
                    self.release(index);
                    Owner::InFlight(out)
                }
                None => Owner::Nobody,
            },
            _ if self.late.remove(&id) => Owner::TimedOut,
            _ => Owner::Nobody,
        }
    }

    /// How long the calls in flight have been so by `now`, added up.
    pub(super) fn spent(&self, now: Instant) -> Duration {
        let out = self.slots.iter().filter_map(|slot| slot.out);
        out.map(|out| now.saturating_duration_since(out.sent)).sum()
    }

    /// Gives up calls that began `limit` ago or earlier; returns their ids and how
    /// long they were in flight.
    pub(super) fn expire(&mut self, now: Instant, limit: Duration) -> Vec<(i64, Duration)> {
        let mut expired = Vec::new();
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            let time = slot.out.map(|out| now.saturating_duration_since(out.sent));
            if let Some(time) = time.filter(|time| *time >= limit) {
                slot.out = None;
                expired.push((slot.next_id, time));
                if self.late.len() < LATE_MAX {
                    self.late.insert(slot.next_id);
                }
                self.release(Some(index));
            }
        }
        expired
    }

    fn index(&self, id: i64) -> Option<usize> {
        let count = i64::try_from(self.slots.len()).ok()?;
        usize::try_from(id.checked_sub(self.first_id)?.checked_rem_euclid(count)?).ok()
    }

    fn release(&mut self, index: Option<usize>) {
        let count = self.slots.len();
        let Some((index, slot)) = index.and_then(|i| Some((i, self.slots.get_mut(i)?))) else {
            return;
        };
        slot.next_id += i64::try_from(count).unwrap_or(i64::MAX);
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now: Instant) -> Out {
        Out { intended: now, sent: now }
    }

    #[test]
    fn an_id_is_used_once_and_finds_its_slot() {
        let mut slots = Slots::new(3, 10);
        let now = Instant::now();
        let ids: Vec<_> = std::iter::from_fn(|| slots.begin(at(now))).collect();
        assert_eq!((ids, slots.in_flight()), (vec![10, 11, 12], 3));
        assert_eq!(slots.end(11), Owner::InFlight(at(now)));
        assert_eq!(slots.begin(at(now)), Some(14));
        for nobody in [11, 13, 9, i64::MIN, i64::MAX, 17] {
            assert_eq!(slots.end(nobody), Owner::Nobody, "{nobody}");
        }
        assert_eq!(slots.end(14), Owner::InFlight(at(now)));
        assert_eq!(slots.in_flight(), 2);
    }

    #[test]
    fn a_late_answer_is_known_once() {
        let mut slots = Slots::new(2, 1);
        let start = Instant::now();
        slots.begin(at(start));
        let later = start + Duration::from_millis(5);
        slots.begin(at(later));
        assert_eq!(slots.spent(later), Duration::from_millis(5));
        assert_eq!(slots.expire(later, Duration::from_millis(5)), [(1, Duration::from_millis(5))]);
        assert_eq!((slots.in_flight(), slots.free()), (1, 1));
        assert_eq!(slots.begin(at(later)), Some(3));
        assert_eq!(slots.end(1), Owner::TimedOut);
        assert_eq!(slots.end(1), Owner::Nobody);
    }
}
