//! Large buffers between two uses. The system gives fresh memory page by page, and a megabyte of it
//! costs as much as what is done with a megabyte: so some is kept for the next large message, whoever
//! sends it, as long as the budget has room for both.

use std::sync::PoisonError;

use crate::sync::{AtomicUsize, Mutex, Ordering, fence};

/// A shorter buffer is left to the allocator, which keeps such by itself.
pub(crate) const LARGE_BYTES: usize = 128 * 1024;

/// The part of the budget that they may have, and the most, in bytes: some messages of a megabyte on
/// their way in and out.
const SHARE: usize = 16;
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Buffers, at most: a look through them is short.
const BUFFERS_MAX: usize = 16;

/// How many times the room that is asked for one may have.
const TIMES_MAX: usize = 16;

/// What is kept. Nothing of it is charged: whoever needs the room gets it.
pub(super) struct Spares {
    buffers: Mutex<Vec<Vec<u8>>>,
    /// The room that they have together, in bytes; changed under the lock, and read without it.
    bytes: AtomicUsize,
    max: usize,
}

impl Spares {
    /// For a budget of so many bytes.
    pub(super) fn new(budget_max: usize) -> Self {
        let (buffers, bytes) = (Mutex::default(), AtomicUsize::new(0));
        Self { buffers, bytes, max: (budget_max / SHARE).min(BYTES_MAX) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps a buffer, if it is large and there is room for it beside what is `used` of a budget of
    /// `budget_max`.
    pub(super) fn put(&self, buffer: Vec<u8>, used: impl Fn() -> usize, budget_max: usize) {
        if buffer.capacity() >= LARGE_BYTES && self.insert(buffer, used(), budget_max) {
            // More may be used by now: whoever took it has seen this buffer, or is seen here.
            fence(Ordering::SeqCst);
            self.make_room(used(), budget_max);
        }
    }

    fn insert(&self, mut buffer: Vec<u8>, used: usize, budget_max: usize) -> bool {
        let room = buffer.capacity();
        buffer.clear();
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.bytes() + room;
        if all > self.max || used.saturating_add(all) > budget_max {
            return false;
        }
        if buffers.len() < BUFFERS_MAX {
            buffers.push(buffer);
            self.bytes.fetch_add(room, Ordering::Relaxed);
            return true;
        }
        // The larger one is worth more.
        let least = buffers.iter_mut().min_by_key(|buffer| buffer.capacity());
        let Some(least) = least.filter(|least| least.capacity() < room) else { return false };
        self.bytes.fetch_add(room - least.capacity(), Ordering::Relaxed);
        std::mem::swap(least, &mut buffer);
        drop(buffers);
        true
    }

    /// The smallest that has room for so many bytes, and not for many times as many.
    pub(super) fn take(&self, room: usize) -> Option<Vec<u8>> {
        if self.bytes() < room {
            return None;
        }
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = room..=room.saturating_mul(TIMES_MAX);
        let fits = buffers.iter().enumerate().filter(|(_, buf)| sizes.contains(&buf.capacity()));
        let (at, _) = fits.min_by_key(|(_, buffer)| buffer.capacity())?;
        let buffer = buffers.swap_remove(at);
        self.bytes.fetch_sub(buffer.capacity(), Ordering::Relaxed);
        Some(buffer)
    }

    /// Gives all of them back to the system if a budget of `budget_max`, with `used` bytes in use,
    /// has no room for them.
    pub(super) fn make_room(&self, used: usize, budget_max: usize) {
        // A buffer may just have been kept beside what was used before.
        fence(Ordering::SeqCst);
        let bytes = self.bytes();
        if bytes > 0 && used.saturating_add(bytes) > budget_max {
            self.clear();
        }
    }

    #[cold]
    fn clear(&self) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *buffers);
        let bytes = all.iter().map(Vec::capacity).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        drop(buffers);
        drop(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn buffer(room: usize) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(room);
        buffer.push(7);
        buffer
    }

    #[test]
    fn the_smallest_that_fits_is_used_again() {
        let spares = Spares::new(160 * MIB);
        for room in [4 * MIB, MIB, 2 * MIB, LARGE_BYTES - 1] {
            spares.put(buffer(room), || 0, 160 * MIB);
        }
        assert_eq!(spares.bytes(), 7 * MIB, "what is short is not kept");
        let taken = spares.take(MIB + 1).unwrap();
        assert_eq!((taken.capacity(), taken.len()), (2 * MIB, 0));
        assert_eq!(spares.take(MIB).unwrap().capacity(), MIB);
        assert!(spares.take(4 * MIB / TIMES_MAX - 1).is_none(), "the rest is much too large");
        assert!(spares.take(4 * MIB + 1).is_none());
        assert_eq!(spares.bytes(), 4 * MIB);
    }

    #[test]
    fn there_is_a_bound_on_their_bytes_and_on_their_number() {
        let spares = Spares::new(160 * MIB);
        for _ in 0..100 {
            spares.put(buffer(3 * MIB), || 0, 160 * MIB);
        }
        assert_eq!(spares.bytes(), 9 * MIB, "a sixteenth of the budget at most");
        spares.clear();
        assert_eq!((spares.bytes(), spares.take(1)), (0, None));
        for _ in 0..100 {
            spares.put(buffer(LARGE_BYTES), || 0, 160 * MIB);
        }
        assert_eq!(spares.bytes(), BUFFERS_MAX * LARGE_BYTES);
        spares.put(buffer(MIB), || 0, 160 * MIB);
        assert_eq!(spares.bytes(), (BUFFERS_MAX - 1) * LARGE_BYTES + MIB, "in place of another");
        assert_eq!(spares.take(MIB).unwrap().capacity(), MIB);
        let spares = Spares::new(160 * MIB);
        spares.put(buffer(2 * MIB), || 159 * MIB, 160 * MIB);
        assert_eq!(spares.bytes(), 0, "the budget has no room for it");
    }
}
