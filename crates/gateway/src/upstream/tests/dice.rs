//! Seeded schedules.

/// Numbers that are the same for the same seed.
pub(in crate::upstream) struct Dice(pub(in crate::upstream) u64);

impl Dice {
    /// A number below this one.
    pub(in crate::upstream) fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
        (self.0 >> 33) % max
    }

    /// A place among so many.
    pub(in crate::upstream) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    /// One of these.
    pub(in crate::upstream) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    pub(in crate::upstream) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
