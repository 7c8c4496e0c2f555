//! How many bytes may wait in memory: requests in progress, answers that their clients have not
//! read, streams that are kept for clients that come back.
//!
//! A [`Budget`] is shared by cloning, and divided with [`Budget::share`]: what is charged to a
//! share is charged to all above it. A message shorter than [`FREE_BYTES`] costs nothing, so that a
//! client with short messages is served whatever others hold.

mod machine;
mod spare;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use bytes::{Bytes, BytesMut};

use crate::sync::{AtomicUsize, Mutex, Ordering};
use spare::{LARGE_BYTES, Spares};

/// Messages up to this length, in bytes, are not charged: their number is limited everywhere, and
/// counting them costs more than they do.
pub const FREE_BYTES: usize = 4096;

/// The part of the machine's memory that messages may take unless something else is said. Each is
/// copied once or twice on its way, and the servers that a gateway starts live in the same container.
const MACHINE_SHARE: usize = 4;

/// The least that is taken by default, in bytes: room for the longest message.
const DEFAULT_BYTES_MIN: usize = 32 * 1024 * 1024;

/// The most that is taken by default, in bytes: beyond it something is wrong.
const DEFAULT_BYTES_MAX: usize = 4 * 1024 * 1024 * 1024;

/// What is taken where the machine does not say how much it has, in bytes.
const DEFAULT_BYTES: usize = 256 * 1024 * 1024;

/// The part of a budget that one principal may take.
const PRINCIPAL_SHARE: usize = 2;

/// The part of a budget that one connection or session may take, and the most, in bytes: four answers
/// of the greatest length.
const CONNECTION_SHARE: usize = 4;
const CONNECTION_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How many times what has come of a long message the room for all of it has, at first.
const INPUT_GROWTH: usize = 4;

/// A number of bytes that may be taken. Cloning is cheap; every clone is the same budget.
///
/// The default is that of the process: a quarter of the memory that the machine, its container or
/// its limits leave.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    used: AtomicUsize,
    max: usize,
    above: Option<Budget>,
    principals: Mutex<HashMap<Arc<str>, Weak<Self>>>,
    /// Those of the whole process.
    spares: Arc<Spares>,
}

impl Default for Budget {
    fn default() -> Self {
        static PROCESS: OnceLock<Budget> = OnceLock::new();
        let bytes = || match machine::memory() {
            Some(bytes) => (bytes / MACHINE_SHARE).clamp(DEFAULT_BYTES_MIN, DEFAULT_BYTES_MAX),
            None => DEFAULT_BYTES,
        };
        PROCESS.get_or_init(|| Self::new(bytes())).clone()
    }
}

