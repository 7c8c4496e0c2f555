//! What mcplane's own tests stand on.
//!
//! * [`pair`] — a client's and a server's session against each other, in virtual time.
//! * [`setup`] — who meets, and the weather between them.
//! * [`random`] — the same numbers for the same seed.
//! * [`allocations`] — an allocator that counts.

pub mod allocations;
pub mod pair;
pub mod random;
pub mod setup;

pub use allocations::{CountingAllocator, Counts, count, peak, so_far};
pub use pair::{Pair, Say};
pub use random::Random;
pub use setup::{Conditions, Setup};
