//! What mcplane's own tests stand on.
//!
//! * [`pair`] — a client's and a server's session against each other, in virtual time.
//! * [`random`] — the same numbers for the same seed.
//! * [`allocations`] — an allocator that counts.

pub mod allocations;
pub mod pair;
pub mod random;

pub use allocations::{CountingAllocator, Counts, count};
pub use pair::{Conditions, Pair, Say, Setup};
pub use random::Random;