impl Budget {
    /// A budget of `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self::of(bytes_max, None)
    }

    /// A share of this budget: at most `bytes_max` bytes of it. One charge may be larger, if it is
    /// the only one and the budget above has room, so that no permitted message is too long for a
    /// share.
    #[must_use]
    pub fn share(&self, bytes_max: usize) -> Self {
        Self::of(bytes_max, Some(self.clone()))
    }

    fn of(max: usize, above: Option<Self>) -> Self {
        let (used, principals) = (AtomicUsize::new(0), Mutex::default());
        let spares = match &above {
            Some(above) => Arc::clone(&above.0.spares),
            None => Arc::new(Spares::new(max)),
        };
        Self(Arc::new(Inner { used, max, above, principals, spares }))
    }

    /// The share of one connection or session: of its principal's half, if it has one.
    pub(crate) fn connection(&self, principal: Option<&Arc<str>>) -> Self {
        let bytes_max = (self.max() / CONNECTION_SHARE).min(CONNECTION_BYTES_MAX);
        match principal {
            Some(principal) => self.principal(principal).share(bytes_max),
            None => self.share(bytes_max),
        }
    }

    fn principal(&self, name: &Arc<str>) -> Self {
        let mut known = self.0.principals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = known.get(name).and_then(Weak::upgrade) {
            return Self(share);
        }
        known.retain(|_, share| share.strong_count() > 0);
        let share = self.share(self.max() / PRINCIPAL_SHARE);
        known.insert(Arc::clone(name), Arc::downgrade(&share.0));
        share
    }

    /// How many bytes may be taken.
    #[must_use]
    pub fn max(&self) -> usize {
        self.0.max
    }

    /// How many bytes are taken; more than [`Budget::max`] if bytes that existed already had to be
    /// counted.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Whether it is the same budget, not only as large.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether there is no room for anything that is not short, here or above.
    pub(crate) fn is_used_up(&self) -> bool {
        self.used() >= self.0.max || self.0.above.as_ref().is_some_and(Self::is_used_up)
    }

    /// Charges bytes that exist already, for as long as a part of them is in use.
    #[must_use]
    pub fn hold(&self, bytes: Vec<u8>) -> Bytes {
        let mut charge = Charge::default();
        charge.cover_anyway(self, bytes.len());
        charge.hold(bytes)
    }

    /// Makes room for so many bytes more, if that takes a large buffer: in one that was used before, if
    /// there is one, and then all of it is charged.
    pub(crate) fn make_room(&self, buffer: &mut Vec<u8>, more: usize, charge: &mut Charge) {
        let len = buffer.len() + more;
        if len < LARGE_BYTES || len <= buffer.capacity() {
            return;
        }
        match self.spare(len, charge) {
            Some(mut spare) => {
                spare.extend_from_slice(buffer);
                self.keep(std::mem::replace(buffer, spare));
            }
            None => buffer.reserve(more),
        }
    }

    /// The same for what is read: for the rest of a message that is long already.
    pub(crate) fn make_room_for_input(&self, input: &mut BytesMut, charge: &mut Charge) {
        let (len, room) = (input.len(), input.capacity());
        if len < LARGE_BYTES / 2 || room - len >= LARGE_BYTES / 2 {
            return;
        }
        if let Some(mut spare) = self.spare(INPUT_GROWTH * len, charge) {
            spare.extend_from_slice(input);
            let grown = BytesMut::from(Bytes::from(spare));
            self.keep(std::mem::replace(input, grown).into());
        }
    }

    fn spare(&self, room: usize, charge: &mut Charge) -> Option<Vec<u8>> {
        let spare = self.0.spares.take(room)?;
        if charge.cover(self, spare.capacity()) {
            return Some(spare);
        }
        self.keep(spare);
        None
    }

    /// Keeps a large buffer for the next who needs one.
    pub(crate) fn keep(&self, buffer: Vec<u8>) {
        if buffer.capacity() >= LARGE_BYTES {
            let all = self.whole();
            self.0.spares.put(buffer, || all.used(), all.max());
        }
    }

    /// The same for an empty input when nobody holds a part of its lines any longer.
    pub(crate) fn keep_input(&self, input: &mut BytesMut) {
        self.keep(std::mem::take(input).into());
    }

    /// Bytes whose buffer is kept, if it is large, when nobody holds a part of them any longer.
    #[cfg(any(feature = "http", test))]
    pub(crate) fn lend(&self, bytes: Vec<u8>) -> Bytes {
        match bytes.capacity() {
            0..LARGE_BYTES => bytes.into(),
            _ => Bytes::from_owner(Lent { bytes, of: self.clone() }),
        }
    }

    /// The budget that this is a share of, at the top.
    fn whole(&self) -> &Self {
        let mut all = self;
        while let Some(above) = &all.0.above {
            all = above;
        }
        all
    }

    /// Takes so many bytes more for one who holds `own`.
    fn take(&self, bytes: usize, own: usize) -> bool {
        let Inner { used, max, above, spares, .. } = &*self.0;
        let fits = |before: usize| {
            let after = before.saturating_add(bytes);
            (after <= *max || before == own && above.is_some()).then_some(after)
        };
        let Ok(before) = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else {
            return false;
        };
        if above.is_none() {
            spares.make_room(before + bytes, *max);
        }
        if above.as_ref().is_none_or(|above| above.take(bytes, own)) {
            return true;
        }
        used.fetch_sub(bytes, Ordering::Relaxed);
        false
    }

    fn take_anyway(&self, bytes: usize) {
        let before = self.0.used.fetch_add(bytes, Ordering::Relaxed);
        match &self.0.above {
            Some(above) => above.take_anyway(bytes),
            None => self.0.spares.make_room(before + bytes, self.0.max),
        }
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(above) = &self.0.above {
            above.give_back(bytes);
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("used", &self.used()).field("max", &self.max()).finish()
    }
}

/// Bytes that are taken from a budget, and given back on drop.
#[derive(Debug, Default)]
pub struct Charge {
    of: Option<Budget>,
    bytes: usize,
}

impl Charge {
    /// How many bytes are taken.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Raises the charge to `bytes`, unless it is higher already, if `of` has room for them;
    /// `false` if it has not.
    #[must_use]
    pub fn cover(&mut self, of: &Budget, bytes: usize) -> bool {
        if bytes <= self.bytes.max(FREE_BYTES) {
            return true;
        }
        let fits = self.of.as_ref().unwrap_or(of).take(bytes - self.bytes, self.bytes);
        if fits {
            self.grown(of, bytes);
        }
        fits
    }

    /// As [`Charge::cover`], even without room: for bytes that exist already.
    pub fn cover_anyway(&mut self, of: &Budget, bytes: usize) {
        if bytes > self.bytes.max(FREE_BYTES) {
            self.of.as_ref().unwrap_or(of).take_anyway(bytes - self.bytes);
            self.grown(of, bytes);
        }
    }

    /// Stands for what `other`, which is of the same budget, stood for as well.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        if let Some(of) = other.of.take() {
            debug_assert!(self.of.as_ref().is_none_or(|own| own.is(&of)), "two budgets");
            self.of.get_or_insert(of);
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }

    fn grown(&mut self, of: &Budget, bytes: usize) {
        self.of.get_or_insert_with(|| of.clone());
        self.bytes = bytes;
    }

    /// Lowers the charge to `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = if bytes <= FREE_BYTES { 0 } else { bytes };
        if let Some(of) = &self.of
            && bytes < self.bytes
        {
            of.give_back(self.bytes - bytes);
            self.bytes = bytes;
        }
        if self.bytes == 0 {
            self.of = None;
        }
    }

    /// The bytes, charged for as long as a part of them is in use.
    #[must_use]
    pub fn hold(self, bytes: Vec<u8>) -> Bytes {
        match self.bytes {
            0 => bytes.into(),
            _ => Bytes::from_owner(Held { bytes, charge: self }),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

struct Held {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Drop for Held {
    fn drop(&mut self) {
        let of = self.charge.of.clone();
        self.charge.shrink(0);
        if let Some(of) = of {
            of.keep(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(any(feature = "http", test))]
struct Lent {
    bytes: Vec<u8>,
    of: Budget,
}

#[cfg(any(feature = "http", test))]
impl Drop for Lent {
    fn drop(&mut self) {
        self.of.keep(std::mem::take(&mut self.bytes));
    }
}

#[cfg(any(feature = "http", test))]
impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[test]
    fn what_is_charged_to_a_share_is_charged_above_and_given_back() {
        let process = Budget::new(100 * KIB);
        let (one, other) = (process.share(60 * KIB), process.share(60 * KIB));
        let (mut first, mut second) = (Charge::default(), Charge::default());
        assert!(first.cover(&one, 60 * KIB) && !second.cover(&other, 41 * KIB));
        assert_eq!((process.used(), other.used(), second.bytes()), (60 * KIB, 0, 0));
        assert!(second.cover(&other, 40 * KIB), "exactly what is left");
        second.cover_anyway(&other, 50 * KIB);
        assert_eq!(process.used(), 110 * KIB, "what is there counts");
        second.shrink(10 * KIB);
        assert_eq!((other.used(), process.used()), (10 * KIB, 70 * KIB));
        drop((first, second));
        assert_eq!((one.used(), other.used(), process.used()), (0, 0, 0));
    }

    #[test]
    fn what_is_short_is_free_and_a_share_takes_one_that_is_long() {
        let process = Budget::new(100 * KIB);
        let share = process.share(10 * KIB);
        let (mut short, mut long) = (Charge::default(), Charge::default());
        assert!(long.cover(&share, 90 * KIB), "it is the only one");
        assert!(short.cover(&share, FREE_BYTES) && !short.cover(&share, FREE_BYTES + 1));
        assert!(long.cover(&share, 95 * KIB), "nor does it matter how it came to be so long");
        assert_eq!(process.used(), 95 * KIB);
        assert!(!Charge::default().cover(&process.share(KIB), 6 * KIB), "no room above");
    }

    #[test]
    fn bytes_are_charged_as_long_as_a_part_of_them_lives() {
        let process = Budget::new(100 * KIB);
        let mut charge = Charge::default();
        assert!(charge.cover(&process, 50 * KIB));
        let whole = charge.hold(vec![7; 50 * KIB]);
        let part = whole.slice(1..2);
        drop(whole);
        assert_eq!((process.used(), &*part), (50 * KIB, &[7][..]));
        drop(part);
        assert_eq!(process.used(), 0);
    }

    /// The room of a buffer that was used before, which is given back; 0 if a new one was made.
    fn room_of(budget: &Budget, more: usize) -> usize {
        let mut buffer = Vec::new();
        budget.make_room(&mut buffer, more, &mut Charge::default());
        let room = buffer.capacity();
        if room == more {
            return 0;
        }
        budget.keep(buffer);
        room
    }

    #[test]
    fn a_large_buffer_is_used_again_and_whoever_needs_its_room_has_it() {
        let process = Budget::new(8192 * KIB);
        let connection = process.share(2048 * KIB);
        let mut charge = Charge::default();
        assert!(charge.cover(&connection, 200 * KIB));
        let answer = charge.hold(vec![7; 200 * KIB]);
        assert_eq!(room_of(&connection, 150 * KIB), 0, "it is in use");
        drop(answer);
        assert_eq!((process.used(), room_of(&connection, 150 * KIB)), (0, 200 * KIB));
        drop(process.lend(vec![7; 300 * KIB]));
        assert_eq!(
            (room_of(&connection, 201 * KIB), room_of(&process, 129 * KIB)),
            (300 * KIB, 200 * KIB)
        );

        let mut other = Charge::default();
        assert!(other.cover(&process, 7900 * KIB));
        assert_eq!(room_of(&connection, 150 * KIB), 0, "they were given back");
        other.shrink(0);
        other.cover_anyway(&process, 8192 * KIB);
        connection.keep(Vec::with_capacity(200 * KIB));
        assert_eq!(room_of(&connection, 150 * KIB), 0, "there is no room for it");
    }

    #[test]
    fn what_is_in_a_buffer_stays_there_when_room_is_made() {
        let process = Budget::new(64 * 1024 * KIB);
        process.keep(Vec::with_capacity(1000 * KIB));
        let mut output = b"before".to_vec();
        let mut charge = Charge::default();
        process.make_room(&mut output, 500 * KIB, &mut charge);
        assert_eq!((&output[..], output.capacity()), (&b"before"[..], 1000 * KIB));
        assert_eq!(charge.bytes(), 1000 * KIB, "it has all of it");

        let mut input = BytesMut::from(&[b'x'; 140 * 1024][..]);
        process.keep(output);
        process.make_room_for_input(&mut input, &mut charge);
        assert_eq!((input.len(), input.capacity()), (140 * KIB, 1000 * KIB));
        let line = input.split_to(100 * KIB).freeze();
        assert_eq!((&line[..], input.len()), (&[b'x'; 100 * 1024][..], 40 * KIB));
        input.clear();
        let mut other = input.split();
        process.keep_input(&mut other);
        assert_eq!(room_of(&process, 500 * KIB), 0, "somebody has a part of it");
        drop((line, other));
        process.keep_input(&mut input);
        assert_eq!(room_of(&process, 500 * KIB), 1000 * KIB);
    }

    #[test]
    fn a_principal_has_one_share_whatever_its_connections() {
        let process = Budget::new(1000 * KIB);
        let alice: Arc<str> = "alice".into();
        let connections: Vec<_> = (0..4).map(|_| process.connection(Some(&alice))).collect();
        let mut charges: Vec<Charge> = (0..4).map(|_| Charge::default()).collect();
        let mut takes = |at: usize| charges[at].cover(&connections[at], 250 * KIB);
        assert!(takes(0) && takes(1) && !takes(2) && !takes(3));
        let bob = process.connection(Some(&"bob".into()));
        assert!(Charge::default().cover(&bob, 250 * KIB));
        drop((charges, connections, bob));
        assert_eq!(process.used(), 0);
    }
}
